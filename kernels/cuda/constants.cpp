#include "kernels/cuda/constants.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace minnow::cuda {

std::vector<float> host_floats(const Tensor& tensor) {
  const int64_t n = tensor.count();
  if (tensor.type.dtype == DType::kF32) return {tensor.as<float>(), tensor.as<float>() + n};
  std::vector<float> out(static_cast<size_t>(n));
  const bool is_f16 = tensor.type.dtype == DType::kF16;
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = is_f16 ? __half2float(static_cast<const __half*>(tensor.data)[i])
                                         : __bfloat162float(static_cast<const __nv_bfloat16*>(tensor.data)[i]);
  return out;
}

void store_floats(const float* from, int64_t count, DType dtype, void* to) {
  switch (dtype) {
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) static_cast<__half*>(to)[i] = __float2half(from[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(from[i]);
      return;
    default:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

std::vector<float> stretched_floats(const Tensor& tensor, const Shape& shape) {
  const std::vector<float> from = host_floats(tensor);
  std::vector<float> out(static_cast<size_t>(shape.count()));
  for (int64_t i = 0; i < shape.count(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int k = 1; k <= shape.rank() && k <= tensor.rank(); ++k) {
      const int64_t index = rest % shape.at(-k);
      rest /= shape.at(-k);
      at += tensor.dim(-k) == 1 ? 0 : index * stride;
      stride *= tensor.dim(-k);
    }
    out[static_cast<size_t>(i)] = from[static_cast<size_t>(at)];
  }
  return out;
}

}  // namespace minnow::cuda
