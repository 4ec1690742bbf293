// The packed weights of a model.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/packed.h"
#include "runtime/src/model/buffer.h"
#include "runtime/src/model/packed_file.h"

namespace minnow {

class WeightStore final : public PackedStore {
 public:
  // `account` counts what is packed; it must outlive the store.
  explicit WeightStore(MemoryAccount* account) : account_(account) {}
  ~WeightStore() override;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  const void* find(const std::string& key, int64_t place, int64_t bytes, Fill fill) override;
  const void* in_file(const std::string& key, int64_t bytes) const override {
    return file_ == nullptr ? nullptr : file_->find(key, bytes);
  }
  // Whether there is something of this key and so many bytes, here or in the file; `out` gets it.
  bool peek(const std::string& key, int64_t bytes, void* out);
  // From now on, what the file has is not packed.
  void use(std::unique_ptr<const PackedFile> file) { file_ = std::move(file); }
  // Everything so far, in the order of its places.
  std::vector<PackedFile::Row> rows();

  int64_t packed_bytes() const { return packed_; }  // in memory of our own
  int64_t mapped_bytes() const { return mapped_; }  // that lie in the file

 private:
  struct Entry {
    std::mutex filling;
    std::atomic<const void*> data{nullptr};  // null until it is whole
    char* memory = nullptr;
    int64_t place = 0, bytes = 0;
  };
  // Memory is taken in large pieces, so that it can come in large pages: less to look up while weights stream by, and
  // less to ask the system for.
  struct Piece {
    char* begin = nullptr;
    int64_t size = 0, used = 0, end = 0;
    bool small = false;  // large pages come slowly
    Buffer buffer;       // of the program's allocator, which gives each its own memory; empty: the piece is mapped
  };

  char* take(int64_t bytes);

  MemoryAccount* const account_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::vector<Piece> pieces_;
  std::atomic<int64_t> packed_{0}, mapped_{0};
  std::unique_ptr<const PackedFile> file_;
};

// The stores of other backends than the CPU's, by the name of the backend; each is made when it is first asked for.
class BackendStores {
 public:
  // Null where the backend has none.
  DeviceStore* find(const std::string& backend, FunctionRef<std::unique_ptr<DeviceStore>()> make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = stores_.find(backend);
    if (known != stores_.end()) return known->second.get();
    return stores_.emplace(backend, make()).first->second.get();
  }
  // Copies of what they all hold.
  Status copy_all(std::vector<DeviceStore::Copy>* out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [backend, store] : stores_)
      if (store != nullptr) MINNOW_RETURN_IF_ERROR(store->copy_all(out));
    return ok();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<DeviceStore>> stores_;
};

}  // namespace minnow
