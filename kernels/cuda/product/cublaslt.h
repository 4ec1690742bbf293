// cuBLASLt as one more way to compute a matrix product: loaded while the program runs, where it is installed. Nothing
// needs it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

// The plans of the library for one product. The library is looked for where the loader looks, and in the folders that
// MINNOW_CUBLASLT names, separated by colons.
class LibraryProduct {
 public:
  // Begins to load the library, on another thread: it is large, and takes some tenths of a second.
  static void expect();
  // Null where the library is absent, or does not compute this product with its bias, residual and activation at once.
  // `workspace`: bytes that a plan may take.
  static std::unique_ptr<LibraryProduct> create(const Product& product, int64_t workspace);
  virtual ~LibraryProduct() = default;
  virtual int plans() const = 0;  // the most promising first
  virtual int64_t workspace(int plan) const = 0;
  virtual Status launch(int plan, const ProductOperands& operands, void* workspace, cudaStream_t stream) = 0;
};

}  // namespace minnow::cuda
