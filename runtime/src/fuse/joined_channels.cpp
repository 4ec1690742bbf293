// Images that are concatenated only to be convolved.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

// Kernels read whole vectors of channels of one of the images.
constexpr int64_t kChannels = 8;
// What they take for certain; larger ones are rare.
constexpr int64_t kJoinedSize = 16384, kJoinedWindow = 128, kJoinedStride = 8, kJoinedElements = int64_t{1} << 29;

bool all_within(const std::vector<int64_t>& numbers, int64_t most) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t v) { return v >= 0 && v <= most; });
}

// Whether the node convolves `v`, and does nothing else with it.
bool only_convolves(const PlanGraph& graph, int id, int v) {
  if (!graph.is(id, "Conv")) return false;
  const PlanNode& conv = graph.node(id);
  if (conv.in.size() < 2 || conv.in.size() > kResidual + 1 || conv.in[0] != v || !graph.is_constant(conv.in[1]) ||
      std::count(conv.in.begin(), conv.in.end(), v) != 1)
    return false;
  if (conv.in.size() > 2 && conv.in[2] >= 0 && !graph.is_constant(conv.in[2])) return false;
  const Shape &x = graph.shape(v), &w = graph.shape(conv.in[1]);
  const std::vector<int64_t> dilations = conv.attrs->ints("dilations");
  const bool fits = w[1] == x[1] && conv.attrs->i("group", 1) == 1 && std::max(w[2], w[3]) <= 11 &&
                    all_within(dilations, kJoinedWindow / 11) &&
                    all_within(conv.attrs->ints("strides"), kJoinedStride) &&
                    all_within(conv.attrs->ints("pads"), kJoinedWindow);
  return fits && graph.type(conv.out[0]).dtype == graph.type(v).dtype && graph.shape(conv.out[0]).count() > 0 &&
         graph.shape(conv.out[0]).count() <= kJoinedElements;
}

bool is_image(const TensorType& x) {
  const bool floats = x.dtype == DType::kF32 || x.dtype == DType::kF16 || x.dtype == DType::kBF16;
  return floats && x.shape.rank() == 4 && x.shape[1] % kChannels == 0 && x.count() > 0 &&
         x.count() <= kJoinedElements && std::max(x.shape[2], x.shape[3]) <= kJoinedSize;
}

}  // namespace

// Two images of as many channels each, which convolutions read where they lie.
void join_channels(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Concat")) continue;
    const PlanNode& concat = graph.node(i);
    if (concat.in.size() != 2 || concat.in[0] < 0 || concat.in[1] < 0 || concat.out.size() != 1) continue;
    const int first = concat.in[0], second = concat.in[1], joined = concat.out[0];
    const TensorType& x = graph.type(first);
    const int64_t axis = concat.attrs->i("axis");
    if (!is_image(x) || !same_type(graph.type(second), x) || (axis != 1 && axis != 1 - x.shape.rank())) continue;
    if (graph.is_constant(first) || graph.is_constant(second)) continue;
    const std::vector<int> readers = graph.readers(joined);
    const auto convolves = [&](int id) { return only_convolves(graph, id, joined); };
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), convolves)) continue;
    for (int id : readers) {
      std::vector<int> in = graph.node(id).in;
      in[0] = first;
      in.resize(kMoreChannels, -1);
      in.push_back(second);
      graph.set_inputs(id, std::move(in));
    }
    graph.drop(i);
  }
}

}  // namespace minnow
