// What a benchmark has measured of this machine, for the choice between schemes.
#pragma once

namespace minnow {

// Once per process: takes the limits of this processor, instruction set and version from minnow/roofline.json in the
// user's cache ($XDG_CACHE_HOME, else ~/.cache), where `mnnconvert benchmark` keeps them. Nothing is measured here;
// without that file, or where the variable MINNOW_CALIBRATION is "off", the defaults stay.
void calibrate_once();

}  // namespace minnow
