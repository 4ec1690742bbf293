// The model by which schemes are chosen: how long a computation takes one thread, from what it multiplies, transforms
// and reads from memory.
#pragma once

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

}  // namespace minnow
