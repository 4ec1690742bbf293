#include "kernels/core/packed.h"

#include "kernels/core/kernel.h"
#include "kernels/core/status_guard.h"

namespace minnow {

void Packed::make(const NodeContext& node, std::initializer_list<size_t> inputs, const std::string& packing,
                  int64_t bytes, PackedStore::Fill fill) {
  bool shared = node.store != nullptr;
  int64_t place = -1;
  std::string key = packing + "/" + std::to_string(bytes);
  for (size_t i : inputs) {
    const int64_t id = i < node.constant_ids.size() ? node.constant_ids[i] : -1;
    shared = shared && id >= 0;
    key += "/" + std::to_string(id);
    if (place < 0) place = id;
  }
  if (data_ != nullptr && key == key_) return;
  clear();
  if (shared) {
    data_ = node.store->find(key, place, bytes, fill);
  } else {
    own_.allocate((bytes + 3) / 4);
    fill(own_.data());
    data_ = own_.data();
    if (node.accelerator != nullptr) {
      const Status status = node.accelerator->upload(data_, bytes, &uploaded_);
      if (!status.ok()) throw StatusError(status);
      own_.clear();
      data_ = uploaded_->data();
    }
  }
  key_ = std::move(key);
}

void Packed::clear() {
  data_ = nullptr;
  own_.clear();
  uploaded_ = nullptr;
}

}  // namespace minnow
