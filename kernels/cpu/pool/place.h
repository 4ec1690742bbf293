// Where a pooling window lies along one axis.
#pragma once

#include <cstdint>

namespace minnow {

struct PoolPlace {
  int64_t first;    // input position of the first tap inside the input
  int64_t taps;     // inside the input
  int64_t counted;  // that the mean is over
};

}  // namespace minnow
