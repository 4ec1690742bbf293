// Fuzz target: a .mnn file is loaded, planned and run.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "mutate.h"
#include "run_model.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace minnow::fuzz {
namespace {

uint32_t hash(const uint8_t* data, size_t size) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16777619u;
  return sum;
}

void write_file(const std::string& path, const void* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::abort();
  std::fclose(file);
}

// A folder with a companion weights file of a few kB, for models that name one; removed at the end.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/minnow-fuzz-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    path_ = name;
    std::string numbers(4096, '\0');
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<char>(i * 37 % 11);
    write_file(model() + ".weight", numbers.data(), numbers.size());
  }
  ~Folder() {
    std::remove((model() + ".weight").c_str());
    std::remove(model().c_str());
    rmdir(path_.c_str());
  }
  std::string model() const { return path_ + "/m.mnn"; }

 private:
  std::string path_;
};

Mutator& mutator() {
  static Mutator& mutator = *new Mutator(Schema::get(), LLVMFuzzerMutate);
  return mutator;
}

}  // namespace
}  // namespace minnow::fuzz

using namespace minnow::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint32_t seed = hash(data, size);
  minnow_model* model = nullptr;
  if (seed % 16 == 0) {
    static Folder folder;
    write_file(folder.model(), data, size);
    if (minnow_load_file(folder.model().c_str(), &model) == MINNOW_OK) run_model(model, seed >> 4);
  } else if (minnow_load_memory(data, size, &model) == MINNOW_OK) {
    run_model(model, seed >> 4);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::unique_ptr<Table> root = seed % 32 == 0 ? nullptr : Schema::get().read(data, size);
  if (root == nullptr) return LLVMFuzzerMutate(data, size, most);
  mutator().learn(*root);
  mutator().change(root.get(), seed);
  const std::string changed = Schema::get().write(*root);
  if (changed.size() > most) return size;
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
