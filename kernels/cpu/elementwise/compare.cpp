// Comparisons, predicates and logic: results are bool.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// out[i] = f(a[i], b[i]): plain loops, which the compiler vectorizes.
template <typename T, class Function>
HWY_INLINE void Compare(const void* const* in, void* out, int64_t n, const Function& f) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  uint8_t* c = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, uint64_t>) keep_scalar();  // rare
    c[i] = f(a[i], b[i]);
  }
}

#define MINNOW_ROWS(Name, Expression)                                     \
  template <typename T>                                                   \
  void Name(const void* const* in, const int*, void* out, int64_t n) {    \
    Compare<T>(in, out, n, [](T x, T y) HWY_ATTR { return Expression; }); \
  }
MINNOW_ROWS(Less, x < y)
MINNOW_ROWS(LessOrEqual, x <= y)
MINNOW_ROWS(Equal, x == y)
MINNOW_ROWS(NotEqual, x != y)
MINNOW_ROWS(And, (x != 0) & (y != 0))
MINNOW_ROWS(Or, (x != 0) | (y != 0))
MINNOW_ROWS(Xor, (x != 0) != (y != 0))
#undef MINNOW_ROWS

bool FitI32(const int64_t* x, int64_t n) {
  uint64_t high = 0;  // those of 32 bits have no high bits when they are moved up by 2^31
  for (int64_t i = 0; i < n; ++i) high |= static_cast<uint64_t>(x[i]) + (uint64_t{1} << 31);
  return high >> 32 == 0;
}

RowFunction LessFloats() { return Less<float>; }
RowFunction LessOrEqualFloats() { return LessOrEqual<float>; }
RowFunction EqualFloats() { return Equal<float>; }
RowFunction NotEqualFloats() { return NotEqual<float>; }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "kernels/core/elements.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {

HWY_EXPORT(FitI32);
bool fit_i32(const int64_t* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(FitI32)(x, n); }

namespace {

Status infer_any(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  if (c.num_inputs() > 2) return fail(Code::kFormat, "takes 2 inputs, not %d", c.num_inputs());
  if (c.in(0).dtype != c.in(1).dtype)
    return fail(Code::kFormat, "the operands are of two types, %s and %s", dtype_name(c.in(0).dtype),
                dtype_name(c.in(1).dtype));
  return infer_compare(c);
}

Status infer_ordered(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_any(c));
  return c.in(0).dtype == DType::kBool ? fail(Code::kFormat, "bool has no order") : ok();
}

Status infer_logic(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_any(c));
  return c.in(0).dtype != DType::kBool ? fail(Code::kFormat, "takes bool, not %s", dtype_name(c.in(0).dtype)) : ok();
}

// Greater is Less with its operands changed over.
#define MINNOW_COMPARISON(Name, Function, is_swapped)                                                               \
  RowKernel choose_##Name(const NodeContext& node) {                                                                \
    using namespace HWY_NAMESPACE;                                                                                  \
    const RowFunction functions[] = {HWY_DYNAMIC_DISPATCH(Function##Floats)(), Function<double>, Function<int32_t>, \
                                     Function<int64_t>, Function<uint64_t>};                                        \
    RowKernel kernel;                                                                                               \
    kernel.compute = compute_type(node.in[0]->dtype);                                                               \
    kernel.function = functions[static_cast<size_t>(kernel.compute)];                                               \
    kernel.native_out = true;                                                                                       \
    kernel.swapped = is_swapped;                                                                                    \
    return kernel;                                                                                                  \
  }
HWY_EXPORT(LessFloats);
HWY_EXPORT(LessOrEqualFloats);
HWY_EXPORT(EqualFloats);
HWY_EXPORT(NotEqualFloats);
MINNOW_COMPARISON(Equal, Equal, false)
MINNOW_COMPARISON(NotEqual, NotEqual, false)
MINNOW_COMPARISON(Less, Less, false)
MINNOW_COMPARISON(LessOrEqual, LessOrEqual, false)
MINNOW_COMPARISON(Greater, Less, true)
MINNOW_COMPARISON(GreaterOrEqual, LessOrEqual, true)

#define MINNOW_COMPARE(Name, infer)      \
  MINNOW_OP(#Name, infer, kElementwise); \
  MINNOW_KERNEL(#Name, create_rows<choose_##Name>, LayoutRule::kElementwise, /*in_place=*/false, nullptr, Pieces::kRows)
MINNOW_COMPARE(Equal, infer_any);
MINNOW_COMPARE(NotEqual, infer_any);
MINNOW_COMPARE(Less, infer_ordered);
MINNOW_COMPARE(LessOrEqual, infer_ordered);
MINNOW_COMPARE(Greater, infer_ordered);
MINNOW_COMPARE(GreaterOrEqual, infer_ordered);

#define MINNOW_LOGIC(Name)                                                 \
  RowKernel choose_##Name(const NodeContext&) {                            \
    return {HWY_NAMESPACE::Name<uint8_t>, Compute::kI32, /*native=*/true}; \
  }                                                                        \
  MINNOW_OP(#Name, infer_logic, kElementwise);                             \
  MINNOW_KERNEL(#Name, create_rows<choose_##Name>, LayoutRule::kElementwise, /*in_place=*/true, nullptr, Pieces::kRows)
MINNOW_LOGIC(And);
MINNOW_LOGIC(Or);
MINNOW_LOGIC(Xor);

// ---- one operand

Status infer_predicate(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_float(c));
  c.set(0, DType::kBool, c.shape(0));
  return ok();
}

Status infer_not(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  return c.in(0).dtype != DType::kBool ? fail(Code::kFormat, "takes bool, not %s", dtype_name(c.in(0).dtype)) : ok();
}

Status infer_flip(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_numeric(c));
  return is_float(c.in(0).dtype) ? fail(Code::kFormat, "takes integers, not %s", dtype_name(c.in(0).dtype)) : ok();
}

// Calls row(in, out, n) for pieces of the input in its compute type, or as it is stored.
template <typename Row>
void for_pieces(const RunContext& context, bool converted, Row row) {
  const TensorType& type = context.in[0]->type;
  const size_t size = dtype_size(type.dtype);
  const size_t out_size = dtype_size(context.out[0]->type.dtype);
  context.pool->parallel_for(stored_count(type), 16384, [&](int64_t begin, int64_t end, int) {
    Block block;
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      const void* in = offset(context.in[0]->data, i, size);
      row(converted ? load_block(type.dtype, in, n, block.bytes) : in, offset(context.out[0]->data, i, out_size), n);
    }
  });
}

template <typename T, typename Predicate>
void test(const void* in, void* out, int64_t n, Predicate predicate) {
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(out)[i] = predicate(static_cast<const T*>(in)[i]);
}

template <typename Predicate>
void test_floats(const RunContext& context, Predicate predicate) {
  const bool is_double = context.in[0]->type.dtype == DType::kF64;
  for_pieces(context, true, [&](const void* in, void* out, int64_t n) {
    is_double ? test<double>(in, out, n, predicate) : test<float>(in, out, n, predicate);
  });
}

void run_is_nan(const Attrs&, const RunContext& context) {
  test_floats(context, [](auto x) { return x != x; });
}

void run_is_inf(const Attrs& attrs, const RunContext& context) {
  const bool negative = attrs.b("detect_negative", true);
  const bool positive = attrs.b("detect_positive", true);
  test_floats(context, [=](auto x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}

void run_not(const Attrs&, const RunContext& context) {
  for_pieces(context, false,
             [](const void* in, void* out, int64_t n) { test<uint8_t>(in, out, n, [](uint8_t x) { return x == 0; }); });
}

void run_flip(const Attrs&, const RunContext& context) {
  const int64_t size = static_cast<int64_t>(dtype_size(context.in[0]->type.dtype));
  for_pieces(context, false, [&](const void* in, void* out, int64_t n) {
    for (int64_t i = 0; i < n * size; ++i)
      static_cast<uint8_t*>(out)[i] = static_cast<uint8_t>(~static_cast<const uint8_t*>(in)[i]);
  });
}

MINNOW_OP("IsNaN", infer_predicate, kElementwise);
MINNOW_KERNEL("IsNaN", create_simple<run_is_nan>, LayoutRule::kFollow, /*in_place=*/false, nullptr, Pieces::kVectors);
MINNOW_OP("IsInf", infer_predicate, kElementwise);
MINNOW_KERNEL("IsInf", create_simple<run_is_inf>, LayoutRule::kFollow, /*in_place=*/false, nullptr, Pieces::kVectors);
MINNOW_OP("Not", infer_not, kElementwise);
MINNOW_KERNEL("Not", create_simple<run_not>, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);
MINNOW_OP("BitwiseNot", infer_flip, kElementwise);
MINNOW_KERNEL("BitwiseNot", create_simple<run_flip>, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
