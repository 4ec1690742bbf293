#include "kernels/vulkan/constants.h"

#include <cmath>
#include <cstring>

#include "kernels/gpu/dense/layer.h"

namespace minnow::vulkan {
namespace {

float from_half(uint16_t v) {
  const int exponent = v >> 10 & 31;
  const auto fraction = static_cast<float>(v & 1023);
  const float size = exponent == 0    ? std::ldexp(fraction, -24)
                     : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                      : std::ldexp(fraction + 1024, exponent - 25);
  return (v & 0x8000) != 0 ? -size : size;
}

float from_bf16(uint16_t v) {
  const uint32_t bits = uint32_t{v} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

uint16_t to_bf16(float v) {
  uint32_t u;
  std::memcpy(&u, &v, sizeof u);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float number(const Tensor& tensor, int64_t i) {
  if (tensor.type.dtype == DType::kF32) return tensor.as<float>()[i];
  const uint16_t bits = tensor.as<uint16_t>()[i];
  return tensor.type.dtype == DType::kF16 ? from_half(bits) : from_bf16(bits);
}

}  // namespace

const Tensor* constant_of(const NodeContext& node, size_t i) {
  if (i >= node.constant.size() || node.in[i] == nullptr || node.constant[i] == nullptr) return nullptr;
  return is_kernel_float(node.constant[i]->type.dtype) ? node.constant[i] : nullptr;
}

void pack_constant(const NodeContext& node, size_t input, const std::string& form, DType dtype, int64_t rows,
                   int64_t columns, FunctionRef<int64_t(int64_t, int64_t)> place, Packed* to) {
  const std::string packing = "vulkan_" + form + "_" + std::to_string(columns) + dtype_name(dtype);
  to->make(node, {input}, packing, rows * columns * static_cast<int64_t>(dtype_size(dtype)), [&](void* packed) {
    const Tensor& from = *node.constant[input];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t at = place(r, c);
        const float v = at < 0 ? 0.0f : number(from, at);
        if (dtype == DType::kF16)
          static_cast<uint16_t*>(packed)[r * columns + c] = gpu::to_half(v);
        else if (dtype == DType::kBF16)
          static_cast<uint16_t*>(packed)[r * columns + c] = to_bf16(v);
        else
          static_cast<float*>(packed)[r * columns + c] = v;
      }
  });
}

void pack_channels(const NodeContext& node, size_t input, Packed* to) {
  const int64_t n = node.in[input]->count();
  pack_constant(
      node, input, "channels", DType::kF32, 1, (n + 7) / 8 * 8, [&](int64_t, int64_t c) { return c < n ? c : -1; }, to);
}

}  // namespace minnow::vulkan
