// The op Linear: y = activation(x W^T + bias + residual), with W as [outputs, inputs]; the residual, input 3, is of the
// type of y.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/matmul.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/core/macs.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using LongLong = long long;

constexpr int kResidual = 3;

// Weights that the planner wants to be read as they are stored; fewer bytes are packed in no time.
constexpr int64_t kLeastStored = 256 << 10;
constexpr int64_t kLongRow = 128;

Status infer_linear(InferContext& c) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "the input and the weights are needed");
  const Shape &x = c.shape(0), &w = c.shape(1);
  const DType dtype = c.in(0).dtype;
  for (int i = 1; i < c.num_inputs(); ++i)
    if (c.has(i) && c.in(i).dtype != dtype)
      return fail(Code::kFormat, "input %d is %s, but input 0 is %s", i, dtype_name(c.in(i).dtype), dtype_name(dtype));
  if (!can_multiply(dtype)) return fail(Code::kUnsupported, "a matrix product of %s", dtype_name(dtype));
  if (x.rank() < 1 || w.rank() != 2 || w[1] != x.at(-1))
    return fail(Code::kFormat, "weights of shape %s do not fit an input of shape %s: they must be [outputs, inputs]",
                w.str().c_str(), x.str().c_str());
  if (c.has(2) && !(c.shape(2) == Shape{w[0]}))
    return fail(Code::kFormat, "a bias of shape %s for %lld outputs", c.shape(2).str().c_str(),
                static_cast<LongLong>(w[0]));
  Activation activation;
  MINNOW_RETURN_IF_ERROR(read_activation(c.attrs, &activation));
  if (!is_float(dtype) && !c.attrs.s("activation").empty())
    return fail(Code::kUnsupported, "an activation on a matrix product of %s", dtype_name(dtype));
  Shape out = x;
  out[x.rank() - 1] = w[0];
  if (c.has(kResidual) && !(c.shape(kResidual) == out))
    return fail(Code::kFormat, "a residual of shape %s for an output of shape %s", c.shape(kResidual).str().c_str(),
                out.str().c_str());
  c.set(0, dtype, out);
  return ok();
}

MatMulShape product_shape(const NodeContext& node) {
  const Shape& w = node.in[1]->shape;
  const Shape& x = node.in[0]->shape;
  MatMulShape s;
  s.m = x.count(0, x.rank() - 1);
  s.n = w[0];
  s.k = w[1];
  s.transpose_b = true;
  s.a_matrices = s.b_matrices = 1;
  return s;
}

const Tensor* residual_of(const RunContext& context) {
  return context.in.size() > kResidual ? context.in[kResidual] : nullptr;
}

class LinearPlain final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    s_ = product_shape(node);
    return read_activation(node.attrs, &activation_);
  }
  void run(const RunContext& context) override {
    const Tensor& y = *context.out[0];
    if (y.count() == 0) return;
    const void* bias = context.in.size() > 2 && context.in[2] != nullptr ? context.in[2]->data : nullptr;
    matmul_plain(s_, y.type.dtype, context.in[0]->data, context.in[1]->data, bias, y.data, context.pool);
    if (y.type.dtype != DType::kF64) return;
    double* out = context.out[0]->as<double>();
    const double* residual = residual_of(context) == nullptr ? nullptr : residual_of(context)->as<double>();
    context.pool->parallel_for(y.count(), 1024, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = activate_scalar(activation_, residual == nullptr ? out[i] : out[i] + residual[i]);
    });
  }
  [[gnu::cold]] Profile profile() const override { return {"plain", s_.macs()}; }

 private:
  MatMulShape s_;
  Activation activation_;
};

class Linear final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    s_ = product_shape(node);
    MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation_));
    *workspace = 0;
    if (node.out[0]->count() == 0) return ok();  // there may be any number of empty rows
    gemm_ = Gemm(s_.m, s_.n, s_.k, false, activation_, std::max(1, node.threads), node.precision);
    const Tensor* w = node.constant[1];
    const QuantizedMatrix* quantized = node.quantized_input(1);
    is_quantized_ = quantized != nullptr;
    low_ = w != nullptr && !is_quantized() && Bf16Gemm::takes(s_.m, s_.n, s_.k, node.precision);
    const int64_t bytes = 4 * s_.n * s_.k;
    stored_ = w != nullptr && !low_ && !is_quantized() && s_.m == 1 && s_.k >= kLongRow && bytes >= kLeastStored &&
              node.attrs.b("stored", false);
    if (is_quantized()) {
      quantized_ =
          QuantizedGemm(s_.m, QuantizedForm(*quantized), activation_, std::max(1, node.threads), node.precision);
      const QuantizedForm& form = quantized_.form();
      weights_.make(node, {1}, form.packing(), form.bytes(),
                    [&](void* to) { form.pack(*quantized, nullptr, to, node.pool); });
    } else if (low_) {
      low_gemm_ = Bf16Gemm(s_.m, s_.n, s_.k, activation_, std::max(1, node.threads), node.precision);
      low_gemm_.set_half(node.in[0]->dtype == DType::kBF16, node.out[0]->dtype == DType::kBF16);
      low_weights_.make(node, {1}, low_gemm_.packing(true), 4 * low_gemm_.packed_floats(), [&](void* to) {
        low_gemm_.pack_b(w->as<float>(), s_.k, true, static_cast<float*>(to), node.pool);
      });
    } else if (w == nullptr || stored_) {
      weights_.clear();
    } else {
      weights_.make(node, {1}, "gemm_t", 4 * packed_floats(), [&](void* to) {
        gemm_pack_b(w->as<float>(), s_.k, true, s_.k, s_.n, static_cast<float*>(to), node.pool);
      });
    }
    packed_ = w != nullptr && !stored_;
    constant_bias_ = node.constant.size() > 2 && node.constant[2] != nullptr;
    if (constant_bias_) {
      bias_.make(node, {2}, "padded", 4 * bias_floats(),
                 [&](void* to) { copy_bias(*node.constant[2], static_cast<float*>(to)); });
    }
    *workspace = 4 * (gemm_floats() + (w == nullptr ? packed_floats() : 0) + (constant_bias_ ? 0 : bias_floats()));
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    float* space = static_cast<float*>(context.workspace) + gemm_floats();
    GemmCall call = {context.in[0]->as<float>(),
                     s_.k,
                     false,
                     low_ ? low_weights_.data() : weights_.data(),
                     nullptr,
                     context.out[0]->as<float>(),
                     s_.n,
                     context.workspace,
                     context.pool};
    if (!packed_ && !stored_) {
      gemm_pack_b(context.in[1]->as<float>(), s_.k, true, s_.k, s_.n, space, context.pool);
      call.packed_b = space;
      space += packed_floats();
    }
    if (constant_bias_) {
      call.bias = bias_.data();
    } else if (context.in.size() > 2 && context.in[2] != nullptr) {
      copy_bias(*context.in[2], space);
      call.bias = space;
    }
    if (residual_of(context) != nullptr) call.start = residual_of(context)->as<float>();
    if (stored_) return run_stored(call, context.in[1]->as<float>());
    if (is_quantized()) return quantized_.run(call);
    low_ ? low_gemm_.run(call) : gemm_.run(call);
  }
  bool unpacks(int i) const override { return i == 1; }

  bool reads(int i) const override { return !(i == 1 && packed_) && !(i == 2 && constant_bias_); }
  [[gnu::cold]] Profile profile() const override {
    return {is_quantized() ? quantized_.scheme()
            : low_         ? low_gemm_.scheme()
            : stored_      ? "gemv_stored"
                           : "gemm_packed",
            s_.macs()};
  }
  double seconds() const override {
    return packed_ && !low_ && !is_quantized() ? estimate_product(s_.macs(), s_.n * s_.k) : 0;
  }

 private:
  bool is_quantized() const { return kHasPackedWeights && is_quantized_; }
  int64_t gemm_floats() const {
    const int64_t bytes = is_quantized() ? quantized_.workspace_bytes()
                          : low_         ? low_gemm_.workspace_bytes()
                                         : gemm_.workspace_bytes();
    return round_up(bytes / 4, 16);
  }
  int64_t packed_floats() const { return round_up(gemm_packed_floats(s_.k, s_.n), 16); }
  int64_t bias_floats() const { return round_up(s_.n, 16); }
  void copy_bias(const Tensor& bias, float* to) const {
    std::memcpy(to, bias.data, static_cast<size_t>(s_.n) * sizeof(float));
    std::fill(to + s_.n, to + bias_floats(), 0.0f);
  }

  void run_stored(const GemmCall& call, const float* weights) const {
    gemm_few_rows(call.a, s_.k, weights, s_.k, true, 1, s_.n, s_.k, call.c, s_.n, call.pool);
    for (int64_t i = 0; i < s_.n; ++i) {
      float sum = call.c[i];
      if (call.bias != nullptr) sum += call.bias[i];
      if (call.start != nullptr) sum += call.start[i];
      call.c[i] = sum < activation_.low ? activation_.low : sum > activation_.high ? activation_.high : sum;
    }
    if (!activation_.is_clamp()) activate(activation_, call.c, s_.n);
  }

  MatMulShape s_;
  Activation activation_;
  Gemm gemm_;
  Bf16Gemm low_gemm_;
  QuantizedGemm quantized_;
  Packed weights_, low_weights_, bias_;  // by the number of rows one or the other form of the weights is needed
  bool packed_ = false, stored_ = false, low_ = false, is_quantized_ = false, constant_bias_ = false;
};

std::unique_ptr<Kernel> create_linear(const NodeContext& node) {
  // Rows of bf16 are those of precision "low" (runtime/src/fuse/half_rows.cpp).
  if (node.in[0]->dtype == DType::kF32 || node.in[0]->dtype == DType::kBF16) return std::make_unique<Linear>();
  return std::make_unique<LinearPlain>();
}

MINNOW_OP("Linear", infer_linear, kNoTrait, macs_per_output);
MINNOW_KERNEL("Linear", create_linear);

}  // namespace
}  // namespace minnow
