// Convolutions of precision "low", and poolings, that leave images to each other as numbers of bf16, with channels last
// (Layout::kLast): where more of them go from one to the next than are to be converted for other nodes.
#include <algorithm>
#include <numeric>

#include "kernels/core/kernel_table.h"
#include "runtime/src/backend/cpu.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

constexpr int64_t kFewestChannels = 16, kFewChannels = 4;
constexpr int64_t kWholeChannels = 32;  // of a step of a tile: pixels of images that are joined have no others
// Of larger images, which leave the caches, halves of what is fetched cost as much as a copy.
constexpr int64_t kJoinedNumbers = 1 << 21;
constexpr double kConversion = 2.5;  // the time of one, in what an image between two such nodes saves

// What a node does with such images.
enum class Half : uint8_t { kNone, kTakes, kMakes, kReads };

// Whether a convolution with constant weights computes with them as they are packed.
bool stays_quantized(const PlanGraph& graph, const PlanNode& node) {
  const QuantizedMatrix* quantized = graph.value(node.in[1]).constant->quantized();
  return quantized != nullptr &&
         keeps_quantized(*quantized, graph.shape(node.in[0]).count() + graph.shape(node.out[0]).count());
}

// Clamps are all that is free beside the sums.
bool is_clamp(const std::string& activation) {
  return activation.empty() || activation == "relu" || activation == "relu6" || activation == "clip";
}

template <class Makes>
Half half_of(const PlanGraph& graph, int id, const Makes& makes) {
  if (!graph.is_looked_at(id)) return Half::kNone;
  const PlanNode& node = graph.node(id);
  const auto is_image = [&](int v) {
    return v >= 0 && graph.type(v).dtype == DType::kF32 && graph.shape(v).rank() == 4 && graph.shape(v).count(2, 4) > 1;
  };
  if (node.in.empty() || node.out.empty() || !is_image(node.in[0])) return Half::kNone;
  const int64_t channels = graph.shape(node.in[0])[1];
  if (graph.is(id, "GlobalAveragePool")) return channels >= kFewestChannels ? Half::kReads : Half::kNone;
  if (!is_image(node.out[0])) return Half::kNone;
  if (graph.is(id, "MaxPool") || graph.is(id, "AveragePool")) {
    const bool indices = node.out.size() > 1 && node.out[1] >= 0;
    return channels >= kFewestChannels && !indices ? Half::kTakes : Half::kNone;
  }
  if (graph.is(id, "Concat")) {
    const int64_t axis = node.attrs->i("axis");
    const auto is_there = [&](int v) { return is_image(v) && makes(graph.maker(v)); };
    const bool all = (axis == 1 || axis == -3) && std::all_of(node.in.begin(), node.in.end(), is_there);
    return all ? Half::kTakes : Half::kNone;
  }
  const Shape& made = graph.shape(node.out[0]);
  if (graph.is(id, "Resize")) {
    const bool blends =
        node.attrs->s("mode", "nearest") != "nearest" && node.attrs->s("coordinate_mode", "") != "tf_crop_and_resize";
    const bool known =
        std::all_of(node.in.begin() + 1, node.in.end(), [&](int v) { return v < 0 || graph.is_constant(v); });
    return blends && known && made[0] == graph.shape(node.in[0])[0] && made[1] == channels ? Half::kTakes : Half::kNone;
  }
  if (graph.is(id, "ConvTranspose")) {
    if (node.in.size() < 2 || node.in.size() > kResidual + 1 || !graph.is_constant(node.in[1])) return Half::kNone;
    const TensorType& w = graph.type(node.in[1]);
    bool apart =
        w.dtype == DType::kF32 && node.attrs->i("group", 1) == 1 && std::min(channels, w.shape[1]) >= kFewestChannels;
    for (int i = 2; i < 4; ++i) apart = apart && made[i] == graph.shape(node.in[0])[i] * w.shape[i];
    const std::vector<int64_t> strides = node.attrs->ints("strides");
    apart = apart && strides.size() == 2 && strides[0] == w.shape[2] && strides[1] == w.shape[3];
    for (const char* name : {"pads", "output_padding"})
      for (int64_t n : node.attrs->ints(name)) apart = apart && n == 0;
    for (int64_t n : node.attrs->ints("dilations")) apart = apart && n == 1;
    apart = apart && !stays_quantized(graph, node);
    return apart ? Half::kTakes : Half::kNone;
  }
  if (!graph.is(id, "Conv") || node.in.size() < 2 || node.in.size() > kResidual + 1 || !graph.is_constant(node.in[1]))
    return Half::kNone;
  const TensorType& w = graph.type(node.in[1]);
  if (w.dtype != DType::kF32 || w.shape.rank() != 4) return Half::kNone;
  const bool adds = node.in.size() > kResidual && node.in[kResidual] >= 0;
  const bool depthwise = takes_half_depthwise(graph, id);
  const bool few_made = w.shape[0] < kFewestChannels && !makes(graph.maker(node.in[0]));
  if (!depthwise && (w.shape[1] != channels || few_made)) return Half::kNone;
  if (stays_quantized(graph, node)) return Half::kNone;
  if (channels <= kFewChannels) return adds ? Half::kNone : Half::kMakes;
  return channels >= kFewestChannels ? Half::kTakes : Half::kNone;
}

// The images that a node with such results, or such inputs, reads.
std::vector<int> images_of(const PlanGraph& graph, int id) {
  const PlanNode& node = graph.node(id);
  if (graph.is(id, "Concat")) return node.in;
  std::vector<int> all = {node.in[0]};
  if (node.in.size() > kResidual && node.in[kResidual] >= 0) all.push_back(node.in[kResidual]);
  return all;
}

// Whether an image can lie among the channels of the one that it is concatenated to, so that nothing is copied: what is
// added to the results of a convolution lies as these do.
bool is_joinable(const PlanGraph& graph, const PlanNode& concat, int v) {
  const auto added = [&](int id) {
    const std::vector<int>& in = graph.node(id).in;
    return graph.is(id, "Concat") || in.size() <= kResidual ? -1 : in[kResidual];
  };
  const std::vector<int>& readers = graph.readers(v);
  return std::count(concat.in.begin(), concat.in.end(), v) == 1 && added(graph.maker(v)) < 0 &&
         std::none_of(readers.begin(), readers.end(), [&](int id) { return added(id) == v; });
}

}  // namespace

// Where the convolution that reads its result leaves no fewer channels. In blocks that are wide inside alone, packed
// images and pairs of convolutions in f32 take no longer.
bool takes_half_depthwise(const PlanGraph& graph, int id) {
  const PlanNode& node = graph.node(id);
  if (graph.precision() != Precision::kLow || !cpu_takes_half_images()) return false;
  const Shape &x = graph.shape(node.in[0]), &w = graph.shape(node.in[1]);
  const bool adds = node.in.size() > kResidual && node.in[kResidual] >= 0;
  if (x.rank() != 4 || w.rank() != 4 || x[1] < kWholeChannels || adds || !is_clamp(node.attrs->s("activation", "")) ||
      node.attrs->i("group", 1) != x[1] || w[0] != x[1] || w[1] != 1)
    return false;
  const std::vector<int>& readers = graph.readers(node.out[0]);
  return std::any_of(readers.begin(), readers.end(), [&](int reader) {
    if (!graph.is(reader, "Conv") || graph.node(reader).in[0] != node.out[0]) return false;
    const Shape& next = graph.shape(graph.node(reader).in[1]);
    return next[1] == x[1] && next[0] >= x[1];
  });
}

void keep_half_images(PlanGraph& graph) {
  if (graph.precision() != Precision::kLow || !cpu_takes_half_images()) return;
  std::vector<int> found(static_cast<size_t>(graph.size()));
  std::vector<Half> half(found.size());
  std::iota(found.begin(), found.end(), 0);
  const auto half_at = [&](int id) { return id < 0 ? Half::kNone : half[static_cast<size_t>(id)]; };
  const auto is_half = [&](int id) { return half_at(id) != Half::kNone; };
  const auto makes = [&](int id) { return half_at(id) == Half::kTakes || half_at(id) == Half::kMakes; };
  const auto reads = [&](int id) { return half_at(id) == Half::kTakes || half_at(id) == Half::kReads; };
  for (int i = 0; i < graph.size(); ++i) half[static_cast<size_t>(i)] = half_of(graph, i, makes);
  const auto net_of = [&](int id) {
    while (found[static_cast<size_t>(id)] != id) id = found[static_cast<size_t>(id)];
    return id;
  };
  const auto images = [&](int id) { return reads(id) ? images_of(graph, id) : std::vector<int>(); };
  for (int i = 0; i < graph.size(); ++i)
    for (int v : images(i))
      if (makes(graph.maker(v))) found[static_cast<size_t>(net_of(i))] = net_of(graph.maker(v));
  // Numbers from one pixel of the image that a node makes to the next, where it is to be a part of another one: the
  // last Concat first, as its parts may be results of others.
  std::vector<int64_t> pixel(found.size());
  for (int i = graph.size() - 1; i >= 0; --i) {
    if (!graph.is(i, "Concat") || !is_half(i)) continue;
    const PlanNode& concat = graph.node(i);
    const auto is_whole = [&](int v) { return graph.shape(v)[1] % kWholeChannels == 0; };
    if (!std::all_of(concat.in.begin(), concat.in.end(), is_whole)) continue;
    const int64_t own = pixel[static_cast<size_t>(i)], all = own > 0 ? own : graph.shape(concat.out[0])[1];
    for (int v : concat.in) {
      int64_t& part = pixel[static_cast<size_t>(graph.maker(v))];
      if (part == 0 && graph.shape(concat.out[0]).count() <= kJoinedNumbers && is_joinable(graph, concat, v))
        part = all;
    }
  }
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
    // As if it were copied, which it is not elsewhere, and not always here.
    if (graph.is(i, "Concat")) sum -= count(graph.node(i).out[0]);
    for (int v : images(i)) makes(graph.maker(v)) ? void(sum += count(v)) : convert(v);
    if (!makes(i)) continue;
    const int made = graph.node(i).out[0];
    for (int reader : graph.readers(made))
      if (!reads(reader)) convert(made);
  }
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_half(i) || gain[static_cast<size_t>(net_of(i))] <= 0) continue;
    auto attrs = std::make_shared<Attrs>(*graph.node(i).attrs);
    attrs->set(kHalfImage, true);
    if (pixel[static_cast<size_t>(i)] > 0) attrs->set(kHalfPixel, pixel[static_cast<size_t>(i)]);
    graph.set_attrs(i, std::move(attrs));
  }
}

}  // namespace minnow
