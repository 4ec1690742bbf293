// Reading the operands that describe a computation: numbers of i32 or i64, and values of any type.
#pragma once

#include <type_traits>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/infer.h"
#include "kernels/core/int_view.h"

namespace minnow {

inline Status require_int(const InferContext& c, int i) {
  const DType dtype = c.in(i).dtype;
  if (dtype == DType::kI32 || dtype == DType::kI64) return ok();
  return fail(Code::kFormat, "input %d must be i32 or i64, not %s", i, dtype_name(dtype));
}

inline Status require_dtype(const InferContext& c, int i, DType dtype) {
  if (c.in(i).dtype == dtype) return ok();
  return fail(Code::kFormat, "input %d must be %s, not %s", i, dtype_name(dtype), dtype_name(c.in(i).dtype));
}

inline Status require_rank(const InferContext& c, int i, int least, int most) {
  const int rank = c.shape(i).rank();
  if (rank >= least && rank <= most) return ok();
  if (least == most)
    return fail(Code::kFormat, "input %d must have rank %d, not the shape %s", i, least, c.shape(i).str().c_str());
  return fail(Code::kFormat, "input %d must have a rank from %d to %d, not the shape %s", i, least, most,
              c.shape(i).str().c_str());
}

// An output of at most kMaxRank dims.
inline Status require_out_rank(int64_t rank) {
  if (rank <= kMaxRank) return ok();
  return fail(Code::kUnsupported, "an output of rank %lld; the most is %d", static_cast<long long>(rank), kMaxRank);
}

// Element `i` of a tensor of any type, as float, double or int64_t; converted as a cast does.
template <typename T>
T number_at(const Tensor& t, int64_t i) {
  constexpr DType kType = std::is_same_v<T, float>    ? DType::kF32
                          : std::is_same_v<T, double> ? DType::kF64
                                                      : DType::kI64;
  static_assert(kType != DType::kI64 || std::is_same_v<T, int64_t>);
  T value{};
  convert(t.type.dtype, offset(static_cast<const void*>(t.data), i, dtype_size(t.type.dtype)), kType, &value, 1);
  return value;
}

// Calls body(T{}) with the C++ type of `t`, for integers, f32 and f64; false for the others.
template <typename Body>
bool with_number(DType t, Body body) {
  switch (t) {
    case DType::kF32:
      body(float{});
      return true;
    case DType::kF64:
      body(double{});
      return true;
    case DType::kI8:
      body(int8_t{});
      return true;
    case DType::kU8:
      body(uint8_t{});
      return true;
    case DType::kI16:
      body(int16_t{});
      return true;
    case DType::kU16:
      body(uint16_t{});
      return true;
    case DType::kI32:
      body(int32_t{});
      return true;
    case DType::kU32:
      body(uint32_t{});
      return true;
    case DType::kI64:
      body(int64_t{});
      return true;
    case DType::kU64:
      body(uint64_t{});
      return true;
    default:
      return false;
  }
}

}  // namespace minnow
