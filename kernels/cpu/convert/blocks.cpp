#include "kernels/cpu/convert/blocks.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Plain loops without branches, which the compiler vectorizes for each instruction set.
inline float as_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t as_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

// With the instructions for it, as far as no NaN is met, whose bits they would change. Returns how many were converted.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using Floats = hn::ScalableTag<float>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;

int64_t widen_halves(const uint16_t* in, float* out, int64_t n) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::PromoteTo(d, hn::LoadU(Halves(), reinterpret_cast<const hwy::float16_t*>(in + i)));
    if (!hn::AllFalse(d, hn::IsNaN(x))) break;
    hn::StoreU(x, d, out + i);
  }
  return i;
}

int64_t narrow_floats(const float* in, uint16_t* out, int64_t n) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, in + i);
    if (!hn::AllFalse(d, hn::IsNaN(x))) break;
    hn::StoreU(hn::DemoteTo(Halves(), x), Halves(), reinterpret_cast<hwy::float16_t*>(out + i));
  }
  return i;
}
#else
int64_t widen_halves(const uint16_t*, float*, int64_t) { return 0; }
int64_t narrow_floats(const float*, uint16_t*, int64_t) { return 0; }
#endif

void f16_to_f32(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = widen_halves(in, out, n); i < n; ++i) {
    const uint32_t h = in[i];
    const uint32_t special = (h & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;  // infinity and NaN
    // The exponent is off by 112; a multiplication corrects it for denormals too.
    const float magnitude = as_float((h & 0x7FFFu) << 13) * as_float(0x77800000u);
    out[i] = as_float(as_bits(magnitude) | special | (h & 0x8000u) << 16);
  }
}

void f32_to_f16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = narrow_floats(in, out, n); i < n; ++i) {
    const uint32_t bits = as_bits(in[i]);
    const uint32_t x = bits & 0x7FFFFFFFu;
    const uint32_t normal = (x - 0x38000000u + 0xFFFu + (x >> 13 & 1u)) >> 13;
    // Below 2^-14 the addition of 0.5 leaves the 10 bits of a denormal at the end of the mantissa, rounded.
    const uint32_t tiny = as_bits(as_float(x) + 0.5f) - 0x3F000000u;
    // The upper bits of a NaN stay, so that a float16 comes back from f32 as it was.
    const uint32_t payload = x >> 13 & 0x3FFu;
    const uint32_t huge = x > 0x7F800000u ? 0x7C00u | payload | (payload == 0 ? 0x200u : 0u) : 0x7C00u;
    const uint32_t h = x < 0x38800000u ? tiny : x >= 0x47800000u ? huge : normal;
    out[i] = static_cast<uint16_t>(h | (bits >> 16 & 0x8000u));
  }
}

void bf16_to_f32(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = as_float(static_cast<uint32_t>(in[i]) << 16);
}

void f32_to_bf16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t x = as_bits(in[i]);
    const uint32_t rounded = (x + 0x7FFFu + (x >> 16 & 1u)) >> 16;
    const uint32_t nan = x >> 16 | ((x & 0x7F0000u) == 0 ? 0x40u : 0u);
    out[i] = static_cast<uint16_t>((x & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
  }
}

// The conversions that others are made of; `f` converts a vector.
template <typename From, typename To, class Function>
HWY_INLINE void each_vector(const void* in, void* out, int64_t n, const Function& f) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<From, decltype(d)> from;
  const hn::Rebind<To, decltype(d)> to;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(to, hn::LoadU(from, x + i)), to, y + i);
  for (; i < n; ++i) {
    keep_scalar();
    y[i] = static_cast<To>(x[i]);
  }
}
void u8_to_i32(const void* in, void* out, int64_t n) {
  each_vector<uint8_t, int32_t>(in, out, n, [](auto d, auto x) HWY_ATTR { return hn::PromoteTo(d, x); });
}
void i8_to_i32(const void* in, void* out, int64_t n) {
  each_vector<int8_t, int32_t>(in, out, n, [](auto d, auto x) HWY_ATTR { return hn::PromoteTo(d, x); });
}
void i32_to_u8(const void* in, void* out, int64_t n) {
  each_vector<uint32_t, uint8_t>(in, out, n, [](auto d, auto x) HWY_ATTR { return hn::TruncateTo(d, x); });
}
void i32_to_f32(const void* in, void* out, int64_t n) {
  each_vector<int32_t, float>(in, out, n, [](auto d, auto x) HWY_ATTR { return hn::ConvertTo(d, x); });
}
void f32_to_i32(const void* in, void* out, int64_t n) {
  const float* from = static_cast<const float*>(in);
  int32_t* to = static_cast<int32_t*>(out);
  for (int64_t i = 0; i < n; ++i)
    to[i] = from[i] >= -2147483648.0f && from[i] < 2147483648.0f ? static_cast<int32_t>(from[i]) : INT32_MIN;
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/core/elements.h"

namespace minnow {
namespace {

HWY_EXPORT(f16_to_f32);
HWY_EXPORT(f32_to_f16);
HWY_EXPORT(bf16_to_f32);
HWY_EXPORT(f32_to_bf16);
HWY_EXPORT(u8_to_i32);
HWY_EXPORT(i8_to_i32);
HWY_EXPORT(i32_to_u8);
HWY_EXPORT(i32_to_f32);
HWY_EXPORT(f32_to_i32);

// Truncates; what does not fit, NaN included, becomes the least Int. That is what the instruction of x86 does, where a
// cast of C++ is undefined.
template <typename Int, typename Float>
Int truncate(Float x) {
#if HWY_ARCH_X86_64
  if constexpr (sizeof(Int) == 8)
    return sizeof(Float) == 8 ? _mm_cvttsd_si64(_mm_set_sd(x)) : _mm_cvttss_si64(_mm_set_ss(static_cast<float>(x)));
#endif
  constexpr Float kLeast = static_cast<Float>(std::numeric_limits<Int>::min());
  return x >= kLeast && x < -kLeast ? static_cast<Int>(x) : std::numeric_limits<Int>::min();
}

template <typename Float>
uint64_t truncate_u64(Float x) {
  constexpr Float kHalf = static_cast<Float>(9223372036854775808.0);
  return x >= kHalf ? static_cast<uint64_t>(truncate<int64_t>(x - kHalf)) ^ (uint64_t{1} << 63)
                    : static_cast<uint64_t>(truncate<int64_t>(x));
}

template <typename From, typename To, typename Function>
void each(const void* in, void* out, int64_t n, Function function) {
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(function(x[i]));
}

template <typename From, typename To>
void widen(const void* in, void* out, int64_t n) {
  each<From, To>(in, out, n, [](From x) { return x; });
}

// f64 -> f32, rounded to odd: rounding that again to 16 bits gives what rounding once would have given.
float to_odd_float(double x) {
  float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  if (back == x || (bits & 1u) != 0 || !(std::abs(back) <= std::numeric_limits<float>::max())) return f;
  bits += (std::abs(back) < std::abs(x)) ? 1u : ~0u;
  std::memcpy(&f, &bits, sizeof bits);
  return f;
}

// 16-bit floats from anything, by way of f32.
template <typename From, typename Function>
void to_half(const void* in, DType to, void* out, int64_t n, Function to_float) {
  const From* x = static_cast<const From*>(in);
  uint16_t* y = static_cast<uint16_t*>(out);
  float buffer[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    for (int64_t j = 0; j < m; ++j) buffer[j] = to_float(x[i + j]);
    if (to == DType::kF16) {
      HWY_DYNAMIC_DISPATCH(f32_to_f16)(buffer, y + i, m);
    } else {
      HWY_DYNAMIC_DISPATCH(f32_to_bf16)(buffer, y + i, m);
    }
  }
}

// Bits of a storage type of integers.
int width_of(DType t) { return t == DType::kI4 || t == DType::kU4 ? 4 : 2; }

template <typename From>
void to_storage(const void* in, DType to, void* out, int64_t n, Storing how) {
  const From* x = static_cast<const From*>(in);
  uint8_t* y = static_cast<uint8_t*>(out);
  if (!is_minifloat(to)) {
    const uint32_t mask = (1u << width_of(to)) - 1;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_floating_point_v<From>)
        y[i] = static_cast<uint8_t>(static_cast<uint32_t>(truncate<int32_t>(x[i])) & mask);
      else
        y[i] = static_cast<uint8_t>(static_cast<uint32_t>(x[i]) & mask);
    }
    return;
  }
  float buffer[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    for (int64_t j = 0; j < m; ++j) buffer[j] = static_cast<float>(x[i + j]);
    f32_to_minifloat(buffer, to, y + i, m, how);
  }
}

void from_storage(DType from, const void* data, int64_t n, void* buffer) {
  const uint8_t* x = static_cast<const uint8_t*>(data);
  if (is_minifloat(from)) return minifloat_to_f32(from, x, static_cast<float*>(buffer), n);
  int32_t* y = static_cast<int32_t*>(buffer);
  const int width = width_of(from), mask = (1 << width) - 1;
  // Flipping the sign's bit and taking its value away again extends the sign.
  const int sign = from == DType::kI4 || from == DType::kI2 ? 1 << (width - 1) : 0;
  for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] & mask) ^ sign) - sign;
}

template <typename From>
void store_int(const void* in, DType to, void* out, int64_t n) {
  if constexpr (std::is_same_v<From, int32_t>) {  // what all small integers are seen as
    if (to == DType::kF32) return HWY_DYNAMIC_DISPATCH(i32_to_f32)(in, out, n);
    if (to == DType::kU8 || to == DType::kI8) return HWY_DYNAMIC_DISPATCH(i32_to_u8)(in, out, n);
  }
  switch (to) {
    case DType::kF32:
      return widen<From, float>(in, out, n);
    case DType::kF64:
      return widen<From, double>(in, out, n);
    case DType::kF16:
    case DType::kBF16:
      return to_half<From>(in, to, out, n, [](From x) { return static_cast<float>(x); });
    case DType::kBool:
      return each<From, uint8_t>(in, out, n, [](From x) { return x != 0; });
    default:
      break;
  }
  switch (dtype_size(to)) {
    case 1:
      return widen<From, uint8_t>(in, out, n);
    case 2:
      return widen<From, uint16_t>(in, out, n);
    case 4:
      return widen<From, uint32_t>(in, out, n);
    default:
      return widen<From, uint64_t>(in, out, n);
  }
}

template <typename From>
void store_float(const void* in, DType to, void* out, int64_t n) {
  if constexpr (std::is_same_v<From, float>) {
    if (to == DType::kI32) return HWY_DYNAMIC_DISPATCH(f32_to_i32)(in, out, n);
    if (to == DType::kU8 || to == DType::kI8) {
      int32_t whole[kBlock];
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t m = std::min(kBlock, n - i);
        HWY_DYNAMIC_DISPATCH(f32_to_i32)(static_cast<const float*>(in) + i, whole, m);
        HWY_DYNAMIC_DISPATCH(i32_to_u8)(whole, static_cast<uint8_t*>(out) + i, m);
      }
      return;
    }
  }
  switch (to) {
    case DType::kF32:
      return widen<From, float>(in, out, n);
    case DType::kF64:
      return widen<From, double>(in, out, n);
    case DType::kF16:
      if constexpr (sizeof(From) == 8) return to_half<From>(in, to, out, n, to_odd_float);
      return HWY_DYNAMIC_DISPATCH(f32_to_f16)(static_cast<const float*>(in), static_cast<uint16_t*>(out), n);
    case DType::kBF16:
      if constexpr (sizeof(From) == 8)
        return to_half<From>(in, to, out, n, [](From x) { return static_cast<float>(x); });
      return HWY_DYNAMIC_DISPATCH(f32_to_bf16)(static_cast<const float*>(in), static_cast<uint16_t*>(out), n);
    case DType::kBool:
      return each<From, uint8_t>(in, out, n, [](From x) { return x != 0; });
    case DType::kI8:
    case DType::kU8:
      return each<From, uint8_t>(in, out, n, truncate<int32_t, From>);
    case DType::kI16:
    case DType::kU16:
      return each<From, uint16_t>(in, out, n, truncate<int32_t, From>);
    case DType::kI32:
      return each<From, int32_t>(in, out, n, truncate<int32_t, From>);
    case DType::kU32:
      return each<From, uint32_t>(in, out, n, truncate<int64_t, From>);
    case DType::kI64:
      return each<From, int64_t>(in, out, n, truncate<int64_t, From>);
    case DType::kU64:
      return each<From, uint64_t>(in, out, n, truncate_u64<From>);
    default:
      return;  // storage types have their own way
  }
}

template <typename From>
void store(const void* block, DType to, void* data, int64_t n, Storing how) {
  if (is_storage(to)) return to_storage<From>(block, to, data, n, how);
  if constexpr (std::is_floating_point_v<From>)
    store_float<From>(block, to, data, n);
  else
    store_int<From>(block, to, data, n);
}

}  // namespace

const void* load_block(DType from, const void* data, int64_t n, void* buffer) {
  switch (from) {
    case DType::kF16:
      HWY_DYNAMIC_DISPATCH(f16_to_f32)(static_cast<const uint16_t*>(data), static_cast<float*>(buffer), n);
      return buffer;
    case DType::kBF16:
      HWY_DYNAMIC_DISPATCH(bf16_to_f32)(static_cast<const uint16_t*>(data), static_cast<float*>(buffer), n);
      return buffer;
    case DType::kI8:
      HWY_DYNAMIC_DISPATCH(i8_to_i32)(data, buffer, n);
      return buffer;
    case DType::kU8:
    case DType::kBool:
      HWY_DYNAMIC_DISPATCH(u8_to_i32)(data, buffer, n);
      return buffer;
    case DType::kI16:
      widen<int16_t, int32_t>(data, buffer, n);
      return buffer;
    case DType::kU16:
      widen<uint16_t, int32_t>(data, buffer, n);
      return buffer;
    case DType::kU32:
      widen<uint32_t, int64_t>(data, buffer, n);
      return buffer;
    default:
      if (!is_storage(from)) return data;
      from_storage(from, data, n, buffer);
      return buffer;
  }
}

void store_block(Compute from, const void* block, DType to, void* data, int64_t n, Storing how) {
  if (compute_dtype(from) == to) {
    if (block != data && n > 0) std::memcpy(data, block, static_cast<size_t>(n) * dtype_size(to));
    return;
  }
  switch (from) {
    case Compute::kF32:
      return store<float>(block, to, data, n, how);
    case Compute::kF64:
      return store<double>(block, to, data, n, how);
    case Compute::kI32:
      return store<int32_t>(block, to, data, n, how);
    case Compute::kI64:
      return store<int64_t>(block, to, data, n, how);
    case Compute::kU64:
      return store<uint64_t>(block, to, data, n, how);
  }
}

void convert(DType from, const void* in, DType to, void* out, int64_t n, Storing how) {
  const Compute compute = compute_type(from);
  if (compute_dtype(compute) == from) return store_block(compute, in, to, out, n, how);
  Block buffer;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    load_block(from, offset(in, i, dtype_size(from)), m, buffer.bytes);
    store_block(compute, buffer.bytes, to, offset(out, i, dtype_size(to)), m, how);
  }
}

void convert_elements(DType from, const void* in, DType to, void* out, int64_t n) { convert(from, in, to, out, n); }

}  // namespace minnow
#endif  // HWY_ONCE
