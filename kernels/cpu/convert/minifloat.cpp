#include "kernels/cpu/convert/minifloat.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace minnow {
namespace {

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float decoded(const MinifloatFormat& f, int code) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (f.sign == 0) return code == f.nan ? kNan : std::ldexp(1.0f, code - f.bias);
  code &= f.sign * 2 - 1;  // the bits above say nothing
  const int magnitude = code & (f.sign - 1);
  const bool negative = (code & f.sign) != 0;
  float x;
  if (!f.signed_specials && code == f.sign) {
    x = kNan;
  } else if (magnitude > f.most) {
    x = f.overflow != f.nan && magnitude == f.overflow ? std::numeric_limits<float>::infinity() : kNan;
  } else {
    const int exponent = magnitude >> f.mantissa, fraction = magnitude & ((1 << f.mantissa) - 1);
    const int leading = exponent > 0 ? 1 << f.mantissa : 0;
    x = std::ldexp(static_cast<float>(leading + fraction), (exponent > 0 ? exponent : 1) - f.bias - f.mantissa);
  }
  return negative ? -x : x;
}

const float* table_of(DType t) {
  using Table = std::array<float, 256>;
  static const auto kTables = [] {
    std::array<Table, std::size(kMinifloatFormats)> tables;
    for (size_t k = 0; k < tables.size(); ++k)
      for (int code = 0; code < 256; ++code) tables[k][static_cast<size_t>(code)] = decoded(kMinifloatFormats[k], code);
    return tables;
  }();
  return kTables[static_cast<size_t>(minifloat_index(t))].data();
}

float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Without branches, so that the compiler may vectorize it.
void encode(const MinifloatFormat& f, const float* in, uint8_t* out, int64_t n, bool saturate) {
  const int shift = 23 - f.mantissa, least = 1 - f.bias;  // exponent of the least normal number
  const uint32_t rebias = static_cast<uint32_t>(127 - f.bias) << f.mantissa, half = (1u << (shift - 1)) - 1;
  const uint32_t least_bits = static_cast<uint32_t>(least + 127) << 23;
  // Added to a number below that, it leaves the bits of a subnormal at the end of the mantissa, rounded.
  const uint32_t magic = static_cast<uint32_t>(least - f.mantissa + 23 + 127) << 23;
  const uint32_t most = f.most, beyond = saturate ? f.most : f.overflow, nan = f.nan, sign_bit = f.sign;
  // A type without NaN has a zero for it, of the other sign: so do others, though nothing asks for it.
  const uint32_t flip = nan == 0 ? sign_bit : 0;
  const uint32_t unsigned_code = f.signed_specials ? ~0u : nan;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_of(in[i]), x = bits & 0x7FFFFFFFu;
    const uint32_t normal = ((x + half + (x >> shift & 1u)) >> shift) - rebias;
    const uint32_t tiny = bits_of(float_of(x) + float_of(magic)) - magic;
    uint32_t code = x < least_bits ? tiny : normal;
    code = code > most ? beyond : code;
    const bool is_nan = x > 0x7F800000u;
    code = is_nan ? nan : code;
    uint32_t sign = (bits >> 31) * sign_bit;
    sign ^= is_nan ? flip : 0u;
    const bool plain = unsigned_code != ~0u && (code == 0 || code == unsigned_code);
    out[i] = static_cast<uint8_t>(plain ? code : code | sign);
  }
}

uint8_t power_of_two(float x, const Storing& how) {
  constexpr uint8_t kNan = 0xFF, kMost = 0xFE;
  if (std::isnan(x) || x < 0) return kNan;
  constexpr float kLeast = 5.877471754e-39f;  // 2^-127
  if (x < kLeast) return how.saturate ? 0 : kNan;
  if (std::isinf(x)) return how.saturate ? kMost : kNan;
  int exponent;
  const float fraction = std::frexp(x, &exponent) * 2;  // in [1, 2)
  const bool up =
      how.rounding == RoundingMode::kUp ? fraction > 1 : how.rounding == RoundingMode::kNearest && fraction >= 1.5f;
  const int code = exponent - 1 + 127 + (up ? 1 : 0);
  return static_cast<uint8_t>(code <= kMost ? code : how.saturate ? kMost : kNan);
}

}  // namespace

void minifloat_to_f32(DType from, const uint8_t* in, float* out, int64_t n) {
  const float* table = table_of(from);
  for (int64_t i = 0; i < n; ++i) out[i] = table[in[i]];
}

void f32_to_minifloat(const float* in, DType to, uint8_t* out, int64_t n, Storing how) {
  const MinifloatFormat& format = minifloat_format(to);
  if (to == DType::kF8E8M0) {
    for (int64_t i = 0; i < n; ++i) out[i] = power_of_two(in[i], how);
  } else {
    encode(format, in, out, n, how.saturate);
  }
}

}  // namespace minnow
