// Convolutions of 8-bit integers bring their sums to 8 bits themselves: + bias, cast, * scale, quantization.
#include <algorithm>

#include "runtime/src/planner.h"

namespace minnow {
namespace {

constexpr size_t kZeroPoint = 3;  // the last input of a ConvInteger that stands in a graph

bool is(const PlanNode& node, std::string_view op) { return node.op != nullptr && node.op->name == op; }

// One number, or one per channel of `image`.
bool is_per_channel(const Shape& s, const Shape& image) {
  if (s.count() == 1) return s.rank() <= image.rank();
  return s.rank() >= image.rank() - 1 && s.rank() <= image.rank() && s.count() == image[1] &&
         s.at(1 - image.rank()) == image[1];
}

}  // namespace

void Planner::fuse_requantization() {
  const std::vector<std::vector<int>> readers = this->readers();
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  const auto user_of = [&](int v, std::string_view op) -> PlanNode* {
    const std::vector<int>& users = readers[static_cast<size_t>(v)];
    if (users.size() != 1 || users[0] < 0 || !is(nodes_[static_cast<size_t>(users[0])], op)) return nullptr;
    return &nodes_[static_cast<size_t>(users[0])];
  };
  const auto is_constant = [&](int v, DType dtype) {
    return v >= 0 && value(v).constant != nullptr && value(v).type.dtype == dtype;
  };
  for (PlanNode& conv : nodes_) {
    if (!is(conv, "ConvInteger") || conv.in.size() > kZeroPoint + 1) continue;
    const Shape& shape = value(conv.out[0]).type.shape;
    int y = conv.out[0], bias = -1;
    // The operand beside `v` that goes with all pixels of a channel, or -1.
    const auto other = [&](const PlanNode& node, int v, DType dtype) {
      const int o = node.in[0] == v ? node.in[1] : node.in[0];
      return is_constant(o, dtype) && is_per_channel(value(o).type.shape, shape) ? o : -1;
    };
    if (const PlanNode* add = user_of(y, "Add")) {
      bias = other(*add, y, DType::kI32);
      if (bias < 0) continue;
      y = add->out[0];
    }
    const PlanNode* cast = user_of(y, "Cast");
    if (cast == nullptr || value(cast->out[0]).type.dtype != DType::kF32) continue;
    y = cast->out[0];
    const PlanNode* mul = user_of(y, "Mul");
    const int scale = mul == nullptr ? -1 : other(*mul, y, DType::kF32);
    if (scale < 0) continue;
    y = mul->out[0];
    PlanNode* quantize = user_of(y, "QuantizeLinear");
    if (quantize == nullptr || quantize->in[0] != y || !is_constant(quantize->in[1], DType::kF32)) continue;
    const DType to = value(quantize->out[0]).type.dtype;
    const int zero = quantize->in.size() > 2 ? quantize->in[2] : -1;
    std::shared_ptr<const Tensor> one;
    if (!contents(quantize->in[1], &one).ok() || one->count() != 1 || *one->as<float>() != 1.0f) continue;
    if ((to != DType::kU8 && to != DType::kI8) || quantize->attrs->has("precision")) continue;
    if (zero >= 0 && (!is_constant(zero, to) || value(zero).type.count() != 1)) continue;
    PlanNode fused = conv;
    fused.in.resize(kZeroPoint + 1, -1);
    fused.in.insert(fused.in.end(), {bias, scale, zero});
    fused.out = quantize->out;
    *quantize = std::move(fused);  // what it takes the place of has no reader any more
  }
}

}  // namespace minnow
