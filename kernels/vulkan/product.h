// Products of rows with constant weights, which convolutions with channels last are, too: by the text product, or with
// cooperative matrices by those that are like it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/dense/activation.h"
#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {

// How the rows of the left operand are read, as LOADER in the text has it.
enum class Rows : int32_t { kMatrix, kWindows, kImage };

struct Product {
  DType dtype = DType::kF16;  // of the operands and the result: kF16, kBF16 or kF32
  DType image = DType::kF16;  // of the left operand: another one for kImage only
  Rows from = Rows::kMatrix;
  int64_t rows = 0, columns = 0, groups = 1;  // columns: of a group
  int64_t depth = 0;                          // k, a multiple of 8
  int64_t x_row = 0;                          // as in the text
  int64_t height = 1, width = 1, out_height = 1, out_width = 1;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_h = 0, pad_w = 0;
  int64_t channels = 0, kernel_w = 1;
  int64_t tail = 0;    // channels % 8 where what is beyond them has to be left out
  int64_t spread = 0;  // of a transposed convolution, see the text
  int64_t y_row = 0;
  bool gated = false;
  bool joined = false;  // the operand `gate` is an image, with the second half of the channels
  gpu::LayerActivation activation;
};

struct ProductOperands {
  const void *x = nullptr, *w = nullptr, *bias = nullptr, *residual = nullptr, *gate = nullptr;
  void *y = nullptr, *sums = nullptr;
};

// The ways to compute a product, of which one is chosen: tiles of the results, and parts of k.
class ProductSchemes {
 public:
  // Adds the workspace that sums of parts take.
  Status prepare(const NodeContext& node, const Product& product, int64_t* workspace);
  int count() const { return static_cast<int>(schemes_.size()); }
  void choose(int scheme);
  std::string name() const;
  Status launch(const ProductOperands& operands, gpu::Stream& stream) const;

 private:
  struct Tile {
    const char* text;
    int64_t high, wide, step;
    bool matrices;
    bool few_rows = false;  // the text few_rows, of at most `high` rows
  };
  struct Scheme {
    const Tile* tile;
    int64_t parts, part_k;
    double seconds;
  };
  static const Tile kTiles[], kFewRows[];
  int64_t tiles_of(const Tile& tile) const;
  bool is_few_rows() const;
  Status launch_few_rows(const ProductOperands& operands, gpu::Stream& stream) const;
  Status compile(const Scheme& scheme, const gpu::Program** out) const;

  Product product_;
  gpu::Device* device_ = nullptr;
  std::vector<Scheme> schemes_;
  size_t chosen_ = 0;
  const gpu::Program* program_ = nullptr;
  Status compiled_;
  std::unique_ptr<Memory> counters_;
};

}  // namespace minnow::vulkan
