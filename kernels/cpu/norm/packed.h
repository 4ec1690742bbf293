// InstanceNorm and GroupNorm of packed f32 tensors.
#pragma once

#include <cstdint>

#include "kernels/core/thread_pool.h"

namespace minnow {

struct PackedNorm {
  int64_t batch, channels, groups;
  int64_t spatial;  // elements of a channel
  double epsilon;

  int64_t workspace_bytes() const;
  // scale and bias have a number per channel, where they are not null. y may be x.
  void run(const float* x, float* y, const float* scale, const float* bias, void* workspace, ThreadPool* pool) const;
};

}  // namespace minnow
