#include "runtime/src/fuse/pipeline.h"

#include <algorithm>
#include <type_traits>

namespace minnow {
namespace {

void drop_unread(PlanGraph& graph) { graph.drop_unread(); }

// Where the CPU has tiles that convolutions read images with.
#if defined(__x86_64__)
constexpr bool kHasHalfImages = true;
#else
constexpr bool kHasHalfImages = false;
#endif

// A slim build goes without fusions that make, or start with, an op that it does not have.
#define MINNOW_IF(kept, fusion) (std::bool_constant<(kept)>::value ? (fusion) : +[](PlanGraph&) {})

// op list: the ops that fuse_spelled starts with, for slim builds alone
constexpr bool kHasSpelled = is_kept("Equal") || is_kept("NotEqual") || is_kept("RoundTo") || is_kept("Gather") ||
                             is_kept("GatherElements") || is_kept("ScatterElements") || is_kept("And") ||
                             is_kept("Where");

}  // namespace

// The optimizer of conversions does much of this, too. A file needs it from the engine where the format has no form for
// the result, so that it is written in parts (target mnn), where another converter wrote it, and where it was converted
// without optimization (-O0).
const std::vector<Fusion>& common_fusions() {
  // op list: the ops that each fusion makes or starts with
  static const std::vector<Fusion> kFusions = {
      {"fuse_attention", MINNOW_IF(is_kept("FusedAttention"), fuse_attention), "FusedAttention",
       "Target mnn, other converters, -O0. First: it reads through transposes, scales and masks that others take."},
      {"fuse_channel_norms", MINNOW_IF(is_kept("Scale"), fuse_channel_norms), nullptr,
       "Target mnn, -O0: these norms have no numbers per channel in the format."},
      {"pool_spatial_means", MINNOW_IF(is_kept("GlobalAveragePool"), pool_spatial_means), "GlobalAveragePool",
       "Target minnow, where a mean is one node. Before the epilogues, which then meet a small image."},
      {"fuse_quantized_rows", MINNOW_IF(is_kept("Conv") && is_kept("Linear"), fuse_quantized_rows), "Linear",
       "Every file with such weights. Before the epilogues, which the products then take in."},
      {"fuse_epilogues", fuse_epilogues, nullptr,
       "Target mnn, other converters, -O0: the format's layers have no residual, and of activations Relu and Relu6."},
      {"fuse_gates", fuse_gates, nullptr, "Every file. After the epilogues: a gate stands beside a residual."},
      {"fuse_requantization",
       MINNOW_IF(is_kept("ConvInteger") || is_kept("MatMulInteger") || is_kept("Requantize"), fuse_requantization),
       nullptr, "-O0: sums of integers end in their scale. After the epilogues, which are of floats."},
      {"fuse_log_softmax", MINNOW_IF(is_kept("LogSoftmax"), fuse_log_softmax), "LogSoftmax",
       "Target mnn: the format has no LogSoftmax."},
      {"fuse_spelled", MINNOW_IF(kHasSpelled, fuse_spelled), nullptr,
       "Target mnn, other converters: the format has no bool, its Round and Max are not those of ONNX, and layout "
       "conversions stand between nodes. After what would take these apart."},
      {"drop_unread", drop_unread, nullptr,
       "The norms, requantization, LogSoftmax and spelled ops leave nodes behind."},
  };
  return kFusions;
}

const std::vector<DeviceFusion>& device_fusions() {
  // op list: as above
  static const std::vector<DeviceFusion> kFusions = {
      {{"pair_convolutions", MINNOW_IF(is_kept("ConvPair"), pair_convolutions), "ConvPair",
        "Every file: no other runtime has such a node. After the epilogues, which are part of a pair."},
       {"cpu"}},
      {{"join_channels", MINNOW_IF(is_kept("Concat") && is_kept("Conv"), join_channels), nullptr,
        "Every file. After the pairs, which are no convolutions any more."},
       {"cuda", "vulkan"}},
      {{"fuse_separable", MINNOW_IF(is_kept("other devices") && is_kept("Conv"), fuse_separable), nullptr,
        "Every file: no other runtime has such a node. After the epilogues, which are part of both convolutions."},
       {"cuda"}},
      {{"fuse_quantized_tables",
        MINNOW_IF(is_kept("QuantizedConv") || is_kept("QuantizedMatMul"), fuse_quantized_tables), nullptr,
        "Every file: activations, other scales and sums of quantized networks are nodes of their own in all files."},
       {"cuda"}},
      {{"fuse_byte_arithmetic", MINNOW_IF(is_kept("ByteArithmetic"), fuse_byte_arithmetic), "ByteArithmetic",
        "Every file: no other runtime has such a node. Before fuse_elementwise, which takes its parts."},
       {"cpu"}},
      {{"fuse_rectified", MINNOW_IF(is_kept("BinaryRelu"), fuse_rectified), "BinaryRelu",
        "-O0, other converters: 1.4 times as fast as the two ops in one program. After the epilogues, which take "
        "both."},
       {"cpu"}},
      {{"fuse_elementwise", MINNOW_IF(is_kept("Fused"), fuse_elementwise), "Fused",
        "Every file. Takes what the others have left."},
       {"cpu", "cuda", "opencl", "vulkan"}},
      {{"fuse_rows", MINNOW_IF(is_kept("FusedRows"), fuse_rows), "FusedRows",
        "Every file: no other runtime has such a node. After fuse_elementwise, whose nodes it takes."},
       {"cpu"}},
      {{"keep_half_images", MINNOW_IF(is_kept("Conv") && kHasLowPrecision && kHasHalfImages, keep_half_images), nullptr,
        "Every file. After the epilogues, which are part of a convolution."},
       {"cpu"}},
      {{"keep_half_rows", MINNOW_IF(is_kept("Linear") && kHasLowPrecision && kHasHalfImages, keep_half_rows), nullptr,
        "Every file. After the epilogues, which are part of a product."},
       {"cpu"}},
      {{"keep_stored_weights", keep_stored_weights, nullptr,
        "Every file. Last: it counts the products that there are."},
       {"cpu"}},
  };
  return kFusions;
}

void fuse_for_all(PlanGraph& graph) {
  for (const Fusion& fusion : common_fusions())
    if (fusion.makes == nullptr || find_op(fusion.makes) != nullptr) fusion.apply(graph);
}

void fuse_for_device(const Backend& device, PlanGraph& graph) {
  const std::string kernels = device.kernels();
  for (const auto& [fusion, devices] : device_fusions()) {
    if (std::find(devices.begin(), devices.end(), kernels) == devices.end()) continue;
    const OpSpec* made = fusion.makes == nullptr ? nullptr : find_op(fusion.makes);
    if (fusion.makes == nullptr || (made != nullptr && device.find(*made) != nullptr)) fusion.apply(graph);
  }
}

}  // namespace minnow
