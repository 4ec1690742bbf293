// The model by which schemes are chosen: how long a computation takes one thread, from what it multiplies, transforms
// and reads from memory.
#pragma once

namespace minnow {

struct Work {
  double products = 0;    // multiply-adds of whole vectors, padding too
  double transforms = 0;  // vectors that go through a transform of tiles, there or back
  double bytes = 0;       // weights that come from memory
};

// What the processor does per second, one thread. The defaults are those of a server core of 2023.
struct Machine {
  double products = 5.1e9;
  double bytes = 14e9;
};

const Machine& machine();
// From what was measured: floating-point operations, and bytes read, per second at the most. To be called before the
// first kernel is put in shape; the choices of a process do not change while it runs.
void calibrate_machine(double flops, double bytes);

double estimate_seconds(const Work& work);

}  // namespace minnow
