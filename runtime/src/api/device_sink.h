// Outputs in the memory of a session's first device beside the CPU.
#pragma once

#include <memory>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class DeviceSink final : public OutputSink {
 public:
  DeviceSink(const Devices& devices, size_t n) : devices_(devices), memory_(n), tensors_(n) {}

  // An error where the session has no such device, or its memory has no addresses that others know.
  static Status can_be_used(const Devices& devices) {
    if (devices.size() > 1 && devices[1].queue->gives_addresses()) return ok();
    return fail(Code::kUsage, "outputs can be given in the memory of a CUDA device only; the session runs on %s",
                devices[devices.size() > 1 ? 1 : 0].backend->name().c_str());
  }
  int device(int) const override { return 1; }
  void* memory(int index, const TensorType& type) override {
    const auto i = static_cast<size_t>(index);
    if (memory_[i] == nullptr || memory_[i]->bytes() < type.bytes()) {
      memory_[i] = nullptr;
      if (!devices_[1].backend->allocate_result(type.bytes(), &memory_[i]).ok()) return nullptr;
    }
    tensors_[i] = Tensor{type, memory_[i]->data()};
    return tensors_[i].data;
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::unique_ptr<Memory> take(size_t i) { return std::move(memory_[i]); }

 private:
  const Devices& devices_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<Tensor> tensors_;
};

}  // namespace minnow
