#include "kernels/gpu/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace minnow::gpu {
namespace {

constexpr char kMagic[] = "minnow cache 1 " MINNOW_VERSION "\n";

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a file that is read

struct Head {
  uint64_t key_bytes, content_bytes, hash;
};

// "" where there is none.
std::string folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/minnow";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/minnow";
}

void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0777);
}

bool read_all(const std::string& path, std::string* out) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status;
  bool is_read = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < kMostBytes;
  if (is_read) out->resize(static_cast<size_t>(status.st_size));
  for (size_t at = 0; is_read && at < out->size();) {
    const ssize_t n = ::read(file, out->data() + at, out->size() - at);
    is_read = n > 0;
    at += is_read ? static_cast<size_t>(n) : 0;
  }
  close(file);
  return is_read;
}

bool write_all(int file, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(file, bytes.data() + at, bytes.size() - at);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

uint64_t hash_of(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool read_cache(const std::string& name, const std::string& key, std::string* content) {
  const std::string base = folder();
  if (base.empty()) return false;
  std::string all;
  if (!read_all(base + "/" + name, &all)) return false;
  const size_t begin = sizeof kMagic - 1;
  Head head;
  if (all.size() < begin + sizeof head || all.compare(0, begin, kMagic) != 0) return false;
  std::memcpy(&head, all.data() + begin, sizeof head);
  const size_t rest = all.size() - begin - sizeof head;
  if (head.key_bytes != key.size() || head.key_bytes > rest || head.content_bytes != rest - head.key_bytes)
    return false;
  const std::string body = all.substr(begin + sizeof head);
  if (body.compare(0, key.size(), key) != 0 || hash_of(body) != head.hash) return false;
  *content = body.substr(key.size());
  return true;
}

void write_cache(const std::string& name, const std::string& key, const std::string& content) {
  const std::string base = folder();
  if (base.empty()) return;
  const std::string path = base + "/" + name;
  make_folders(path);
  const std::string body = key + content;
  const Head head = {key.size(), content.size(), hash_of(body)};
  static std::atomic<int> counter{0};
  const std::string partial = path + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".part";
  const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return;
  std::string all = kMagic;
  all.append(reinterpret_cast<const char*>(&head), sizeof head);
  all += body;
  const bool written = write_all(file, all);
  if (close(file) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) unlink(partial.c_str());
}

}  // namespace minnow::gpu
