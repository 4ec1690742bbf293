// Loads, plans and runs a model through the C API, within small limits. Prints nothing, checks nothing: the sanitizers
// do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "minnow/minnow.h"

namespace minnow::fuzz {

constexpr int64_t kMostMemory = int64_t{32} << 20, kMostRounds = 300, kMostMilliseconds = 2000;

// MINNOW_FUZZ_PRECISION: high (the default), normal or low.
minnow_options small_options();

// Runs it with inputs of 1 to 3 in each open dimension, twice, and then a part of it. `seed` decides on the numbers.
void run_session(minnow_session* session, uint32_t seed);
// Frees the model.
void run_model(minnow_model* model, uint32_t seed);

}  // namespace minnow::fuzz
