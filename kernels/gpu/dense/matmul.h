// Matrix products on a GPU, for the ops that are some.
#pragma once

#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {

// y[p] = a[p] b[p], as the text dense_matmul computes it. Elements of the matrices lie `row` and `column` apart.
struct Product {
  int64_t m = 0, n = 0, k = 0, products = 1;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  bool one_a = false;  // all products have the same a
  // Of each product the first element of its a, and of its b; empty: they follow each other.
  std::vector<int32_t> table;
};

// By numpy's rules for ranks, transposes and broadcasting; the shapes fit.
Product product_of(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

// MatMul of integers, which wraps around.
std::unique_ptr<Kernel> create_plain_integer_product(const NodeContext& node);

class ProductLaunch {
 public:
  // `a` and `b`: which inputs of the node are the operands; inputs 2 and 3 are a bias and a residual. The bias is for a
  // column, or a row. Of constant weights, `weights` is which input they are; 0: none.
  Status prepare(const NodeContext& node, Product product, size_t a, size_t b, const LayerActivation& activation,
                 bool bias_of_row, size_t weights, int64_t* workspace);
  // Whether input i was packed, so that it is not read.
  bool packs(size_t i) const { return !packed_.empty() && i == packed_input_; }
  // `gate`: which input is a factor for each of k; 0: none.
  Status enqueue(const RunContext& context, Stream& stream, size_t gate) const;

 private:
  Product product_;
  size_t a_ = 0, b_ = 1;
  LayerActivation activation_;
  Tile tile_;
  Parts parts_;
  Finish finish_;
  bool bias_of_row_ = false;
  Packed packed_;
  size_t packed_input_ = 0;
  const Program* program_ = nullptr;
  std::unique_ptr<Memory> table_;
};

}  // namespace minnow::gpu
