// Convolutions, layers and matrix products on the GPU as one thing: a matrix of windows times a matrix of weights. The
// caller describes a product, asks for the ways to compute it, times them if it likes, and launches one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/status.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/product/arguments.h"

namespace minnow::cuda {

// What lies in memory, and how it is multiplied: kTF32 is f32 multiplied in TF32, kF32 is f32 multiplied exactly. Sums
// are always f32.
enum class Element : uint8_t { kF16, kBF16, kTF32, kF32 };
constexpr int bytes_of(Element e) { return e == Element::kF16 || e == Element::kBF16 ? 2 : 4; }

// What is to be computed. In `shape`, pointers, `steps` and `column_tiles` are set by launch().
struct Product {
  Element element = Element::kF16;
  int images = 1;  // of x; a matrix is one image of one row
  int batch = 1;   // products
  bool has_bias = false, has_residual = false;
  ProductArguments shape;

  bool is_matrix() const;  // x is read as a matrix of M rows
  double flops() const;
};

// A plain matrix product y[m, n] = x[m, k] w[n, k]^T. Rows of x and w begin at multiples of 16 bytes: k elements count,
// and `row_x` and `row_w` are from one row to the next.
Product matrix_product(Element element, int m, int n, int k, int row_x, int row_w, int64_t row_y);

// Makes the taps of a row of a window, whose pixels lie next to each other, channels of one tap. The lanes of pixels
// beyond their channels hold 0; there is neither padding nor dilation along rows.
void merge_taps(Product* product);

// Sets the function that is applied to the results.
void set_activation(const Activation& activation, Ending* end);

// A way to compute a product: a tile of the table, and how many blocks of a cluster share its columns or its depth.
struct ProductConfig {
  int tile = -1;
  int cluster = 1;
  bool shares_depth = false;
  bool operator==(const ProductConfig& o) const {
    return tile == o.tile && cluster == o.cluster && shares_depth == o.shares_depth;
  }
};
std::string config_name(const ProductConfig& config);  // "tma128x256x4 c2": what config_named() finds again
bool config_named(const std::string& name, ProductConfig* config);

// What a GPU can do, as far as it matters here.
struct Chip {
  int processors = 0, capability = 0, shared_bytes = 0;  // capability 90: Hopper
  bool has_hopper_code = false;                          // it is one that code for sm_90a runs on
};
const Chip& current_chip();

// The ways to compute it, the most promising first; none: it cannot be done here. At most `most`.
std::vector<ProductConfig> product_configs(const Product& product, size_t most = SIZE_MAX);
// Whether this way is one of them.
bool can_launch(const Product& product, const ProductConfig& config);

struct ProductOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  const void* narrow_bias = nullptr;  // the bias in the type of y: what a LibraryProduct takes, if that is not f32
  const void* more = nullptr;         // where the product has a split
};
// Enqueues it: no allocation, no waiting, so it may be recorded.
Status launch(const Product& product, const ProductConfig& config, const ProductOperands& operands,
              cudaStream_t stream);

}  // namespace minnow::cuda
