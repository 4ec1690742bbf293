#include "kernels/gpu/dense/layer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace minnow::gpu {
namespace {

// For tests: MINNOW_GPU_SCHEMES=large computes small shapes on any device as large GPUs compute large ones.
bool is_forced() {
  static const bool forced = [] {
    const char* schemes = std::getenv("MINNOW_GPU_SCHEMES");
    return schemes != nullptr && std::strcmp(schemes, "large") == 0;
  }();
  return forced;
}

}  // namespace

uint16_t to_half(float v) {
  uint32_t u;
  std::memcpy(&u, &v, sizeof u);
  const uint32_t sign = (u >> 16) & 0x8000, size = u & 0x7fffffff;
  if (size > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 0x47800000) return static_cast<uint16_t>(sign | (size == 0x7f800000 ? 0x7c00 : 0x7bff));
  if (size < 0x38800000) {  // smaller than the normal ones: multiples of 2^-24
    float number;
    std::memcpy(&number, &size, sizeof number);
    const float shifted = number + 0.5f;  // whose last bit is 2^-24
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  const uint32_t rounded = size + 0xfff + ((size >> 13) & 1);
  const uint32_t half = (rounded >> 13) - (112 << 10);
  return static_cast<uint16_t>(sign | std::min<uint32_t>(half, 0x7bff));
}

bool has_many_units(const Device& device) { return is_forced() || device.speed().flops > 1e12; }

Tile choose_tile(const Device& device, int64_t m, int64_t n, int64_t products) {
  const int64_t enough = is_forced() ? 1 : 200;
  constexpr Tile kLarge[] = {{"_8x8", 128, 128}, {"_4x8", 64, 128}};
  if (has_many_units(device))
    for (const Tile& tile : kLarge)
      if (m > tile.rows / 2 && n > 64 && products * tile.count(m, n) >= enough) return tile;
  return {};
}

void pack_columns(const NodeContext& node, size_t input, int64_t count, int64_t rows, int64_t columns, Packed* packed) {
  const Tensor* given = input < node.constant.size() ? node.constant[input] : nullptr;
  const DType to = node.in[input]->dtype;
  const bool halves = to == DType::kF16;
  if (given == nullptr || given->data == nullptr || given->type.dtype != DType::kF32 || given->count() == 0 ||
      (!halves && to != DType::kF32))
    return packed->clear();
  const std::string packing =
      std::string(halves ? "gpu_columns_f16," : "gpu_columns,") + std::to_string(count) + "," + std::to_string(rows);
  packed->make(node, {input}, packing, given->count() * (halves ? 2 : 4), [&](void* to_memory) {
    const auto* from = given->as<float>();
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < rows; ++r) {
          const float v = from[(i * rows + r) * columns + c];
          const int64_t at = (i * columns + c) * rows + r;
          if (halves) {
            static_cast<uint16_t*>(to_memory)[at] = to_half(v);
          } else {
            static_cast<float*>(to_memory)[at] = v;
          }
        }
  });
}

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
  constexpr int64_t kEnough = 256, kLeastK = 128, kMostResults = int64_t{1} << 30;
  Parts parts;
  parts.k = groups_for(std::max<int64_t>(k, 1), 16) * 16;
  if (!has_many_units(device) || tiles * 2 > kEnough || k < 2 * kLeastK) return parts;
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
