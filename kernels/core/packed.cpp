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
    throw_unless(own_bytes_.keep(bytes));
    own_.allocate((bytes + 3) / 4);
    fill(own_.data());
    throw_unless(is_whole());
    if (node.accelerator != nullptr) {
      throw_unless(node.accelerator->upload(own_.data(), bytes, &uploaded_));
      own_.clear();
      data_ = uploaded_->data();
    } else {
      data_ = own_.data();
    }
  }
  key_ = std::move(key);
}

void Packed::clear() {
  data_ = nullptr;
  own_.clear();
  own_bytes_.clear();
  uploaded_ = nullptr;
}

}  // namespace minnow
