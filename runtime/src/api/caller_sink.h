// Outputs in memory of the caller.
#pragma once

#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

// Results in memory of the caller, which says beforehand of what type they are.
class CallerSink final : public OutputSink {
 public:
  // `device`: in whose memory they lie; 0 is the host's.
  explicit CallerSink(size_t num_outputs, int device = 0) : wanted_(num_outputs, nullptr), device_(device) {}
  void want(size_t output, const Tensor* into) { wanted_[output] = into; }
  bool is_wanted(size_t output) const { return wanted_[output] != nullptr; }
  void* memory(int index, const TensorType& type) override {
    const Tensor& into = *wanted_[static_cast<size_t>(index)];
    if (into.type.dtype == type.dtype && into.type.shape == type.shape) return into.data;
    misfit_ = index;
    found_ = type;
    return nullptr;
  }
  int device(int) const override { return device_; }
  bool is_new(int) const override { return false; }
  bool wants(int index) const override { return is_wanted(static_cast<size_t>(index)); }

  // An error that says which result has another type.
  Status misfit(const std::vector<TensorInfo>& outputs) const {
    if (misfit_ < 0) return ok();
    const auto i = static_cast<size_t>(misfit_);
    const TensorType& given = wanted_[i]->type;
    return fail(Code::kUsage, "output '%s' is %s%s, and the memory for it %s%s", outputs[i].name.c_str(),
                dtype_name(found_.dtype), found_.shape.str().c_str(), dtype_name(given.dtype),
                given.shape.str().c_str());
  }

 private:
  std::vector<const Tensor*> wanted_;
  int device_;
  int misfit_ = -1;
  TensorType found_;
};

}  // namespace minnow
