// Elementwise math: unary, binary, activations, casts, selection.
#include <algorithm>

#include "names.h"
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

using wire::BinaryOpOperation;
using wire::UnaryOpOperation;

struct UnaryRow {
  UnaryOpOperation code;
  const char* op;
};

// op list: codes of the file, read nowhere else
constexpr UnaryRow kUnary[] = {
    {UnaryOpOperation::ABS, "Abs"},
    {UnaryOpOperation::NEG, "Neg"},
    {UnaryOpOperation::FLOOR, "Floor"},
    {UnaryOpOperation::CEIL, "Ceil"},
    {UnaryOpOperation::SQUARE, "Square"},
    {UnaryOpOperation::SQRT, "Sqrt"},
    {UnaryOpOperation::RSQRT, "Rsqrt"},
    {UnaryOpOperation::EXP, "Exp"},
    {UnaryOpOperation::LOG, "Log"},
    {UnaryOpOperation::SIN, "Sin"},
    {UnaryOpOperation::COS, "Cos"},
    {UnaryOpOperation::TAN, "Tan"},
    {UnaryOpOperation::ASIN, "Asin"},
    {UnaryOpOperation::ACOS, "Acos"},
    {UnaryOpOperation::ATAN, "Atan"},
    {UnaryOpOperation::RECIPROCAL, "Reciprocal"},
    {UnaryOpOperation::LOG1P, "Log1p"},
    {UnaryOpOperation::BNLL, "Softplus"},
    {UnaryOpOperation::ACOSH, "Acosh"},
    {UnaryOpOperation::SINH, "Sinh"},
    {UnaryOpOperation::ASINH, "Asinh"},
    {UnaryOpOperation::ATANH, "Atanh"},
    {UnaryOpOperation::SIGN, "Sign"},
    {UnaryOpOperation::COSH, "Cosh"},
    {UnaryOpOperation::ERF, "Erf"},
    {UnaryOpOperation::ERFC, "Erfc"},
    {UnaryOpOperation::ERFINV, "mnn.ErfInv"},
    {UnaryOpOperation::EXPM1, "Expm1"},
    {UnaryOpOperation::SIGMOID, "Sigmoid"},
    {UnaryOpOperation::TANH, "Tanh"},
    {UnaryOpOperation::HARDSWISH, "HardSwish"},
    {UnaryOpOperation::SILU, "Silu"},
};

Status decode_unary(Decoder& d) {
  const auto* main = d.main<wire::UnaryOp>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const UnaryOpOperation code = main->opType();
  if (code == UnaryOpOperation::GELU || code == UnaryOpOperation::GELU_STANDARD) {
    const char* form = code == UnaryOpOperation::GELU ? "tanh" : "none";
    d.finish("Gelu", {d.in(0)}, {{"approximate", std::string(form)}});
    return ok();
  }
  if (code == UnaryOpOperation::ROUND) {
    // MNN's runtime rounds halves away from zero.
    d.finish("Round", {d.in(0)}, {{"halves", std::string("away")}});
    return ok();
  }
  for (const UnaryRow& row : kUnary) {
    if (row.code != code) continue;
    d.finish(row.op, {d.in(0)});
    return ok();
  }
  return d.unsupported(std::string("operation ") +
                       enumerator_name(wire::kUnaryOpOperationNames, static_cast<int>(code)));
}
MINNOW_DECODE(UnaryOp, decode_unary);

// Op types without parameters, most from the time before UnaryOp.
#define MINNOW_DECODE_UNARY(type, op)            \
  MINNOW_DECODE(type, [](Decoder& d) -> Status { \
    MINNOW_RETURN_IF_ERROR(d.need_inputs(1));    \
    MINNOW_RETURN_IF_ERROR(d.need_outputs(1));   \
    d.finish(op, {d.in(0)});                     \
    return ok();                                 \
  })
MINNOW_DECODE_UNARY(AbsVal, "Abs");
MINNOW_DECODE_UNARY(Exp, "Exp");
MINNOW_DECODE_UNARY(Log, "Log");
MINNOW_DECODE_UNARY(Sigmoid, "Sigmoid");
MINNOW_DECODE_UNARY(TanH, "Tanh");
MINNOW_DECODE_UNARY(Bnll, "Softplus");
MINNOW_DECODE_UNARY(Dropout, "Identity");
MINNOW_DECODE_UNARY(Copy, "Identity");
MINNOW_DECODE_UNARY(ZerosLike, "mnn.ZerosLike");
#undef MINNOW_DECODE_UNARY

struct BinaryRow {
  BinaryOpOperation code;
  const char* op;
};

// op list: codes of the file, read nowhere else
constexpr BinaryRow kBinary[] = {
    {BinaryOpOperation::ADD, "Add"},
    {BinaryOpOperation::SUB, "Sub"},
    {BinaryOpOperation::MUL, "Mul"},
    {BinaryOpOperation::DIV, "Div"},
    {BinaryOpOperation::REALDIV, "Div"},
    {BinaryOpOperation::MAX_TEMP, "Max"},
    {BinaryOpOperation::MIN_TEMP, "Min"},
    {BinaryOpOperation::MAXIMUM, "Max"},
    {BinaryOpOperation::MINIMUM, "Min"},
    {BinaryOpOperation::POW, "Pow"},
    {BinaryOpOperation::GREATER, "Greater"},
    {BinaryOpOperation::GREATER_EQUAL, "GreaterOrEqual"},
    {BinaryOpOperation::LESS, "Less"},
    {BinaryOpOperation::LESS_EQUAL, "LessOrEqual"},
    {BinaryOpOperation::EQUAL, "Equal"},
    {BinaryOpOperation::NOTEQUAL, "NotEqual"},
    {BinaryOpOperation::FLOORDIV, "FloorDiv"},
    {BinaryOpOperation::SquaredDifference, "SquaredDifference"},
    {BinaryOpOperation::FLOORMOD, "mnn.FloorMod"},
    {BinaryOpOperation::MOD, "mnn.Mod"},
    {BinaryOpOperation::ATAN2, "Atan2"},
    {BinaryOpOperation::LOGICALOR, "mnn.Or"},
    {BinaryOpOperation::LOGICALXOR, "mnn.Xor"},
    {BinaryOpOperation::BITWISE_AND, "BitwiseAnd"},
    {BinaryOpOperation::BITWISE_OR, "BitwiseOr"},
    {BinaryOpOperation::BITWISE_XOR, "BitwiseXor"},
};

Status decode_binary(Decoder& d) {
  const auto* main = d.main<wire::BinaryOp>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const BinaryOpOperation code = main->opType();
  if (main->activationType() != 0 && main->activationType() != 1)
    return d.unsupported("activation " + std::to_string(main->activationType()));
  const bool relu = main->activationType() == 1;
  const std::vector<int> result = {relu ? d.new_value() : d.out(0)};
  const std::vector<int> operands = {d.in(0), d.in(1)};
  const auto emit = [&](const char* op, const std::vector<int>& in, AttrList attrs) {
    d.add_node(op, in, result, make_attrs(attrs));
  };
  if (code == BinaryOpOperation::LEFTSHIFT || code == BinaryOpOperation::RIGHTSHIFT) {
    const char* direction = code == BinaryOpOperation::LEFTSHIFT ? "LEFT" : "RIGHT";
    emit("BitShift", operands, {{"direction", std::string(direction)}});
  } else if (code == BinaryOpOperation::MUL_SILU) {
    emit("Mul", {d.in(0), d.add("Silu", {d.in(1)})}, {});
  } else {
    const char* op = nullptr;
    for (const BinaryRow& row : kBinary)
      if (row.code == code) op = row.op;
    if (op == nullptr)
      return d.unsupported(std::string("operation ") +
                           enumerator_name(wire::kBinaryOpOperationNames, static_cast<int>(code)));
    emit(op, operands, {});
  }
  if (relu) d.finish("Relu", result);
  return ok();
}
MINNOW_DECODE(BinaryOp, decode_binary);

Status decode_eltwise(Decoder& d) {
  const auto* main = d.main<wire::Eltwise>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(std::max(1, d.num_inputs())));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  // op list: codes of the file, read nowhere else
  static constexpr const char* kNames[] = {"Mul", "Add", "Max", "Sub"};
  const auto kind = static_cast<size_t>(main->type());
  if (kind > 3) return d.unsupported("type " + std::to_string(kind));
  const auto* coeff = main->coeff();
  const auto n = static_cast<flatbuffers::uoffset_t>(d.num_inputs());
  if (coeff != nullptr && coeff->size() > 0 && coeff->size() != n)
    return fail(Code::kFormat, "it has %u coefficients for %u inputs", coeff->size(), n);
  std::vector<int> terms;
  for (flatbuffers::uoffset_t i = 0; i < n; ++i) {
    terms.push_back(d.in(static_cast<int>(i)));
    if (kind != 1 || coeff == nullptr || coeff->size() == 0 || coeff->Get(i) == 1.0f) continue;
    int factor = -1;
    MINNOW_RETURN_IF_ERROR(d.floats({coeff->Get(i)}, Shape(), &factor));
    terms.back() = d.add("Mul", {terms.back(), factor});
  }
  int sum = terms[0];
  for (size_t i = 1; i + 1 < terms.size(); ++i) sum = d.add(kNames[kind], {sum, terms[i]});
  if (terms.size() == 1) {
    d.finish("Identity", {sum});
  } else {
    d.finish(kNames[kind], {sum, terms.back()});
  }
  return ok();
}
MINNOW_DECODE(Eltwise, decode_eltwise);

Status decode_relu(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const auto* main = d.main<wire::Relu>();
  const float slope = main == nullptr ? 0.0f : main->slope();
  if (slope == 0.0f) {
    d.finish("Relu", {d.in(0)});
  } else {
    d.finish("LeakyRelu", {d.in(0)}, {{"alpha", static_cast<double>(slope)}});
  }
  return ok();
}
MINNOW_DECODE(ReLU, decode_relu);

Status decode_relu6(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const auto* main = d.main<wire::Relu6>();
  d.finish("Clip", {d.in(0)},
           {{"min", main == nullptr ? 0.0 : static_cast<double>(main->minValue())},
            {"max", main == nullptr ? 6.0 : static_cast<double>(main->maxValue())}});
  return ok();
}
MINNOW_DECODE(ReLU6, decode_relu6);

Status decode_prelu(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (d.has(1)) {
    d.finish("PRelu", {d.in(0), d.in(1)});
    return ok();
  }
  const auto* main = d.main<wire::PRelu>();
  if (main == nullptr || main->slope() == nullptr || main->slope()->size() == 0) return d.missing_parameters();
  int slope = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->slope(), nullptr, 0, Shape{main->slope()->size()}, &slope));
  d.finish("mnn.PRelu", {d.in(0), slope});
  return ok();
}
MINNOW_DECODE(PReLU, decode_prelu);

Status decode_elu(Decoder& d) {
  const auto* main = d.main<wire::ELU>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  d.finish("Elu", {d.in(0)}, {{"alpha", static_cast<double>(main->alpha())}});
  return ok();
}
MINNOW_DECODE(ELU, decode_elu);

Status decode_selu(Decoder& d) {
  const auto* main = d.main<wire::Selu>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  d.finish("Selu", {d.in(0)},
           {{"alpha", static_cast<double>(main->alpha())}, {"gamma", static_cast<double>(main->scale())}});
  return ok();
}
MINNOW_DECODE(Selu, decode_selu);

Status decode_cast(Decoder& d) {
  const auto* main = d.main<wire::CastParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  DType to = DType::kF32;  // also where none is named: TFLite's float16 and float64 have no code in MNN's converter
  if (main->dstT() != wire::DataType::DT_INVALID) MINNOW_RETURN_IF_ERROR(to_dtype(main->dstT(), &to));
  // An attribute of ours, which MNN's runtime ignores: floats that stand for a narrower type are rounded to it.
  const wire::DataType source = main->srcT();
  if (to == DType::kF32 && (source == wire::DataType::DT_HALF || source == wire::DataType::DT_BFLOAT16)) {
    d.finish("RoundTo", {d.in(0)}, {{"to", source == wire::DataType::DT_HALF ? DType::kF16 : DType::kBF16}});
  } else {
    d.finish("Cast", {d.in(0)}, {{"to", to}});
  }
  return ok();
}
MINNOW_DECODE(Cast, decode_cast);

Status decode_cast_like(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  d.finish("mnn.CastLike", {d.in(0), d.in(1)});
  return ok();
}
MINNOW_DECODE(CastLike, decode_cast_like);

Status decode_select(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  d.finish("mnn.Select", {d.in(0), d.in(1), d.in(2)});
  return ok();
}
MINNOW_DECODE(Select, decode_select);

}  // namespace

const char* binary_op_name(int code) {
  for (const BinaryRow& row : kBinary)
    if (static_cast<int>(row.code) == code) return row.op;
  return nullptr;
}

const char* unary_op_name(int code) {
  for (const UnaryRow& row : kUnary)
    if (static_cast<int>(row.code) == code) return row.op;
  return nullptr;
}

}  // namespace minnow
