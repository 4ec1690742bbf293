// Convolutions and matrix products of 8-bit integers requantize their sums themselves: + bias, then cast, * scale and
// quantization, or Requantize. That also takes in the sum of two functions of small integers which it ends.
#include <algorithm>

#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

constexpr size_t kZeroPoint = 3;  // the last input of an integer product that stands in a graph

bool is(const PlanNode& node, std::string_view op) { return node.op != nullptr && node.op->name == op; }

// One number, or one along an axis of `all`, which is counted from the end.
bool is_along(const Shape& s, const Shape& all, int axis) {
  if (s.rank() > all.rank()) return false;
  return s.count() == 1 || (s.rank() >= -axis && s.at(axis) == all.at(axis) && s.count() == all.at(axis));
}

}  // namespace

void Planner::fuse_requantization() {
  const std::vector<std::vector<int>> readers = this->readers();
  const std::vector<int> producers = this->producers();
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  const auto user_of = [&](int v, std::string_view op) -> PlanNode* {
    const std::vector<int>& users = readers[static_cast<size_t>(v)];
    if (users.size() != 1 || users[0] < 0 || !is(nodes_[static_cast<size_t>(users[0])], op)) return nullptr;
    return &nodes_[static_cast<size_t>(users[0])];
  };
  const auto is_constant = [&](int v, DType dtype) {
    return v >= 0 && value(v).constant != nullptr && value(v).type.dtype == dtype;
  };
  // Nodes are replaced as they are found: what a product takes the place of has no reader any more.
  const auto end_product = [&](const PlanNode& product) {
    const Shape& shape = value(product.out[0]).type.shape;
    const bool matrix = is(product, "MatMulInteger");
    const int axis = matrix ? -1 : 1 - shape.rank();
    if (product.in.size() > kZeroPoint + 1 || (matrix && shape.rank() < 2)) return;
    int y = product.out[0], bias = -1;
    const auto fits = [&](int v, DType dtype) {
      return is_constant(v, dtype) && is_along(value(v).type.shape, shape, axis);
    };
    // The operand beside `v` that goes with all places of a channel, or -1.
    const auto other = [&](const PlanNode& node, int v, DType dtype) {
      const int o = node.in[0] == v ? node.in[1] : node.in[0];
      return fits(o, dtype) ? o : -1;
    };
    const auto replace = [&](PlanNode* last, int factor, int more) {
      PlanNode fused = product;
      fused.in.resize(kZeroPoint + 1, -1);
      fused.in.insert(fused.in.end(), {bias, factor, more});
      fused.out = last->out;
      if (is(*last, "Requantize")) {
        auto attrs = std::make_shared<Attrs>(*product.attrs);
        attrs->merge(*last->attrs);
        fused.attrs = std::move(attrs);
      }
      *last = std::move(fused);
    };
    if (const PlanNode* add = user_of(y, "Add")) {
      bias = other(*add, y, DType::kI32);
      if (bias < 0) return;
      y = add->out[0];
    }
    if (PlanNode* last = user_of(y, "Requantize"); last != nullptr && last->in[0] == y) {
      if (last->in.size() == 3 && fits(last->in[1], DType::kI32) && fits(last->in[2], DType::kI32))
        replace(last, last->in[1], last->in[2]);
      return;
    }
    const PlanNode* cast = user_of(y, "Cast");
    if (matrix || cast == nullptr || value(cast->out[0]).type.dtype != DType::kF32) return;
    y = cast->out[0];
    const PlanNode* mul = user_of(y, "Mul");
    const int scale = mul == nullptr ? -1 : other(*mul, y, DType::kF32);
    if (scale < 0) return;
    y = mul->out[0];
    PlanNode* quantize = user_of(y, "QuantizeLinear");
    if (quantize == nullptr || quantize->in[0] != y || !is_constant(quantize->in[1], DType::kF32)) return;
    const DType to = value(quantize->out[0]).type.dtype;
    const int zero = quantize->in.size() > 2 ? quantize->in[2] : -1;
    std::shared_ptr<const Tensor> one;
    if (!contents(quantize->in[1], &one).ok() || one->count() != 1 || *one->as<float>() != 1.0f) return;
    if ((to != DType::kU8 && to != DType::kI8) || quantize->attrs->has("precision")) return;
    if (zero >= 0 && (!is_constant(zero, to) || value(zero).type.count() != 1)) return;
    replace(quantize, scale, zero);
  };
  const auto maker = [&](int v, std::string_view op) -> const PlanNode* {
    const int i = v < 0 ? -1 : producers[static_cast<size_t>(v)];
    return i >= 0 && is(nodes_[static_cast<size_t>(i)], op) ? &nodes_[static_cast<size_t>(i)] : nullptr;
  };
  const auto end_sum = [&](PlanNode* last) {
    const PlanNode* add = last->in.size() == 3 ? maker(last->in[0], "Add") : nullptr;
    if (add == nullptr || readers[static_cast<size_t>(add->out[0])].size() != 1) return;
    std::vector<int> in = {-1, last->in[1], last->in[2]};
    for (int v : add->in) {
      const PlanNode* table = maker(v, "LookUp");
      if (table == nullptr || !is_constant(table->in[1], DType::kI32)) return;
      if (value(v).type.shape != value(last->in[0]).type.shape) return;
      if (in[0] < 0) {
        in[0] = table->in[0];
      } else {
        in.push_back(table->in[0]);
      }
      in.push_back(table->in[1]);
    }
    last->in = std::move(in);
  };
  for (PlanNode& node : nodes_) {
    if (is(node, "ConvInteger") || is(node, "MatMulInteger")) end_product(node);
    if (is(node, "Requantize")) end_sum(&node);
  }
}

}  // namespace minnow
