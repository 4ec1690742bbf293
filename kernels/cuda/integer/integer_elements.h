// Element by element, between floats and bytes. Tensors are read and written as they lie, 16 elements by a thread.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

// y = saturate(round(x / scale) + zero), halves to even.
struct QuantizeElements {
  int64_t count = 0;
  DType from = DType::kF32;  // kF32, kF16, kBF16
  bool is_signed = false;    // y and zero are i8, else u8
  const void* x = nullptr;
  const float* scale = nullptr;
  const void* zero = nullptr;  // or null
  void* y = nullptr;
};
cudaError_t quantize_elements(const QuantizeElements& problem, const Target& target);

// y = (x - zero) * scale
struct DequantizeElements {
  int64_t count = 0;
  bool is_signed = false;  // x and zero
  DType to = DType::kF32, scale_type = DType::kF32;
  const void *x = nullptr, *scale = nullptr, *zero = nullptr;
  void* y = nullptr;
};
cudaError_t dequantize_elements(const DequantizeElements& problem, const Target& target);

// y = table[x], of bytes; with i8 the table begins at -128. Its elements have 1, 2, 4 or 8 bytes.
struct LookUpElements {
  int64_t count = 0;
  bool is_signed = false;
  int bytes = 1;
  const void *x = nullptr, *table = nullptr;
  void* y = nullptr;
};
cudaError_t look_up_elements(const LookUpElements& problem, const Target& target);

// The op QuantizedSum of bytes; y has elements of 1, 2 or 4 bytes.
struct SumElements {
  int64_t count = 0;
  bool a_signed = false, b_signed = false;
  int bytes = 1;
  const void *a = nullptr, *b = nullptr;
  const int32_t *a_table = nullptr, *b_table = nullptr, *factor = nullptr, *shift = nullptr;
  int zero = 0, least = 0, most = 0;
  void* y = nullptr;
};
cudaError_t sum_elements(const SumElements& problem, const Target& target);

// The op DynamicQuantizeLinear of f32, whose results lie in rows of `padded` bytes that end with zeros.
struct QuantizeByRange {
  int64_t rows = 1;
  int64_t columns = 0, padded = 0;
  int steps = 0;
  const float* x = nullptr;
  float* parts = nullptr;  // 2 * kRangeParts
  uint8_t* y = nullptr;
  float* scale = nullptr;
  uint8_t* zero = nullptr;
};
constexpr int kRangeParts = 256;
cudaError_t quantize_by_range(const QuantizeByRange& problem, const Target& target);

}  // namespace minnow::cuda
