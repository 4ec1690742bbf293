#include "runtime/src/constant.h"

#include <utility>

namespace minnow {

std::shared_ptr<Constant> Constant::view(const TensorType& type, const void* data,
                                         std::shared_ptr<const MappedFile> file) {
  auto constant = std::make_shared<Constant>();
  constant->type_ = type;
  constant->file_ = std::move(file);
  constant->tensor_ = std::make_shared<Tensor>(Tensor{type, const_cast<void*>(data)});
  return constant;
}

std::shared_ptr<Constant> Constant::decoded(const TensorType& type, Decode decode) {
  auto constant = std::make_shared<Constant>();
  constant->type_ = type;
  constant->decode_ = std::move(decode);
  return constant;
}

std::shared_ptr<Constant> Constant::owned(const TensorType& type, Buffer buffer) {
  auto holder = std::make_shared<Holder>();
  holder->tensor = Tensor{type, buffer.data()};
  holder->buffer = std::move(buffer);
  auto constant = std::make_shared<Constant>();
  constant->type_ = type;
  constant->tensor_ = std::shared_ptr<const Tensor>(holder, &holder->tensor);
  return constant;
}

Status Constant::acquire(std::shared_ptr<const Tensor>* out) const {
  if (tensor_ != nullptr) {
    *out = tensor_;
    return ok();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  *out = latest_.lock();
  if (*out != nullptr) return ok();
  auto holder = std::make_shared<Holder>();
  MINNOW_RETURN_IF_ERROR(Buffer::make(type_.bytes(), &holder->buffer));
  holder->tensor = Tensor{type_, holder->buffer.data()};
  decode_(holder->tensor.data);
  *out = std::shared_ptr<const Tensor>(holder, &holder->tensor);
  latest_ = *out;
  return ok();
}

void Constant::release() const {
  if (file_ != nullptr && tensor_ != nullptr) file_->release(tensor_->data, type_.bytes());
}

}  // namespace minnow
