// Steps of reductions in doubles and in 64-bit integers, which wrap around: what one more element does to an
// accumulator.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/core/tensor.h"
#include "kernels/cpu/convert/blocks.h"

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

// Takes `rows` rows of `columns` elements, `stride` apart, into one accumulator per column.
using AccumulateFunction = void (*)(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc);

template <typename T, typename Acc, typename Step>
void accumulate(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  const T* x = static_cast<const T*>(in);
  Acc* total = static_cast<Acc*>(acc);
  const Step step;
  if (columns == 1) {
    Acc one = *total;
    constexpr bool is_common = std::is_same_v<T, int64_t> && std::is_same_v<Step, AddStep>;  // worth a vector loop
    if (is_common && stride == 1) {
      for (int64_t r = 0; r < rows; ++r) step(one, x[r]);
      rows = 0;
    }
    for (int64_t r = 0; r < rows; ++r) {
      keep_scalar();
      step(one, x[r * stride]);
    }
    *total = one;
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      keep_scalar();
      step(total[c], x[r * stride + c]);
    }
  }
}

// The least and greatest number of an integer type or bool, as the bits of a 64-bit one.
inline int64_t integer_limit(DType t, bool highest) {
  const int bits = static_cast<int>(8 * dtype_size(t));
  switch (t) {
    case DType::kBool:
      return highest;
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return highest ? static_cast<int64_t>(~uint64_t{0} >> (64 - bits)) : 0;
    default:
      return highest ? std::numeric_limits<int64_t>::max() >> (64 - bits)
                     : std::numeric_limits<int64_t>::min() >> (64 - bits);
  }
}

}  // namespace minnow
