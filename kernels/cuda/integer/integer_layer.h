// What the kernels of quantized layers have in common: how the node ends, and constants as the kernels read them.
#pragma once

#include <vector>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/integer/integer_product.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::cuda {

// Inputs of QuantizedConv and QuantizedMatMul; the first four are those of ConvInteger and MatMulInteger.
// Those from kTable on are what fuse_quantized_tables makes parts of a layer.
enum QuantizedInput : size_t {
  kLeft,
  kRight,
  kLeftZero,
  kRightZero,
  kIntegerBias,
  kFactor,
  kLast,
  kTable,
  kOwnTable,
  kTerm,
  kTermTable,
  kSumFactor,
  kSumShift,
  kLastTable
};

inline bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }
constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The bytes of a constant, less 128 where they are unsigned.
std::vector<int> host_bytes(const Tensor& tensor);
// `count` numbers of a constant of i32, or of f32; one number stands for all. Up to a multiple of 8, zeros follow.
std::vector<int32_t> host_integers(const Tensor& tensor, int64_t count);
std::vector<float> host_factors(const Tensor& tensor, int64_t count);

// Why such a node is not for these kernels, whatever its sizes; true: it is.
bool supports_integer_layer(const NodeContext& node, std::string* why);

class IntegerLayerKernel : public gpu::GpuKernel {
 public:
  int schemes() const override { return configs_.empty() ? 1 : static_cast<int>(configs_.size()); }
  void choose(int scheme) override { scheme_ = scheme; }
  Profile profile() const override {
    return {configs_.empty() ? form_ : config_name(configs_[static_cast<size_t>(scheme_)]), macs_};
  }

 protected:
  // Sets kind, bytes, limits and factors of product_.a.end, for so many columns. The bias is left to the caller, whose
  // sums have parts of it.
  Status read_ending(const NodeContext& node, int64_t columns);
  // Uploads what is added to the sums of a column: `sums` and `zeros` are those of the weights as they are multiplied,
  // of `depth` numbers each.
  Status add_corrections(const NodeContext& node, const std::vector<int>& sums, const std::vector<int>& zeros,
                         int64_t depth);
  Status find_configs(const NodeContext& node);
  // The address of what is added to the result, where something is.
  static const uint8_t* term(const RunContext& context) { return static_cast<const uint8_t*>(data_of(context, kTerm)); }
  Status multiply(gpu::Stream& stream, const IntegerArguments& a) const;

  IntegerProduct product_;
  gpu::Uploaded bias_, correction_, zeros_, factor_, shift_, scale_, table_, own_, terms_, last_;
  // The zero point of x: a constant, as it is multiplied and as it is, or what is read when the layer runs.
  bool has_x_zero_ = true;
  int x_zero_ = 0, x_zero_raw_ = 0;
  const char* form_ = "";
  int64_t macs_ = 0;

 private:
  Status read_tables(const NodeContext& node);

  std::vector<IntegerConfig> configs_;
  int scheme_ = 0;
};

}  // namespace minnow::cuda
