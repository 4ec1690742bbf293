// Constant weights in the form that a kernel reads them: made once, shared by all sessions of a model.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/accelerator.h"
#include "kernels/core/float_buffer.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/thread_pool.h"

namespace minnow {

struct NodeContext;

// What a model has packed so far. Any thread may ask.
class PackedStore {
 public:
  using Fill = FunctionRef<void(void*)>;

  virtual ~PackedStore() = default;
  // `bytes` bytes, aligned to 64, that `fill` has written once for this key; they stay as long as the store. Others who
  // ask for the same key meanwhile wait. `place`: those of lower ones are used earlier. Throws std::bad_alloc
  // and StatusError; also where the interrupt of the calling thread has ended `fill`, or has no room for them.
  virtual const void* find(const std::string& key, int64_t place, int64_t bytes, Fill fill) = 0;
  // What a file has for this key, in the host's memory; null where it has nothing of so many bytes.
  virtual const void* in_file(const std::string& key, int64_t bytes) const {
    (void)key;
    (void)bytes;
    return nullptr;
  }
};

// The packed weights of a model in the memory of another device than the CPU.
class DeviceStore : public PackedStore {
 public:
  struct Copy {
    std::string key;  // as in_file() of the CPU's store gets it
    std::vector<char> bytes;
  };

  // Copies of everything so far in the host's memory.
  virtual Status copy_all(std::vector<Copy>* out) = 0;
};

// The packed weights of a kernel: a place in the store of the model, or memory of its own where there is none. On an
// accelerator `fill` writes to the host's memory, and data() is an address of the device.
class Packed {
 public:
  // `inputs` are constant inputs of the node. `packing` names the form and whatever attributes and sizes it follows
  // from beside these constants' types, since all who give the same name get the same memory. `fill` is called with
  // memory aligned to 64 bytes, unless somebody has filled it before.
  void make(const NodeContext& node, std::initializer_list<size_t> inputs, const std::string& packing, int64_t bytes,
            PackedStore::Fill fill);
  void clear();
  bool empty() const { return data_ == nullptr; }
  const float* data() const { return as<float>(); }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  std::string key_;
  const void* data_ = nullptr;
  FloatBuffer own_;
  KeptMemory own_bytes_;
  std::unique_ptr<Memory> uploaded_;  // of an accelerator
};

}  // namespace minnow
