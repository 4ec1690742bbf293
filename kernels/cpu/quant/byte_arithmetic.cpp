// The op ByteArithmetic, which the planner makes of the sum or product of two tensors of bytes and what stands around
// it: each is a number (byte - zero) * scale, and the result is quantized again. All is rounded as by the nodes in
// whose place it stands, so that the bytes are the same. A product may also be requantized by whole numbers.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <cstring>

#include "kernels/cpu/quant/byte_arithmetic.h"

// Older processors get less code.
#undef MINNOW_UNROLL
#if HWY_TARGET != HWY_SSE4
#define MINNOW_UNROLL _Pragma("GCC unroll 4")
#else
#define MINNOW_UNROLL _Pragma("GCC unroll 1")
#endif

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kSimple: sums of unsigned bytes that count from 0, by a step of 1: no branch for each vector.
template <bool kSimple>
HWY_INLINE void row_of_bytes(const ByteNumbers& p, const void* const* in, const int* step, void* out, int64_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Repartition<int16_t, decltype(d)> d16;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  using V8 = hn::Vec<decltype(d8)>;
  constexpr int kParts = 4;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), all = kParts * lanes;
  const V zero[2] = {hn::Set(d, p.zero[0]), hn::Set(d, p.zero[1])};
  const V scale[2] = {hn::Set(d, p.scale[0]), hn::Set(d, p.scale[1])}, shift = hn::Set(d, p.shift);
  const V factor = hn::Set(d, p.factor), more = hn::Set(d, p.more);
  const V reciprocal = hn::Set(d, 1.0f / p.step), divisor = hn::Set(d, p.step), sure = hn::Set(d, p.sure);
  const V bottom = hn::Set(d, p.least), top = hn::Set(d, p.least + 255);
  const V magic = hn::Set(d, 0x1.8p23f);  // adding it rounds to an integer, in the lower bits
  const auto none = hn::Zero(d16), most = hn::Set(d16, 255), least = hn::Set(d16, static_cast<int16_t>(p.least));
  const auto flip = hn::Set(d8, p.flip_out);
  const hn::Vec<decltype(d32)> bits[2] = {hn::Set(d32, p.bits[0]), hn::Set(d32, p.bits[1])};
  const auto term = [&](V8 bytes, int own, int k) HWY_ATTR {
    const auto number = hn::BitCast(d32, hn::TableLookupBytesOr0(bytes, hn::LoadDup128(d8, kBytePlaces[k])));
    const V x = hn::BitCast(d, hn::Xor(number, bits[own]));
#if HWY_NATIVE_FMA
    if (kSimple) return hn::MulSub(x, scale[own], hn::Mul(zero[own], scale[own]));  // 2^23 * scale is exact
#endif
    return hn::Mul(hn::Sub(x, zero[own]), scale[own]);
  };
  HWY_ALIGN uint8_t rest[3][4 * hn::MaxLanes(d)] = {};
  const uint8_t *a = static_cast<const uint8_t*>(in[0]), *b = static_cast<const uint8_t*>(in[1]);
  uint8_t* y = static_cast<uint8_t*>(out);
  if (step[0] == 0) {
    hn::Store(hn::Set(d8, *a), d8, rest[0]);
    a = rest[0];
  }
  const V fixed = hn::Add(term(hn::Set(d8, *b), 1, 0), shift);
  for (int64_t i = 0; i < n; i += all) {
    const bool whole = n >= all;
    const int64_t at = whole ? HWY_MIN(i, n - all) : 0;  // some once more
    const uint8_t *from_a = step[0] != 0 ? a + at : a, *from_b = b + at;
    uint8_t* to = whole ? y + at : rest[2];
    const auto left = static_cast<size_t>(n);
    if (!whole && step[0] != 0) from_a = static_cast<uint8_t*>(std::memcpy(rest[0], from_a, left));
    if (!whole && step[1] != 0) from_b = static_cast<uint8_t*>(std::memcpy(rest[1], from_b, left));
    const V8 one = hn::LoadU(d8, from_a);
    V second[kParts], w[kParts], quotient[kParts], rounded[kParts];
    const auto round = [&](int k, V q) HWY_ATTR {
      if (!kSimple) q = hn::Min(top, hn::Max(bottom, q));
      quotient[k] = q;
      rounded[k] = hn::Add(q, magic);
    };
    if (step[1] != 0) {
      const V8 other = hn::LoadU(d8, from_b);
      MINNOW_UNROLL
      for (int k = 0; k < kParts; ++k) second[k] = hn::Add(term(other, 1, k), shift);
    } else {
      MINNOW_UNROLL
      for (int k = 0; k < kParts; ++k) second[k] = fixed;
    }
    MINNOW_UNROLL
    for (int k = 0; k < kParts; ++k) {
      const V first = term(one, 0, k);
      w[k] = !kSimple && p.product ? hn::Mul(first, second[k]) : hn::Add(first, second[k]);
      if (!kSimple && p.scaled) w[k] = hn::Add(hn::Mul(w[k], factor), more);
      round(k, kSimple ? w[k] : hn::Mul(w[k], reciprocal));
    }
    // As in QuantizeLinear: near the middle between two integers the quotient itself is asked.
    if (!kSimple && !p.exact) {
      auto known = hn::Le(bottom, top);
      MINNOW_UNROLL
      for (int k = 0; k < kParts; ++k)
        known = hn::And(known, hn::Le(hn::Abs(hn::Sub(quotient[k], hn::Sub(rounded[k], magic))), sure));
      if (HWY_UNLIKELY(!hn::AllTrue(d, known))) {
        MINNOW_UNROLL
        for (int k = 0; k < kParts; ++k) round(k, hn::Div(w[k], divisor));
      }
    }
    const auto pair = [&](int k) HWY_ATTR {
      const auto upper = hn::BitCast(d16, hn::ShiftLeft<16>(hn::BitCast(d32, rounded[k + 2])));
      const auto both = hn::OddEven(upper, hn::BitCast(d16, rounded[k]));
      return hn::Min(most, hn::Max(none, hn::Sub(both, least)));
    };
    hn::StoreU(hn::Xor(hn::BitCast(d8, hn::Or(pair(0), hn::ShiftLeft<8>(pair(1)))), flip), d8, to);
    if (!whole) std::memcpy(y, to, left);
  }
}

// A row of n bytes. in[2] is a ByteNumbers.
void RowOfBytes(const void* const* in, const int* step, void* out, int64_t n) {
  const ByteNumbers& p = *static_cast<const ByteNumbers*>(in[2]);
#if HWY_NATIVE_FMA
  if (p.simple) return row_of_bytes<true>(p, in, step, out, n);
#endif
  row_of_bytes<false>(p, in, step, out, n);
}

// x[i] *= y[i], of whole vectors.
void MultiplyWhole(int32_t* x, const int32_t* y, int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) hn::Store(hn::Mul(hn::Load(d, x + i), hn::Load(d, y + i)), d, x + i);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(RowOfBytes);
HWY_EXPORT(MultiplyWhole);

constexpr size_t kOther = 4;  // the second tensor, which has the layout of the first (plan/layout.h)

[[gnu::cold]] Status infer_byte_arithmetic(InferContext& c) {
  Shape shape;
  const DType to = c.attrs.get("to", DType::kF32);
  if (!c.has(0) || !c.has(kOther) || !is_byte(c.in(0).dtype) || !is_byte(c.in(kOther).dtype) || !is_byte(to) ||
      c.attrs.floats("numbers").size() != kByteNumbers)
    return fail(Code::kFormat, "takes bytes, and %zu numbers", kByteNumbers);
  MINNOW_RETURN_IF_ERROR(broadcast_shapes(c.shape(0), c.shape(kOther), &shape));
  c.set(0, to, shape);
  return ok();
}

[[gnu::cold]] ByteNumbers read_numbers(const Attrs& attrs, DType a, DType b, DType to) {
  std::vector<double> n = attrs.floats("numbers");
  n.resize(kByteNumbers);
  const auto number = [&](size_t i) { return static_cast<float>(n[i]); };
  ByteNumbers p;
  const DType types[] = {a, b};
  p.flip_out = to == DType::kI8 ? 0x80 : 0;
  p.least = -number(8) - static_cast<float>(p.flip_out);
  p.shift = number(4);
  p.factor = number(5);
  p.more = number(6);
  p.step = number(7);
  p.product = attrs.b("product");
  p.scaled = p.factor != 1 || p.more != 0;
  p.simple = !p.product && !p.scaled && p.step == 1;
  float size[2];
  for (size_t i = 0; i < 2; ++i) {
    // Signed bytes as unsigned ones, 128 above; all as floats from 2^23 on.
    const bool is_signed = types[i] == DType::kI8;
    p.bits[i] = is_signed ? 0x4B000080 : 0x4B000000;
    p.zero[i] = number(2 * i) + (is_signed ? 0x1p23f + 128 : 0x1p23f);
    p.scale[i] = number(2 * i + 1);
    p.flip[i] = flip_for(types[i], false);
    p.middle[i] = static_cast<int32_t>(number(2 * i)) + shift_for(types[i], false);
    p.simple = p.simple && p.zero[i] == 0x1p23f;
    size[i] = 511 * std::abs(p.scale[i]);
  }
  p.is_fixed = attrs.has("multiplier");
  p.multiplier = static_cast<int32_t>(attrs.i("multiplier"));
  p.shift_of_product = static_cast<int32_t>(attrs.i("shift"));
  p.simple = p.simple && size[0] + size[1] + std::abs(p.shift) < 8192;
  const float reach = std::max(-p.least, p.least + 255) + 1;
  int exponent = 0;
  p.exact = std::abs(std::frexp(p.step, &exponent)) == 0.5f;
  p.sure = 0.5f - reach * 0x1p-21f;
  return p;
}

// As RowOfBytes, for products that are requantized.
void row_of_products(const void* const* in, const int* step, void* out, int64_t n) {
  const ByteNumbers& p = *static_cast<const ByteNumbers*>(in[2]);
  alignas(64) int32_t lanes[2][kBlock];
  const auto widen = [&](size_t k, int64_t from, int64_t some) {
    widen_lanes(static_cast<const uint8_t*>(in[k]) + from, some, p.flip[k], p.middle[k], lanes[k]);
  };
  // The product takes the place of an operand that is not repeated.
  const size_t first = step[0] != 0 ? 0 : 1, other = 1 - first;
  if (p.fits) {
    NarrowProduct narrow = p.narrow;
    narrow.one = step[other] == 0;
    if (first == 1) {
      std::swap(narrow.flip[0], narrow.flip[1]);
      std::swap(narrow.middle[0], narrow.middle[1]);
    }
    return multiply_narrow(narrow, static_cast<const uint8_t*>(in[first]), static_cast<const uint8_t*>(in[other]), n,
                           static_cast<uint8_t*>(out));
  }
  if (step[other] == 0) {
    widen(other, 0, 1);
    std::fill_n(lanes[other], std::min(n, kBlock), lanes[other][0]);
  }
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t some = std::min(kBlock, n - i);
    widen(first, i, some);
    if (step[other] != 0) widen(other, i, some);
    HWY_DYNAMIC_DISPATCH(MultiplyWhole)(lanes[first], lanes[other], some);
    requantize(p.end, 0, 1, lanes[first], some, some, static_cast<uint8_t*>(out) + i, some);
  }
}

class ByteArithmetic final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType &a = *node.in[0], &b = *node.in[kOther], &y = *node.out[0];
    numbers_ = read_numbers(node.attrs, a.dtype, b.dtype, y.dtype);
    row_ = RowKernel();
    row_.function = numbers_.is_fixed ? row_of_products : HWY_DYNAMIC_DISPATCH(RowOfBytes);
    if (numbers_.is_fixed) {
      numbers_.end.multiplier = &numbers_.multiplier;
      numbers_.end.shift = &numbers_.shift_of_product;
      numbers_.end.to = y.dtype;
      read_limits(node.attrs, &numbers_.end);
      narrow_product();
    }
    row_.native = row_.takes_single = true;
    tile_ = 0;
    const bool is_row =
        a.shape == y.shape && b.count() > 1 && b.count() == y.shape.at(-1) && b.shape.at(-1) == b.count();
    if (y.layout != Layout::kLast && is_row) {
      image_ = total_ = y.count();
      full_ = false;
      shared_ = true;
      channels_ = b.count();
    } else if (y.layout != Layout::kLast) {
      total_ = y.count();
      const TensorType one{DType::kF32, Layout::kPlain, Shape()};
      return broadcast_.make({&a, &b, &one}, y, false);
    } else {
      image_ = total_ = last_count(y.shape);
      tile_ = kGrain;
      full_ = b.shape == y.shape;
      if (full_) return ok();
      // Rows of all channels of a pixel.
      image_ /= std::max<int64_t>(1, y.shape[0]);
      channels_ = last_channels(y.shape[1]);
      shared_ = b.shape[0] == 1;
    }
    // So many rows that the other operand's row is repeated.
    tile_ = channels_ * std::max<int64_t>(1, kTile / channels_);
    *workspace = tile_ * (total_ / std::max<int64_t>(1, image_));
    return ok();
  }

  void run(const RunContext& context) override {
    if (total_ == 0) return;
    const void* in[] = {context.in[0]->data, context.in[kOther]->data, &numbers_};
    uint8_t* out = static_cast<uint8_t*>(context.out[0]->data);
    if (tile_ == 0) {
      context.pool->parallel_for((total_ + kGrain - 1) / kGrain, 1, [&](int64_t begin, int64_t end, int) {
        broadcast_.run_piece(row_, in, out, begin * kGrain, std::min(total_, end * kGrain));
      });
      return;
    }
    const int steps[] = {1, 1, 0};
    uint8_t* tiles = static_cast<uint8_t*>(context.workspace);
    const int64_t images = total_ / image_, pieces = (image_ + tile_ - 1) / tile_;
    for (int64_t i = 0; !full_ && i < images; ++i)
      for (int64_t at = 0; at < tile_; at += channels_)
        std::memcpy(tiles + i * tile_ + at, offset(in[1], shared_ ? 0 : i * channels_, 1),
                    static_cast<size_t>(channels_));
    context.pool->parallel_for(images * pieces, 1 + kGrain / tile_, [&](int64_t begin, int64_t end, int) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t image = piece / pieces, first = piece % pieces * tile_, at = image * image_ + first;
        const void* other = full_ ? offset(in[1], at, 1) : reinterpret_cast<const char*>(tiles + image * tile_);
        const void* part[] = {offset(in[0], at, 1), other, &numbers_};
        row_.function(part, steps, out + at, std::min(tile_, image_ - first));
      }
    });
  }

 private:
  static constexpr int64_t kGrain = 32768, kTile = 2048;

  [[gnu::cold]] void narrow_product() {
    ByteNumbers& p = numbers_;
    for (size_t i = 0; i < 2; ++i) {
      p.narrow.flip[i] = p.flip[i];
      p.narrow.middle[i] = p.middle[i];
    }
    // Signed results as unsigned ones, 128 above.
    const int64_t up = p.flip_out;
    p.narrow.flip_out = p.flip_out;
    p.narrow.least = static_cast<int32_t>(std::clamp<int64_t>(p.end.least + up, 0, 255));
    p.narrow.most = static_cast<int32_t>(std::clamp<int64_t>(p.end.most + up, 0, 255));
    // No sum with such a zero point exceeds 32 bits.
    p.fits = std::abs(int64_t{p.end.zero}) < 1 << 24 && p.narrow.prepare(p.multiplier, p.shift_of_product);
    if (p.fits) p.narrow.zero = static_cast<int32_t>(p.end.zero + up);
  }

  ByteNumbers numbers_;
  RowKernel row_;
  Broadcast broadcast_;
  int64_t total_ = 0, image_ = 1, channels_ = 1;
  int64_t tile_ = 0;  // bytes at a time, of the other operand's row several times; 0: broadcast_ knows how
  bool full_ = false, shared_ = false;  // whether the other operand is as large as the result, or has one image
};

std::unique_ptr<Kernel> create_byte_arithmetic(const NodeContext&) { return std::make_unique<ByteArithmetic>(); }

// With channels last where the other operand has a number for each element, or each channel.
LayoutRule layout_of(const std::vector<const TensorType*>& in) {
  if (in.size() <= kOther || in[0] == nullptr || in[kOther] == nullptr) return LayoutRule::kPlain;
  const Shape &a = in[0]->shape, &b = in[kOther]->shape;
  if (a.rank() != 4 || b.rank() != 4) return LayoutRule::kPlain;
  const bool channel = (b[0] == a[0] || b[0] == 1) && b[1] == a[1] && b[2] == 1 && b[3] == 1;
  return a == b || channel ? LayoutRule::kFollowLast : LayoutRule::kPlain;
}

MINNOW_OP("ByteArithmetic", infer_byte_arithmetic);
MINNOW_KERNEL("ByteArithmetic", create_byte_arithmetic, LayoutRule::kPlain, /*in_place=*/false, layout_of);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
