// Division and rounding upwards, of numbers that are not negative.
#pragma once

#include <cstdint>

namespace minnow {

constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

}  // namespace minnow
