// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, LookUp and QuantizedSum of bytes, as they lie.
#include <algorithm>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/integer/integer_elements.h"

namespace minnow::cuda {
namespace {

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }
constexpr int64_t kMostElements = int64_t{1} << 31;

// The elements of a tensor as it lies, with those that fill up its channels.
int64_t elements_of(const TensorType& type) {
  if (type.layout != Layout::kPacked || type.shape.rank() < 2) return type.count();
  return type.count() / std::max<int64_t>(type.shape[1], 1) * round_channels(type.shape[1]);
}

bool is_alike(const NodeContext& node, std::string* why) {
  if (node.in[0]->count() == 0 || node.in[0]->count() >= kMostElements / 8) {
    *why = "takes tensors of 1 to 2^28 elements";
    return false;
  }
  return true;
}

// One scale, and one zero point of bytes.
bool has_one_scale(const NodeContext& node, DType narrow, std::string* why) {
  if (!is_byte(narrow) || node.in[1]->count() != 1 || (has_input(node, 2) && node.in[2]->count() != 1)) {
    *why = "takes one scale, and bytes";
    return false;
  }
  return is_alike(node, why);
}

class Quantize final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    p_ = QuantizeElements();
    p_.count = elements_of(*node.in[0]);
    p_.from = node.in[0]->dtype;
    p_.is_signed = node.out[0]->dtype == DType::kI8;
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    QuantizeElements p = p_;
    p.x = context.in[0]->data;
    p.scale = static_cast<const float*>(context.in[1]->data);
    p.zero = data_of(context, 2);
    p.y = context.out[0]->data;
    return check(quantize_elements(p, target_of(stream)), "to quantize");
  }

 private:
  QuantizeElements p_;
};

bool supports_quantize(const NodeContext& node, std::string* why) {
  const DType x = node.in[0]->dtype, scale = node.in[1]->dtype;
  if (node.precision == Precision::kLow) {
    *why = "does not quantize in precision \"low\", in which it would round twice";
    return false;
  }
  if (!is_kernel_float(x) || scale != DType::kF32 || node.attrs.get<DType>("precision", DType::kF32) != DType::kF32) {
    *why = "divides in f32";
    return false;
  }
  return has_one_scale(node, node.out[0]->dtype, why);
}

class Dequantize final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    p_ = DequantizeElements();
    p_.count = elements_of(*node.in[0]);
    p_.is_signed = node.in[0]->dtype == DType::kI8;
    p_.to = node.out[0]->dtype;
    p_.scale_type = node.in[1]->dtype;
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    DequantizeElements p = p_;
    p.x = context.in[0]->data;
    p.scale = context.in[1]->data;
    p.zero = data_of(context, 2);
    p.y = context.out[0]->data;
    return check(dequantize_elements(p, target_of(stream)), "to dequantize");
  }

 private:
  DequantizeElements p_;
};

bool supports_dequantize(const NodeContext& node, std::string* why) {
  if (!is_kernel_float(node.in[1]->dtype) || !is_kernel_float(node.out[0]->dtype)) {
    *why = "computes f32, f16 and bf16";
    return false;
  }
  return has_one_scale(node, node.in[0]->dtype, why);
}

class LookUp final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    p_ = LookUpElements();
    p_.count = elements_of(*node.in[0]);
    p_.is_signed = node.in[0]->dtype == DType::kI8;
    p_.bytes = static_cast<int>(dtype_size(node.out[0]->dtype));
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    LookUpElements p = p_;
    p.x = context.in[0]->data;
    p.table = context.in[1]->data;
    p.y = context.out[0]->data;
    return check(look_up_elements(p, target_of(stream)), "to look up");
  }

 private:
  LookUpElements p_;
};

bool supports_look_up(const NodeContext& node, std::string* why) {
  if (!is_byte(node.in[0]->dtype)) {
    *why = "looks up bytes";
    return false;
  }
  return is_alike(node, why);
}

class Sum final : public gpu::GpuKernel {
 public:
  enum Input : size_t { kA, kFactor, kShift, kATable, kB, kBTable };
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    p_ = SumElements();
    p_.count = elements_of(*node.in[kA]);
    p_.a_signed = node.in[kA]->dtype == DType::kI8;
    p_.b_signed = node.in[kB]->dtype == DType::kI8;
    p_.bytes = static_cast<int>(dtype_size(node.out[0]->dtype));
    p_.zero = static_cast<int>(node.attrs.i("zero"));
    p_.least = static_cast<int>(node.attrs.i("min"));
    p_.most = static_cast<int>(node.attrs.i("max"));
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    SumElements p = p_;
    const auto integers = [&](size_t i) { return static_cast<const int32_t*>(context.in[i]->data); };
    p.a = context.in[kA]->data;
    p.b = context.in[kB]->data;
    p.factor = integers(kFactor), p.shift = integers(kShift);
    p.a_table = integers(kATable), p.b_table = integers(kBTable);
    p.y = context.out[0]->data;
    return check(sum_elements(p, target_of(stream)), "to add");
  }

 private:
  SumElements p_;
};

bool supports_sum(const NodeContext& node, std::string* why) {
  if (!is_byte(node.in[Sum::kA]->dtype) || !is_byte(node.in[Sum::kB]->dtype) ||
      node.in[Sum::kA]->shape != node.in[Sum::kB]->shape || node.in[Sum::kFactor]->count() != 1) {
    *why = "adds bytes of one shape, with one factor";
    return false;
  }
  if (constant_of(node, Sum::kA) != nullptr || constant_of(node, Sum::kB) != nullptr) {
    *why = "adds what the network computes";
    return false;
  }
  return is_alike(node, why);
}

// Images lie with channels last, other tensors plainly.
LayoutRule layout_of_sum(const std::vector<const TensorType*>& inputs) {
  const int rank = inputs[Sum::kA]->shape.rank();
  return rank == 4 ? LayoutRule::kPacked : LayoutRule::kPlain;
}

class DynamicQuantize final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = kSpare + 2 * kRangeParts * 4;  // for a scale or a zero point that is not asked for
    steps_ = static_cast<int>(node.attrs.i("steps"));
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    char* spare = static_cast<char*>(context.workspace);
    const auto result = [&](size_t i) -> void* {
      return i < context.out.size() && context.out[i] != nullptr ? context.out[i]->data : spare + 64 * (i - 1);
    };
    QuantizeByRange p;
    p.columns = p.padded = context.in[0]->count();
    p.steps = steps_;
    p.x = static_cast<const float*>(context.in[0]->data);
    p.parts = reinterpret_cast<float*>(spare + kSpare);
    p.y = static_cast<uint8_t*>(context.out[0]->data);
    p.scale = static_cast<float*>(result(1));
    p.zero = static_cast<uint8_t*>(result(2));
    return check(quantize_by_range(p, target_of(stream)), "to quantize");
  }

 private:
  static constexpr int kSpare = 128;
  int steps_ = 0;
};

bool supports_dynamic(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow || node.in[0]->dtype != DType::kF32) {
    *why = "does not quantize in precision \"low\", in which it would round twice";
    return false;
  }
  return is_alike(node, why);
}

template <class Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

}  // namespace

MINNOW_CUDA_KERNEL("QuantizeLinear", create<Quantize>, supports_quantize, LayoutRule::kFollow);
MINNOW_CUDA_KERNEL("DequantizeLinear", create<Dequantize>, supports_dequantize, LayoutRule::kFollow);
MINNOW_CUDA_KERNEL("LookUp", create<LookUp>, supports_look_up, LayoutRule::kFollow);
MINNOW_CUDA_KERNEL("QuantizedSum", create<Sum>, supports_sum, layout_of_sum);
MINNOW_CUDA_KERNEL("DynamicQuantizeLinear", create<DynamicQuantize>, supports_dynamic);

}  // namespace minnow::cuda
