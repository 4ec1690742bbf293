// A constant tensor: a weight in the file, or a value computed from constants.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/core/quantized.h"
#include "kernels/core/tensor.h"
#include "runtime/src/model/buffer.h"
#include "runtime/src/model/mapped_file.h"

namespace minnow {

// A piece of memory, and the mapped file that contains it, if any.
struct FileBytes {
  const char* data = nullptr;
  int64_t size = 0;
  std::shared_ptr<const MappedFile> file;

  void release() const {
    if (file != nullptr) file->release(size);
  }
};

class Constant {
 public:
  // Fills a buffer of type.bytes() from the encoding in the file (16-bit floats, quantized streams, ...).
  using Decode = std::function<void(void* out)>;

  // The bytes of the file without decoding; release() tells `file` (may be null) that they are no longer needed in
  // memory.
  static std::shared_ptr<Constant> view(const TensorType& type, const void* data,
                                        std::shared_ptr<const MappedFile> file);
  // `decode` reads the bytes of `source`; release() tells it that they are no longer needed in memory.
  static std::shared_ptr<Constant> decoded(const TensorType& type, Decode decode, FileBytes source);
  // Numbers that stay quantized: acquire() makes floats of them, for those who cannot use them as they are. `scales`
  // are where these, and the offsets, are read.
  static std::shared_ptr<Constant> of_quantized(const TensorType& type, std::shared_ptr<const QuantizedMatrix> matrix,
                                                FileBytes codes, std::vector<FileBytes> scales);
  // The same numbers, which are quantized, in another shape of as many rows.
  static std::shared_ptr<Constant> in_shape(const std::shared_ptr<Constant>& quantized, const Shape& shape);
  static std::shared_ptr<Constant> owned(const TensorType& type, Buffer buffer);

  const TensorType& type() const { return type_; }
  // A number that identifies it in its model, the same each time the file is loaded; -1 if it is not in the file.
  int64_t id() const { return id_; }
  void set_id(int64_t id) { id_ = id; }
  // Counts what acquire() decodes from now on, as long as it is held.
  void set_account(std::shared_ptr<MemoryAccount> account) { account_ = std::move(account); }
  // The numbers one by one as the file has them, which may be floats of 16 bits; no data where they are not there so.
  FileBytes stored(DType* type) const {
    *type = stored_.value_or(type_.dtype);
    return stored_ ? source_ : FileBytes();
  }
  void set_stored(DType type) { stored_ = type; }
  // The contents in quantized form; null where they have none.
  const QuantizedMatrix* quantized() const { return quantized_.get(); }
  // Whether acquire() costs time and memory.
  bool is_lazy() const { return static_cast<bool>(decode_); }

  // The contents in plain layout, valid as long as the pointer is held. Decoded contents are shared by all holders, and
  // freed with the last one. An error also where the interrupt of the calling thread has no room for them, or ends it.
  Status acquire(std::shared_ptr<const Tensor>* out) const;
  // A hint that the contents will not be read soon: kernels have made their own copy.
  void release() const;

 private:
  struct Holder {
    std::shared_ptr<MemoryAccount> account;  // of the buffer
    Buffer buffer;
    Tensor tensor;
  };

  TensorType type_;
  int64_t id_ = -1;
  std::shared_ptr<MemoryAccount> account_;
  Decode decode_;
  FileBytes source_;
  std::vector<FileBytes> scales_;
  std::optional<DType> stored_;
  std::shared_ptr<const QuantizedMatrix> quantized_;
  std::shared_ptr<const Tensor> tensor_;  // null when decoded on demand
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const Tensor> latest_;
};

}  // namespace minnow
