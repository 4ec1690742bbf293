// Arithmetic of two operands with numpy broadcasting. One row an op.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

// name, of float vectors `x` and `y` with tag `d`, of doubles, of integers. Integers wrap, and what has no result
// (division by zero) is 0.
#define MINNOW_BINARY_FUNCTIONS(X)                                             \
  MINNOW_RECTIFIED_FUNCTIONS(X)                                                \
  X(FloorDiv, hn::Floor(hn::Div(x, y)), std::floor(x / y), floor_divide(x, y)) \
  X(SquaredDifference, Square(hn::Sub(x, y)), (x - y) * (x - y), wrapped_mul(wrapped_sub(x, y), wrapped_sub(x, y)))

// Those whose result may be cut off at zero.
#define MINNOW_RECTIFIED_FUNCTIONS(X)                                                             \
  X(Add, hn::Add(x, y), x + y, wrapped_add(x, y))                                                 \
  X(Sub, hn::Sub(x, y), x - y, wrapped_sub(x, y))                                                 \
  X(Mul, hn::Mul(x, y), x* y, wrapped_mul(x, y))                                                  \
  X(Div, hn::Div(x, y), x / y, divide(x, y))                                                      \
  X(Max, hn::IfThenElse(hn::IsNaN(x), x, AtLeast(x, y)), x > y || x != x ? x : y, std::max(x, y)) \
  X(Min, hn::IfThenElse(hn::IsNaN(x), x, AtMost(x, y)), x < y || x != x ? x : y, std::min(x, y))

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

template <class V>
HWY_INLINE V Square(V x) {
  return hn::Mul(x, x);
}

// out[i] = f(a[i], b[i]), where either may be a single number: a vector of it is then read again and again.
template <class Function>
HWY_INLINE void MapPairs(const void* const* in, const int* step, void* out, int64_t n, const Function& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float buffer[2][hn::MaxLanes(d)];
  const float* operand[2];
  for (int k = 0; k < 2; ++k) {
    operand[k] = static_cast<const float*>(in[k]);
    hn::Store(hn::Set(d, *operand[k]), d, buffer[k]);
    if (step[k] == 0) operand[k] = buffer[k];
  }
  const float *a = operand[0], *b = operand[1];
  float* y = static_cast<float*>(out);
  const int64_t whole = n / lanes * lanes;
  const int64_t s = step[0] != 0 ? lanes : 0, t = step[1] != 0 ? lanes : 0;
  // Four vectors at a time: a chain of ops on what lies in the cache spends as long on counting as on computing.
  const float* const far = y + whole / (4 * lanes) * (4 * lanes);
  for (; y < far; y += 4 * lanes, a += 4 * s, b += 4 * t) {
    const auto first = f(d, hn::LoadU(d, a), hn::LoadU(d, b));
    const auto second = f(d, hn::LoadU(d, a + s), hn::LoadU(d, b + t));
    const auto third = f(d, hn::LoadU(d, a + 2 * s), hn::LoadU(d, b + 2 * t));
    const auto fourth = f(d, hn::LoadU(d, a + 3 * s), hn::LoadU(d, b + 3 * t));
    hn::StoreU(first, d, y);
    hn::StoreU(second, d, y + lanes);
    hn::StoreU(third, d, y + 2 * lanes);
    hn::StoreU(fourth, d, y + 3 * lanes);
  }
  const float* const end = static_cast<const float*>(out) + whole;
  for (; y < end; y += lanes, a += s, b += t) hn::StoreU(f(d, hn::LoadU(d, a), hn::LoadU(d, b)), d, y);
  if (whole == n) return;
  const size_t bytes = static_cast<size_t>(n - whole) * sizeof(float);
  if (s != 0) std::memcpy(buffer[0], a, bytes);
  if (t != 0) std::memcpy(buffer[1], b, bytes);
  hn::Store(f(d, hn::Load(d, buffer[0]), hn::Load(d, buffer[1])), d, buffer[0]);
  std::memcpy(y, buffer[0], bytes);
}

#define MINNOW_DEFINE(Name, Vector, ...)                                          \
  void Rows##Name(const void* const* in, const int* step, void* out, int64_t n) { \
    MapPairs(in, step, out, n, [](auto d, auto x, auto y) HWY_ATTR {              \
      (void)d;                                                                    \
      return Vector;                                                              \
    });                                                                           \
  }
MINNOW_BINARY_FUNCTIONS(MINNOW_DEFINE)
#define MINNOW_DEFINE_RELU(Name, Vector, ...) MINNOW_DEFINE(Name##Relu, AtLeast(hn::Zero(d), Vector))
MINNOW_RECTIFIED_FUNCTIONS(MINNOW_DEFINE_RELU)
#undef MINNOW_DEFINE_RELU
MINNOW_DEFINE(PRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, y), x))
#undef MINNOW_DEFINE

// Powers that need no library call: squares, cubes, roots. True when `exponent` is one of them.
bool EasyPow(const float* x, float exponent, float* y, int64_t n) {
  if (exponent == 2.0f) {
    MapFloats(x, y, n, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); });
  } else if (exponent == 3.0f) {
    MapFloats(x, y, n, [](auto, auto v) HWY_ATTR { return hn::Mul(hn::Mul(v, v), v); });
  } else if (exponent == 0.5f) {  // unlike a root it gives +0 for -0, and infinity for -infinity
    MapFloats(x, y, n, [](auto d, auto v) HWY_ATTR {
      const auto infinity = hn::Set(d, __builtin_inff());
      return hn::IfThenElse(hn::Eq(v, hn::Neg(infinity)), infinity, hn::Sqrt(hn::Add(v, hn::Zero(d))));
    });
  } else {
    return false;
  }
  return true;
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

template <typename T>
T wrapped_add(T x, T y) {
  return static_cast<T>(static_cast<Unsigned<T>>(x) + static_cast<Unsigned<T>>(y));
}
template <typename T>
T wrapped_sub(T x, T y) {
  return static_cast<T>(static_cast<Unsigned<T>>(x) - static_cast<Unsigned<T>>(y));
}
template <typename T>
T wrapped_mul(T x, T y) {
  return static_cast<T>(static_cast<Unsigned<T>>(x) * static_cast<Unsigned<T>>(y));
}
// The least number divided by -1 traps, so that divisor is a case of its own.
template <typename T>
T divide(T x, T y) {
  if (y == 0) return 0;
  return std::is_signed_v<T> && y == static_cast<T>(-1) ? wrapped_sub<T>(0, x) : static_cast<T>(x / y);
}
// By vectors of doubles: a quotient of two such numbers that is no integer is farther from one than doubles round.
int32_t divide(int32_t x, int32_t y) {
  const int32_t divisor = y == 0 || y == -1 ? 1 : y;
  const auto quotient = static_cast<int32_t>(static_cast<double>(x) / static_cast<double>(divisor));
  return y == 0 ? 0 : y == -1 ? wrapped_sub<int32_t>(0, x) : quotient;
}
template <typename T>
T fmod_int(T x, T y) {
  return y == 0 || (std::is_signed_v<T> && y == static_cast<T>(-1)) ? 0 : static_cast<T>(x % y);
}
template <typename T>
T floor_divide(T x, T y) {
  const T quotient = divide(x, y);
  return static_cast<T>(quotient - (fmod_int(x, y) != 0 && (x < 0) != (y < 0) ? 1 : 0));
}
template <typename T>
T mod_int(T x, T y) {
  if (y > 0 && static_cast<Unsigned<T>>(x) < static_cast<Unsigned<T>>(y)) return x;  // most indices, without a division
  const T rest = fmod_int(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
}
template <typename T>
T pow_int(T x, T y) {
  if (y < 0) return x == 1 ? 1 : x == static_cast<T>(-1) ? static_cast<T>(y & 1 ? -1 : 1) : 0;
  T power = 1;
  for (; y != 0; y = static_cast<T>(y >> 1)) {
    if (y & 1) power = wrapped_mul(power, x);
    x = wrapped_mul(x, x);
  }
  return power;
}
template <typename T>
T mod_float(T x, T y) {
  const T rest = std::fmod(x, y);
  return rest == 0 ? std::copysign(rest, y) : (rest < 0) != (y < 0) ? rest + y : rest;
}

// A shift by the width of the number or more (or by a negative number) leaves nothing but its sign.
template <typename T>
T shift_left(T x, T y) {
  return y < 0 || y >= static_cast<T>(8 * sizeof(T)) ? 0 : static_cast<T>(static_cast<Unsigned<T>>(x) << y);
}
template <typename T>
T shift_right(T x, T y) {
  if (y < 0 || y >= static_cast<T>(8 * sizeof(T))) return x < 0 ? static_cast<T>(-1) : 0;
  return static_cast<T>(x >> y);
}

// out[i] = f(a[i], b[i]), where either may be a single number. Rows of small integers have no single numbers, so that
// the compiler can vectorize them.
template <typename T, typename Function>
void map(const void* const* in, const int* step, void* out, int64_t n, Function f) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, int32_t>) {
      y[i] = f(a[i], b[i]);
    } else {
      keep_scalar();
      y[i] = f(a[i * step[0]], b[i * step[1]]);
    }
  }
}

#define MINNOW_ROWS(Name, T, Expression)                                    \
  void Name(const void* const* in, const int* step, void* out, int64_t n) { \
    map<T>(in, step, out, n, [](T x, T y) { return Expression; });          \
  }
#define MINNOW_INT_ROWS(Name, Expression)     \
  MINNOW_ROWS(Name##I32, int32_t, Expression) \
  MINNOW_ROWS(Name##I64, int64_t, Expression) \
  MINNOW_ROWS(Name##U64, uint64_t, Expression)

struct BinaryFunctions {
  RowFunction f32, f64, i32, i64, u64;
  int64_t grain = 16384;
};

RowKernel pick(const NodeContext& node, const BinaryFunctions& functions) {
  const Compute compute = compute_type(node.in[0]->dtype);
  const RowFunction by_type[] = {functions.f32, functions.f64, functions.i32, functions.i64, functions.u64};
  RowKernel kernel;
  kernel.function = by_type[static_cast<size_t>(compute)];
  kernel.compute = compute;
  kernel.takes_single = compute != Compute::kI32;
  kernel.grain = functions.grain;
  return kernel;
}

// Two operands of one type.
Status infer_pair(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  if (c.num_inputs() > 2) return fail(Code::kFormat, "takes 2 inputs, not %d", c.num_inputs());
  if (c.in(0).dtype != c.in(1).dtype)
    return fail(Code::kFormat, "the operands are of two types, %s and %s", dtype_name(c.in(0).dtype),
                dtype_name(c.in(1).dtype));
  return infer_broadcast(c);
}

Status infer_numbers(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_pair(c));
  return c.in(0).dtype == DType::kBool ? fail(Code::kFormat, "takes numbers, not bool") : ok();
}

Status infer_ints(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_numbers(c));
  return is_float(c.in(0).dtype) ? fail(Code::kFormat, "takes integers, not %s", dtype_name(c.in(0).dtype)) : ok();
}

Status infer_prelu(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_pair(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  Shape shape;
  MINNOW_RETURN_IF_ERROR(broadcast_shapes(c.shape(0), c.shape(1), &shape));
  if (shape != c.shape(0))
    return fail(Code::kFormat, "a slope of shape %s does not broadcast to %s", c.shape(1).str().c_str(),
                c.shape(0).str().c_str());
  return ok();
}

#define MINNOW_BINARY(Name, infer, choose) \
  MINNOW_OP(#Name, infer, kElementwise);   \
  MINNOW_KERNEL(#Name, create_rows<choose>, LayoutRule::kElementwise, /*in_place=*/true, nullptr, Pieces::kRows)

#define MINNOW_FUNCTIONS(Name, Vector, Float, Int)                                                      \
  HWY_EXPORT(Rows##Name);                                                                               \
  MINNOW_ROWS(Name##F64, double, Float)                                                                 \
  MINNOW_INT_ROWS(Name, Int)                                                                            \
  RowKernel choose_##Name(const NodeContext& node) {                                                    \
    return pick(node, {&HWY_DYNAMIC_DISPATCH(Rows##Name), Name##F64, Name##I32, Name##I64, Name##U64}); \
  }
MINNOW_BINARY_FUNCTIONS(MINNOW_FUNCTIONS)

MINNOW_BINARY(Add, infer_numbers, choose_Add);
MINNOW_BINARY(Sub, infer_numbers, choose_Sub);
MINNOW_BINARY(Mul, infer_numbers, choose_Mul);
MINNOW_BINARY(Div, infer_numbers, choose_Div);
MINNOW_BINARY(FloorDiv, infer_numbers, choose_FloorDiv);
MINNOW_BINARY(Max, infer_numbers, choose_Max);
MINNOW_BINARY(Min, infer_numbers, choose_Min);
MINNOW_BINARY(SquaredDifference, infer_numbers, choose_SquaredDifference);

template <typename T>
T rectified(T x) {
  return x < 0 ? 0 : x;
}

// max(x op y, 0), the op being an attribute.
#define MINNOW_RELU_ROWS(Name, Vector, Float, Int) \
  HWY_EXPORT(Rows##Name##Relu);                    \
  MINNOW_ROWS(Name##ReluF64, double, rectified(Float))
MINNOW_RECTIFIED_FUNCTIONS(MINNOW_RELU_ROWS)

RowKernel choose_relu(const NodeContext& node) {
  const std::string op = node.attrs.s("op", "Add");
#define MINNOW_CHOOSE_RELU(Name, Vector, Float, Int) \
  if (op == #Name)                                   \
    return pick(node, {&HWY_DYNAMIC_DISPATCH(Rows##Name##Relu), Name##ReluF64, nullptr, nullptr, nullptr});
  MINNOW_RECTIFIED_FUNCTIONS(MINNOW_CHOOSE_RELU)
  return RowKernel();
}

Status infer_relu(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_pair(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  const std::string op = c.attrs.s("op", "Add");
#define MINNOW_KNOWS_RELU(Name, Vector, Float, Int) \
  if (op == #Name) return ok();
  MINNOW_RECTIFIED_FUNCTIONS(MINNOW_KNOWS_RELU)
  return fail(Code::kUnsupported, "no op '%s' is rectified", op.c_str());
}
MINNOW_BINARY(BinaryRelu, infer_relu, choose_relu);

HWY_EXPORT(RowsPRelu);
MINNOW_ROWS(PReluF64, double, x < 0 ? x * y : x)
RowKernel choose_prelu(const NodeContext& node) {
  return pick(node, {&HWY_DYNAMIC_DISPATCH(RowsPRelu), PReluF64, nullptr, nullptr, nullptr});
}

// A slope with one number per channel, all other dimensions being 1.
bool is_per_channel(const Shape& slope, const Shape& x) {
  return x.rank() >= 2 && slope.rank() >= x.rank() - 1 && slope.at(-(x.rank() - 1)) == x[1] && slope.count() == x[1];
}

// The slope stays plain beside a packed x when it has a number per channel, and is packed here.
class PRelu final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    kernel_ = choose_prelu(node);
    const TensorType& x = *node.in[0];
    slope_.type = *node.in[1];
    is_packed_here_ = x.layout == Layout::kPacked && slope_.type.layout == Layout::kPlain && slope_.count() > 1 &&
                      x.shape.rank() >= 2;
    if (is_packed_here_) {
      Shape shape;
      shape.resize(x.shape.rank());
      shape[1] = x.shape[1];
      slope_.type = {x.dtype, Layout::kPacked, shape};
    }
    *workspace = is_packed_here_ ? stored_bytes(slope_.type) : 0;
    inner_.in.resize(2);
    inner_.out.resize(1);
    return broadcast_.make({&x, &slope_.type}, *node.out[0], false);
  }

  void run(const RunContext& context) override {
    inner_.in[0] = context.in[0];
    inner_.in[1] = context.in[1];
    inner_.out[0] = context.out[0];
    inner_.pool = context.pool;
    if (is_packed_here_) {
      const size_t bytes = static_cast<size_t>(context.in[1]->type.bytes());
      std::memset(context.workspace, 0, static_cast<size_t>(stored_bytes(slope_.type)));
      std::memcpy(context.workspace, context.in[1]->data, bytes);
      slope_.data = context.workspace;
      inner_.in[1] = &slope_;
    }
    broadcast_.run(kernel_, inner_);
  }

 private:
  RowKernel kernel_;
  Broadcast broadcast_;
  bool is_packed_here_ = false;
  Tensor slope_;
  RunContext inner_;
};

std::unique_ptr<Kernel> create_prelu(const NodeContext& node) {
  const TensorType& slope = *node.in[1];
  const bool packs = node.in[0]->layout == Layout::kPacked && slope.layout == Layout::kPlain && slope.count() != 1;
  if (packs) return std::make_unique<PRelu>();
  return create_broadcast(choose_prelu);
}

LayoutRule layout_of_prelu(const std::vector<const TensorType*>& in) {
  if (in.size() < 2 || in[0] == nullptr || in[1] == nullptr) return LayoutRule::kPlain;
  const Shape &x = in[0]->shape, &slope = in[1]->shape;
  if (slope.count() == 1 || is_per_channel(slope, x)) return LayoutRule::kFollow;
  return slope == x ? LayoutRule::kElementwise : LayoutRule::kPlain;
}

MINNOW_OP("PRelu", infer_prelu, kElementwise);
MINNOW_KERNEL("PRelu", create_prelu, LayoutRule::kElementwise, /*in_place=*/true, layout_of_prelu, Pieces::kRows);

constexpr int64_t kLibraryGrain = 2048;

HWY_EXPORT(EasyPow);
MINNOW_ROWS(library_pow, float, std::pow(x, y))
void PowF32(const void* const* in, const int* step, void* out, int64_t n) {
  if (step[1] == 0 && step[0] != 0 &&
      HWY_DYNAMIC_DISPATCH(EasyPow)(static_cast<const float*>(in[0]), *static_cast<const float*>(in[1]),
                                    static_cast<float*>(out), n))
    return;
  library_pow(in, step, out, n);
}
MINNOW_ROWS(PowF64, double, std::pow(x, y))
MINNOW_INT_ROWS(Pow, pow_int(x, y))
RowKernel choose_pow(const NodeContext& node) {
  return pick(node, {PowF32, PowF64, PowI32, PowI64, PowU64, kLibraryGrain});
}
MINNOW_BINARY(Pow, infer_numbers, choose_pow);

MINNOW_ROWS(Atan2F32, float, std::atan2(x, y))
MINNOW_ROWS(Atan2F64, double, std::atan2(x, y))
RowKernel choose_atan2(const NodeContext& node) {
  RowKernel kernel = pick(node, {Atan2F32, Atan2F64, Atan2F64, Atan2F64, Atan2F64, kLibraryGrain});
  kernel.takes_single = true;
  if (kernel.compute != Compute::kF32) kernel.compute = Compute::kF64;  // integers too
  return kernel;
}
MINNOW_BINARY(Atan2, infer_numbers, choose_atan2);

MINNOW_ROWS(FmodF32, float, std::fmod(x, y))
MINNOW_ROWS(FmodF64, double, std::fmod(x, y))
MINNOW_INT_ROWS(Fmod, fmod_int(x, y))
MINNOW_ROWS(ModF32, float, mod_float(x, y))
MINNOW_ROWS(ModF64, double, mod_float(x, y))
MINNOW_INT_ROWS(Mod, mod_int(x, y))
RowKernel choose_mod(const NodeContext& node) {
  return node.attrs.b("fmod") ? pick(node, {FmodF32, FmodF64, FmodI32, FmodI64, FmodU64, kLibraryGrain})
                              : pick(node, {ModF32, ModF64, ModI32, ModI64, ModU64, kLibraryGrain});
}
MINNOW_BINARY(Mod, infer_numbers, choose_mod);

MINNOW_INT_ROWS(BitwiseAnd, x& y)
MINNOW_INT_ROWS(BitwiseOr, x | y)
MINNOW_INT_ROWS(BitwiseXor, x ^ y)
MINNOW_INT_ROWS(ShiftLeft, shift_left(x, y))
MINNOW_INT_ROWS(ShiftRight, shift_right(x, y))
#define MINNOW_PICK_INTS(Name) pick(node, {nullptr, nullptr, Name##I32, Name##I64, Name##U64})
RowKernel choose_and(const NodeContext& node) { return MINNOW_PICK_INTS(BitwiseAnd); }
RowKernel choose_or(const NodeContext& node) { return MINNOW_PICK_INTS(BitwiseOr); }
RowKernel choose_xor(const NodeContext& node) { return MINNOW_PICK_INTS(BitwiseXor); }
RowKernel choose_shift(const NodeContext& node) {
  return node.attrs.s("direction") == "LEFT" ? MINNOW_PICK_INTS(ShiftLeft) : MINNOW_PICK_INTS(ShiftRight);
}
Status infer_shift(InferContext& c) {
  const std::string direction = c.attrs.s("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return fail(Code::kFormat, "direction \"%s\" is neither \"LEFT\" nor \"RIGHT\"", direction.c_str());
  return infer_ints(c);
}
MINNOW_BINARY(BitwiseAnd, infer_ints, choose_and);
MINNOW_BINARY(BitwiseOr, infer_ints, choose_or);
MINNOW_BINARY(BitwiseXor, infer_ints, choose_xor);
MINNOW_BINARY(BitShift, infer_shift, choose_shift);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
