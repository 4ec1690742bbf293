// Convolutions of precision "low" that leave images to each other as numbers of bf16, with channels last
// (Layout::kLast): where more of them go from one to the next than are to be converted for other nodes.
#include <algorithm>
#include <numeric>

#include "kernels/core/kernel_table.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

constexpr int64_t kFewestChannels = 16;
constexpr double kConversion = 2;  // the time of one, in what an image between two such convolutions saves

bool takes_half(const PlanGraph& graph, int id) {
  if (!graph.is(id, "Conv") || !graph.is_looked_at(id)) return false;
  const PlanNode& node = graph.node(id);
  if (node.in.size() < 2 || node.in.size() > kResidual + 1 || !graph.is_constant(node.in[1])) return false;
  const TensorType &x = graph.type(node.in[0]), &w = graph.type(node.in[1]);
  const QuantizedMatrix* quantized = graph.value(node.in[1]).constant->quantized();
  if (quantized != nullptr && keeps_quantized(*quantized, x.count() + graph.type(node.out[0]).count())) return false;
  return x.dtype == DType::kF32 && w.dtype == DType::kF32 && x.shape.rank() == 4 && w.shape.rank() == 4 &&
         w.shape[1] == x.shape[1] && std::min(x.shape[1], w.shape[0]) >= kFewestChannels && x.shape.count(2, 4) > 1 &&
         graph.shape(node.out[0]).count(2, 4) > 1;
}

}  // namespace

void keep_half_images(PlanGraph& graph) {
  if (graph.precision() != Precision::kLow) return;
  std::vector<int> found(static_cast<size_t>(graph.size()));
  std::vector<bool> takes(found.size());
  std::iota(found.begin(), found.end(), 0);
  for (int i = 0; i < graph.size(); ++i) takes[static_cast<size_t>(i)] = takes_half(graph, i);
  const auto is_half = [&](int id) { return id >= 0 && takes[static_cast<size_t>(id)]; };
  const auto net_of = [&](int id) {
    while (found[static_cast<size_t>(id)] != id) id = found[static_cast<size_t>(id)];
    return id;
  };
  // The images that a node reads, and the one that it makes.
  const auto images = [&](int id) {
    const PlanNode& node = graph.node(id);
    std::vector<int> all = {node.in[0]};
    if (node.in.size() > kResidual && node.in[kResidual] >= 0) all.push_back(node.in[kResidual]);
    return all;
  };
  for (int i = 0; i < graph.size(); ++i)
    for (int v : is_half(i) ? images(i) : std::vector<int>())
      if (is_half(graph.maker(v))) found[static_cast<size_t>(net_of(i))] = net_of(graph.maker(v));
  // Images count by the node that makes or first reads them.
  std::vector<double> gain(found.size());
  std::vector<bool> is_converted(static_cast<size_t>(graph.num_values()));
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_half(i)) continue;
    double& sum = gain[static_cast<size_t>(net_of(i))];
    const auto count = [&](int v) { return static_cast<double>(graph.shape(v).count()); };
    const auto convert = [&](int v) {
      if (!is_converted[static_cast<size_t>(v)]) sum -= kConversion * count(v);
      is_converted[static_cast<size_t>(v)] = true;
    };
    for (int v : images(i)) is_half(graph.maker(v)) ? void(sum += count(v)) : convert(v);
    const int made = graph.node(i).out[0];
    for (int reader : graph.readers(made))
      if (!is_half(reader)) convert(made);
  }
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_half(i) || gain[static_cast<size_t>(net_of(i))] <= 0) continue;
    auto attrs = std::make_shared<Attrs>(*graph.node(i).attrs);
    attrs->set(kHalfImage, true);
    graph.set_attrs(i, std::move(attrs));
  }
}

}  // namespace minnow
