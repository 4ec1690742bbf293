// The packed weights of a model.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/packed.h"

namespace minnow {

class WeightStore final : public PackedStore {
 public:
  WeightStore() = default;
  ~WeightStore() override;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  const void* find(const std::string& key, int64_t bytes, Fill fill) override;
  int64_t bytes() const { return bytes_; }  // packed so far

 private:
  struct Entry {
    std::mutex filling;
    std::atomic<const void*> data{nullptr};
  };
  // Memory is taken in large pieces, so that it can come in large pages: less to look up while weights stream by, and
  // less to ask the system for.
  struct Piece {
    char* begin = nullptr;
    int64_t size = 0, used = 0;
  };

  char* take(int64_t bytes);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::vector<Piece> pieces_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace minnow
