// What the kernels of Conv, Linear and MatMul have in common: a product, the ways to compute it, and constant operands
// in the form that it needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/product/cublaslt.h"
#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

// Inputs of the layers.
// kMore: the second half of the channels of x.
enum LayerInput : size_t { kX, kW, kBias, kResidual, kGate, kMore };

// How elements of this type are multiplied; kF32 for types that are not.
Element element_of(DType dtype, Precision precision);

// Packs constant weights as rows [taps, channels up to a multiple of 8]. `place(row, tap, channel)` is where the host's
// numbers have it; below 0: it is 0 there. `form` names what the places follow from.
struct WeightForm {
  int64_t rows = 0, taps = 1, channels = 0;
  std::string form;

  int64_t padded() const { return (channels + 7) / 8 * 8; }
  int64_t depth() const { return taps * padded(); }
};
void pack_weights(const NodeContext& node, size_t input, const WeightForm& form,
                  FunctionRef<int64_t(int64_t, int64_t, int64_t)> place, Packed* to);

class LayerKernel : public gpu::GpuKernel {
 public:
  bool reads(int i) const override { return !(i == kBias && has_bias_) && !(i == kW && packs_weights_); }
  // The product of few rows comes before the others.
  int schemes() const override { return static_cast<int>(configs_.size()) + plans_ + (has_few_rows_ ? 1 : 0); }
  void choose(int scheme) override {
    few_rows_chosen_ = has_few_rows_ && scheme == 0;
    if (!few_rows_chosen_) scheme_ = scheme - (has_few_rows_ ? 1 : 0);
  }
  Profile profile() const override;

 protected:
  // Reads what is the same for all: the bias, which is constant, the activation and whether there is a residual, then
  // finds the ways to compute product_. Adds the workspace that they take to `workspace`.
  Status prepare(const NodeContext& node, int64_t* workspace);
  // After prepare(), of a product of few rows: one more way to compute it. `sizes` has its sizes, and those of rows.
  Status add_few_rows(const NodeContext& node, const FewRows& sizes);
  // Whether the product of few rows is chosen; its operands but for the weights.
  bool few_rows_operands(const RunContext& context, const void* x, FewRows* few) const;
  // The operands of the product but for x.
  ProductOperands operands_of(const RunContext& context, const void* w) const;
  // Launches the chosen one. x and w are where the operands lie now, `space` is as prepare() wanted it.
  Status multiply(const RunContext& context, gpu::Stream& stream, const void* x, const void* w, void* space);

  Product product_;
  Packed weights_, bias_;
  bool packs_weights_ = false;
  bool makes_weights_ = false;  // in each run: they are not there before it
  int64_t bias_copies_ = 1;     // one after the other, each up to a multiple of 8
  int64_t macs_ = 0;

 private:
  Packed narrow_bias_;
  bool has_bias_ = false;
  std::vector<ProductConfig> configs_;
  std::unique_ptr<LibraryProduct> library_;
  int plans_ = 0;
  int scheme_ = 0;
  FewRows few_rows_;
  bool has_few_rows_ = false, few_rows_chosen_ = false;
};

// Why a layer cannot be computed here, whatever its sizes; true: it can.
bool supports_layer(const NodeContext& node, std::string* why);

}  // namespace minnow::cuda
