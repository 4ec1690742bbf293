#include "kernels/cpu/machine/cost.h"

#include "kernels/core/tensor.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// Schemes reach this share of what a loop without any cache misses does.
constexpr double kShareOfPeak = 0.88;
// Products that take as long as the share of one vector in a transform: additions, and stores far apart.
constexpr double kProductsPerTransform = 16;

// What the processor does per second, one thread. The defaults are those of a server core of 2023.
struct {
  double products = 5.1e9;
  double bytes = 14e9;
} current;

}  // namespace

void calibrate_machine(double flops, double bytes) {
  current.products = kShareOfPeak * flops / (2.0 * pack_width());
  current.bytes = bytes;
}

double estimate_seconds(const Work& work) {
  return (work.products + kProductsPerTransform * work.transforms) / current.products + work.bytes / current.bytes;
}

double estimate_product(int64_t macs, int64_t weights) {
  return estimate_seconds(
      {static_cast<double>(macs) / static_cast<double>(pack_width()), 0, 4 * static_cast<double>(weights)});
}

}  // namespace minnow
