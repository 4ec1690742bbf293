// Products of few rows with a matrix, as in the generation of text: y = activation(x w^T + bias + residual). Nothing
// but the memory that the weights come from is slow here.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

constexpr int kMostFewRows = 8;

struct FewRows {
  DType dtype = DType::kF16;     // of x, w, residual and y: kF16, kBF16 or kF32
  int rows = 1;                  // of x: 8 at the most
  int n = 0, k = 0;              // k is a multiple of 16 bytes
  int64_t x_row = 0, y_row = 0;  // elements from one row to the next; the residual's rows are those of y
  Activation activation;

  const void* x = nullptr;         // [rows, k]; rows aligned to 16 bytes
  const void* w = nullptr;         // [n, k], aligned to 16 bytes; written before the run
  const float* bias = nullptr;     // [n], or null; written before the run
  const void* residual = nullptr;  // [rows, n], or null
  void* y = nullptr;               // [rows, n]
};

bool few_rows_fits(const FewRows& problem, const Target& target);
cudaError_t few_rows(const FewRows& problem, const Target& target);

// The same with weights of 4 or 8 bits: w = scale * (q - 2^(bits - 1)) + offset, with a scale and an offset for each
// group of a row. All in the form of quantized_tile.h.
struct FewRowsQuantized {
  FewRows product;                // of kF16, with rows of x aligned to 16 bytes; its w is not used
  int bits = 4;                   // or 8
  int group = 32;                 // numbers that share a scale: a multiple of 32 that divides k
  const uint8_t* q = nullptr;     // aligned to 16 bytes
  const float* scale = nullptr;   // aligned to 16 bytes
  const float* offset = nullptr;  // aligned to 16 bytes, or null
};

bool few_rows_quantized_fits(const FewRowsQuantized& problem, const Target& target);
cudaError_t few_rows_quantized(const FewRowsQuantized& problem, const Target& target);

}  // namespace minnow::cuda
