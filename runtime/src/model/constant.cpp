#include "runtime/src/model/constant.h"

#include <utility>

#include "kernels/core/interrupt.h"

namespace minnow {

std::shared_ptr<Constant> Constant::view(const TensorType& type, const void* data,
                                         std::shared_ptr<const MappedFile> file) {
  auto constant = std::make_shared<Constant>();
  constant->type_ = type;
  constant->source_ = {static_cast<const char*>(data), type.bytes(), std::move(file)};
  constant->stored_ = type.dtype;
  constant->tensor_ = std::make_shared<Tensor>(Tensor{type, const_cast<void*>(data)});
  return constant;
}

std::shared_ptr<Constant> Constant::decoded(const TensorType& type, Decode decode, FileBytes source) {
  auto constant = std::make_shared<Constant>();
  constant->type_ = type;
  constant->decode_.swap(decode);  // gcc 12 warns of what libstdc++ 10 does to assign it
  constant->source_ = std::move(source);
  return constant;
}

std::shared_ptr<Constant> Constant::of_quantized(const TensorType& type, std::shared_ptr<const QuantizedMatrix> matrix,
                                                 FileBytes codes, std::vector<FileBytes> scales) {
  const QuantizedMatrix* numbers = matrix.get();
  auto constant = decoded(
      type, [numbers](void* to) { numbers->floats(0, numbers->rows * numbers->columns, static_cast<float*>(to)); },
      std::move(codes));
  constant->scales_ = std::move(scales);
  constant->quantized_ = std::move(matrix);
  return constant;
}

std::shared_ptr<Constant> Constant::in_shape(const std::shared_ptr<Constant>& quantized, const Shape& shape) {
  TensorType type = quantized->type_;
  type.shape = shape;
  auto constant = of_quantized(type, quantized->quantized_, quantized->source_, quantized->scales_);
  constant->id_ = quantized->id_;
  constant->account_ = quantized->account_;
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
  holder->account = account_;
  MINNOW_RETURN_IF_ERROR(room_for(type_.bytes()));
  MINNOW_RETURN_IF_ERROR(Buffer::make(type_.bytes(), &holder->buffer, account_.get()));
  holder->tensor = Tensor{type_, holder->buffer.data()};
  decode_(holder->tensor.data);
  MINNOW_RETURN_IF_ERROR(is_whole());
  source_.release();
  for (const FileBytes& bytes : scales_) bytes.release();
  *out = std::shared_ptr<const Tensor>(holder, &holder->tensor);
  latest_ = *out;
  return ok();
}

void Constant::release() const {
  if (tensor_ != nullptr || quantized_ != nullptr) source_.release();
  for (const FileBytes& bytes : scales_) bytes.release();
}

}  // namespace minnow
