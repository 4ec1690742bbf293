// What the kernels of Resize on GPUs share.
#pragma once

#include <array>

#include "kernels/core/resize_axis.h"
#include "kernels/gpu/device.h"

namespace minnow::gpu {

bool supports_resize(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_resize(const NodeContext& node);

// All axes of a node that supports_resize() admits, at its reshape().
Status resize_axes(const NodeContext& node, const ResizeSettings& settings, std::array<ResizeAxis, kMaxRank>* axes);
// One of them as a table: without weights for kNearest, with -1 for what is outside.
ResizeTable resize_table(const ResizeSettings& settings, const ResizeAxis& axis);

}  // namespace minnow::gpu
