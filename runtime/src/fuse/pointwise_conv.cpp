// What is read or made by a convolution of each pixel alone is computed with it.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

bool is_f32_constant(const PlanGraph& graph, int v) {
  return v >= 0 && graph.is_constant(v) && graph.type(v).dtype == DType::kF32;
}

// A convolution in f32 of each pixel alone, by constant weights.
bool is_pointwise(const PlanGraph& graph, const PlanNode& conv) {
  const TensorType &x = graph.type(conv.in[0]), &y = graph.type(conv.out[0]), &w = graph.type(conv.in[1]);
  if (x.dtype != DType::kF32 || x.shape.rank() != 4 || !is_f32_constant(graph, conv.in[1])) return false;
  const std::vector<int64_t> strides = conv.attrs->ints("strides"), pads = conv.attrs->ints("pads");
  const bool moves = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s != 1; }) ||
                     std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  return !moves && w.shape[1] == x.shape[1] && w.shape[2] == 1 && w.shape[3] == 1 && x.shape[2] == y.shape[2] &&
         x.shape[3] == y.shape[3] && x.shape[1] > 4;
}

// A convolution of images whose weights and bias are constant, without a residual.
bool is_plain_conv(const PlanGraph& graph, int id) {
  if (!graph.is(id, "Conv")) return false;
  const PlanNode& conv = graph.node(id);
  const bool bias = conv.in.size() < 3 || conv.in[2] < 0 || is_f32_constant(graph, conv.in[2]);
  return conv.in.size() > 1 && is_f32_constant(graph, conv.in[1]) && bias && conv.in.size() <= kResidual &&
         graph.type(conv.out[0]).dtype == DType::kF32 && graph.shape(conv.out[0]).rank() == 4;
}

}  // namespace

// A pointwise convolution is computed band by band with the depthwise one that reads it, where a narrow image becomes a
// wide one: of many pixels, which would not stay in the cache; or of few, whose channels a thread makes and reads whole
// (their rows are so short that what processors fetch ahead would take them from each other all the time).
void pair_convolutions(PlanGraph& graph) {
  constexpr int64_t kLeastBytes = 1 << 20, kFewPixels = 1024;
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_plain_conv(graph, i)) continue;
    const PlanNode& first = graph.node(i);
    const int reader = graph.only_reader(first.out[0]);
    if (!is_plain_conv(graph, reader)) continue;
    PlanNode pair = graph.node(reader);
    const Shape &x = graph.shape(first.in[0]), &wide = graph.shape(first.out[0]), &taps = graph.shape(pair.in[1]);
    const bool depthwise = pair.in[0] == first.out[0] && taps[0] == wide[1] && taps[1] == 1 && wide[1] > 1 &&
                           pair.attrs->i("group", 1) == wide[1];
    const QuantizedMatrix* quantized = graph.value(first.in[1]).constant->quantized();
    if (quantized != nullptr && keeps_quantized(*quantized, x.count() + wide.count())) continue;
    if (!is_pointwise(graph, first) || !depthwise || wide[3] == 1 || 2 * x[1] > wide[1]) continue;
    if (takes_half_depthwise(graph, reader)) continue;
    // Smaller numbers gain more than pairs do, which are computed in f32.
    const bool few = wide[2] * wide[3] <= kFewPixels && graph.precision() == Precision::kHigh;
    if (!few && 4 * wide[1] * wide[2] * wide[3] < kLeastBytes) continue;
    auto attrs = std::make_shared<Attrs>(*pair.attrs);
    attrs->set("first_activation", first.attrs->s("activation"));
    for (const char* name : {"alpha", "beta"})
      if (first.attrs->has(name)) attrs->set(std::string("first_") + name, first.attrs->f(name));
    std::vector<int> in = first.in;
    in.resize(kResidual + 1, -1);
    in.insert(in.end(), pair.in.begin() + 1, pair.in.end());
    graph.drop(i);
    graph.become(reader, "ConvPair", std::move(in), std::move(attrs));
  }
}

// A factor per channel of what a pointwise convolution reads becomes one of its weights, where these are fewer: the
// gates of squeeze and excitation.
void fuse_gates(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Conv")) continue;
    const PlanNode& conv = graph.node(i);
    if (conv.in.size() > kResidual + 1 || !is_pointwise(graph, conv)) continue;
    const int product = graph.maker(conv.in[0]);
    if (!graph.is(product, "Mul") || graph.only_reader(conv.in[0]) != i) continue;
    const TensorType& x = graph.type(conv.in[0]);
    if (x.shape[0] != 1 || graph.shape(conv.in[1])[0] > x.shape[2] * x.shape[3]) continue;
    for (size_t k : {0, 1}) {
      const int gate = graph.node(product).in[k], image = graph.node(product).in[1 - k];
      if (gate < 0 || image < 0 || !same_type(graph.type(image), x)) continue;
      if (graph.is_constant(gate) || graph.shape(gate) != Shape{1, x.shape[1], 1, 1}) continue;
      std::vector<int> in = conv.in;
      in[0] = image;
      in.resize(kResidual + 1, -1);
      in.push_back(gate);
      graph.drop(product);
      graph.set_inputs(i, std::move(in));
      break;
    }
  }
}

}  // namespace minnow
