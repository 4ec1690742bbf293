// Ops that the file has to spell out, since the format has no bool and its runtime is not exact, as they were.
#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/infer.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/planner.h"

namespace minnow {

// Nodes that become needless are left for drop_dead().
void Planner::fuse_spelled() {
  const std::vector<int> producer = producers();
  const auto type = [&](int v) -> const TensorType& { return stage_.values[static_cast<size_t>(v)].type; };
  // The node that makes an operand, if it is of this op.
  const auto made_by = [&](const PlanNode* of, size_t operand, std::string_view op) -> const PlanNode* {
    const int v = of == nullptr || operand >= of->in.size() ? -1 : of->in[operand];
    const int i = v < 0 ? -1 : producer[static_cast<size_t>(v)];
    if (i < 0) return nullptr;
    const PlanNode& node = nodes_[static_cast<size_t>(i)];
    return node.op != nullptr && node.op->name == op ? &node : nullptr;
  };
  // Whether an operand is this one number.
  const auto is_number = [&](const PlanNode* of, size_t operand, double number) {
    const int v = of == nullptr || operand >= of->in.size() ? -1 : of->in[operand];
    const std::shared_ptr<Constant> constant = v < 0 ? nullptr : stage_.values[static_cast<size_t>(v)].constant;
    std::shared_ptr<const Tensor> contents;
    if (constant == nullptr || constant->type().shape.count() != 1 || !constant->acquire(&contents).ok()) return false;
    double value = 0;
    convert(contents->type.dtype, contents->data, DType::kF64, &value, 1);
    return value == number;
  };
  const auto become = [&](PlanNode* node, const char* op, std::vector<int> in, AttrList attrs = {}) {
    const Op* found = find_op(op);
    if (found == nullptr) return;
    node->op = found;
    node->attrs = std::make_shared<const Attrs>(make_attrs(attrs));
    node->in = std::move(in);
  };
  for (PlanNode& node : nodes_) {
    if (node.op == nullptr) continue;
    for (int& v : node.in) {  // what has become the same value
      const int i = v < 0 ? -1 : producer[static_cast<size_t>(v)];
      if (i < 0) continue;
      const PlanNode& maker = nodes_[static_cast<size_t>(i)];
      if (maker.op == nullptr || std::string_view(maker.op->name) != "Identity") continue;
      const TensorType& same = type(maker.in[0]);
      if (same.dtype == type(v).dtype && same.shape == type(v).shape) v = maker.in[0];
    }
    const std::string_view op = node.op->name;
    if (op == "Equal" || op == "NotEqual") {  // with 0, a bool as a number
      const PlanNode* cast = made_by(&node, 0, "Cast");
      if (cast == nullptr || type(cast->in[0]).dtype != DType::kBool || !is_number(&node, 1, 0)) continue;
      if (type(cast->in[0]).shape != type(node.out[0]).shape) continue;
      become(&node, op == "Equal" ? "Not" : "Identity", {cast->in[0]});
    } else if (op == "Cast") {
      const PlanNode* round = made_by(&node, 0, "RoundTo");  // which rounds to what is asked for here
      if (round != nullptr && round->attrs->get("to", DType::kF16) == type(node.out[0]).dtype)
        node.in[0] = round->in[0];
    } else if (op == "Gather" || op == "GatherElements" || op == "ScatterElements") {
      // Indices counted from the front: max(i, i mod extent), but `extent` where i < -extent. Here any may be negative.
      const PlanNode *outside = made_by(&node, 1, "Where"), *test = made_by(outside, 0, "Greater");
      const PlanNode *most = made_by(outside, 2, "Max"), *mod = made_by(most, 1, "Mod");
      if (test == nullptr || mod == nullptr || mod->attrs->b("fmod")) continue;
      const int index = mod->in[0];
      int axis = 0;
      const Shape& shape = type(node.in[0]).shape;
      if (test->in[1] != index || most->in[0] != index || type(index).shape != type(node.in[1]).shape ||
          !normalize_axis(node.attrs->i("axis", 0), shape.rank(), &axis).ok())
        continue;
      const auto extent = static_cast<double>(shape[axis]);
      if (is_number(mod, 1, extent) && is_number(outside, 1, extent) && is_number(test, 0, -extent)) node.in[1] = index;
    } else if (op == "And") {
      const PlanNode *least = made_by(&node, 0, "GreaterOrEqual"), *most = made_by(&node, 1, "LessOrEqual");
      if (least == nullptr) least = made_by(&node, 1, "GreaterOrEqual"), most = made_by(&node, 0, "LessOrEqual");
      if (least == nullptr || most == nullptr || least->in != most->in) continue;
      become(&node, "Equal", std::vector<int>(least->in));
    } else if (op == "Where") {
      const PlanNode *test = made_by(&node, 0, "LessOrEqual"), *most = made_by(&node, 1, "Max");
      if (most == nullptr) most = made_by(&node, 1, "Min");
      if (test != nullptr && most != nullptr && test->in[0] == test->in[1] && node.in[2] == test->in[0] &&
          most->in[0] == test->in[0]) {  // what is no number stays so here, as ONNX asks for
        become(&node, most->op->name, std::vector<int>(most->in));
        continue;
      }
      // A half goes to the even neighbor.
      test = made_by(&node, 0, "Equal");
      const PlanNode *away = made_by(&node, 2, "Round"), *apart = made_by(made_by(test, 0, "Abs"), 0, "Sub");
      const PlanNode* twice = made_by(&node, 1, "Mul");
      const PlanNode* half = made_by(made_by(twice, 0, "Round"), 0, "Mul");
      if (away == nullptr || apart == nullptr || half == nullptr || half->in[0] != away->in[0]) continue;
      if (apart->in != std::vector<int>{away->in[0], away->out[0]} || away->attrs->s("halves") != "away") continue;
      if (!is_number(test, 1, 0.5) || !is_number(half, 1, 0.5) || !is_number(twice, 1, 2)) continue;
      become(&node, "Round", {away->in[0]}, {{"halves", "even"}});
    }
  }
}

}  // namespace minnow
