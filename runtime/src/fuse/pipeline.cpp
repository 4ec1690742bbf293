#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

void drop_unread(PlanGraph& graph) { graph.drop_unread(); }

}  // namespace

// The optimizer of conversions does much of this, too. A file needs it from the engine where the format has no form for
// the result, so that it is written in parts (target mnn), where another converter wrote it, and where it was converted
// without optimization (-O0).
const std::vector<Fusion>& common_fusions() {
  static const std::vector<Fusion> kFusions = {
      {"fuse_attention", fuse_attention, "FusedAttention",
       "Target mnn, other converters, -O0. First: it reads through transposes, scales and masks that others take."},
      {"fuse_channel_norms", fuse_channel_norms, nullptr,
       "Target mnn, -O0: these norms have no numbers per channel in the format."},
      {"pool_spatial_means", pool_spatial_means, "GlobalAveragePool",
       "Target minnow, where a mean is one node. Before the epilogues, which then meet a small image."},
      {"fuse_epilogues", fuse_epilogues, nullptr,
       "Target mnn, other converters, -O0: the format's layers have no residual, and of activations Relu and Relu6."},
      {"fuse_gates", fuse_gates, nullptr, "Every file. After the epilogues: a gate stands beside a residual."},
      {"fuse_requantization", fuse_requantization, nullptr,
       "-O0: sums of integers end in their scale. After the epilogues, which are of floats."},
      {"fuse_log_softmax", fuse_log_softmax, "LogSoftmax", "Target mnn: the format has no LogSoftmax."},
      {"fuse_spelled", fuse_spelled, nullptr,
       "Target mnn, other converters: the format has no bool, its Round and Max are not those of ONNX, and layout "
       "conversions stand between nodes. After what would take these apart."},
      {"drop_unread", drop_unread, nullptr,
       "The norms, requantization, LogSoftmax and spelled ops leave nodes behind."},
  };
  return kFusions;
}

const std::vector<Fusion>& cpu_fusions() {
  static const std::vector<Fusion> kFusions = {
      {"pair_convolutions", pair_convolutions, "ConvPair",
       "Every file: no other runtime has such a node. After the epilogues, which are part of a pair."},
      {"fuse_rectified", fuse_rectified, "BinaryRelu",
       "-O0, other converters: 1.4 times as fast as the two ops in one program. After the epilogues, which take both."},
      {"fuse_elementwise", fuse_elementwise, "Fused", "Every file. Takes what the others have left."},
      {"keep_stored_weights", keep_stored_weights, nullptr, "Every file. Last: it counts the products that there are."},
  };
  return kFusions;
}

void fuse(const std::vector<Fusion>& fusions, PlanGraph& graph) {
  for (const Fusion& fusion : fusions)
    if (fusion.makes == nullptr || find_op(fusion.makes) != nullptr) fusion.apply(graph);
}

}  // namespace minnow
