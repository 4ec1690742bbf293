// What a device is to the engine. A backend says what the device can compute, how long that takes it and how much
// memory it needs; a queue of it runs kernels and copies. The CPU is the backend that is always there (cpu.h); others
// come in libraries of their own (plugin.h). No backend knows another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/kernel_table.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

struct Model;

// Not in a slim build, which has the ops of its models for the CPU alone: neither devices nor plugins. What only they
// need asks this first, so that the compiler leaves it out.
constexpr bool kHasOtherDevices = is_kept("other devices");
constexpr bool is_other(int device) { return kHasOtherDevices && device != 0; }

// A kernel of a plan that may compute its results in more than one way.
struct Tunable {
  Kernel* kernel = nullptr;
  const RunContext* context = nullptr;
  std::string what;  // the op and its types: what is the same for two of them is tuned once
  int scheme = -1;   // the way that is chosen; -1: the one that the kernel takes by itself
};

// Runs what it is given in this order. The CPU's runs it at once; others return when it is enqueued. All calls come
// from one thread at a time, but for run() of the CPU's queue.
class Queue {
 public:
  virtual ~Queue() = default;
  // Everything `context` points to stays as it is until finish(): operands, results and the error.
  virtual Status run(Kernel& kernel, const RunContext& context) = 0;
  // All elements, in plain layout, of which one side is the host's; converted where the types differ. The host's bytes
  // are read, or there, at finish(); until then both tensors stay.
  virtual Status copy(const Tensor& from, Tensor* to) = 0;
  // Whether the address is one of the device's memory: a caller may give such tensors, too.
  virtual bool owns(const void* address) const {
    (void)address;
    return false;
  }
  // Whether its memory has addresses which other users of the device know.
  virtual bool gives_addresses() const { return false; }
  // What is enqueued from now on begins after all that others have enqueued so far on this stream of the device, as its
  // API calls it; 0: on its default stream.
  virtual Status follow(uintptr_t stream) {
    (void)stream;
    return fail(Code::kUsage, "the device has no streams of others");
  }
  // What is enqueued from now on begins after all that `other`, a queue of any backend, was given so far.
  virtual Status wait(Queue& other) { return other.finish(); }
  // Returns when everything is done. An error is the device's; those of kernels stand in their contexts by then.
  virtual Status finish() = 0;

  // Runs what `enqueue` gives it, and returns when it is done, with the seconds that the device took.
  virtual Status time(const std::function<Status()>& enqueue, double* seconds) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = enqueue(), done = finish();
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return status.ok() ? done : status;
  }
  // Chooses for each kernel, of all that run in this order, the scheme that it has, or if that is -1, the fastest: by
  // trying them, for a limited time. What the kernels write is overwritten. Finishes before, and when it returns.
  virtual Status tune(std::vector<Tunable>* steps) {
    (void)steps;
    return ok();
  }
  // The same, without trying.
  virtual void choose(Kernel& kernel, int scheme) {
    (void)kernel;
    (void)scheme;
  }

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

constexpr int kChannelsLast = 0;

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu", "cuda:0": what users call it
  // The device and its driver: what is measured holds for others of the same.
  virtual std::string kind() const { return name(); }
  // What the device is, "NVIDIA H200", by whichever library it is driven.
  virtual std::string hardware() const { return name(); }
  // Whether it is a processor that computes as if it were a GPU: "auto" leaves it out.
  virtual bool is_software() const { return false; }
  // The row of its table; null where it has no kernel for the op.
  virtual const KernelRow* find(const OpSpec& op) const = 0;
  // The row that computes this node, where there is more than one for the op. Null: none does, and `why` says what is
  // missing. What it says of types in plain layout holds for any layout.
  virtual const KernelRow* row_for(const OpSpec& op, const NodeContext& node, std::string* why) const {
    (void)node;
    (void)why;
    return find(op);
  }
  // An estimate of how long the node takes. Below 0: it cannot run it, and `why` says what is missing; as for
  // row_for(). Asked only where a session has more than one device.
  virtual double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const = 0;
  // How long a copy from or to the host takes, beside its bytes, and per byte.
  virtual double copy_seconds(int64_t bytes) const = 0;
  // The memory that a tensor takes, with whatever padding its layout has here.
  virtual int64_t bytes(const TensorType& type) const = 0;
  // Channels per block of its packed layout; 1: it has none, and everything is plain. kChannelsLast: one block of all.
  virtual int channel_block() const { return 1; }
  // A kernel that converts between the layouts, of tensors that both lie on this device.
  virtual std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const = 0;
  // The kind of device whose kernels it has, "cuda" of "cuda:0". The fusions of this kind (device_fusions()) are
  // applied to the nodes that are placed on it, after those that hold for all devices.
  virtual std::string kernels() const { return name().substr(0, name().find(':')); }
  // The type in which it keeps values of a type in its memory: with precision "low" a GPU keeps f32 as f16. Kernels are
  // given tensors of that type, and copies from and to the host convert.
  virtual DType stored(DType type, Precision precision) const {
    (void)precision;
    return type;
  }
  // What its kernels are made for; null for the CPU.
  virtual Accelerator* accelerator() { return nullptr; }

  // Memory of this device; not initialized. Counted to `account`, if any, which outlives it.
  virtual Status allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) = 0;
  // The same for a result that the caller keeps, and may free while the device works for others: it is used from when
  // a queue follows the default stream, and freed when that stream has come there.
  virtual Status allocate_result(int64_t bytes, std::unique_ptr<Memory>* out) { return allocate(bytes, nullptr, out); }
  // The host's memory as memory of this device, where the device can read it in place, such as a mapped file with
  // weights; null where it cannot. The host's memory outlives it.
  virtual std::unique_ptr<Memory> wrap(const void* host, int64_t bytes) {
    (void)host;
    (void)bytes;
    return nullptr;
  }
  // Where its kernels keep the packed weights of a model: one store, shared by all sessions. May be null.
  virtual std::unique_ptr<DeviceStore> create_store(const Model& model) {
    (void)model;
    return nullptr;
  }
  virtual std::unique_ptr<Queue> create_queue(const QueueOptions& options) = 0;

  // A row of a plugin, which comes before its own for the nodes that it supports. Before the first session on it.
  void add_row(const std::string& op, const KernelRow& row) { added_[op].push_back(row); }

 protected:
  // The row of a plugin that computes this node, or any of the op's where there is no node; null: there is none.
  const KernelRow* added_row(const OpSpec& op, const NodeContext* node) const {
    const auto it = added_.find(op.name);
    std::string why;
    for (size_t i = 0; it != added_.end() && i < it->second.size(); ++i) {
      const KernelRow& row = it->second[i];
      if (node == nullptr || row.supports == nullptr || row.supports(*node, &why)) return &row;
    }
    return nullptr;
  }

 private:
  std::map<std::string, std::vector<KernelRow>> added_;
};

// From one tensor to another of the same shape, in whichever layouts they are, both in the host's memory. Nothing is
// done when they share it.
void convert_layout(const Backend& host, const Tensor& from, Tensor* to, ThreadPool* pool);

}  // namespace minnow
