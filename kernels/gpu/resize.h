// What the kernels of Resize on GPUs share.
#pragma once

#include <array>

#include "kernels/core/resize_axis.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {

bool supports_resize(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_resize(const NodeContext& node);

// All axes of a node that supports_resize() admits, at its reshape().
Status resize_axes(const NodeContext& node, const ResizeSettings& settings, std::array<ResizeAxis, kMaxRank>* axes);
// One of them as a table: without weights for kNearest, with -1 for what is outside.
ResizeTable resize_table(const ResizeSettings& settings, const ResizeAxis& axis);

// That table in the device's memory; kNearest has no weights there.
struct UploadedAxis {
  int64_t in = 1, out = 1;
  int taps = 1;
  Uploaded index, weight;

  Status make(Device& device, const ResizeSettings& settings, const ResizeAxis& axis);
};

// What resizes images with channels last, where a device has a kernel for it. The portable kernel computes plain
// tensors, and what changes the axes of images and channels, with conversions before and behind it.
class ResizeLastKernel : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) final;
  Status enqueue(const RunContext& context, Stream& stream) final;
  Profile profile() const final;

 protected:
  // At the end of reshape(), which has set what is below. Neither is called for results without elements.
  virtual Status prepare(const NodeContext& node) = 0;
  virtual Status resize(const RunContext& context, Stream& stream) const = 0;

  bool blends_ = false;  // whether tables have weights
  DType dtype_ = DType::kF16;
  int64_t images_ = 0, channels_ = 0;  // of the memory
  UploadedAxis rows_, columns_;
  float outside_ = 0;

 private:
  Status plan_portable(const NodeContext& node, int64_t* workspace);
  Status enqueue_portable(const RunContext& context, Stream& stream);

  bool is_empty_ = false;
  std::unique_ptr<GpuKernel> portable_;
  std::unique_ptr<Kernel> before_, behind_;
  TensorType x_, y_;  // plain
  bool converts_ = false;
};

// Whether a ResizeLastKernel is for this node.
bool supports_resize_last(const NodeContext& node, std::string* why);

}  // namespace minnow::gpu
