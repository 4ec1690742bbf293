// Convolutions and matrix products of 8-bit integers requantize their sums themselves: + bias, then cast, * scale and
// quantization, or Requantize. That also takes in the sum of two functions of small integers which it ends.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

constexpr size_t kZeroPoint = 3;  // the last input of an integer product that stands in a graph

// One number, or one along an axis of `all`, which is counted from the end.
bool is_along(const Shape& s, const Shape& all, int axis) {
  if (s.rank() > all.rank()) return false;
  return s.count() == 1 || (s.rank() >= -axis && s.at(axis) == all.at(axis) && s.count() == all.at(axis));
}

bool is_constant(const PlanGraph& graph, int v, DType dtype) {
  return v >= 0 && graph.is_constant(v) && graph.type(v).dtype == dtype;
}

// Whether a value is one number, 1.0.
bool is_one(const PlanGraph& graph, int v) { return is_constant(graph, v, DType::kF32) && graph.number(v) == 1.0; }

// What a product takes the place of has no reader any more.
void end_product(PlanGraph& graph, int id) {
  const PlanNode& product = graph.node(id);
  const Shape& shape = graph.shape(product.out[0]);
  const bool matrix = graph.is(id, "MatMulInteger");
  const int axis = matrix ? -1 : 1 - shape.rank();
  // With a vector on the right the last axis is that of the rows.
  if (product.in.size() > kZeroPoint + 1 || (matrix && (shape.rank() < 2 || graph.shape(product.in[1]).rank() < 2)))
    return;
  const auto fits = [&](int v, DType dtype) {
    return is_constant(graph, v, dtype) && is_along(graph.shape(v), shape, axis);
  };
  // The operand beside `v` that goes with all places of a channel, or -1.
  const auto other = [&](int of, int v, DType dtype) {
    const PlanNode& node = graph.node(of);
    const int o = node.in[0] == v ? node.in[1] : node.in[0];
    return fits(o, dtype) ? o : -1;
  };
  int y = product.out[0], bias = -1;
  const auto replace = [&](int last, int factor, int more) {
    PlanNode fused = product;
    fused.in.resize(kZeroPoint + 1, -1);
    fused.in.insert(fused.in.end(), {bias, factor, more});
    fused.out = graph.node(last).out;
    if (graph.is(last, "Requantize")) {
      auto attrs = std::make_shared<Attrs>(*product.attrs);
      attrs->merge(*graph.node(last).attrs);
      fused.attrs = std::move(attrs);
    }
    graph.replace(last, std::move(fused));
  };
  int user = graph.only_reader(y);
  if (graph.is(user, "Add")) {
    bias = other(user, y, DType::kI32);
    if (bias < 0) return;
    y = graph.node(user).out[0];
    user = graph.only_reader(y);
  }
  if (graph.is(user, "Requantize") && graph.node(user).in[0] == y) {
    const std::vector<int>& in = graph.node(user).in;
    if (in.size() == 3 && fits(in[1], DType::kI32) && fits(in[2], DType::kI32)) replace(user, in[1], in[2]);
    return;
  }
  if (matrix || !graph.is(user, "Cast") || graph.type(graph.node(user).out[0]).dtype != DType::kF32) return;
  y = graph.node(user).out[0];
  user = graph.only_reader(y);
  const int scale = graph.is(user, "Mul") ? other(user, y, DType::kF32) : -1;
  if (scale < 0) return;
  y = graph.node(user).out[0];
  user = graph.only_reader(y);
  if (!graph.is(user, "QuantizeLinear")) return;
  const PlanNode& quantize = graph.node(user);
  const DType to = graph.type(quantize.out[0]).dtype;
  const int zero = quantize.in.size() > 2 ? quantize.in[2] : -1;
  if (quantize.in[0] != y || !is_one(graph, quantize.in[1])) return;
  if ((to != DType::kU8 && to != DType::kI8) || quantize.attrs->has("precision")) return;
  if (zero >= 0 && (!is_constant(graph, zero, to) || graph.type(zero).count() != 1)) return;
  replace(user, scale, zero);
}

// The sum of two functions of small integers, which Requantize ends.
void end_sum(PlanGraph& graph, int id) {
  const PlanNode& last = graph.node(id);
  const int add = last.in.size() == 3 ? graph.maker(last.in[0]) : -1;
  if (!graph.is(add, "Add") || graph.readers(last.in[0]).size() != 1) return;
  std::vector<int> in = {-1, last.in[1], last.in[2]};
  for (int v : graph.node(add).in) {
    const int look_up = graph.maker(v);
    if (!graph.is(look_up, "LookUp") || graph.shape(v) != graph.shape(last.in[0])) return;
    const PlanNode& table = graph.node(look_up);
    if (!is_constant(graph, table.in[1], DType::kI32)) return;
    if (in[0] < 0) {
      in[0] = table.in[0];
    } else {
      in.push_back(table.in[0]);
    }
    in.push_back(table.in[1]);
  }
  graph.set_inputs(id, std::move(in));
}

}  // namespace

void fuse_requantization(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.is(i, "ConvInteger") || graph.is(i, "MatMulInteger")) end_product(graph, i);
    if (graph.is(i, "Requantize")) end_sum(graph, i);
  }
}

}  // namespace minnow
