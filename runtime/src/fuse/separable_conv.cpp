// Depthwise convolutions of small images become part of the pointwise ones that read them.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

// Of the image between: larger ones keep a device busy by themselves, and are made several times.
constexpr int64_t kMostElements = 1 << 20;
constexpr int64_t kImageChannels = 4;  // up to so many, a convolution is another one

bool are_all(const std::vector<int64_t>& numbers, int64_t wanted) {
  return std::all_of(numbers.begin(), numbers.end(), [wanted](int64_t n) { return n == wanted; });
}

// A convolution of an image by constants, and nothing beside it.
bool is_plain(const PlanGraph& graph, int id, size_t most_inputs) {
  if (!graph.is(id, "Conv")) return false;
  const PlanNode& conv = graph.node(id);
  if (conv.in.size() < 2 || conv.in.size() > most_inputs || !graph.is_constant(conv.in[1])) return false;
  if (conv.in.size() > 2 && conv.in[2] >= 0 && !graph.is_constant(conv.in[2])) return false;
  const TensorType &x = graph.type(conv.in[0]), &y = graph.type(conv.out[0]);
  return x.shape.rank() == 4 && y.shape.rank() == 4 && x.dtype == y.dtype && x.shape[1] > kImageChannels &&
         x.shape.count() > 0 && y.shape.count() > 0;
}

bool is_depthwise(const PlanGraph& graph, int id) {
  if (!is_plain(graph, id, kResidual)) return false;
  const PlanNode& conv = graph.node(id);
  const Shape &x = graph.shape(conv.in[0]), &w = graph.shape(conv.in[1]);
  return w[0] == x[1] && w[1] == 1 && conv.attrs->i("group", 1) == x[1] && w[2] == w[3] && (w[2] == 3 || w[2] == 5) &&
         are_all(conv.attrs->ints("dilations"), 1);
}

bool is_pointwise(const PlanGraph& graph, int id) {
  if (!is_plain(graph, id, kResidual + 1)) return false;
  const PlanNode& conv = graph.node(id);
  const Shape &x = graph.shape(conv.in[0]), &w = graph.shape(conv.in[1]);
  return w[1] == x[1] && w[2] == 1 && w[3] == 1 && are_all(conv.attrs->ints("strides"), 1) &&
         are_all(conv.attrs->ints("pads"), 0);
}

}  // namespace

// Where numbers have 16 bits: what other kernels there are for gains nothing.
void fuse_separable(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_depthwise(graph, i)) continue;
    const PlanNode& first = graph.node(i);
    const int middle = first.out[0], reader = graph.only_reader(middle);
    const TensorType& type = graph.type(middle);
    const bool halves =
        type.dtype == DType::kF16 || (type.dtype == DType::kF32 && graph.precision() == Precision::kLow);
    if (!halves || type.count() > kMostElements || !is_pointwise(graph, reader)) continue;
    std::vector<int> in = graph.node(reader).in;
    if (in[0] != middle) continue;
    auto attrs = std::make_shared<Attrs>(*first.attrs);
    const Attrs& last = *graph.node(reader).attrs;
    attrs->set("last_activation", last.s("activation"));
    for (const char* name : {"alpha", "beta"})
      if (last.has(name)) attrs->set(std::string("last_") + name, last.f(name));
    in[0] = first.in[0];
    in.resize(kDepthwiseWeights, -1);
    in.push_back(first.in[1]);
    in.push_back(first.in.size() > 2 ? first.in[2] : -1);
    graph.drop(i);
    graph.become(reader, "Conv", std::move(in), std::move(attrs));
  }
}

}  // namespace minnow
