#include "kernels/cpu/norm/packed.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Over n vectors of a block of channels: the sums of x - shift, and of its square, for each channel. They are doubles
// across short runs of floats.
void SumBlock(const float* x, int64_t n, const float* shift, double* sum, double* square_sum) {
  constexpr int64_t kTogether = 256;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto minus = hn::LoadU(d, shift);
  for (int64_t i = 0; i < lanes; ++i) sum[i] = square_sum[i] = 0;
  for (int64_t i = 0; i < n;) {
    auto s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
    const int64_t end = HWY_MIN(n, i + kTogether);
    for (; i + 2 <= end; i += 2) {
      const auto v0 = hn::Sub(hn::LoadU(d, x + i * lanes), minus);
      const auto v1 = hn::Sub(hn::LoadU(d, x + (i + 1) * lanes), minus);
      s0 = hn::Add(s0, v0);
      s1 = hn::Add(s1, v1);
      q0 = hn::MulAdd(v0, v0, q0);
      q1 = hn::MulAdd(v1, v1, q1);
    }
    if (i < end) {
      const auto v = hn::Sub(hn::LoadU(d, x + i * lanes), minus);
      s0 = hn::Add(s0, v);
      q0 = hn::MulAdd(v, v, q0);
      ++i;
    }
    HWY_ALIGN float lane[2][hn::MaxLanes(d)];
    hn::Store(hn::Add(s0, s1), d, lane[0]);
    hn::Store(hn::Add(q0, q1), d, lane[1]);
    for (int64_t k = 0; k < lanes; ++k) {
      sum[k] += lane[0][k];
      square_sum[k] += lane[1][k];
    }
  }
}

// y = (x - mean) * factor + shift, with numbers per channel.
void ApplyBlock(const float* x, float* y, int64_t n, const float* mean, const float* factor, const float* shift) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::LoadU(d, mean), f = hn::LoadU(d, factor), s = hn::LoadU(d, shift);
  for (int64_t i = 0; i < n * lanes; i += lanes)
    hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), f, s), d, y + i);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace minnow {

HWY_EXPORT(SumBlock);
HWY_EXPORT(ApplyBlock);

int64_t PackedNorm::workspace_bytes() const {
  const int64_t pack = pack_width();
  return batch * ((channels + pack - 1) / pack) * pack * static_cast<int64_t>(2 * sizeof(double) + 3 * sizeof(float));
}

void PackedNorm::run(const float* x, float* y, const float* scale, const float* bias, void* workspace,
                     ThreadPool* pool) const {
  const int64_t pack = pack_width();
  const int64_t blocks = (channels + pack - 1) / pack, lanes = batch * blocks * pack;
  double* mean = static_cast<double*>(workspace);  // of each channel, and the sum of its squared deviations
  double* deviation = mean + lanes;
  float* minus = reinterpret_cast<float*>(deviation + lanes);
  float *factor = minus + lanes, *shift = factor + lanes;
  const double n = static_cast<double>(spatial);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, spatial * pack));

  pool->parallel_for(batch * blocks, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      double *sum = mean + b * pack, *squares = deviation + b * pack;
      float* rough = minus + b * pack;
      const float* from = x + b * spatial * pack;
      // First the mean as a float, then what is missing from it: see Moments in norm.cpp.
      std::fill_n(rough, pack, 0.0f);
      HWY_DYNAMIC_DISPATCH(SumBlock)(from, spatial, rough, sum, squares);
      for (int64_t c = 0; c < pack; ++c) rough[c] = static_cast<float>(sum[c] / n);
      HWY_DYNAMIC_DISPATCH(SumBlock)(from, spatial, rough, sum, squares);
      for (int64_t c = 0; c < pack; ++c) {
        const double rest = sum[c] / n;
        squares[c] -= n * rest * rest;
        sum[c] = rough[c] + rest;
      }
    }
  });

  const int64_t own = channels / groups;
  std::fill_n(minus, 3 * lanes, 0.0f);
  for (int64_t g = 0; g < batch * groups; ++g) {
    const int64_t first_channel = g % groups * own;
    const int64_t first = g / groups * blocks * pack + first_channel;
    double average = 0, squares = 0;
    for (int64_t c = first; c < first + own; ++c) average += mean[c];
    average /= static_cast<double>(own);
    for (int64_t c = first; c < first + own; ++c)
      squares += deviation[c] + n * (mean[c] - average) * (mean[c] - average);
    const double scaling = 1 / std::sqrt(squares / (n * static_cast<double>(own)) + epsilon);
    for (int64_t c = 0; c < own; ++c) {
      const double all = scaling * (scale != nullptr ? scale[first_channel + c] : 1);
      const double add = bias != nullptr ? bias[first_channel + c] : 0;
      minus[first + c] = static_cast<float>(average);
      factor[first + c] = static_cast<float>(all);
      shift[first + c] = static_cast<float>(add - (average - minus[first + c]) * all);
    }
  }

  pool->parallel_for(batch * blocks, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) HWY_DYNAMIC_DISPATCH(ApplyBlock)
    (x + b * spatial * pack, y + b * spatial * pack, spatial, minus + b * pack, factor + b * pack, shift + b * pack);
  });
}

}  // namespace minnow
#endif  // HWY_ONCE
