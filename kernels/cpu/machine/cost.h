// The model by which schemes are chosen: how long a computation takes one thread, from what it multiplies, transforms
// and reads from memory.
#pragma once

#include <cstdint>

namespace minnow {

struct Work {
  double products = 0;    // multiply-adds of whole vectors, padding too
  double transforms = 0;  // vectors that go through a transform of tiles, there or back
  double bytes = 0;       // weights that come from memory
};

// From what was measured: floating-point operations, and bytes read, per second at the most. To be called before the
// first kernel is put in shape; the choices of a process do not change while it runs.
void calibrate_machine(double flops, double bytes);

double estimate_seconds(const Work& work);

// Of a product with so many numbers in the matrix that is constant.
double estimate_product(int64_t macs, int64_t weights);

// Of loops that are cut into pieces of `grain` where that is worth a thread.
inline double estimate_seconds(int64_t n, int64_t grain) {
  constexpr double kPiece = 4e-6;
  return static_cast<double>(n) / static_cast<double>(grain) * kPiece;
}

}  // namespace minnow
