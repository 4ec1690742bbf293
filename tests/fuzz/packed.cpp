// Fuzz target: the companion file with packed weights of a sound model (MINNOW_FUZZ_MODEL, see seeds.py), which is
// loaded and run with it. The checks that only find accidents, sizes and hashes, are made to fit again after most
// changes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "folder.h"
#include "run_model.h"
#include "runtime/src/model/packed_file.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace minnow::fuzz {
namespace {

// packed_file.h describes the form.
enum Field { kFileBytes = 4, kIndexBytes, kIndexHash, kHeaderHash, kFields };
constexpr size_t kHeader = kFields * sizeof(uint64_t), kPlace = 3 * sizeof(int64_t), kPage = 4096, kLine = 64;

uint64_t get(const std::string& file, size_t field) {
  uint64_t number = 0;
  std::memcpy(&number, &file[field * sizeof number], sizeof number);
  return number;
}

void set(std::string* file, size_t field, uint64_t number) {
  std::memcpy(&(*file)[field * sizeof number], &number, sizeof number);
}

void fit(std::string* file) {
  const size_t index = std::min<size_t>(get(*file, kIndexBytes), file->size() - kHeader);
  set(file, kFileBytes, file->size());
  set(file, kIndexBytes, index);
  set(file, kIndexHash, hash_bytes(file->data() + kHeader, static_cast<int64_t>(index)));
  set(file, kHeaderHash, hash_bytes(file->data(), kHeader - sizeof(uint64_t)));
}

class Target {
 public:
  static const Target& get() {
    static const Target target;
    return target;
  }

  void run(const uint8_t* data, size_t size) const {
    folder_.write(".packed", data, size);
    minnow_model* model = nullptr;
    if (minnow_load_file(folder_.model().c_str(), &model) == MINNOW_OK) run_model(model, 1);
  }
  const std::string& sound() const { return sound_; }

 private:
  Target() {
    std::ifstream file(MINNOW_FUZZ_MODEL, std::ios::binary);
    const std::string model((std::istreambuf_iterator<char>(file)), {});
    folder_.write("", model.data(), model.size());
    minnow_model* loaded = nullptr;
    minnow_session* session = nullptr;
    const minnow_options options = small_options();
    if (minnow_load_file(folder_.model().c_str(), &loaded) != MINNOW_OK ||
        minnow_create_session(loaded, &options, &session) != MINNOW_OK) {
      std::fprintf(stderr, "%s: %s\n", MINNOW_FUZZ_MODEL, minnow_last_error());
      std::abort();
    }
    run_session(session, 1);
    if (minnow_write_packed(session) != MINNOW_OK) std::abort();
    minnow_free_session(session);
    minnow_free_model(loaded);
    std::ifstream packed(folder_.model() + ".packed", std::ios::binary);
    sound_.assign(std::istreambuf_iterator<char>(packed), {});
  }

  Folder folder_;
  std::string sound_;
};

// Where the rows of the index begin, each with the length of its key.
std::vector<size_t> rows_of(const std::string& file) {
  std::vector<size_t> rows;
  const size_t end = std::min<size_t>(file.size(), kHeader + get(file, kIndexBytes));
  for (size_t at = kHeader; at + sizeof(uint32_t) + kPlace <= end;) {
    uint32_t length = 0;
    std::memcpy(&length, &file[at], sizeof length);
    if (length > end - at - sizeof length - kPlace) break;
    rows.push_back(at);
    at += sizeof length + length + kPlace;
  }
  return rows;
}

void change(std::string* file, std::mt19937& dice) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : dice() % n; };
  const std::vector<size_t> rows = rows_of(*file);
  const size_t kind = below(8);
  if (kind < 3 && !rows.empty()) {  // a place, or the length of a key
    const size_t at = rows[below(rows.size())];
    uint32_t length = 0;
    std::memcpy(&length, &(*file)[at], sizeof length);
    static constexpr int64_t kNumbers[] = {0,       1,         -1,        64,        4096,     -64,
                                           1 << 20, 1LL << 40, 1LL << 62, INT64_MIN, INT64_MAX};
    int64_t number = kNumbers[below(std::size(kNumbers))];
    const size_t place = at + sizeof length + length + 8 * below(2);
    if (below(2) == 0) {
      int64_t old = 0;
      std::memcpy(&old, &(*file)[place], sizeof old);
      number = static_cast<int64_t>(static_cast<uint64_t>(old) + static_cast<uint64_t>(number));
    }
    if (below(6) == 0) {
      length = static_cast<uint32_t>(number);
      std::memcpy(&(*file)[at], &length, sizeof length);
    } else {
      std::memcpy(&(*file)[place], &number, sizeof number);
    }
  } else if (kind == 3 && rows.size() > 1) {  // another's key or place
    const size_t from = rows[below(rows.size())], to = rows[below(rows.size())];
    const size_t size = std::min<size_t>(48, file->size() - std::max(from, to));
    std::memmove(&(*file)[to], &(*file)[from], size);
  } else if (kind < 6 && file->size() > 2 * kPage) {  // a weight that no hash covers
    const size_t at = below(file->size() / kPage - 1) * kPage + kLine + below(kPage - 2 * kLine);
    for (size_t i = 0; i < 1 + below(kLine); ++i) (*file)[at + i] = static_cast<char>(dice());
  } else if (kind == 6) {
    file->resize(kHeader + below(file->size() - kHeader + 1));
  } else {
    set(file, below(kFields), uint64_t{dice()} << below(33));
  }
}

}  // namespace
}  // namespace minnow::fuzz

using namespace minnow::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Target::get().run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 dice(seed);
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string file(reinterpret_cast<const char*>(data), size);
  if (size < kHeader || seed % 64 == 1) file = Target::get().sound();
  for (size_t i = 0; i < 1 + dice() % 3; ++i) change(&file, dice);
  if (file.size() < kHeader || file.size() > most) return size;
  if (seed % 8 != 2) fit(&file);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}
