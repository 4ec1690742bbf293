#include "runtime/src/run/state.h"

#include <algorithm>
#include <cstring>

namespace minnow {
namespace {

bool same(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.layout == b.layout && a.shape == b.shape;
}

}  // namespace

Status States::begin() { return current_.size() == model_.states.size() ? ok() : reset(); }

Status States::reset() {
  const size_t n = model_.states.size();
  std::vector<Tensor> tensors(n);
  buffers_.resize(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const State& state = model_.states[i];
    tensors[i].type = state.type();
    const int64_t bytes = tensors[i].type.bytes();
    for (Buffer* buffer : {&buffers_[2 * i], &buffers_[2 * i + 1]})
      if (buffer->data() == nullptr) MINNOW_RETURN_IF_ERROR(Buffer::make(bytes, buffer, account_));
    tensors[i].data = buffers_[2 * i].data();
    if (bytes == 0) continue;
    if (state.initial.empty()) {
      std::memset(tensors[i].data, 0, static_cast<size_t>(bytes));
    } else {
      std::memcpy(tensors[i].data, state.initial.data(), static_cast<size_t>(bytes));
    }
  }
  current_ = std::move(tensors);
  return ok();
}

Status States::set(const std::vector<Tensor>& tensors) {
  MINNOW_RETURN_IF_ERROR(begin());
  if (tensors.size() != current_.size())
    return fail(Code::kUsage, "the model has %zu states, not %zu", current_.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!same(tensors[i].type, current_[i].type))
      return fail(Code::kUsage, "the state '%s' is %s%s, not %s%s", model_.states[i].info.name.c_str(),
                  dtype_name(current_[i].type.dtype), current_[i].shape().str().c_str(),
                  dtype_name(tensors[i].type.dtype), tensors[i].shape().str().c_str());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (current_[i].type.bytes() > 0 && tensors[i].data != current_[i].data)
      std::memcpy(current_[i].data, tensors[i].data, static_cast<size_t>(current_[i].type.bytes()));
  return ok();
}

void* States::next(size_t i, const TensorType& type) {
  return same(type, current_[i].type) ? buffers_[2 * i + 1].data() : nullptr;
}

void States::advance() {
  for (size_t i = 0; i < current_.size(); ++i) {
    std::swap(buffers_[2 * i], buffers_[2 * i + 1]);
    current_[i].data = buffers_[2 * i].data();
  }
}

}  // namespace minnow
