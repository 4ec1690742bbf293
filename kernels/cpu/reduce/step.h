// Steps of reductions in doubles and in 64-bit integers, which wrap around: what one more element does to an
// accumulator.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace minnow {

struct AddStep {
  template <typename T>
  void operator()(T& total, T x) const {
    if constexpr (std::is_integral_v<T>) {
      total = static_cast<T>(static_cast<uint64_t>(total) + static_cast<uint64_t>(x));
    } else {
      total += x;
    }
  }
};
struct MulStep {
  template <typename T>
  void operator()(T& total, T x) const {
    if constexpr (std::is_integral_v<T>) {
      total = static_cast<T>(static_cast<uint64_t>(total) * static_cast<uint64_t>(x));
    } else {
      total *= x;
    }
  }
};
struct MaxStep {
  template <typename T>
  void operator()(T& most, T x) const {
    if (x > most || x != x) most = x;
  }
};
struct MinStep {
  template <typename T>
  void operator()(T& least, T x) const {
    if (x < least || x != x) least = x;
  }
};
struct AbsStep {
  template <typename T>
  void operator()(T& total, T x) const {
    // The least integer has no opposite, but the sum wraps around to what it would be.
    if constexpr (std::is_integral_v<T>) {
      const uint64_t bits = static_cast<uint64_t>(x);
      AddStep()(total, static_cast<T>(x < 0 ? 0 - bits : bits));
    } else {
      total += std::fabs(x);
    }
  }
};
struct SquareStep {
  template <typename T>
  void operator()(T& total, T x) const {
    T square = x;
    MulStep()(square, x);
    AddStep()(total, square);
  }
};
// The logarithm of a sum of exponentials, as the greatest x so far and the sum of exp(x - greatest).
struct LogSumExp {
  double greatest, sum;
};
struct LogSumExpStep {
  void operator()(LogSumExp& total, double x) const {
    if (x == total.greatest) {
      total.sum += 1;
    } else if (x < total.greatest) {
      total.sum += std::exp(x - total.greatest);
    } else {
      total.sum = total.sum * std::exp(total.greatest - x) + 1;
      total.greatest = x;
    }
  }
};

}  // namespace minnow
