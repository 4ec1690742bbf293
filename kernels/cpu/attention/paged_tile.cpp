#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/attention/paged_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace {

using PagedTag = hn::ScalableTag<float>;
constexpr int kPagedRows = 4;                                                  // that share what is loaded
constexpr int kPagedColumns = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM ? 4 : 2;  // vectors of values at a time
constexpr int64_t kScoreStride = kPagedChunk + 2 * kFloatLanes;  // rows of scores are written in whole vectors

struct PagedSpace {
  float *scores, *key_scales, *value_scales, *keys, *values;
};

HWY_INLINE hn::Vec<PagedTag> Numbers(const float* p) { return hn::LoadU(PagedTag(), p); }
HWY_INLINE hn::Vec<PagedTag> Numbers(const hwy::float16_t* p) {
  const PagedTag d;
#if HWY_TARGET == HWY_SSE4  // has no instruction for it, and Highway's way takes infinity for a number
  const hn::RebindToUnsigned<PagedTag> words;
  const auto h =
      hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint16_t, PagedTag>(), reinterpret_cast<const uint16_t*>(p)));
  const auto top = hn::Set(words, 0x7C00);
  const auto special = hn::VecFromMask(words, hn::Eq(hn::And(h, top), top));
  // The exponent is off by 112; a multiplication corrects it for denormals too.
  const auto size = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(hn::And(h, hn::Set(words, 0x7FFF)))),
                            hn::BitCast(d, hn::Set(words, 0x77800000)));
  const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(words, 0x8000)));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(words, size), sign), hn::And(special, hn::Set(words, 0x7F800000))));
#else
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, PagedTag>(), p));
#endif
}

// out[r][j] = q[r] . k[.][j] for j < n, and for others up to a whole vector.
template <int kRows, typename T>
void ScoreRows(const float* q, int64_t size, const T* k, int64_t stride, int64_t n, float* out) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < n; j += 2 * lanes) {
    hn::Vec<PagedTag> a[kRows], b[kRows];
    for (int r = 0; r < kRows; ++r) a[r] = b[r] = hn::Zero(d);
    const T* at = k + j;
    if (j + lanes < n) {
      for (int64_t i = 0; i < size; ++i, at += stride) {
        const auto k0 = Numbers(at), k1 = Numbers(at + lanes);
        for (int r = 0; r < kRows; ++r) {
          const auto x = hn::Set(d, q[r * size + i]);
          a[r] = hn::MulAdd(x, k0, a[r]);
          b[r] = hn::MulAdd(x, k1, b[r]);
        }
      }
      for (int r = 0; r < kRows; ++r) hn::StoreU(b[r], d, out + r * kScoreStride + j + lanes);
    } else {
      for (int64_t i = 0; i < size; ++i, at += stride) {
        const auto k0 = Numbers(at);
        for (int r = 0; r < kRows; ++r) a[r] = hn::MulAdd(hn::Set(d, q[r * size + i]), k0, a[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(a[r], d, out + r * kScoreStride + j);
  }
}

// sums[r][i] += sum over j of w[r][j] * v[j][i], the j in order.
template <int kRows, typename T>
void WeighRows(const float* w, int64_t n, const T* v, int64_t stride, int64_t width, float* sums) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t state = paged_state_floats(width);
  int64_t i = 0;
  for (; i + kPagedColumns * lanes <= width; i += kPagedColumns * lanes) {
    hn::Vec<PagedTag> y[kRows][kPagedColumns];
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kPagedColumns; ++c) y[r][c] = hn::LoadU(d, sums + r * state + i + c * lanes);
    const T* at = v + i;
    for (int64_t j = 0; j < n; ++j, at += stride) {
      hn::Vec<PagedTag> x[kPagedColumns];
      for (int c = 0; c < kPagedColumns; ++c) x[c] = Numbers(at + c * lanes);
      for (int r = 0; r < kRows; ++r) {
        const auto f = hn::Set(d, w[r * kScoreStride + j]);
        for (int c = 0; c < kPagedColumns; ++c) y[r][c] = hn::MulAdd(f, x[c], y[r][c]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kPagedColumns; ++c) hn::StoreU(y[r][c], d, sums + r * state + i + c * lanes);
  }
  for (; i < width; i += lanes) {  // the last vector may reach beyond the width, in each of the operands
    hn::Vec<PagedTag> y[kRows];
    for (int r = 0; r < kRows; ++r) y[r] = hn::LoadU(d, sums + r * state + i);
    for (int64_t j = 0; j < n; ++j) {
      const auto x = Numbers(v + j * stride + i);
      for (int r = 0; r < kRows; ++r) y[r] = hn::MulAdd(hn::Set(d, w[r * kScoreStride + j]), x, y[r]);
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(y[r], d, sums + r * state + i);
  }
}

// Calls body(rows) with 4, 3, 2 or 1 as a constant.
template <class Body>
HWY_INLINE void WithRows(int64_t rows, const Body& body) {
  switch (rows) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    default:
      return body(std::integral_constant<int, 4>());
  }
}

// Scores become weights, e^(score - the largest of them); gives that and their sum. `distance`: of the first key from
// the query.
void Soften(const PagedTile& t, float slope, int64_t distance, const float* key_scales, const float* value_scales,
            int64_t n, float* x, float* most, float* sum) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -__builtin_inff()), cap = hn::Set(d, t.soft_cap), rise = hn::Set(d, slope);
  const auto inverse = hn::Set(d, t.soft_cap > 0 ? 1 / t.soft_cap : 0);
  auto top = lowest;
  for (int64_t i = 0; i < n; i += lanes) {
    auto s = hn::LoadU(d, x + i);
    if (key_scales != nullptr) s = hn::Mul(s, hn::LoadU(d, key_scales + i));
    if (t.soft_cap > 0) s = hn::Mul(cap, Tanh(d, hn::Mul(s, inverse)));
    if (slope != 0) s = hn::MulAdd(rise, hn::Iota(d, static_cast<float>(distance + i)), s);
    if (i + lanes > n) s = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - i)), s, lowest);
    hn::StoreU(s, d, x + i);
    top = hn::Max(top, s);  // NaN may get lost here; it comes back with the exponentials
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, top));
  const auto shift = hn::Set(d, largest == -__builtin_inff() ? 0 : largest);
  auto total = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes) {
    auto e = ExpOfNegative(d, hn::Sub(hn::LoadU(d, x + i), shift));
    total = hn::Add(total, e);
    if (value_scales != nullptr) e = hn::Mul(e, hn::LoadU(d, value_scales + i));
    hn::StoreU(e, d, x + i);
  }
  *most = largest;
  *sum = hn::GetLane(hn::SumOfLanes(d, total));
}

// Numbers of the cache as f32.
void Widen(DType from, const void* in, int64_t n, float* out) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = from == DType::kF32 ? 0 : n / lanes * lanes;
  if (from == DType::kF16) {
    const auto* numbers = static_cast<const hwy::float16_t*>(in);
    for (int64_t i = 0; i < whole; i += lanes) hn::StoreU(Numbers(numbers + i), d, out + i);
  } else if (from == DType::kI8) {
    const hn::RebindToSigned<PagedTag> words;
    const hn::Rebind<int8_t, PagedTag> bytes;
    const auto* numbers = static_cast<const int8_t*>(in);
    for (int64_t i = 0; i < whole; i += lanes)
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, numbers + i))), d, out + i);
  }
  if (whole < n) convert(from, offset(in, whole, dtype_size(from)), DType::kF32, out + whole, n - whole);
}

// The keys of some slots of a block as f32 [size][slots], with `stride` between rows.
const float* UnpackKeys(const PagedTile& t, int64_t place, int64_t slot, int64_t n, float* space, int64_t* stride) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(PagedTag()));
  const size_t bytes = dtype_size(t.dtype);
  const char* keys = offset(t.keys, place * t.key_stride, bytes);
  *stride = t.block;
  if (t.dtype == DType::kF32 && slot + (n + lanes - 1) / lanes * lanes <= t.block)
    return reinterpret_cast<const float*>(keys) + slot;
  if (t.block % lanes == 0 && t.block <= kPagedChunk) {
    Widen(t.dtype, keys, t.size * t.block, space);
    return space + slot;
  }
  *stride = (n + lanes - 1) / lanes * lanes;
  for (int64_t i = 0; i < t.size; ++i) Widen(t.dtype, offset(keys, i * t.block + slot, bytes), n, space + i * *stride);
  return space;
}

const float* UnpackValues(const PagedTile& t, int64_t place, int64_t slot, int64_t n, int64_t row, float* space) {
  const char* values = offset(t.values, place * t.value_stride + slot * row, dtype_size(t.dtype));
  const auto lanes = static_cast<int64_t>(hn::Lanes(PagedTag()));
  if (t.dtype == DType::kF32 && row % lanes == 0) return reinterpret_cast<const float*>(values);
  Widen(t.dtype, values, n * row, space);
  return space;
}

// The scales of some slots, which lie behind the numbers.
void CopyScales(const PagedTile& t, int64_t place, int64_t slot, int64_t n, float* keys, float* values) {
  const char* key = offset(t.keys, place * t.key_stride + t.size * t.block, 1);
  const char* value = offset(t.values, place * t.value_stride + t.width, 1);
  const auto row = t.width + static_cast<int64_t>(sizeof(float));
  std::memcpy(keys, key + slot * static_cast<int64_t>(sizeof(float)), static_cast<size_t>(n) * sizeof(float));
  for (int64_t j = 0; j < n; ++j) std::memcpy(values + j, value + (slot + j) * row, sizeof(float));
}

// Asks for what is soon read, since each block lies elsewhere: the values of a block, and the keys of the one behind
// it.
void Expect(const PagedTile& t, int64_t place, int64_t next) {
  const auto bytes = static_cast<int64_t>(dtype_size(t.dtype));
  const auto ask = [&](const void* cache, int64_t at, int64_t n) {
    const char* memory = static_cast<const char*>(cache) + at * bytes;
    for (int64_t i = 0; i < n * bytes; i += 64) __builtin_prefetch(memory + i, 0, 2);
  };
  ask(t.values, place * t.value_stride, t.block * t.width);
  if (next >= 0) ask(t.keys, next * t.key_stride, t.block * t.size);
}

PagedSpace PlaceIn(const PagedTile& t, float* space) {
  PagedSpace s{};
  s.scores = space;
  s.key_scales = s.scores + t.rows() * kScoreStride;
  s.value_scales = s.key_scales + kScoreStride;
  s.keys = s.value_scales + kScoreStride;
  s.values = s.keys + t.size * (std::min(t.block, kPagedChunk) + 2 * kFloatLanes) + 2 * kFloatLanes;
  return s;
}

}  // namespace

// The state of each row after the keys of one chunk alone. q: rows of queries, already scaled.
void paged_chunk(const PagedTile& t, const float* q, int64_t chunk, float* space, float* state) {
  const PagedSpace s = PlaceIn(t, space);
  const int64_t rows = t.rows(), floats = paged_state_floats(t.width);
  const int64_t begin = std::max(chunk * kPagedChunk, t.first()), end = std::min((chunk + 1) * kPagedChunk, t.end());
  const int64_t at = floats - 2;  // of the largest score, and the sum
  const bool scaled = t.dtype == DType::kI8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(PagedTag()));
  const bool few = t.dtype == DType::kF16 && rows <= kPagedRows;  // not worth being widened beforehand
  const int64_t value_row = t.width + (scaled ? static_cast<int64_t>(sizeof(float)) : 0);
  const auto each_block = [&](const auto& body) HWY_ATTR {
    for (int64_t at = begin, n = 0; at < end; at += n) {
      const int64_t slot = at % t.block;
      n = std::min(t.block - slot, end - at);
      body(t.table[at / t.block], slot, at, n);
    }
  };
  const auto low = [&](int64_t row) {
    return t.window == 0 ? begin : std::max(begin, t.position + row / t.group - t.window + 1);
  };
  const auto high = [&](int64_t row) { return std::min(end, t.position + row / t.group + 1); };
  each_block([&](int64_t place, int64_t slot, int64_t at, int64_t n) HWY_ATTR {
    int64_t stride = 0;
    if (slot == 0 && t.block <= kPagedChunk) Expect(t, place, at + n < t.end() ? t.table[(at + n) / t.block] : -1);
    const auto score = [&](const auto* k) HWY_ATTR {
      for (int64_t r = 0; r < rows; r += kPagedRows)
        WithRows(rows - r, [&](auto count) HWY_ATTR {
          ScoreRows<count()>(q + r * t.size, t.size, k, stride, n, s.scores + r * kScoreStride + (at - begin));
        });
    };
    if (scaled) CopyScales(t, place, slot, n, s.key_scales + (at - begin), s.value_scales + (at - begin));
    if (few && slot + (n + lanes - 1) / lanes * lanes <= t.block) {
      stride = t.block;
      return score(static_cast<const hwy::float16_t*>(t.keys) + place * t.key_stride + slot);
    }
    score(UnpackKeys(t, place, slot, n, s.keys, &stride));
  });
  for (int64_t r = 0; r < rows; ++r) {
    float* own = state + r * floats;
    std::fill_n(own, at, 0.0f);
    own[at] = -__builtin_inff();
    own[at + 1] = 0;
    const int64_t first = low(r) - begin, n = high(r) - low(r);
    if (n <= 0) continue;
    Soften(t, t.slopes == nullptr ? 0 : t.slopes[r % t.group], low(r) - t.position - r / t.group,
           scaled ? s.key_scales + first : nullptr, scaled ? s.value_scales + first : nullptr, n,
           s.scores + r * kScoreStride + first, own + at, own + at + 1);
  }
  each_block([&](int64_t place, int64_t slot, int64_t at, int64_t n) HWY_ATTR {
    const auto look = [&](const auto* v) HWY_ATTR {
      const auto weigh = [&](int64_t row, auto count, int64_t from, int64_t to) HWY_ATTR {
        from = std::max(from, at), to = std::min(to, at + n);
        if (from < to)
          WeighRows<count()>(s.scores + row * kScoreStride + (from - begin), to - from, v + (from - at) * value_row,
                             value_row, t.width, state + row * floats);
      };
      for (int64_t r = 0; r < rows; r += kPagedRows)
        WithRows(rows - r, [&](auto count) HWY_ATTR {
          // What all of these rows see, and what one of them does: a value that is no finite number changes no other
          // row.
          const std::integral_constant<int, 1> one;
          const int64_t last = r + count() - 1, from = low(last), to = std::max(from, high(r));
          for (int64_t i = r; i <= last; ++i) weigh(i, one, low(i), std::min(from, high(i)));
          weigh(r, count, from, to);
          for (int64_t i = r; i <= last; ++i) weigh(i, one, std::max(low(i), to), high(i));
        });
    };
    if (few && t.width % lanes == 0)
      return look(static_cast<const hwy::float16_t*>(t.values) + place * t.value_stride + slot * value_row);
    look(UnpackValues(t, place, slot, n, value_row, s.values));
  });
}

// What two states are together; `from` comes behind `to`.
void merge_states(const float* from, int64_t rows, int64_t width, float* to) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t floats = paged_state_floats(width), most_at = floats - 2;
  for (int64_t r = 0; r < rows; ++r, from += floats, to += floats) {
    const float most = std::max(from[most_at], to[most_at]);
    const float shift[2] = {to[most_at] - most, from[most_at] - most};
    const auto a = ExpOfNegative(d, hn::Set(d, shift[0])), b = ExpOfNegative(d, hn::Set(d, shift[1]));
    to[most_at + 1] = hn::GetLane(a) * to[most_at + 1] + hn::GetLane(b) * from[most_at + 1];
    to[most_at] = most;
    for (int64_t i = 0; i < width; i += lanes)
      hn::StoreU(hn::MulAdd(b, hn::LoadU(d, from + i), hn::Mul(a, hn::LoadU(d, to + i))), d, to + i);
  }
}

// y = the sums divided by those of the weights, and of the sinks.
void finish_states(const PagedTile& t, const float* state, float* y, int64_t y_stride) {
  const PagedTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t floats = paged_state_floats(t.width), at = floats - 2;
  for (int64_t r = 0; r < t.rows(); ++r, state += floats) {
    float factor = 1, total = state[at + 1];
    if (t.sinks != nullptr) {
      const float sink = t.sinks[r % t.group], most = std::max(state[at], sink);
      factor = hn::GetLane(ExpOfNegative(d, hn::Set(d, state[at] - most)));
      total = factor * total + hn::GetLane(ExpOfNegative(d, hn::Set(d, sink - most)));
    }
    const auto f = hn::Set(d, factor / total);
    float* out = y + r / t.group * y_stride + r % t.group * t.width;
    int64_t i = 0;
    for (; i + lanes <= t.width; i += lanes) hn::StoreU(hn::Mul(f, hn::LoadU(d, state + i)), d, out + i);
    for (; i < t.width; ++i) out[i] = factor / total * state[i];
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(paged_chunk);
HWY_EXPORT(merge_states);
HWY_EXPORT(finish_states);

int64_t paged_space_floats(int64_t rows, int64_t block, int64_t size, int64_t width) {
  constexpr int64_t kPad = 32;  // two vectors
  const int64_t slots = std::min(block, kPagedChunk) + kPad;
  return (rows + 2) * (kPagedChunk + kPad) + size * slots + kPad + slots * (width + 4) + kPad + rows * size +
         rows * paged_state_floats(width);
}

void attend(const PagedTile& t, int64_t first_chunk, int64_t chunks, float* space, float* state) {
  const int64_t rows = t.rows();
  float *q = space, *more = q + rows * t.size;
  space = more + rows * paged_state_floats(t.width);
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = t.q + r / t.group * t.q_stride + r % t.group * t.size;
    for (int64_t i = 0; i < t.size; ++i) q[r * t.size + i] = t.scale * from[i];
  }
  for (int64_t c = 0; c < chunks; ++c) {
    HWY_DYNAMIC_DISPATCH(paged_chunk)(t, q, first_chunk + c, space, c == 0 ? state : more);
    if (c > 0) HWY_DYNAMIC_DISPATCH(merge_states)(more, rows, t.width, state);
  }
}

void merge_paged_states(const float* from, int64_t rows, int64_t width, float* to) {
  HWY_DYNAMIC_DISPATCH(merge_states)(from, rows, width, to);
}

void finish_paged_states(const PagedTile& t, const float* state, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(finish_states)(t, state, y, y_stride);
}

}  // namespace minnow
#endif  // HWY_ONCE
