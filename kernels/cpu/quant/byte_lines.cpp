// What QuantizedSum does with two tensors of bytes, where both tables are nearly lines.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/quant/byte_tables.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As the tables say, number by number: round(round(total * multiplier / 2^31) / 2^right), the first time halves up,
// then away from zero.
void sum_of_tables(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  const int64_t half = (int64_t{1} << 30) + (int64_t{1} << (30 + s.right));
  for (int64_t i = 0; i < n; ++i) {
    keep_scalar();
    const uint32_t total = s.table[0][a[i] ^ s.lowest[0]] + s.table[1][b[i] ^ s.lowest[1]];
    const int64_t product = int64_t{static_cast<int32_t>(total)} * s.multiplier;
    const int64_t scaled = (product + half - (product < 0 ? int64_t{1} << 31 : 0)) >> (31 + s.right);
    y[i] = static_cast<uint8_t>(std::clamp<int64_t>(scaled + s.zero, s.least, s.most));
  }
}

void sum_by_lines(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  const hn::ScalableTag<uint8_t> d8;
  const hn::Repartition<int16_t, decltype(d8)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d8));
  if (n < lanes) return sum_of_tables(s, a, b, n, y);
  const auto least = hn::Set(d16, static_cast<int16_t>(s.least)), most = hn::Set(d16, static_cast<int16_t>(s.most));
  const auto flip_a = hn::Set(d8, s.lowest[0] ^ 0x80), flip_b = hn::Set(d8, s.lowest[1] ^ 0x80);
  const auto high = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(s.lines.high)));
  const auto low = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(s.lines.low >> 8)));
  const auto start = hn::Set(d32, s.lines.start), doubt = hn::Set(d32, s.lines.doubt);
  const auto second = hn::Set(d32, 0xff00), last = hn::ShiftLeft<16>(second);
  const int fraction = s.lines.fraction;
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t at = HWY_MIN(i, n - lanes);  // some once more
    const auto one = hn::BitCast(d32, hn::Xor(hn::LoadU(d8, a + at), flip_a));
    const auto other = hn::BitCast(d32, hn::Xor(hn::LoadU(d8, b + at), flip_b));
    auto fewest = doubt;  // bits of a number that is in doubt: none
    // Takes two numbers of 16 bits, 256 times those of the tables' places.
    const auto sum = [&](auto x, auto y) HWY_ATTR {
      const auto both = hn::BitCast(d16, hn::Or(hn::And(x, second), hn::And(y, last)));
      auto rest = hn::Zero(d32);
      auto products = hn::ReorderWidenMulAccumulate(d32, both, high, hn::Zero(d32), rest);
      products = hn::ReorderWidenMulAccumulate(d32, hn::ShiftRight<8>(both), low, products, rest);
      const auto total = hn::Add(hn::RearrangeToOddPlusEven(products, rest), start);
      fewest = hn::Min(fewest, hn::And(total, doubt));
      return hn::ShiftRightSame(total, fraction);
    };
    const auto bounded = [&](auto even, auto odd) HWY_ATTR {
      const auto both = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
      return hn::Min(hn::Max(both, least), most);
    };
    const auto even = bounded(sum(hn::ShiftLeft<8>(one), hn::ShiftLeft<24>(other)),
                              sum(hn::ShiftRight<8>(one), hn::ShiftLeft<8>(other)));
    const auto odd = bounded(sum(one, hn::ShiftLeft<16>(other)), sum(hn::ShiftRight<16>(one), other));
    if (HWY_UNLIKELY(!hn::AllTrue(d32, hn::Gt(fewest, hn::Zero(d32))))) {
      sum_of_tables(s, a + at, b + at, lanes, y + at);
      continue;
    }
    const auto bytes = hn::Or(hn::And(even, hn::Set(d16, 0xff)), hn::ShiftLeft<8>(odd));
    hn::StoreU(hn::BitCast(d8, bytes), d8, y + at);
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

namespace minnow {

HWY_EXPORT(sum_by_lines);

// The lines go midway between the ends of the tables. They are left out where too much is in doubt.
[[gnu::cold]] void ByteSum::prepare() {
  constexpr int kLeastBits = 10, kLeastFraction = 19, kMostFraction = 21;
  constexpr double kHuge = 1 << 30;
  const double unit = std::ldexp(static_cast<double>(multiplier), -31 - right);
  const auto at = [&](size_t i, int k) { return static_cast<double>(static_cast<int32_t>(table[i][k])) * unit; };
  const auto slope = [&](size_t i) { return (at(i, 255) - at(i, 0)) / 255; };
  double most = 1 + std::abs(static_cast<double>(zero));
  for (size_t i = 0; i < 2; ++i) most += std::abs(at(i, 0)) + 256 * std::abs(slope(i));
  int fraction = kMostFraction;
  while (fraction >= kLeastFraction && std::ldexp(most, fraction) > 2e9) --fraction;
  if (fraction < kLeastFraction) return;
  const double one = 1 << fraction;
  // Roundings: the first one of the tables' sum, and that of the start.
  double start = zero, doubt = std::ldexp(1.0, -right) + 2 / one;
  int32_t middle = 0;  // for numbers from -128 on
  for (int i = 0; i < 2; ++i) {
    const double rounded = std::nearbyint(slope(i) * one);
    if (std::abs(rounded) >= 1 << 23) return;
    const double first = (at(i, 0) + at(i, 255) - 255 * rounded / one) / 2;
    double off = 0;
    for (int k = 0; k < 256; ++k) {
      if (std::abs(at(i, k)) >= kHuge * unit) return;  // their sum might wrap
      off = std::max(off, std::abs(at(i, k) - (first + rounded / one * k)));
    }
    start += first;
    doubt += off;
    const int32_t whole = static_cast<int32_t>(rounded), low = whole & 0xff;
    lines.high |= static_cast<uint32_t>((whole - low) / 256 & 0xffff) << 16 * i;
    lines.low |= static_cast<uint32_t>(low) << (16 * i + 8);
    middle += 128 * whole;
  }
  int bits = fraction - 1;
  while (bits >= kLeastBits && std::ldexp(1.0, -bits - 1) < doubt) --bits;
  if (bits < kLeastBits) return;
  lines.start = middle + static_cast<int32_t>(std::nearbyint((start + 0.5 + std::ldexp(1.0, -bits - 1)) * one));
  lines.doubt = ((1 << bits) - 1) << (fraction - bits);
  lines.fraction = fraction;
}

void sum_byte_lines(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  HWY_DYNAMIC_DISPATCH(sum_by_lines)(s, a, b, n, y);
}

}  // namespace minnow
#endif  // HWY_ONCE
