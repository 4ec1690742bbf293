#include "kernels/cuda/compiler.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace minnow::cuda {
namespace {

// What is used of NVRTC. All functions give 0 where nothing is wrong.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*code_size)(Program, size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;

  bool load();
};

bool Nvrtc::load() {
  void* library = nullptr;
  const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
  for (const char* name : names)
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  return find("nvrtcCreateProgram", &create) && find("nvrtcCompileProgram", &compile) &&
         find("nvrtcGetCUBINSize", &code_size) && find("nvrtcGetCUBIN", &code) && find("nvrtcDestroyProgram", &destroy);
}

const Nvrtc* nvrtc() {
  static const std::unique_ptr<const Nvrtc> library = [] {
    auto loaded = std::make_unique<Nvrtc>();
    return std::unique_ptr<const Nvrtc>(loaded->load() ? loaded.release() : nullptr);
  }();
  return library.get();
}

struct Hash {
  uint64_t a = 0, b = 0;
  bool operator==(const Hash& o) const { return a == o.a && b == o.b; }
};

Hash hash_of(const char* data, size_t size) {
  Hash h = {14695981039346656037u, 0x9e3779b97f4a7c15u};
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(data[i]);
    h.a = (h.a ^ byte) * 1099511628211u;
    h.b = (h.b + byte) * 0xff51afd7ed558ccdu;
    h.b ^= h.b >> 29;
  }
  return h;
}

// The folder of the machine code, made if it is not there; empty where there is none.
std::string folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string path = variable("XDG_CACHE_HOME");
  if (path.empty() && !variable("HOME").empty()) path = variable("HOME") + "/.cache";
  if (path.empty()) return "";
  for (const char* part : {"", "/minnow", "/kernels"}) {
    path += part;
    mkdir(path.c_str(), 0700);
  }
  return path;
}

// In front of the machine code: what it was made from, and what it is.
struct Header {
  char magic[8] = {'m', 'i', 'n', 'n', 'o', 'w', 'k', '1'};
  Hash source, code;
  uint64_t size = 0;
};

constexpr size_t kMostCode = 64 << 20;

bool read_code(const std::string& path, const Hash& source, std::vector<char>* code) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  Header header;
  const Header expected;
  bool good = std::fread(&header, sizeof header, 1, file) == 1 &&
              std::memcmp(header.magic, expected.magic, sizeof header.magic) == 0 && header.source == source &&
              header.size > 0 && header.size <= kMostCode;
  if (good) {
    code->resize(header.size);
    good = std::fread(code->data(), 1, code->size(), file) == code->size() &&
           hash_of(code->data(), code->size()) == header.code;
  }
  std::fclose(file);
  return good;
}

// Another process may do the same: a file is complete or not there.
void write_code(const std::string& path, const Hash& source, const std::vector<char>& code) {
  const std::string temporary = path + "." + std::to_string(getpid());
  FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return;
  Header header;
  header.source = source;
  header.code = hash_of(code.data(), code.size());
  header.size = code.size();
  const bool written = std::fwrite(&header, sizeof header, 1, file) == 1 &&
                       std::fwrite(code.data(), 1, code.size(), file) == code.size();
  if (std::fclose(file) != 0 || !written || std::rename(temporary.c_str(), path.c_str()) != 0)
    std::remove(temporary.c_str());
}

bool compile(const Nvrtc& library, const std::string& source, int capability, std::vector<char>* code) {
  Nvrtc::Program program = nullptr;
  if (library.create(&program, source.c_str(), "elements.cu", 0, nullptr, nullptr) != 0) return false;
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(capability);
  const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  size_t size = 0;
  bool good = library.compile(program, 3, options) == 0 && library.code_size(program, &size) == 0 && size > 0;
  if (good) {
    code->resize(size);
    good = library.code(program, code->data()) == 0;
  }
  library.destroy(&program);
  return good;
}

// Null where the driver does not take it.
cudaKernel_t load_kernel(const std::vector<char>& code, const char* name) {
  cudaLibrary_t loaded = nullptr;
  cudaKernel_t kernel = nullptr;
  if (cudaLibraryLoadData(&loaded, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess &&
      cudaLibraryGetKernel(&kernel, loaded, name) == cudaSuccess)
    return kernel;
  cudaGetLastError();
  return nullptr;
}

}  // namespace

cudaKernel_t compile_kernel(const std::string& source, const char* name, int capability) {
  const std::string key = "sm_" + std::to_string(capability) + "\n" + source;
  const Hash hash = hash_of(key.data(), key.size());
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, uint64_t>, cudaKernel_t> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [place, is_new] = known.try_emplace({hash.a, hash.b}, nullptr);
  if (!is_new) return place->second;
  char file[40];
  std::snprintf(file, sizeof file, "/%016llx%016llx", static_cast<unsigned long long>(hash.a),
                static_cast<unsigned long long>(hash.b));
  const std::string path = folder();
  std::vector<char> code;
  // NVRTC is loaded for code that is not there, or that the driver does not take: it may be from a newer NVRTC.
  if (!path.empty() && read_code(path + file, hash, &code)) place->second = load_kernel(code, name);
  if (place->second != nullptr) return place->second;
  const Nvrtc* library = nvrtc();
  if (library == nullptr || !compile(*library, source, capability, &code)) return nullptr;
  if (!path.empty()) write_code(path + file, hash, code);
  return place->second = load_kernel(code, name);
}

}  // namespace minnow::cuda
