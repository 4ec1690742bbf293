// Products of precision "low" round the rows that they read to bf16. Where nothing else reads them, the product that
// makes these rows rounds them, while they are in a register.
#include "runtime/src/backend/cpu.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

// Rows as long as those that `reader` reads.
bool takes_half_rows(const PlanGraph& graph, int id, int reader) {
  if (!graph.is(id, "Linear")) return false;
  const PlanNode& node = graph.node(id);
  const Shape &x = graph.shape(node.in[0]), &w = graph.shape(node.in[1]);
  return graph.is_constant(node.in[1]) && graph.value(node.in[1]).constant->quantized() == nullptr &&
         graph.type(node.out[0]).dtype == DType::kF32 &&
         cpu_takes_half_rows(x.count(0, x.rank() - 1), w[0], w[1], graph.shape(graph.node(reader).in[0]).at(-1),
                             graph.precision());
}

}  // namespace

void keep_half_rows(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!takes_half_rows(graph, i, i)) continue;
    const int rows = graph.node(i).in[0], maker = graph.maker(rows);
    if (!takes_half_rows(graph, maker, i) || graph.only_reader(rows) != i) continue;
    const std::vector<int>& in = graph.node(maker).in;
    if (in.size() <= kResidual || in[kResidual] < 0) graph.set_dtype(rows, DType::kBF16);
  }
}

}  // namespace minnow
