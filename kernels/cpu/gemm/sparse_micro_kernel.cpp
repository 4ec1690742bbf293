#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

#include "kernels/cpu/gemm/sparse_micro_kernel.h"
#include "kernels/cpu/elementwise/math-inl.h"

#include <array>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32 registers: 24 sums, 6 vectors of pixels and a weight; 16 registers: 12 sums, 3 vectors and a weight.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kSparse1 = 12, kSparse4 = 6;
#else
constexpr int kSparse1 = 6, kSparse4 = 3;
#endif

template <int NB, int P>
void sparse_tile(const SparseTile& t) {
  using DF = hn::ScalableTag<float>;
  using VF = hn::Vec<DF>;
  const DF d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
  VF sum[NB][P];
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b)
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) sum[b][p] = hn::Set(d, t.bias[b]);
  const uint32_t* HWY_RESTRICT offset = t.offsets;
  const float* HWY_RESTRICT w = t.w;
  for (const uint32_t* end = offset + t.count; offset != end; ++offset, w += NB) {
    const float* x = t.x + *offset;
    VF v[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) v[p] = hn::LoadU(d, x + p * kLanes);
#pragma GCC unroll 4
    for (int b = 0; b < NB; ++b) {
      const VF weight = hn::Set(d, w[b]);
#pragma GCC unroll 12
      for (int p = 0; p < P; ++p) sum[b][p] = hn::MulAdd(v[p], weight, sum[b][p]);
    }
  }
  const VF low = hn::Set(d, t.low), high = hn::Set(d, t.high);
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b)
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p)
      hn::StoreU(AtMost(high, AtLeast(low, sum[b][p])), d, t.out + b * t.out_stride + p * kLanes);
}

template <int NB, size_t... I>
SparseTileFunction pick_of_block(int vectors, std::index_sequence<I...>) {
  static constexpr std::array<SparseTileFunction, sizeof...(I)> kTable = {sparse_tile<NB, static_cast<int>(I) + 1>...};
  return kTable[static_cast<size_t>(vectors - 1)];
}

SparseTileFunction pick_sparse_tile(int block, int vectors) {
  return block == 4 ? pick_of_block<4>(vectors, std::make_index_sequence<kSparse4>())
                    : pick_of_block<1>(vectors, std::make_index_sequence<kSparse1>());
}

int most_sparse_vectors(int block) { return block == 4 ? kSparse4 : kSparse1; }

// Only what is not finite leaves something of its product with 0.
bool finite_floats(const float* x, int64_t n) {
  using DF = hn::ScalableTag<float>;
  const DF d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
  const auto zero = hn::Zero(d);
  auto even = zero, odd = zero;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::MulAdd(hn::LoadU(d, x + i), zero, even);
    odd = hn::MulAdd(hn::LoadU(d, x + i + kLanes), zero, odd);
  }
  for (; i < n; i += kLanes) even = hn::MulAdd(LoadPart(d, x + i, n - i < kLanes ? n - i : kLanes), zero, even);
  return hn::AllTrue(d, hn::Eq(hn::Add(even, odd), zero));
}

void add_clamped_floats(const float* x, int64_t n, float least, float most, float* y) {
  using DF = hn::ScalableTag<float>;
  const DF d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
  const auto low = hn::Set(d, least), high = hn::Set(d, most);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(AtMost(high, AtLeast(low, hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, x + i)))), d, y + i);
  if (i < n) {
    const auto v = hn::Add(LoadPart(d, y + i, n - i), LoadPart(d, x + i, n - i));
    StorePart(d, AtMost(high, AtLeast(low, v)), y + i, n - i);
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(pick_sparse_tile);
HWY_EXPORT(most_sparse_vectors);
HWY_EXPORT(finite_floats);
HWY_EXPORT(add_clamped_floats);

int sparse_vectors(int block) { return HWY_DYNAMIC_DISPATCH(most_sparse_vectors)(block); }
SparseTileFunction sparse_tile_function(int block, int vectors) {
  return HWY_DYNAMIC_DISPATCH(pick_sparse_tile)(block, vectors);
}
bool all_finite(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(finite_floats)(x, n); }
void add_clamped(const float* x, int64_t n, float low, float high, float* y) {
  HWY_DYNAMIC_DISPATCH(add_clamped_floats)(x, n, low, high, y);
}

}  // namespace minnow
#endif
