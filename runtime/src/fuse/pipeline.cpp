#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

void drop_unread(PlanGraph& graph) { graph.drop_unread(); }

}  // namespace

const std::vector<Fusion>& common_fusions() {
  static const std::vector<Fusion> kFusions = {
      {"fuse_attention", fuse_attention, "FusedAttention",
       "first: it reads through transposes, scales and masks that the others would take"},
      {"fuse_channel_norms", fuse_channel_norms, nullptr, "the format has no numbers per channel in these norms"},
      {"pool_spatial_means", pool_spatial_means, "GlobalAveragePool",
       "before the epilogues: what follows the mean is then 1 x 1"},
      {"fuse_epilogues", fuse_epilogues, nullptr, "the format's layers have no residual and few activations"},
      {"fuse_requantization", fuse_requantization, nullptr,
       "the format's integer layers say neither their scales nor their zero points as ours do"},
      {"fuse_log_softmax", fuse_log_softmax, "LogSoftmax", "the format has no LogSoftmax"},
      {"fuse_spelled", fuse_spelled, nullptr, "the format has no bool, and its Round and Max differ from ONNX's"},
      {"drop_unread", drop_unread, nullptr, "the last three leave nodes behind that nobody reads"},
  };
  return kFusions;
}

const std::vector<Fusion>& cpu_fusions() {
  static const std::vector<Fusion> kFusions = {
      {"pair_convolutions", pair_convolutions, "ConvPair", "after the epilogues, which are part of the pair"},
      {"fuse_gates", fuse_gates, nullptr, "after the pairs, whose convolutions take no gate"},
      {"fuse_rectified", fuse_rectified, "BinaryRelu", "after the epilogues, which take the Relu with less"},
      {"fuse_elementwise", fuse_elementwise, "Fused", "what the others have left"},
      {"keep_stored_weights", keep_stored_weights, nullptr, "last: it counts the products that there are"},
  };
  return kFusions;
}

void fuse(const std::vector<Fusion>& fusions, PlanGraph& graph) {
  for (const Fusion& fusion : fusions)
    if (fusion.makes == nullptr || find_op(fusion.makes) != nullptr) fusion.apply(graph);
}

}  // namespace minnow
