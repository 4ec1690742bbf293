// A tensor whose contents never change: a weight in the file, or what was computed from such.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "kernels/core/tensor.h"
#include "runtime/src/model/buffer.h"
#include "runtime/src/model/mapped_file.h"

namespace minnow {

// A piece of memory, and the mapped file it lies in, if any.
struct FileBytes {
  const char* data = nullptr;
  int64_t size = 0;
  std::shared_ptr<const MappedFile> file;

  void release() const {
    if (file != nullptr) file->release(data, size);
  }
};

class Constant {
 public:
  // Fills a buffer of type.bytes() from the form the file has (16-bit floats, quantized streams, ...).
  using Decode = std::function<void(void* out)>;

  // The bytes of the file as they stand; `file` (may be null) is told when nobody needs them in memory any more.
  static std::shared_ptr<Constant> view(const TensorType& type, const void* data,
                                        std::shared_ptr<const MappedFile> file);
  // `decode` reads the bytes of `source`, which is told when they are not needed in memory any more.
  static std::shared_ptr<Constant> decoded(const TensorType& type, Decode decode, FileBytes source);
  static std::shared_ptr<Constant> owned(const TensorType& type, Buffer buffer);

  const TensorType& type() const { return type_; }
  // What it is called among the constants of its model, the same each time the file is loaded; -1 for one that is not
  // in the file.
  int64_t id() const { return id_; }
  void set_id(int64_t id) { id_ = id; }
  // Whether acquire() costs time and memory.
  bool is_lazy() const { return static_cast<bool>(decode_); }

  // The contents, plain layout, as long as the pointer is held. Contents that have to be decoded are shared by all who
  // hold them at one time, and freed when nobody does.
  Status acquire(std::shared_ptr<const Tensor>* out) const;
  // A hint that the contents will not be read soon: kernels have made their own copy.
  void release() const;

 private:
  struct Holder {
    Buffer buffer;
    Tensor tensor;
  };

  TensorType type_;
  int64_t id_ = -1;
  Decode decode_;
  FileBytes source_;
  std::shared_ptr<const Tensor> tensor_;  // null when decoded on demand
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const Tensor> latest_;
};

}  // namespace minnow
