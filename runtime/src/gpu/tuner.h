// Finds the fastest of the ways in which the kernels of a plan can be computed, by trying them on the device.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/device.h"
#include "runtime/src/backend/backend.h"

namespace minnow {

// Of a session: it has a number of seconds for all of its plans (MINNOW_TUNING).
class Tuner {
 public:
  Tuner(gpu::Device& device, gpu::Stream& stream);

  // See Queue::tune().
  Status tune(std::vector<Tunable>* steps);
  static void choose(Kernel& kernel, int scheme) { static_cast<gpu::GpuKernel&>(kernel).choose(scheme); }

 private:
  // Steps that are alike: one of them is timed.
  struct Group {
    std::vector<size_t> steps;
    std::vector<double> seconds;  // by scheme, timed alone
    std::vector<int> best;        // schemes, fastest first
  };

  bool has_time(double share = 1) const;
  Status time_alone(const Tunable& step, Group* group);
  Status time_all(const std::vector<Tunable>& steps, double* seconds);
  Status choose_among(std::vector<Tunable>& steps, std::vector<Group>& groups);
  static void choose(std::vector<Tunable>& steps, const Group& group, int scheme);

  gpu::Device& device_;
  gpu::Stream& stream_;
  double left_;  // seconds
  std::chrono::steady_clock::time_point start_;
};

}  // namespace minnow
