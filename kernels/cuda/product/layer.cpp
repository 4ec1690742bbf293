#include "kernels/cuda/product/layer.h"

#include <algorithm>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/read_activation.h"

namespace minnow::cuda {
namespace {

// More are not worth the time that it takes to try them.
constexpr size_t kMostConfigs = 28;
constexpr int kMostPlans = 3;
constexpr int64_t kLibraryBytes = 4 << 20;

}  // namespace

Element element_of(DType dtype, Precision precision) {
  if (dtype == DType::kF16) return Element::kF16;
  if (dtype == DType::kBF16) return Element::kBF16;
  return precision == Precision::kHigh || current_chip().capability < 80 ? Element::kF32 : Element::kTF32;
}

void pack_weights(const NodeContext& node, size_t input, const WeightForm& form,
                  FunctionRef<int64_t(int64_t, int64_t, int64_t)> place, Packed* to) {
  const DType dtype = node.in[kX]->dtype;
  const int64_t row = form.depth(), bytes = form.rows * row * static_cast<int64_t>(dtype_size(dtype));
  to->make(node, {input}, "product_" + form.form + dtype_name(dtype), bytes, [&](void* packed) {
    const std::vector<float> from = host_floats(*node.constant[input]);
    std::vector<float> line(static_cast<size_t>(row));
    for (int64_t r = 0; r < form.rows; ++r) {
      std::fill(line.begin(), line.end(), 0.0f);
      for (int64_t tap = 0; tap < form.taps; ++tap)
        for (int64_t c = 0; c < form.channels; ++c) {
          const int64_t at = place(r, tap, c);
          if (at >= 0) line[static_cast<size_t>(tap * form.padded() + c)] = from[static_cast<size_t>(at)];
        }
      store_floats(line.data(), row, dtype,
                   static_cast<char*>(packed) + r * row * static_cast<int64_t>(dtype_size(dtype)));
    }
  });
}

Status LayerKernel::prepare(const NodeContext& node, int64_t* workspace) {
  ProductArguments& s = product_.shape;
  Activation activation;
  MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation));
  set_activation(activation, &s.end);
  const DType dtype = node.in[kX]->dtype;
  const Tensor* bias = constant_of(node, kBias);
  has_bias_ = product_.has_bias = bias != nullptr;
  product_.has_residual = has_input(node, kResidual);
  if (has_bias_) {
    const int64_t channels = (bias->count() + 7) / 8 * 8, count = bias_copies_ * channels;
    const auto fill = [&](DType as) {
      return [&, as](void* to) {
        const std::vector<float> from = host_floats(*bias);
        std::vector<float> all(static_cast<size_t>(count));
        for (int64_t i = 0; i < bias_copies_; ++i) std::copy(from.begin(), from.end(), all.begin() + i * channels);
        store_floats(all.data(), count, as, to);
      };
    };
    const std::string form = bias_copies_ == 1 ? "channels_" : "channels_" + std::to_string(bias_copies_) + "_";
    bias_.make(node, {kBias}, form + "f32", 4 * count, fill(DType::kF32));
    if (dtype != DType::kF32) narrow_bias_.make(node, {kBias}, form + dtype_name(dtype), 2 * count, fill(dtype));
  }
  configs_ = product_configs(product_, kMostConfigs);
  // What there is no code for in TF32 is multiplied exactly.
  if (configs_.empty() && product_.element == Element::kTF32) {
    product_.element = Element::kF32;
    configs_ = product_configs(product_, kMostConfigs);
  }
  if (configs_.empty()) return fail(Code::kUnsupported, "CUDA: there is no kernel for a product of this shape");
  library_ = LibraryProduct::create(product_, kLibraryBytes);
  plans_ = library_ == nullptr ? 0 : std::min(library_->plans(), kMostPlans);
  int64_t most = 0;
  for (int i = 0; i < plans_; ++i) most = std::max(most, library_->workspace(i));
  *workspace += (most + 255) / 256 * 256;
  scheme_ = 0;
  has_few_rows_ = few_rows_chosen_ = false;
  return ok();
}

Status LayerKernel::add_few_rows(const NodeContext& node, const FewRows& sizes) {
  has_few_rows_ = few_rows_chosen_ = true;
  few_rows_ = sizes;
  few_rows_.dtype = node.in[kX]->dtype;
  return read_activation(node.attrs, &few_rows_.activation);
}

bool LayerKernel::few_rows_operands(const RunContext& context, const void* x, FewRows* few) const {
  *few = few_rows_;
  few->x = x;
  few->bias = has_bias_ ? bias_.data() : nullptr;
  few->residual = product_.has_residual ? data_of(context, kResidual) : nullptr;
  few->y = context.out[0]->data;
  return few_rows_chosen_;
}

ProductOperands LayerKernel::operands_of(const RunContext& context, const void* w) const {
  ProductOperands operands;
  operands.w = w;
  operands.more = data_of(context, kMore);
  operands.bias = has_bias_ ? bias_.data() : nullptr;
  operands.narrow_bias = has_bias_ && !narrow_bias_.empty() ? narrow_bias_.as<void>() : nullptr;
  operands.residual = product_.has_residual ? data_of(context, kResidual) : nullptr;
  operands.y = context.out[0]->data;
  return operands;
}

Status LayerKernel::multiply(const RunContext& context, gpu::Stream& stream, const void* x, const void* w,
                             void* space) {
  ProductOperands operands = operands_of(context, w);
  operands.x = x;
  FewRows few;
  if (few_rows_operands(context, x, &few) && !makes_weights_) {
    few.w = w;
    // Operands that are not aligned are for the others.
    if (few_rows_fits(few, target_of(stream))) return check(few_rows(few, target_of(stream)), "to multiply few rows");
  }
  const cudaStream_t to = target_of(stream).stream;
  const int configs = static_cast<int>(configs_.size());
  if (scheme_ < configs) return launch(product_, configs_[static_cast<size_t>(scheme_)], operands, to);
  return library_->launch(scheme_ - configs, operands, space, to);
}

Profile LayerKernel::profile() const {
  if (few_rows_chosen_) return {"few_rows", macs_};
  const int configs = static_cast<int>(configs_.size());
  if (scheme_ >= configs) return {"cublaslt_" + std::to_string(scheme_ - configs), macs_};
  return {config_name(configs_[static_cast<size_t>(scheme_)]), macs_};
}

bool supports_layer(const NodeContext& node, std::string* why) {
  const TensorType &x = *node.in[kX], &y = *node.out[0];
  if (!is_kernel_float(x.dtype)) {
    *why = std::string("multiplies no ") + dtype_name(x.dtype);
  } else if (x.dtype != y.dtype || (has_input(node, kResidual) && node.in[kResidual]->dtype != y.dtype)) {
    *why = "takes a residual of the type of the input";
  } else if (has_input(node, kBias) && constant_of(node, kBias) == nullptr) {
    *why = "takes a constant bias";
  } else if (x.count() >= int64_t{1} << 31 || y.count() >= int64_t{1} << 31) {
    *why = "computes tensors of less than 2^31 elements";
  } else if (x.count() == 0 || y.count() == 0) {
    *why = "computes nothing of no elements";
  } else {
    return true;
  }
  return false;
}

}  // namespace minnow::cuda
