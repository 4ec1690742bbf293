#include "runtime/src/gpu/backend.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "kernels/core/interrupt.h"
#include "kernels/core/program.h"
#include "kernels/core/status_guard.h"
#include "kernels/core/wait.h"
#include "kernels/gpu/error_slots.h"
#include "runtime/src/gpu/tuner.h"
#include "runtime/src/gpu/weight_memory.h"
#include "runtime/src/model/graph.h"

namespace minnow {
namespace {

// Counted to the account of a session as long as it exists.
class CountedMemory final : public Memory {
 public:
  CountedMemory(std::unique_ptr<Memory> memory, MemoryAccount* account)
      : memory_(std::move(memory)), account_(account) {
    data_ = memory_->data();
    bytes_ = memory_->bytes();
  }
  ~CountedMemory() override { account_->give_back(bytes_); }

 private:
  std::unique_ptr<Memory> memory_;
  MemoryAccount* account_;
};

class GpuQueue final : public Queue {
 public:
  GpuQueue(gpu::Device& device, std::unique_ptr<gpu::Stream> stream)
      : device_(device), stream_(std::move(stream)), tuner_(device, *stream_) {}

  Status run(Kernel& kernel, const RunContext& context) override {
    return static_cast<gpu::GpuKernel&>(kernel).enqueue(context, *stream_);
  }
  Status copy(const Tensor& from, Tensor* to) override;
  bool owns(const void* address) const override { return stream_->owns(address); }
  bool gives_addresses() const override { return stream_->gives_addresses(); }
  Status follow(uintptr_t stream) override { return stream_->follow(stream); }
  Status wait(Queue& other) override {
    auto* queue = dynamic_cast<GpuQueue*>(&other);
    return queue != nullptr && &queue->device_ == &device_ ? stream_->wait(*queue->stream_) : other.finish();
  }
  Status finish() override {
    const Status status = stream_->finish();
    used_ = 0;
    return status;
  }
  Status time(const std::function<Status()>& enqueue, double* seconds) override {
    if (!stream_->can_time()) return Queue::time(enqueue, seconds);
    const Status status = stream_->time(enqueue, 1, seconds), done = finish();
    return status.ok() ? done : status;
  }
  Status tune(std::vector<Tunable>* steps) override { return tuner_.tune(steps); }
  void choose(Kernel& kernel, int scheme) override { Tuner::choose(kernel, scheme); }
  bool can_record() const override { return stream_->can_record(); }
  Status begin_recording() override { return stream_->begin_recording(); }
  Status end_recording(std::unique_ptr<Recording>* out) override { return stream_->end_recording(out); }

 private:
  // Memory of the device that is free again at finish().
  Status stage(int64_t bytes, char** out);

  gpu::Device& device_;
  std::unique_ptr<gpu::Stream> stream_;
  Tuner tuner_;
  std::vector<std::unique_ptr<Memory>> staging_;
  size_t used_ = 0;
};

Status GpuQueue::stage(int64_t bytes, char** out) {
  if (used_ == staging_.size()) staging_.emplace_back();
  std::unique_ptr<Memory>& memory = staging_[used_];
  if (memory == nullptr || memory->bytes() < bytes) {
    memory = nullptr;
    MINNOW_RETURN_IF_ERROR(device_.allocate(bytes, &memory));
  }
  *out = memory->data();
  ++used_;
  return ok();
}

// Converted on the device.
Status GpuQueue::copy(const Tensor& from, Tensor* to) {
  const int64_t bytes = from.type.bytes();
  if (bytes == 0) return ok();
  const bool uploads = !stream_->owns(from.data), stays = !uploads && stream_->owns(to->data);
  const int64_t n = from.type.count();
  if (from.type.dtype == to->type.dtype)
    return stays     ? stream_->copy(from.data, to->data, bytes)
           : uploads ? stream_->upload(from.data, to->data, bytes)
                     : stream_->download(from.data, to->data, bytes);
  if (stays) return device_.convert(*stream_, from.data, from.type.dtype, to->data, to->type.dtype, n);
  char* staging = nullptr;
  if (uploads) {
    MINNOW_RETURN_IF_ERROR(stage(bytes, &staging));
    MINNOW_RETURN_IF_ERROR(stream_->upload(from.data, staging, bytes));
    return device_.convert(*stream_, staging, from.type.dtype, to->data, to->type.dtype, n);
  }
  MINNOW_RETURN_IF_ERROR(stage(to->type.bytes(), &staging));
  MINNOW_RETURN_IF_ERROR(device_.convert(*stream_, from.data, from.type.dtype, staging, to->type.dtype, n));
  return stream_->download(staging, to->data, to->type.bytes());
}

// The packed weights of a model in the device's memory: those that the companion file has come from there.
class GpuStore final : public DeviceStore {
 public:
  GpuStore(gpu::Device& device, const Model& model)
      : device_(device),
        host_(*model.store),
        account_(model.memory),
        prefix_("weights/" + device.name() + "/"),
        memory_([this](int64_t bytes, std::unique_ptr<Memory>* out) { return device_.allocate(bytes, out); },
                [this](const void* host, char* to, int64_t bytes) { return write(host, to, bytes); }) {}
  ~GpuStore() override { account_->give_back(counted_); }

  const void* find(const std::string& key, int64_t, int64_t bytes, Fill fill) override {
    Entry* entry = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::unique_ptr<Entry>& known = entries_[key];
      if (known == nullptr) known = std::make_unique<Entry>();
      entry = known.get();
    }
    const std::unique_lock<std::mutex> lock = wait_for(&entry->filling);
    if (entry->data == nullptr) {
      throw_unless(room_for(bytes));
      Buffer packed;
      const void* from = host_.in_file(prefix_ + key, bytes);
      if (from == nullptr) {
        if (!Buffer::make(bytes, &packed).ok()) throw std::bad_alloc();
        fill(packed.data());
        throw_unless(is_whole());
        from = packed.data();
      }
      throw_unless(account_->take(bytes));
      counted_ += bytes;
      char* data = nullptr;
      if (const Status status = memory_.add(from, bytes, &data); !status.ok()) {
        account_->give_back(bytes);
        counted_ -= bytes;
        throw_unless(status);
      }
      entry->bytes = bytes;
      entry->data = data;
    }
    return entry->data;
  }

  Status copy_all(std::vector<Copy>* out) override {
    std::vector<std::pair<std::string, Entry*>> all;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [key, entry] : entries_) all.emplace_back(key, entry.get());
    }
    const std::unique_ptr<gpu::Stream> stream = device_.create_stream();
    for (const auto& [key, entry] : all) {
      const std::lock_guard<std::mutex> lock(entry->filling);
      if (entry->data == nullptr || entry->bytes == 0) continue;
      Copy copy = {prefix_ + key, std::vector<char>(static_cast<size_t>(entry->bytes))};
      MINNOW_RETURN_IF_ERROR(stream->download(entry->data, copy.bytes.data(), entry->bytes));
      MINNOW_RETURN_IF_ERROR(stream->finish());
      out->push_back(std::move(copy));
    }
    return ok();
  }

 private:
  struct Entry {
    std::mutex filling;
    char* data = nullptr;  // null until it is whole
    int64_t bytes = 0;
  };

  Status write(const void* host, char* to, int64_t bytes) {
    if (stream_ == nullptr) stream_ = device_.create_stream();
    const Status copied = stream_->upload(host, to, bytes), done = stream_->finish();
    return copied.ok() ? done : copied;
  }

  gpu::Device& device_;
  const PackedStore& host_;
  const std::shared_ptr<MemoryAccount> account_;
  const std::string prefix_;
  std::unique_ptr<gpu::Stream> stream_;
  WeightMemory memory_;
  std::atomic<int64_t> counted_{0};  // to the account
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace

const KernelRow* GpuBackend::find(const OpSpec& op) const {
  const std::vector<const KernelRow*> rows = device_->rows(op);
  return rows.empty() ? added_row(op, nullptr) : rows.front();
}

bool GpuBackend::holds(const TensorType& type, std::string* why) const {
  const gpu::Limits& limits = device_->limits();
  if (!limits.bytes && dtype_size(type.dtype) < 4) {
    *why = std::string("has no elements of 8 or 16 bits, such as ") + dtype_name(type.dtype);
    return false;
  }
  if (bytes(type) > limits.tensor_bytes) {
    *why = "computes tensors of at most " + std::to_string(limits.tensor_bytes) + " bytes";
    return false;
  }
  return true;
}

const KernelRow* GpuBackend::row_for(const OpSpec& op, const NodeContext& node, std::string* why) const {
  if (const KernelRow* added = added_row(op, &node)) return added;
  for (const auto* types : {&node.in, &node.out})
    for (const TensorType* type : *types)
      if (type != nullptr && !holds(*type, why)) return nullptr;
  *why = std::string("has no kernel for ") + op.name;
  for (const KernelRow* row : device_->rows(op))
    if (row->supports == nullptr || row->supports(node, why)) return row;
  return nullptr;  // `why` is what the last, which computes the most, has said
}

double GpuBackend::seconds(const OpSpec& op, const NodeContext& node, std::string* why) const {
  if (row_for(op, node, why) == nullptr) return -1;
  int64_t bytes = 0;
  for (const auto* types : {&node.in, &node.out})
    for (const TensorType* type : *types) bytes += type == nullptr ? 0 : type->bytes();
  const gpu::Speed& speed = device_->speed();
  const double macs = op.macs == nullptr ? 0 : static_cast<double>(op.macs(node));
  return speed.launch + std::max(2 * macs / speed.flops, static_cast<double>(bytes) / speed.bytes);
}

double GpuBackend::copy_seconds(int64_t bytes) const {
  return device_->speed().copy + static_cast<double>(bytes) / device_->speed().copy_bytes;
}

Status GpuBackend::allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) {
  if (account == nullptr) return device_->allocate(bytes, out);
  MINNOW_RETURN_IF_ERROR(account->take(bytes));
  std::unique_ptr<Memory> memory;
  const Status status = device_->allocate(bytes, &memory);
  if (!status.ok()) {
    account->give_back(bytes);
    return status;
  }
  *out = std::make_unique<CountedMemory>(std::move(memory), account);
  return ok();
}

std::unique_ptr<DeviceStore> GpuBackend::create_store(const Model& model) {
  return std::make_unique<GpuStore>(*device_, model);
}

std::unique_ptr<Queue> GpuBackend::create_queue(const QueueOptions&) {
  return std::make_unique<GpuQueue>(*device_, device_->create_stream());
}

}  // namespace minnow
