#include "kernels/cuda/integer/integer_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace minnow::cuda {
namespace {

constexpr size_t kMostConfigs = 8;
constexpr int64_t kMostElements = int64_t{1} << 31;

bool is_constant_or_missing(const NodeContext& node, size_t i) {
  return !has_input(node, i) || constant_of(node, i) != nullptr;
}

}  // namespace

std::vector<int> host_bytes(const Tensor& tensor) {
  const int64_t n = tensor.count();
  std::vector<int> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = tensor.type.dtype == DType::kU8 ? static_cast<const uint8_t*>(tensor.data)[i] - 128
                                                                  : static_cast<const int8_t*>(tensor.data)[i];
  return out;
}

std::vector<int32_t> host_integers(const Tensor& tensor, int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(round_up(count, 8)));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = tensor.as<int32_t>()[tensor.count() == 1 ? 0 : i];
  return out;
}

std::vector<float> host_factors(const Tensor& tensor, int64_t count) {
  std::vector<float> out(static_cast<size_t>(round_up(count, 8)));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = tensor.as<float>()[tensor.count() == 1 ? 0 : i];
  return out;
}

bool supports_integer_layer(const NodeContext& node, std::string* why) {
  const TensorType &x = *node.in[kLeft], &w = *node.in[kRight], &y = *node.out[0];
  if (!is_byte(x.dtype) || !is_byte(w.dtype)) {
    *why = "multiplies integers of 8 bits";
  } else if (!is_constant_or_missing(node, kIntegerBias) || !is_constant_or_missing(node, kFactor) ||
             !is_constant_or_missing(node, kLast)) {
    *why = "takes a constant bias and constant factors";
  } else if (has_input(node, kFactor) && node.in[kFactor]->dtype != DType::kI32 &&
             node.in[kFactor]->dtype != DType::kF32) {
    *why = "does not quantize in precision \"low\", in which factors have too few bits";
  } else if (has_input(node, kLeftZero) && node.in[kLeftZero]->count() != 1) {
    *why = "takes one zero point of the input";
  } else if (x.count() >= kMostElements || y.count() >= kMostElements) {
    *why = "computes tensors of less than 2^31 elements";
  } else if (x.count() == 0 || w.count() == 0 || y.count() == 0) {
    *why = "computes nothing of no elements";
  } else {
    return true;
  }
  return false;
}

Status IntegerLayerKernel::read_ending(const NodeContext& node, int64_t columns) {
  IntegerEnding& end = product_.a.end;
  gpu::Device& device = gpu::device_of(node);
  const DType to = node.attrs.get<DType>("layer_to", node.out[0]->dtype);
  end.bytes = static_cast<int32_t>(dtype_size(to));
  product_.a.flip = node.in[kLeft]->dtype == DType::kU8 ? 0x80808080u : 0;
  const Tensor* zero = constant_of(node, kLeftZero);
  has_x_zero_ = !has_input(node, kLeftZero) || zero != nullptr;
  x_zero_ = zero != nullptr ? host_bytes(*zero)[0] : product_.a.flip != 0 ? -128 : 0;
  x_zero_raw_ = product_.a.flip != 0 ? x_zero_ + 128 : x_zero_;
  const Tensor *factor = constant_of(node, kFactor), *last = constant_of(node, kLast);
  if (factor == nullptr) {
    end.kind = IntegerEnding::kSum;
  } else if (factor->type.dtype == DType::kI32) {
    end.kind = IntegerEnding::kFixedPoint;
    end.zero = static_cast<int32_t>(node.attrs.i("zero"));
    end.least = static_cast<int32_t>(node.attrs.i("min"));
    end.most = static_cast<int32_t>(node.attrs.i("max"));
    if (last == nullptr) return fail(Code::kUnsupported, "CUDA: there are no shifts");
    const std::vector<int32_t> factors = host_integers(*factor, columns), shifts = host_integers(*last, columns);
    end.plain = true;
    for (size_t i = 0; i < factors.size(); ++i) end.plain = end.plain && is_plain(factors[i], shifts[i]);
    MINNOW_RETURN_IF_ERROR(factor_.make(device, factors));
    MINNOW_RETURN_IF_ERROR(shift_.make(device, shifts));
    end.factor = static_cast<const int32_t*>(factor_.data());
    end.shift = static_cast<const int32_t*>(shift_.data());
  } else {
    end.kind = IntegerEnding::kFactor;
    end.least = to == DType::kI8 ? -128 : 0;
    end.most = end.least + 255;
    end.zero = last == nullptr ? 0 : host_bytes(*last)[0] + (to == DType::kU8 ? 128 : 0);
    const std::vector<float> scales = host_factors(*factor, columns);
    end.plain = std::all_of(scales.begin(), scales.end(), [](float v) { return std::isfinite(v); });
    MINNOW_RETURN_IF_ERROR(scale_.make(device, scales));
    end.scale = static_cast<const float*>(scale_.data());
  }
  return read_tables(node);
}

Status IntegerLayerKernel::read_tables(const NodeContext& node) {
  IntegerEnding& end = product_.a.end;
  gpu::Device& device = gpu::device_of(node);
  const DType to = node.attrs.get<DType>("layer_to", node.out[0]->dtype);
  const DType sum_to = node.attrs.get<DType>("sum_to", to);
  // Tables begin with the least number of their type; here, in the order of bytes without a sign.
  const auto turned = [&](size_t input, DType by, auto element) {
    using T = decltype(element);
    const Tensor* from = constant_of(node, input);
    std::vector<T> table(from == nullptr ? 0 : 256);
    for (size_t i = 0; i < table.size(); ++i) table[i] = from->as<T>()[by == DType::kI8 ? (i + 128) % 256 : i];
    return table;
  };
  const auto upload = [&](const auto& table, gpu::Uploaded* to, auto** address) {
    if (table.empty()) return ok();
    MINNOW_RETURN_IF_ERROR(to->make(device, table));
    *address = static_cast<std::remove_pointer_t<decltype(address)>>(to->data());
    return ok();
  };
  const std::vector<uint8_t> function = turned(kTable, to, uint8_t());
  if (!has_input(node, kTerm)) return upload(function, &table_, &end.table);
  const DType middle = function.empty() ? to : constant_of(node, kTable)->type.dtype;
  std::vector<int32_t> own = turned(kOwnTable, middle, int32_t());
  if (!function.empty() && !own.empty()) {  // both at once
    const std::vector<int32_t> of_middle = own;
    for (size_t i = 0; i < own.size(); ++i) own[i] = of_middle[function[i]];
  }
  MINNOW_RETURN_IF_ERROR(upload(own, &own_, &end.own));
  MINNOW_RETURN_IF_ERROR(upload(turned(kTermTable, node.in[kTerm]->dtype, int32_t()), &terms_, &end.terms));
  MINNOW_RETURN_IF_ERROR(upload(turned(kLastTable, sum_to, uint8_t()), &last_, &end.last));
  const Tensor *factor = constant_of(node, kSumFactor), *shift = constant_of(node, kSumShift);
  if (factor == nullptr || shift == nullptr || end.own == nullptr || end.terms == nullptr)
    return fail(Code::kInternal, "CUDA: the sum of a layer has no tables");
  end.sum_factor = *factor->as<int32_t>();
  end.sum_shift = *shift->as<int32_t>();
  end.plain_sum = is_plain(end.sum_factor, end.sum_shift);
  end.sum_zero = static_cast<int32_t>(node.attrs.i("sum_zero"));
  end.sum_least = static_cast<int32_t>(node.attrs.i("sum_min"));
  end.sum_most = static_cast<int32_t>(node.attrs.i("sum_max"));
  return ok();
}

Status IntegerLayerKernel::add_corrections(const NodeContext& node, const std::vector<int>& sums,
                                           const std::vector<int>& zeros, int64_t depth) {
  IntegerEnding& end = product_.a.end;
  gpu::Device& device = gpu::device_of(node);
  const size_t columns = sums.size(), padded = static_cast<size_t>(round_up(static_cast<int64_t>(columns), 8));
  const Tensor* bias = constant_of(node, kIntegerBias);
  std::vector<int32_t> add =
      bias == nullptr ? std::vector<int32_t>(padded) : host_integers(*bias, static_cast<int64_t>(columns));
  std::vector<int32_t> correction(padded), zero(padded);
  bool some = false;
  for (size_t i = 0; i < columns; ++i) {
    // Numbers wrap around, as sums do.
    const uint32_t one =
        static_cast<uint32_t>(sums[i]) - static_cast<uint32_t>(depth) * static_cast<uint32_t>(zeros[i]);
    correction[i] = static_cast<int32_t>(one);
    if (has_x_zero_)
      add[i] = static_cast<int32_t>(static_cast<uint32_t>(add[i]) - static_cast<uint32_t>(x_zero_) * one);
    zero[i] = zeros[i];
    some = some || zeros[i] != 0;
  }
  MINNOW_RETURN_IF_ERROR(bias_.make(device, add));
  end.bias = static_cast<const int32_t*>(bias_.data());
  if (!has_x_zero_) {
    MINNOW_RETURN_IF_ERROR(correction_.make(device, correction));
    end.correction = static_cast<const int32_t*>(correction_.data());
  }
  if (some) {
    MINNOW_RETURN_IF_ERROR(zeros_.make(device, zero));
    end.w_zero = static_cast<const int32_t*>(zeros_.data());
  }
  return ok();
}

Status IntegerLayerKernel::find_configs(const NodeContext& node) {
  const Machine& machine = machine_of(node);
  Target target;
  target.capability = machine.capability;
  target.multiprocessors = machine.multiprocessors;
  target.overlap = machine.compiled >= 90;
  configs_ = integer_configs(product_, target, kMostConfigs);
  scheme_ = 0;
  if (configs_.empty()) return fail(Code::kUnsupported, "CUDA: there is no kernel for integers of this shape");
  return ok();
}

Status IntegerLayerKernel::multiply(gpu::Stream& stream, const IntegerArguments& a) const {
  IntegerProduct product = product_;
  product.a = a;
  return check(multiply_integers(product, configs_[static_cast<size_t>(scheme_)], target_of(stream)),
               "to multiply integers");
}

}  // namespace minnow::cuda
