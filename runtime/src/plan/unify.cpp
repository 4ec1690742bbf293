// Operands of one type. The format's runtime knows no bool and no int64: there a comparison or a shape is int32, as are
// the constants it meets. Here they are bool and i64, so where they meet integers the wider type wins. Likewise a
// constant of 16-bit floats is computed with as f32, and so is what an op refuses to compute in 16 bits.
#include "runtime/src/plan/unify.h"

#include <iterator>
#include <string_view>

#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

constexpr uint32_t kAll = ~uint32_t{0};

// The types that are mixed with each other, and what the mixture becomes.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kI64 || b == DType::kI64) return DType::kI64;
  return is_float(a) ? DType::kF32 : DType::kI32;
}

// op list: the one place that says it, compared with the registry by tests/runtime/test_op_facts.py
constexpr CommonType kCommonTypes[] = {
    {"Add"},
    {"Sub"},
    {"Mul"},
    {"Div"},
    {"Pow"},
    {"Max"},
    {"Min"},
    {"Mod"},
    {"FloorDiv"},
    {"SquaredDifference"},
    {"BitwiseAnd"},
    {"BitwiseOr"},
    {"BitwiseXor"},
    {"BitShift"},
    {"Less"},
    {"LessOrEqual"},
    {"Greater"},
    {"GreaterOrEqual"},
    {"ReduceSum", 1},
    {"ReduceProd", 1},
    {"CumSum", 1},
    {"Neg", 1},
    {"Abs", 1},
    {"Equal", kAll, false},
    {"NotEqual", kAll, false},
    {"Where", 0b110, false},
    {"Concat", kAll, false},
    {"Range"},
    {"Pad", 0b101, false},
    {"ScatterElements", 0b101, false},
    {"ScatterND", 0b101, false},
    {"Conv", 0b1111},
    {"ConvTranspose", 0b1111},
    {"MatMul"},
    {"Linear"},
    {"PRelu"},
    {"Atan2"},
    {"BinaryRelu"},
};

bool is_integer_or_bool(DType t) { return t == DType::kBool || t == DType::kI32 || t == DType::kI64; }
bool is_small_float(DType t) { return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32; }

}  // namespace

const CommonType* begin_common_types() { return std::begin(kCommonTypes); }
const CommonType* end_common_types() { return std::end(kCommonTypes); }

Status Planner::unify(PlanNode* node) {
  const CommonType* rule = nullptr;
  for (const CommonType& row : kCommonTypes)
    if (std::string_view(row.op) == node->op->name) rule = &row;
  if (rule == nullptr) return ok();
  bool same = true, all_bool = true, some_bool = false, seen = false, integers = true, floats = true;
  DType target = DType::kBool;
  const auto takes_part = [&](size_t i) {
    return node->in[i] >= 0 && (i >= 32 ? rule->operands == kAll : (rule->operands >> i & 1) != 0);
  };
  for (size_t i = 0; i < node->in.size(); ++i) {
    if (!takes_part(i)) continue;
    const DType t = stage_.values[static_cast<size_t>(node->in[i])].type.dtype;
    integers = integers && is_integer_or_bool(t);
    floats = floats && is_small_float(t);
    if (!integers && !floats) return ok();  // the op itself says what it thinks of that
    same = same && (!seen || t == target);
    target = seen ? wider(target, t) : t;
    seen = true;
    all_bool = all_bool && t == DType::kBool;
    some_bool = some_bool || t == DType::kBool;
  }
  if (!seen || (same && !(some_bool && rule->numbers))) return ok();
  if (all_bool && std::string_view(rule->op) == "Mul") {  // how the format writes And
    node->op = find_op("And");
    return node->op != nullptr ? ok() : fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for And");
  }
  if (all_bool) target = DType::kI32;
  for (size_t i = 0; i < node->in.size(); ++i)
    if (takes_part(i)) MINNOW_RETURN_IF_ERROR(cast_operand(node, i, target));
  return ok();
}

Status Planner::cast_operand(PlanNode* node, size_t i, DType target) {
  if (stage_.values[static_cast<size_t>(node->in[i])].type.dtype == target) return ok();
  PlanNode cast;
  cast.op = find_op("Cast");
  if (cast.op == nullptr) return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for Cast");
  cast.attrs = std::make_shared<const Attrs>(make_attrs({{"to", target}}));
  cast.source = node->source;
  constexpr int64_t kFirst = 1 << 15;  // after the parts of an Expansion
  if (!node->has_parts() || static_cast<int64_t>(i) >= PlanNode::kMostParts - kFirst)
    return fail(Code::kUnsupported, "operand %zu cannot be converted to the type of the others", i);
  cast.part = node->part_number(kFirst + static_cast<int64_t>(i));
  cast.in = {node->in[i]};
  stage_.values.emplace_back();
  cast.out = {static_cast<int>(stage_.values.size()) - 1};
  node->in[i] = cast.out[0];
  return place(cast);
}

Status Planner::infer_wide(PlanNode* node, bool* waits) {
  const Status status = infer(*node, waits);
  // The cast itself may be what there is no memory for.
  if (status.ok() || node->op == find_op("Cast")) return status;
  bool some = false;
  for (size_t i = 0; i < node->in.size(); ++i) {
    if (node->in[i] < 0) continue;
    const DType t = stage_.values[static_cast<size_t>(node->in[i])].type.dtype;
    if (t != DType::kF16 && t != DType::kBF16) continue;
    some = true;
    MINNOW_RETURN_IF_ERROR(cast_operand(node, i, DType::kF32));
  }
  return some ? infer(*node, waits) : status;
}

}  // namespace minnow
