#include "kernels/gpu/dense/layer.h"

#include <algorithm>

namespace minnow::gpu {

const void* input_data(const RunContext& context, size_t i) {
  return i < context.in.size() && context.in[i] != nullptr ? context.in[i]->data : nullptr;
}

const void* input_or(const RunContext& context, size_t i, const void* other) {
  const void* data = input_data(context, i);
  return data != nullptr ? data : other;
}

int32_t type_of(const NodeContext& node, size_t i) {
  return type_of(i < node.in.size() && node.in[i] != nullptr ? node.in[i]->dtype : DType::kF32);
}

Parts choose_parts(const Device& device, int64_t tiles, int64_t k, int64_t results) {
  // A processor that runs OpenCL is filled by a few work-groups.
  constexpr double kManyUnits = 1e12;
  constexpr int64_t kEnough = 256, kLeastK = 128, kMostResults = int64_t{1} << 30;
  Parts parts;
  parts.k = groups_for(std::max<int64_t>(k, 1), 16) * 16;
  if (device.speed().flops < kManyUnits || tiles * 2 > kEnough || k < 2 * kLeastK) return parts;
  int64_t wanted = std::min(groups_for(kEnough, std::max<int64_t>(tiles, 1)), k / kLeastK);
  wanted = std::min(wanted, std::max<int64_t>(1, kMostResults / std::max<int64_t>(results, 1)));
  if (wanted < 2) return parts;
  parts.k = groups_for(groups_for(k, wanted), 16) * 16;
  parts.count = groups_for(k, parts.k);
  return parts;
}

Status Finish::prepare(const NodeContext& node, const LayerActivation& activation, int64_t n, int64_t parts,
                       int64_t inner, int64_t channels) {
  activation_ = activation;
  n_ = n;
  parts_ = parts;
  inner_ = std::max<int64_t>(inner, 1);
  channels_ = std::max<int64_t>(channels, 1);
  return device_of(node).program(
      "dense_finish",
      {{"TYPE_BIAS", type_of(node, 2)}, {"TYPE_Y", type_of(node.out[0]->dtype)}, {"ACTIVATION", activation.kind}},
      &program_);
}

Status Finish::enqueue(const RunContext& context, Stream& stream) const {
  const void* y = context.out[0]->data;
  const int32_t flags =
      (input_data(context, 2) != nullptr ? kBiasOfColumn : 0) | (input_data(context, 3) != nullptr ? kResidual : 0);
  Arguments arguments;
  arguments.buffer(context.workspace).buffer(input_or(context, 2, y)).buffer(input_or(context, 3, y)).buffer(y);
  arguments.add(to_i32(n_)).add(to_i32(parts_)).add(to_i32(inner_)).add(to_i32(channels_)).add(flags);
  arguments.add(activation_.alpha).add(activation_.beta);
  return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(n_, program_->text.group), 65535)});
}

}  // namespace minnow::gpu
