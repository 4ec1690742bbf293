// What a device is to the engine. A backend says what the device can compute, how long that takes it and how much
// memory it needs; a queue of it runs kernels and copies. The CPU is the backend that is always there (cpu.h); others
// come in libraries of their own (plugin.h). No backend knows another one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/core/kernel_table.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

class PlanGraph;
struct Model;

// One allocation of a device; freed with the object. The host reads and writes it only where the backend is the CPU's.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* data() const { return data_; }  // an address of the device; aligned to kAlignment
  int64_t bytes() const { return bytes_; }

 protected:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// What a queue has recorded, to be run again as a whole: a CUDA graph, a Vulkan command buffer. It holds for the memory
// and the shapes that it was recorded with, and is dropped when one of them changes.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues it.
  virtual Status replay() = 0;
};

// Runs what it is given in this order. The CPU's runs it at once; others return when it is enqueued. All calls come
// from one thread at a time, but for run() of the CPU's queue.
class Queue {
 public:
  virtual ~Queue() = default;
  // Everything `context` points to stays as it is until finish(): operands, results and the error.
  virtual Status run(Kernel& kernel, const RunContext& context) = 0;
  // `from.type.bytes()` bytes of plain layout, of which one side is the host's. The host's bytes are read, or there, at
  // finish(); until then both tensors stay.
  virtual Status copy(const Tensor& from, Tensor* to) = 0;
  // What is enqueued from now on begins after all that `other`, a queue of any backend, was given so far.
  virtual Status wait(Queue& other) { return other.finish(); }
  // Returns when everything is done. An error is the device's; those of kernels stand in their contexts by then.
  virtual Status finish() = 0;

  // Whether what is enqueued between begin_recording() and end_recording() can be recorded instead of run.
  virtual bool can_record() const { return false; }
  virtual Status begin_recording() { return fail(Code::kInternal, "this queue records nothing"); }
  virtual Status end_recording(std::unique_ptr<Recording>* out) {
    (void)out;
    return fail(Code::kInternal, "this queue records nothing");
  }
};

struct QueueOptions {
  ThreadPool* pool = nullptr;  // of the session: its number of threads, and what the CPU runs its kernels on
  Precision precision = Precision::kHigh;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu", "cuda:0": what users call it
  // The row of its table; null where it has no kernel for the op.
  virtual const KernelRow* find(const OpSpec& op) const = 0;
  // An estimate of how long the node takes. Below 0: it cannot run it, and `why` says what is missing; what it says of
  // types in plain layout holds for any layout. Asked only where a session has more than one device.
  virtual double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const = 0;
  // How long a copy from or to the host takes, beside its bytes, and per byte.
  virtual double copy_seconds(int64_t bytes) const = 0;
  // The memory that a tensor takes, with whatever padding its layout has here.
  virtual int64_t bytes(const TensorType& type) const = 0;
  // Channels per block of its packed layout; 1: it has none, and everything is plain.
  virtual int channel_block() const { return 1; }
  // A kernel that converts between the layouts, of tensors that both lie on this device.
  virtual std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const = 0;
  // Fuses nodes that are placed on this device, which are those that the graph looks at, after the fusions that hold
  // for all devices.
  virtual void fuse(PlanGraph& graph) const { (void)graph; }

  // Memory of this device; not initialized. Counted to `account`, if any, which outlives it.
  virtual Status allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) = 0;
  // The host's memory as memory of this device, where the device can read it in place, such as a mapped file with
  // weights; null where it cannot. The host's memory outlives it.
  virtual std::unique_ptr<Memory> wrap(const void* host, int64_t bytes) {
    (void)host;
    (void)bytes;
    return nullptr;
  }
  // Where its kernels keep the packed weights of a model: one store, shared by all sessions. May be null.
  virtual std::unique_ptr<PackedStore> create_store(const Model& model) {
    (void)model;
    return nullptr;
  }
  virtual std::unique_ptr<Queue> create_queue(const QueueOptions& options) = 0;
};

// From one tensor to another of the same shape, in whichever layouts they are, both in the host's memory. Nothing is
// done when they share it.
void convert_layout(const Backend& host, const Tensor& from, Tensor* to, ThreadPool* pool);

}  // namespace minnow
