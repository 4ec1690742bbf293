#include "runtime/src/run/state.h"

#include <algorithm>
#include <cstring>

namespace minnow {
namespace {

bool same(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.layout == b.layout && a.shape == b.shape;
}

// The type with this size of the first dimension.
TensorType sized(TensorType type, int64_t size) {
  type.shape[0] = size;
  return type;
}

}  // namespace

Status States::start() { return current_.size() == model_.states.size() ? ok() : reset(); }

Status States::begin() {
  MINNOW_RETURN_IF_ERROR(start());
  return kHasOtherDevices && fetch_ ? fetch_() : ok();
}

Status States::reset() {
  const size_t n = model_.states.size();
  std::vector<Tensor> tensors(n);
  buffers_.resize(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const State& state = model_.states[i];
    if (types_.size() == i) types_.push_back(state.type());
    tensors[i].type = types_[i];
    const int64_t bytes = tensors[i].type.bytes();
    for (Buffer* buffer : {&buffers_[2 * i], &buffers_[2 * i + 1]}) {
      if (state.grows()) *buffer = Buffer();
      const bool second = buffer == &buffers_[2 * i + 1];
      if (buffer->data() == nullptr && !(second && state.in_place))
        MINNOW_RETURN_IF_ERROR(Buffer::make(bytes, buffer, account_));
    }
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

bool States::fits(size_t i, const TensorType& type) const {
  const TensorType& own = current_[i].type;
  if (!model_.states[i].grows() || type.shape.rank() == 0) return same(type, own);
  return type.shape[0] >= 0 && same(type, sized(own, type.shape[0]));
}

int64_t States::bytes() const {
  int64_t bytes = 0;
  for (const Tensor& tensor : current_) bytes += tensor.type.bytes();
  return bytes;
}

Status States::set(const std::vector<Tensor>& tensors) {
  MINNOW_RETURN_IF_ERROR(begin());
  if (tensors.size() != current_.size())
    return fail(Code::kUsage, "the model has %zu states, not %zu", current_.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!fits(i, tensors[i].type))
      return fail(Code::kUsage, "the state '%s' is %s%s, not %s%s", model_.states[i].info.name.c_str(),
                  dtype_name(current_[i].type.dtype), current_[i].shape().str().c_str(),
                  dtype_name(tensors[i].type.dtype), tensors[i].shape().str().c_str());
  const auto dimension = [&](size_t i) { return model_.states[i].info.dims[0].symbol; };
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t k = 0; model_.states[i].grows() && k < i; ++k)
      if (model_.states[k].grows() && dimension(k) == dimension(i) && tensors[k].dim(0) != tensors[i].dim(0))
        return fail(Code::kUsage, "%s is %lld in the state '%s', and %lld in '%s'", dimension(i).c_str(),
                    static_cast<long long>(tensors[k].dim(0)), model_.states[k].info.name.c_str(),
                    static_cast<long long>(tensors[i].dim(0)), model_.states[i].info.name.c_str());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (model_.states[i].grows()) MINNOW_RETURN_IF_ERROR(resize(dimension(i), tensors[i].dim(0)));
  for (size_t i = 0; i < tensors.size(); ++i)
    if (current_[i].type.bytes() > 0 && tensors[i].data != current_[i].data)
      std::memcpy(current_[i].data, tensors[i].data, static_cast<size_t>(current_[i].type.bytes()));
  return ok();
}

// Memory for state `i` of this size, with what there is of it.
Status States::make_room(size_t i, int64_t size) {
  const TensorType type = sized(current_[i].type, size);
  const int64_t bytes = type.bytes(), kept = std::min(bytes, current_[i].type.bytes());
  if (buffers_[2 * i].size() < bytes) {
    Buffer larger;
    MINNOW_RETURN_IF_ERROR(Buffer::make(bytes, &larger, account_));
    if (kept > 0) std::memcpy(larger.data(), current_[i].data, static_cast<size_t>(kept));
    buffers_[2 * i] = std::move(larger);
    current_[i].data = buffers_[2 * i].data();
  }
  if (!model_.states[i].in_place && buffers_[2 * i + 1].size() < bytes) {
    buffers_[2 * i + 1] = Buffer();
    Buffer next;
    MINNOW_RETURN_IF_ERROR(Buffer::make(bytes, &next, account_));
    buffers_[2 * i + 1] = std::move(next);
  }
  std::memset(static_cast<char*>(current_[i].data) + kept, 0, static_cast<size_t>(bytes - kept));
  return ok();
}

Status States::find(const std::string& dimension, std::vector<size_t>* found) const {
  for (size_t i = 0; i < current_.size(); ++i)
    if (model_.states[i].grows() && model_.states[i].info.dims[0].symbol == dimension) found->push_back(i);
  return found->empty() ? fail(Code::kUsage, "no state has a dynamic dimension '%s'", dimension.c_str()) : ok();
}

Status States::resize(const std::string& dimension, int64_t size) {
  MINNOW_RETURN_IF_ERROR(begin());
  std::vector<size_t> grown;
  MINNOW_RETURN_IF_ERROR(find(dimension, &grown));
  if (size < 0) return fail(Code::kUsage, "%s of size %lld", dimension.c_str(), static_cast<long long>(size));
  for (size_t i : grown)
    if (size > current_[i].dim(0))
      MINNOW_RETURN_IF_ERROR(make_room(i, size).at("state '" + model_.states[i].info.name + "'"));
  for (size_t i : grown) current_[i].type = sized(current_[i].type, size);
  return ok();
}

Status States::copy(const std::string& dimension, int64_t from, int64_t to) {
  MINNOW_RETURN_IF_ERROR(begin());
  std::vector<size_t> found;
  MINNOW_RETURN_IF_ERROR(find(dimension, &found));
  const int64_t size = current_[found[0]].dim(0);
  for (int64_t place : {from, to})
    if (place < 0 || place >= size)
      return fail(Code::kUsage, "%lld is no place of the %lld of %s", static_cast<long long>(place),
                  static_cast<long long>(size), dimension.c_str());
  for (size_t i : found) {
    const int64_t bytes = sized(current_[i].type, 1).bytes();
    char* data = static_cast<char*>(current_[i].data);
    if (from != to) std::memcpy(data + to * bytes, data + from * bytes, static_cast<size_t>(bytes));
  }
  return ok();
}

Status States::retype(size_t i, const TensorType& type) {
  MINNOW_RETURN_IF_ERROR(begin());
  const char* name = model_.states[i].info.name.c_str();
  if (!model_.states[i].grows() || current_[i].dim(0) != 0)
    return fail(Code::kUsage, "the state '%s' has contents: its type stays what it is", name);
  if (type.shape.rank() != current_[i].rank() || type.shape[0] != 0)
    return fail(Code::kUsage, "the state '%s' is %s, and cannot be %s", name, current_[i].shape().str().c_str(),
                type.shape.str().c_str());
  for (int64_t d : type.shape)
    if (d < 0) return fail(Code::kUsage, "the state '%s' cannot be %s", name, type.shape.str().c_str());
  current_[i].type = types_[i] = type;
  return ok();
}

void* States::next(size_t i, const TensorType& type) {
  if (!same(type, current_[i].type)) return nullptr;
  return buffers_[model_.states[i].in_place ? 2 * i : 2 * i + 1].data();
}

void States::advance() {
  for (size_t i = 0; i < current_.size(); ++i) {
    if (model_.states[i].in_place) continue;
    std::swap(buffers_[2 * i], buffers_[2 * i + 1]);
    current_[i].data = buffers_[2 * i].data();
  }
}

}  // namespace minnow
