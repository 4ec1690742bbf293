// Products of two tensors of bytes that are requantized by whole numbers.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <cstring>

#include "kernels/cpu/quant/byte_arithmetic.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As the op Requantize. A product p has at most 17 bits with its sign, so that the upper half of 2 * p * multiplier is
//   (p * high + (p * low >> 16) + 2^14) >> 15, where multiplier = 65536 * high + low
// and nothing exceeds 32 bits.
void products_of_bytes(const NarrowProduct& p, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  const hn::ScalableTag<int32_t> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  using V = hn::Vec<decltype(d)>;
  using V8 = hn::Vec<decltype(d8)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d8));
  const V high = hn::Set(d, p.high), low = hn::Set(d, p.low), round = hn::Set(d, 1 << 14), half = hn::Set(d, p.half);
  const V divides = hn::Set(d, p.right > 0 ? -1 : 0), zero = hn::Set(d, p.zero);
  const V least = hn::Set(d, p.least), most = hn::Set(d, p.most);
  const V middle[2] = {hn::Set(d, p.middle[0]), hn::Set(d, p.middle[1])};
  const V8 flip[2] = {hn::Set(d8, p.flip[0]), hn::Set(d8, p.flip[1])}, flip_out = hn::Set(d8, p.flip_out);
  const auto number = [&](V8 bytes, int own, int k) HWY_ATTR {
    const V8 placed = hn::TableLookupBytesOr0(bytes, hn::LoadDup128(d8, kBytePlaces[k]));
    return hn::Sub(hn::BitCast(d, placed), middle[own]);
  };
  HWY_ALIGN uint8_t rest[3][hn::MaxLanes(d8)] = {};
  const auto some = static_cast<size_t>(n);
  if (n < lanes) {
    a = static_cast<uint8_t*>(std::memcpy(rest[0], a, some));
    if (!p.one) b = static_cast<uint8_t*>(std::memcpy(rest[1], b, some));
  }
  const V8 one = hn::Set(d8, *b);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t at = n < lanes ? 0 : HWY_MIN(i, n - lanes);  // some once more
    const V8 first = hn::Xor(hn::LoadU(d8, a + at), flip[0]);
    const V8 second = hn::Xor(p.one ? one : hn::LoadU(d8, b + at), flip[1]);
    const auto result = [&](int k) HWY_ATTR {
      const V product = hn::Mul(number(first, 0, k), number(second, 1, k));
      const V lower = hn::ShiftRight<16>(hn::Mul(product, low));
      const V whole = hn::ShiftRight<15>(hn::Add(hn::Add(hn::Mul(product, high), lower), round));
      // What is shifted out is rounded, halves away from zero.
      const V less = hn::And(hn::BroadcastSignBit(whole), divides);
      const V scaled = hn::ShiftRightSame(hn::Add(hn::Add(whole, half), less), p.right);
      return hn::Min(hn::Max(hn::Add(scaled, zero), least), most);
    };
    const V even = hn::Or(result(0), hn::ShiftLeft<16>(result(2)));
    const V odd = hn::Or(result(1), hn::ShiftLeft<16>(result(3)));
    const V8 all = hn::Xor(hn::BitCast(d8, hn::Or(even, hn::ShiftLeft<8>(odd))), flip_out);
    hn::StoreU(all, d8, n < lanes ? rest[2] : y + at);
  }
  if (n < lanes) std::memcpy(y, rest[2], some);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstdlib>

namespace minnow {

HWY_EXPORT(products_of_bytes);

bool NarrowProduct::prepare(int32_t multiplier, int32_t shift) {
  int64_t reach = 1;
  for (int32_t m : middle) reach *= std::max<int64_t>(std::abs(int64_t{m}), std::abs(255 - int64_t{m}));
  if (multiplier < 0 || multiplier >= 0x7FFF8000 || shift > 0 || shift < -31 || reach > 255 * 255) return false;
  low = static_cast<int16_t>(multiplier & 0xffff);
  high = (multiplier - low) / 65536;
  right = -shift;
  half = right > 0 ? 1 << (right - 1) : 0;
  return true;
}

void multiply_narrow(const NarrowProduct& p, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  if (n > 0) HWY_DYNAMIC_DISPATCH(products_of_bytes)(p, a, b, n, y);
}

}  // namespace minnow
#endif  // HWY_ONCE
