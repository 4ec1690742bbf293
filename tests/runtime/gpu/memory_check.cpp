// The memory of results and of weights on a device that only counts what it gives.
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/block_pool.h"
#include "runtime/src/gpu/weight_memory.h"

using namespace minnow;

namespace {

int failures = 0;
#define EXPECT(condition)                                   \
  if (!(condition)) {                                       \
    std::printf("line %d: not %s\n", __LINE__, #condition); \
    ++failures;                                             \
  }

constexpr int64_t kMiB = 1 << 20;

// Addresses that nobody reads, and what is held of them.
struct Counting {
  std::map<char*, int64_t> blocks;
  int64_t bytes = 0, limit = int64_t{1} << 40;
  uintptr_t next = uintptr_t{1} << 40;

  Status make(int64_t size, char** out) {
    if (bytes + size > limit) return fail(Code::kDevice, "out of memory");
    *out = reinterpret_cast<char*>(next);
    next += static_cast<uintptr_t>(size) + 4096;
    blocks[*out] = size;
    bytes += size;
    return ok();
  }
  void drop(char* block) {
    EXPECT(blocks.count(block) == 1);
    bytes -= blocks[block];
    blocks.erase(block);
  }
  bool holds(const char* address, int64_t size) const {
    auto it = blocks.upper_bound(const_cast<char*>(address));
    return it != blocks.begin() && address + size <= (--it)->first + it->second;
  }
};

struct Piece final : Memory {
  Piece(Counting& counting, char* data, int64_t bytes) : counting(counting) {
    data_ = data;
    bytes_ = bytes;
  }
  ~Piece() override { counting.drop(data_); }
  Counting& counting;
};

bool is_aligned(const char* address) { return reinterpret_cast<uintptr_t>(address) % 256 == 0; }

bool overlap(const std::map<char*, int64_t>& pieces) {
  const char* end = nullptr;
  for (const auto& [begin, bytes] : pieces) {
    if (begin < end) return true;
    end = begin + bytes;
  }
  return false;
}

void check_results() {
  Counting device;
  {
    cuda::BlockPool pool([&](int64_t n, char** out) { return device.make(n, out); }, [&](char* b) { device.drop(b); },
                         8 * kMiB);
    std::mt19937 random(7);
    std::map<char*, int64_t> used;
    int64_t most = 0, sum = 0;
    for (int i = 0; i < 20000; ++i) {
      if (used.size() > 40 || (!used.empty() && random() % 2 == 0)) {
        auto it = std::next(used.begin(), static_cast<int>(random() % used.size()));
        sum -= it->second;
        pool.give_back(it->first, it->second);
        used.erase(it);
        continue;
      }
      const int64_t bytes =
          random() % 50 == 0 ? static_cast<int64_t>(random() % (20 * kMiB)) : static_cast<int64_t>(random() % 5000);
      char* at = nullptr;
      EXPECT(pool.allocate(bytes, &at).ok());
      EXPECT(is_aligned(at) && device.holds(at, bytes) && used.count(at) == 0);
      used[at] = bytes;
      sum += bytes;
      most = std::max(most, sum);
      EXPECT(pool.bytes() == device.bytes);
    }
    EXPECT(!overlap(used));
    EXPECT(device.bytes < 2 * most + 16 * kMiB);
    for (const auto& [at, bytes] : used) pool.give_back(at, bytes);
    EXPECT(device.bytes <= 8 * kMiB);  // kept
    // One that is given back is given again, and nothing is asked for.
    char *first = nullptr, *second = nullptr;
    EXPECT(pool.allocate(1000, &first).ok());
    const int64_t before = device.bytes;
    pool.give_back(first, 1000);
    EXPECT(pool.allocate(1000, &second).ok());
    EXPECT(first == second && device.bytes == before);
    // What is in use stays.
    pool.drop_unused();
    EXPECT(device.bytes > 0 && device.holds(second, 1000));
    device.limit = device.bytes + 3 * kMiB;
    char* third = nullptr;
    EXPECT(!pool.allocate(64 * kMiB, &third).ok());
    EXPECT(pool.allocate(1000, &third).ok() && third != second);
    pool.give_back(third, 1000);
    pool.give_back(second, 1000);
  }
  EXPECT(device.bytes == 0);
}

void check_weights() {
  Counting device;
  const auto allocate = [&](int64_t bytes, std::unique_ptr<Memory>* out) -> Status {
    char* data = nullptr;
    MINNOW_RETURN_IF_ERROR(device.make(bytes, &data));
    *out = std::make_unique<Piece>(device, data, bytes);
    return ok();
  };
  std::map<char*, int64_t> written;
  const auto write = [&](const void*, char* to, int64_t bytes) {
    EXPECT(device.holds(to, bytes) && is_aligned(to) && written.count(to) == 0);
    written[to] = bytes;
    return ok();
  };
  {
    // Those of an encoder of 12 layers of 768 in f16: a driver that rounds each of them up takes 286 MiB.
    WeightMemory memory(allocate, write);
    char* at = nullptr;
    EXPECT(memory.add("", 30522 * 768 * 2, &at).ok());
    int64_t sum = 30522 * 768 * 2;
    for (int layer = 0; layer < 12; ++layer)
      for (int64_t bytes : {768, 768, 768, 768, 3072, 3072}) {
        EXPECT(memory.add("", bytes * 768 * 2, &at).ok());
        EXPECT(memory.add("", bytes * 4, &at).ok());
        sum += bytes * 768 * 2 + bytes * 4;
      }
    EXPECT(!overlap(written));
    EXPECT(memory.bytes() == device.bytes && device.bytes >= sum);
    EXPECT(device.bytes < sum + sum / 8);
    int64_t rounded = 0;
    for (const auto& [block, bytes] : device.blocks) rounded += (bytes + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
    EXPECT(rounded < sum + sum / 8);
  }
  EXPECT(device.bytes == 0);
  written.clear();
  {
    // A few small ones take little; nothing is written of none.
    WeightMemory memory(allocate, write);
    char* at = nullptr;
    EXPECT(memory.add("", 0, &at).ok() && at != nullptr && written.empty());
    for (int i = 0; i < 10; ++i) EXPECT(memory.add("", 1000, &at).ok());
    EXPECT(device.bytes == 64 << 10);
    // Where there is no room for a block to share, the piece alone.
    for (int i = 0; i < 8; ++i) EXPECT(memory.add("", 4 * kMiB, &at).ok());
    device.limit = device.bytes + 2 * kMiB + 256;
    EXPECT(memory.add("", 2 * kMiB + 256, &at).ok());
    EXPECT(!memory.add("", 4 * kMiB, &at).ok());
    EXPECT(!overlap(written));
  }
  EXPECT(device.bytes == 0);
}

}  // namespace

int main() {
  check_results();
  check_weights();
  if (failures == 0) std::printf("passed\n");
  return failures == 0 ? 0 : 1;
}
