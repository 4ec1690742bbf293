// Any GPU as a backend, over what its API gives (kernels/gpu/device.h). Each library of a kind of GPU has this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/device.h"
#include "runtime/src/backend/plugin.h"

namespace minnow {

class GpuBackend final : public Backend {
 public:
  // `name`: "cuda:0".
  GpuBackend(std::string name, std::unique_ptr<gpu::Device> device)
      : name_(std::move(name)), device_(std::move(device)) {}

  std::string name() const override { return name_; }
  std::string kind() const override { return device_->name() + ", driver " + device_->driver(); }
  std::string hardware() const override { return device_->name(); }
  bool is_software() const override { return device_->is_software(); }
  const KernelRow* find(const OpSpec& op) const override;
  const KernelRow* row_for(const OpSpec& op, const NodeContext& node, std::string* why) const override;
  double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const override;
  double copy_seconds(int64_t bytes) const override;
  int64_t bytes(const TensorType& type) const override { return device_->bytes(type); }
  int channel_block() const override { return device_->channel_block(); }
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const override {
    return device_->create_conversion(from, to);
  }
  DType stored(DType type, Precision precision) const override {
    return type == DType::kF32 && precision == Precision::kLow && device_->limits().bytes ? DType::kF16 : type;
  }
  Accelerator* accelerator() override { return device_.get(); }
  Status allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) override;
  Status allocate_result(int64_t bytes, std::unique_ptr<Memory>* out) override {
    return device_->allocate_result(bytes, out);
  }
  std::unique_ptr<DeviceStore> create_store(const Model& model) override;
  std::unique_ptr<Queue> create_queue(const QueueOptions& options) override;

 private:
  // Whether its memory takes such a tensor, as its kernels see it.
  bool holds(const TensorType& type, std::string* why) const;

  const std::string name_;
  const std::unique_ptr<gpu::Device> device_;
};

}  // namespace minnow
