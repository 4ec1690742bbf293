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

float number(const Tensor& tensor, int64_t i) {
  return tensor.type.dtype == DType::kF32 ? tensor.as<float>()[i] : from_half(tensor.as<uint16_t>()[i]);
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
