// Fuzz target: a .mnn file is loaded, planned and run.
#include <cstring>
#include <string>

#include "folder.h"
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

// With a companion weights file of a few kB, for models that name one.
const Folder& folder() {
  static Folder folder;
  static const bool ready = [] {
    std::string numbers(4096, '\0');
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<char>(i * 37 % 11);
    folder.write(".weight", numbers.data(), numbers.size());
    return true;
  }();
  (void)ready;
  return folder;
}

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
    folder().write("", data, size);
    if (minnow_load_file(folder().model().c_str(), &model) == MINNOW_OK) run_model(model, seed >> 4);
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
