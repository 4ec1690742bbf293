// From ops to the steps that compute them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/core/minifloat.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/text/elementwise_codes.inc"

namespace minnow::gpu {
namespace {

// The two functions of an op, of floats and of integers; -1: it takes no such elements.
struct Row {
  const char* op;
  int operands;  // more than 1: they broadcast
  // Results are as large as operands, which may be written over.
  bool in_place;
  int floats, integers;
  const char *a = nullptr, *b = nullptr;  // attributes that are parameters
  double a_default = 0, b_default = 0;
};

// op list: rows of the table of kernels, whose code is in a kernel text.
constexpr Row kRows[] = {
    {"Abs", 1, true, STEP_ABS, STEP_INT_ABS},
    {"Neg", 1, true, STEP_NEG, STEP_INT_NEG},
    {"Square", 1, true, STEP_SQUARE, STEP_INT_SQUARE},
    {"Sign", 1, true, STEP_SIGN, STEP_INT_SIGN},
    {"Relu", 1, true, STEP_RELU, STEP_INT_RELU},
    {"Floor", 1, true, STEP_FLOOR, -1},
    {"Ceil", 1, true, STEP_CEIL, -1},
    {"Sqrt", 1, true, STEP_SQRT, -1},
    {"Rsqrt", 1, true, STEP_RSQRT, -1},
    {"Reciprocal", 1, true, STEP_RECIPROCAL, -1},
    {"Exp", 1, true, STEP_EXP, -1},
    {"Expm1", 1, true, STEP_EXPM1, -1},
    {"Log", 1, true, STEP_LOG, -1},
    {"Log1p", 1, true, STEP_LOG1P, -1},
    {"Sin", 1, true, STEP_SIN, -1},
    {"Cos", 1, true, STEP_COS, -1},
    {"Tan", 1, true, STEP_TAN, -1},
    {"Asin", 1, true, STEP_ASIN, -1},
    {"Acos", 1, true, STEP_ACOS, -1},
    {"Atan", 1, true, STEP_ATAN, -1},
    {"Sinh", 1, true, STEP_SINH, -1},
    {"Cosh", 1, true, STEP_COSH, -1},
    {"Tanh", 1, true, STEP_TANH, -1},
    {"Asinh", 1, true, STEP_ASINH, -1},
    {"Acosh", 1, true, STEP_ACOSH, -1},
    {"Atanh", 1, true, STEP_ATANH, -1},
    {"Erf", 1, true, STEP_ERF, -1},
    {"Erfc", 1, true, STEP_ERFC, -1},
    {"Sigmoid", 1, true, STEP_SIGMOID, -1},
    {"Silu", 1, true, STEP_SILU, -1},
    {"Softplus", 1, true, STEP_SOFTPLUS, -1},
    {"Softsign", 1, true, STEP_SOFTSIGN, -1},
    {"Mish", 1, true, STEP_MISH, -1},
    {"HardSwish", 1, true, STEP_HARD_SWISH, -1},
    {"Gelu", 1, true, STEP_GELU, -1},
    {"Round", 1, true, STEP_ROUND_EVEN, -1},
    {"LeakyRelu", 1, true, STEP_LEAKY_RELU, -1, "alpha", "", 0.01, 0},
    {"Elu", 1, true, STEP_ELU, -1, "alpha", "", 1, 0},
    {"Selu", 1, true, STEP_SELU, -1, "alpha", "gamma", 1.6732632423543772, 1.0507009873554805},
    {"Celu", 1, true, STEP_CELU, -1, "alpha", "", 1, 0},
    {"ThresholdedRelu", 1, true, STEP_THRESHOLDED_RELU, -1, "alpha", "", 1, 0},
    {"HardSigmoid", 1, true, STEP_HARD_SIGMOID, -1, "alpha", "beta", 0.2, 0.5},
    {"Clip", 1, true, STEP_CLIP, STEP_INT_CLIP, "min", "max", -HUGE_VAL, HUGE_VAL},
    {"Shrink", 1, true, STEP_SHRINK, STEP_INT_SHRINK, "bias", "lambd", 0, 0.5},
    {"Add", 2, true, STEP_ADD, STEP_INT_ADD},
    {"Sub", 2, true, STEP_SUB, STEP_INT_SUB},
    {"Mul", 2, true, STEP_MUL, STEP_INT_MUL},
    {"Div", 2, true, STEP_DIV, STEP_INT_DIV},
    {"FloorDiv", 2, true, STEP_FLOOR_DIV, STEP_INT_FLOOR_DIV},
    {"Max", 2, true, STEP_MAX, STEP_INT_MAX},
    {"Min", 2, true, STEP_MIN, STEP_INT_MIN},
    {"SquaredDifference", 2, true, STEP_SQUARED_DIFFERENCE, STEP_INT_SQUARED_DIFFERENCE},
    {"BinaryRelu", 2, true, STEP_RELU, -1},
    {"PRelu", 2, true, STEP_PRELU, -1},
    {"Pow", 2, true, STEP_POW, STEP_INT_POW},
    {"Atan2", 2, true, STEP_ATAN2, -1},
    {"Mod", 2, true, STEP_MOD, STEP_INT_MOD},
    {"BitwiseAnd", 2, true, -1, STEP_INT_AND},
    {"BitwiseOr", 2, true, -1, STEP_INT_OR},
    {"BitwiseXor", 2, true, -1, STEP_INT_XOR},
    {"BitwiseNot", 1, true, -1, STEP_INT_FLIP},
    {"BitShift", 2, true, -1, STEP_INT_SHIFT_RIGHT},
    {"And", 2, true, -1, STEP_INT_AND},
    {"Or", 2, true, -1, STEP_INT_OR},
    {"Xor", 2, true, -1, STEP_INT_XOR},
    {"Not", 1, true, -1, STEP_INT_NOT},
    {"IsNaN", 1, true, STEP_IS_NAN, -1},
    {"IsInf", 1, true, STEP_IS_INF, -1},
    {"Equal", 2, false, STEP_EQUAL, STEP_INT_EQUAL},
    {"NotEqual", 2, false, STEP_NOT_EQUAL, STEP_INT_NOT_EQUAL},
    {"Less", 2, false, STEP_LESS, STEP_INT_LESS},
    {"LessOrEqual", 2, false, STEP_LESS_OR_EQUAL, STEP_INT_LESS_OR_EQUAL},
    {"Greater", 2, false, STEP_LESS, STEP_INT_LESS},
    {"GreaterOrEqual", 2, false, STEP_LESS_OR_EQUAL, STEP_INT_LESS_OR_EQUAL},
    {"Where", 3, false, STEP_WHERE, STEP_WHERE},
    {"Cast", 1, true, STEP_MOVE, STEP_INT_MOVE},
    {"CastLike", 1, true, STEP_MOVE, STEP_INT_MOVE},
    {"RoundTo", 1, true, STEP_MOVE, -1},
    {"Requantize", 3, false, -1, STEP_REQUANTIZE},
};

const Row* find_row(const std::string& op) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return op == r.op; });
  return row == std::end(kRows) ? nullptr : row;
}

uint32_t bits_of(double number) {
  const auto x = static_cast<float>(number);
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

bool is_wide_unsigned(DType t) { return t == DType::kU64; }

// The range of integers of a type, as numbers of 64 bits.
int64_t least_of(DType t) {
  switch (t) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return -(int64_t{1} << (8 * dtype_size(t) - 1));
    case DType::kI64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}
uint64_t most_of(DType t) {
  const auto bits = 8 * dtype_size(t) - (least_of(t) < 0 ? 1 : 0);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// The bounds of Clip as integers of the type; those beyond it do not bind.
std::array<uint32_t, 4> integer_bounds(DType type, double low, double high) {
  const auto fit = [&](double bound) {
    const auto least = static_cast<double>(least_of(type));
    if (!(bound > least)) return static_cast<uint64_t>(least_of(type));
    if (bound >= static_cast<double>(most_of(type))) return most_of(type);
    return bound < 0 ? static_cast<uint64_t>(static_cast<int64_t>(bound)) : static_cast<uint64_t>(bound);
  };
  const uint64_t a = fit(std::ceil(low)), b = fit(std::floor(high));
  return {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
          static_cast<uint32_t>(b >> 32)};
}

std::array<uint32_t, 4> format_numbers(DType type) {
  const MinifloatFormat& f = minifloat_format(type);
  const auto word = [](auto x) { return static_cast<uint32_t>(x); };
  return {word(f.mantissa) | word(f.bias) << 8 | word(f.sign) << 16 | word(f.most) << 24,
          word(f.overflow) | word(f.nan) << 8 | word(f.signed_specials) << 16, 0, 0};
}

// The steps of a cast; what each reads is the one before it, the first reads operand 0.
class Cast {
 public:
  Cast(const Attrs& attrs, std::vector<ElementStep>* steps) : attrs_(attrs), steps_(*steps) {}

  void add(DType from, DType to) {
    if (from == to) {
      step(is_float(from) ? STEP_MOVE : STEP_INT_MOVE, to);
      return;
    }
    if (is_minifloat(from)) {
      step(STEP_FROM_MINIFLOAT, DType::kF32).numbers = format_numbers(from);
      return add_float(DType::kF32, to);
    }
    if (is_storage(from)) {  // small integers, whose upper bits are 0
      step(STEP_INT_MOVE, DType::kI32).cut = from;
      return add_int(DType::kI32, to);
    }
    is_float(from) ? add_float(from, to) : add_int(from, to);
  }

 private:
  ElementStep& step(int code, DType dtype, bool all_bits = false) {
    ElementStep made;
    made.code = code;
    made.in = {steps_.empty() ? 0 : -1};
    made.dtype = dtype;
    made.all_bits = all_bits;
    steps_.push_back(made);
    return steps_.back();
  }

  void add_float(DType from, DType to) {
    if (to == DType::kF8E8M0) {
      const std::string mode = attrs_.s("round_mode", "up");
      step(STEP_TO_POWER, to).numbers = {mode == "up" ? 0u : mode == "down" ? 1u : 2u, 0, saturates(), 0};
    } else if (is_minifloat(to)) {
      ElementStep& made = step(STEP_TO_MINIFLOAT, to);
      made.numbers = format_numbers(to);
      made.numbers[2] = saturates();
    } else if (is_storage(to)) {
      step(STEP_FLOAT_TO_INT, to).cut = bits_of_storage(to);
    } else if (is_float(to)) {
      const bool rounds = to != DType::kF32 && from != to;
      if (rounds || steps_.empty())
        step(!rounds ? STEP_MOVE : to == DType::kF16 ? STEP_ROUND_F16 : STEP_ROUND_BF16, to);
    } else {
      const bool wide = to == DType::kU32 || to == DType::kI64 || to == DType::kU64;
      step(to == DType::kBool ? STEP_FLOAT_TO_BOOL
           : wide             ? STEP_FLOAT_TO_LONG
                              : STEP_FLOAT_TO_INT,
           to, is_wide_unsigned(to));
    }
  }

  void add_int(DType from, DType to) {
    const bool all_bits = is_wide_unsigned(from);
    if (is_float(to) || is_minifloat(to)) {
      step(STEP_INT_TO_FLOAT, DType::kF32, all_bits);
      if (to != DType::kF32) add_float(DType::kF32, to);
    } else if (is_storage(to)) {
      step(STEP_INT_MOVE, to, all_bits).cut = bits_of_storage(to);
    } else {
      step(to == DType::kBool ? STEP_INT_TO_BOOL : STEP_INT_MOVE, to, all_bits);
    }
  }

  uint32_t saturates() const { return attrs_.get("saturate", true) ? 1 : 0; }
  // The bits of a small integer, without its sign.
  static DType bits_of_storage(DType t) { return t == DType::kI4 || t == DType::kU4 ? DType::kU4 : DType::kU2; }

  const Attrs& attrs_;
  std::vector<ElementStep>& steps_;
};

}  // namespace

bool element_steps(const std::string& op, const Attrs& attrs, const std::vector<DType>& in, DType out,
                   std::vector<ElementStep>* steps, std::string* why) {
  const Row* row = find_row(op);
  if (row == nullptr) {
    *why = "has no kernel for " + op;
    return false;
  }
  for (const std::vector<DType>& types : {in, {out}})
    for (DType t : types)
      if (t == DType::kF64 || (is_storage(t) && op != "Cast" && op != "CastLike")) {
        *why = std::string("computes no ") + dtype_name(t);
        return false;
      }
  steps->clear();
  ElementStep step;
  step.dtype = out;
  for (size_t i = 0; i < in.size(); ++i) step.in.push_back(static_cast<int>(i));
  const DType type = op == "Where" ? in[1] : in[0];
  step.code = is_float(type) ? row->floats : row->integers;
  step.all_bits = is_wide_unsigned(type);
  if (step.code < 0) {
    *why = std::string("computes no ") + op + " of " + dtype_name(type);
    return false;
  }
  if (op == "Cast" || op == "CastLike") {
    Cast(attrs, steps).add(type, out);
  } else if (op == "RoundTo") {
    step.code = attrs.get("to", DType::kF16) == DType::kF16 ? STEP_ROUND_F16 : STEP_ROUND_BF16;
    steps->push_back(step);
  } else if (op == "BinaryRelu") {
    const std::string first = attrs.s("op", "Add");
    const Row* plain = find_row(first);
    if (plain == nullptr || plain->operands != 2) {
      *why = "has no kernel for BinaryRelu of " + first;
      return false;
    }
    step.code = plain->floats;
    steps->push_back(step);
    step.code = row->floats;
    step.in = {-1};
    steps->push_back(step);
  } else {
    if (row->a != nullptr) {
      // Attributes have the precision of float.
      const double a = static_cast<float>(attrs.f(row->a, row->a_default));
      const double b = static_cast<float>(attrs.f(row->b, row->b_default));
      step.numbers = {bits_of(a), bits_of(b), 0, 0};
      if (step.code == STEP_INT_CLIP) step.numbers = integer_bounds(type, a, b);
      if (step.code == STEP_INT_SHRINK) {
        if (!(std::fabs(a) < 2e9 && std::fabs(b) < 2e9)) {
          *why = "computes Shrink of integers by numbers below 2e9 only";
          return false;
        }
        const auto word = [](double x) { return static_cast<uint32_t>(static_cast<int32_t>(x)); };
        step.numbers = {word(std::ceil(-b)), word(std::floor(b)), word(std::floor(a)), a != std::floor(a)};
      }
    }
    if (op == "Gelu" && attrs.s("approximate") == "tanh") step.code = STEP_GELU_TANH;
    if (op == "Round" && attrs.s("halves") == "away") step.code = STEP_ROUND_AWAY;
    if (op == "Mod" && attrs.b("fmod")) step.code = step.code == STEP_MOD ? STEP_FMOD : STEP_INT_FMOD;
    if (op == "BitShift" && attrs.s("direction") == "LEFT") step.code = STEP_INT_SHIFT_LEFT;
    if (op == "IsInf")
      step.numbers = {bits_of(attrs.b("detect_negative", true)), bits_of(attrs.b("detect_positive", true))};
    if (op == "Greater" || op == "GreaterOrEqual") std::swap(step.in[0], step.in[1]);
    if (op == "Requantize") {
      if (in[0] == DType::kI64) step.code = STEP_REQUANTIZE_LONG;
      const auto word = [&](const char* name) { return static_cast<uint32_t>(attrs.i(name)); };
      step.numbers = {word("zero"), word("min"), word("max")};
    }
    steps->push_back(step);
  }
  // What a step reads of the one before it has its number now.
  for (size_t k = 0; k < steps->size(); ++k)
    for (int& v : (*steps)[k].in)
      if (v < 0) v = static_cast<int>(in.size() + k) - 1;
  return true;
}

namespace {

template <size_t I>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return create_element_kernel(kRows[I].op);
}
template <size_t I>
bool supports(const NodeContext& node, std::string* why) {
  return supports_elements(kRows[I].op, node, why);
}

// A row of the table of kernels for each of those above.
struct Registrar {
  Registrar() { add(std::make_index_sequence<std::size(kRows)>()); }
  template <size_t... I>
  void add(std::index_sequence<I...>) {
    (PortableKernels(kRows[I].op, create<I>, supports<I>,
                     kRows[I].operands == 1 ? LayoutRule::kFollow : LayoutRule::kElementwise, kRows[I].in_place),
     ...);
  }
};
const Registrar registrar;

}  // namespace

}  // namespace minnow::gpu
