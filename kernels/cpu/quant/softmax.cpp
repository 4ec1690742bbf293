// The op QuantizedSoftmax: all in whole numbers, as schema/ops/quantized_softmax.py says.
#include <algorithm>
#include <limits>

#include "kernels/core/infer.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int kEntries = 256, kWholeBits = 12;

[[gnu::cold]] Status infer_softmax(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const DType to = c.attrs.get("to", DType::kF32);
  if (!is_byte(c.in(0).dtype)) return fail(Code::kFormat, "takes bytes, not %s", dtype_name(c.in(0).dtype));
  if (!is_byte(to) && to != DType::kI16) return fail(Code::kFormat, "cannot give %s", dtype_name(to));
  if (c.shape(0).rank() == 0) return fail(Code::kFormat, "needs an axis");
  if (c.in(1).dtype != DType::kI32 || c.shape(1).rank() != 1 || c.shape(1)[0] != kEntries)
    return fail(Code::kFormat, "%d exponentials of type i32 are needed", kEntries);
  c.set(0, to, c.shape(0));
  return ok();
}

int64_t clipped(int64_t x) {
  return std::clamp<int64_t>(x, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
}

// The upper half of a doubled product of 32-bit numbers, halves up.
int64_t product(int64_t x, int64_t y) {
  return std::min<int64_t>((x * y + (int64_t{1} << 30)) >> 31, std::numeric_limits<int32_t>::max());
}

// 1 / (1 + x) of 0 <= x < 1, both in steps of 2^-31. The constants are 48/17 and -32/17 in steps of 2^-29.
int64_t reciprocal(int64_t x) {
  const int64_t half = (x + (int64_t{1} << 31)) >> 1;
  int64_t y = 1515870810 + product(half, -1010580540);
  for (int i = 0; i < 3; ++i) y += clipped(4 * product(y, (int64_t{1} << 29) - product(half, y)));
  return clipped(2 * y);
}

// `flips`: the bits that make a signed result of one that counts from 0.
template <typename Y>
void softmax_row(const uint8_t* x, uint8_t flip, const int32_t* exps, const uint32_t* rounded, int64_t n, Y flips,
                 Y* y) {
  constexpr int kBits = 8 * sizeof(Y);
  uint8_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, static_cast<uint8_t>(x[i] ^ flip));
  // How far a byte is below the greatest one.
  const auto below = [&](int64_t i) { return static_cast<uint8_t>(most - (x[i] ^ flip)); };
  uint32_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += rounded[below(i)];
  const int bits = total == 0 ? 1 : 32 - __builtin_clz(total), right = std::max(bits + kWholeBits - 1 - kBits, 0);
  // Both roundings are one shift: of two floors the last one counts. All that is shifted farther than 31 becomes 0.
  const bool is_near = right < 32;
  const int shift = 31 + std::min(right, 31);
  const int64_t half = (int64_t{1} << 30) + (right == 0 ? 0 : int64_t{1} << (shift - 1));
  const int64_t factor = is_near ? reciprocal((int64_t{total} << (32 - bits)) & 0x7fffffff) : 0;
  const auto result = [&](int k) {
    const int64_t whole = (exps[k] * factor + half) >> shift;
    return static_cast<Y>(static_cast<Y>(std::clamp<int64_t>(whole, 0, (int64_t{1} << kBits) - 1)) ^ flips);
  };
  if (n < kEntries) {
    for (int64_t i = 0; i < n; ++i) y[i] = result(below(i));
    return;
  }
  Y results[kEntries];
  for (int k = 0; k < kEntries; ++k) results[k] = result(k);
  for (int64_t i = 0; i < n; ++i) y[i] = results[below(i)];
}

void run_softmax(const Attrs&, const RunContext& context) {
  const Tensor &x = *context.in[0], &y = *context.out[0];
  if (x.count() == 0) return;
  const int64_t n = x.type.shape.at(-1);
  const int32_t* exps = context.in[1]->as<int32_t>();
  uint32_t rounded[kEntries];  // halves away from zero
  for (int k = 0; k < kEntries; ++k)
    rounded[k] = static_cast<uint32_t>((exps[k] + (int64_t{1} << (kWholeBits - 1)) - (exps[k] < 0)) >> kWholeBits);
  const uint8_t flip = flip_for(x.type.dtype, false), flip_result = flip_for(y.type.dtype, false);
  context.pool->parallel_for(x.count() / n, 1 + 8192 / n, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin * n; at < end * n; at += n) {
      const uint8_t* from = x.as<uint8_t>() + at;
      if (y.type.dtype == DType::kI16)
        softmax_row<uint16_t>(from, flip, exps, rounded, n, 0x8000, static_cast<uint16_t*>(y.data) + at);
      else
        softmax_row<uint8_t>(from, flip, exps, rounded, n, flip_result, static_cast<uint8_t*>(y.data) + at);
    }
  });
}

MINNOW_OP("QuantizedSoftmax", infer_softmax);
MINNOW_KERNEL("QuantizedSoftmax", create_simple<run_softmax>);

}  // namespace
}  // namespace minnow
