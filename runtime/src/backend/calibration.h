// What a benchmark has measured of this machine, for the choice between schemes.
#pragma once

#include "runtime/src/backend/backend.h"

namespace minnow {

// Once per process: takes the limits of this processor, instruction set and version from minnow/roofline.json in the
// user's cache ($XDG_CACHE_HOME, else ~/.cache), where `mnnconvert benchmark` keeps them. Nothing is measured here;
// without that file, or where the variable MINNOW_CALIBRATION is "off", the defaults stay.
void calibrate_once();

// What a device has been measured to do. 0: not known.
struct DeviceSpeed {
  double flops = 0;       // of matrix products in f32, per second; multiply-adds count twice
  double bytes = 0;       // of its memory that a kernel reads and writes, per second
  double launch = 0;      // seconds that a kernel takes beside its work
  double copy = 0;        // seconds that a copy from or to the host takes beside its bytes
  double copy_bytes = 0;  // of copies, per second

  bool is_known() const { return flops > 0 && bytes > 0 && launch > 0 && copy > 0 && copy_bytes > 0; }
};

// From the same file, for this hardware and version; not known without one, or where it is damaged.
DeviceSpeed kept_speed(const Backend& backend);

// Measures the device, for about so many seconds at the most; compiling its first kernels comes on top.
Status measure_device(Backend& backend, ThreadPool& pool, double seconds, DeviceSpeed* out);

// The one that is kept, or else measured once in this process. Not known where the measurement fails.
DeviceSpeed speed_of(Backend& backend, ThreadPool& pool);

}  // namespace minnow
