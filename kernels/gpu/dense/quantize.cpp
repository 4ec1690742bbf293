// Conversions between floats and small integers with a scale and a zero point, and arithmetic of quantized networks.
#include <algorithm>

#include "kernels/core/infer.h"
#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {
namespace {

int64_t launch_groups(int64_t n, const Program& program) {
  return std::min<int64_t>(groups_for(n, program.text.group), 65535);
}

// Where the numbers are of which an element takes one: the parameters inner, size, block and blocks.
struct AlongAxis {
  int32_t kind = 0;  // the constant ALONG
  int64_t inner = 1, size = 1, block = 1, blocks = 1;

  Status read(const NodeContext& node) {
    *this = AlongAxis();
    const Shape &x = node.in[0]->shape, &scale = node.in[1]->shape;
    if (scale.count() == 1) return ok();
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", 1), x.rank(), &axis));
    inner = std::max<int64_t>(x.count(axis + 1, x.rank()), 1);
    size = std::max<int64_t>(x[axis], 1);
    block = node.attrs.i("block_size");
    kind = block > 0 ? 2 : 1;
    blocks = kind == 2 ? scale[axis] : 1;
    block = std::max<int64_t>(block, 1);
    return ok();
  }
};

class ScaleKernel final : public GpuKernel {
 public:
  explicit ScaleKernel(bool quantizes) : quantizes_(quantizes) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    MINNOW_RETURN_IF_ERROR(along_.read(node));
    const DType x = node.in[0]->dtype, scale = node.in[1]->dtype;
    const DType division = node.attrs.get<DType>("precision", x == scale ? x : DType::kF32);
    if (!quantizes_)
      return device_of(node).program("dense_dequantize",
                                     {{"TYPE_X", type_of(x)},
                                      {"TYPE_SCALE", type_of(scale)},
                                      {"TYPE_Y", type_of(node.out[0]->dtype)},
                                      {"ALONG", along_.kind}},
                                     &program_);
    return device_of(node).program("dense_quantize",
                                   {{"TYPE_X", type_of(x)},
                                    {"TYPE_SCALE", type_of(scale)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"DIVISION", type_of(division)},
                                    {"ALONG", along_.kind}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    void* y = context.out[0]->data;
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[1]->data).buffer(input_or(context, 2, y)).buffer(y);
    for (int64_t v : {n, along_.inner, along_.size, along_.block, along_.blocks}) arguments.add(to_i32(v));
    arguments.add(input_data(context, 2) != nullptr ? 1 : 0);
    return stream.launch(*program_, arguments, {launch_groups(n, *program_)});
  }

 private:
  const bool quantizes_;
  AlongAxis along_;
  const Program* program_ = nullptr;
};

template <bool Quantizes>
std::unique_ptr<Kernel> create_gpu_scale(const NodeContext&) {
  return std::make_unique<ScaleKernel>(Quantizes);
}

constexpr std::initializer_list<DType> kNarrow = {DType::kI8, DType::kU8, DType::kI16, DType::kU16};

// Whether the operands are of these types, where they are there.
bool are(const NodeContext& node, std::initializer_list<size_t> inputs, std::initializer_list<DType> types,
         std::string* why) {
  NodeContext some = node;
  some.in.clear();
  some.out.clear();
  for (size_t i : inputs)
    if (i < node.in.size()) some.in.push_back(node.in[i]);
  return has_types(some, types, why);
}
bool gives(const NodeContext& node, std::initializer_list<DType> types, std::string* why) {
  NodeContext some = node;
  some.in.clear();
  some.out.resize(1);
  return has_types(some, types, why);
}

bool supports_quantize(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow) {
    *why = "does not quantize in precision \"low\", in which it would round twice";
    return false;
  }
  if (node.attrs.get<DType>("precision", DType::kF32) == DType::kF64) {
    *why = "computes no f64";
    return false;
  }
  return are(node, {0, 1}, kFloats, why) && gives(node, kNarrow, why);
}

bool supports_dequantize(const NodeContext& node, std::string* why) {
  return are(node, {0, 2}, {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32}, why) &&
         are(node, {1}, kFloats, why) && gives(node, kFloats, why);
}

class DynamicQuantizeKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 128;  // for a scale or a zero point that is not asked for
    steps_ = node.attrs.i("steps");
    Device& device = device_of(node);
    MINNOW_RETURN_IF_ERROR(device.program("dense_range", {{"TYPE_X", type_of(node, 0)}}, &range_));
    return device.program("dense_quantize", {{"TYPE_X", type_of(node, 0)}}, &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.in[0]->count();
    char* spare = static_cast<char*>(context.workspace);
    const auto result = [&](size_t i) -> void* {
      return i < context.out.size() && context.out[i] != nullptr ? context.out[i]->data : spare + 64 * (i - 1);
    };
    void* x = n == 0 ? spare : context.in[0]->data;
    Arguments range;
    range.buffer(x).buffer(result(1)).buffer(result(2)).add(to_i32(n)).add(to_i32(steps_));
    MINNOW_RETURN_IF_ERROR(stream.launch(*range_, range, {1}));
    if (n == 0) return ok();
    Arguments arguments;
    arguments.buffer(x).buffer(result(1)).buffer(result(2)).buffer(context.out[0]->data);
    for (int64_t v : {n, int64_t{1}, int64_t{1}, int64_t{1}, int64_t{1}}) arguments.add(to_i32(v));
    arguments.add(1);
    return stream.launch(*program_, arguments, {launch_groups(n, *program_)});
  }

 private:
  int64_t steps_ = 0;
  const Program* range_ = nullptr;
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_gpu_dynamic(const NodeContext&) { return std::make_unique<DynamicQuantizeKernel>(); }

bool supports_dynamic(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow) {
    *why = "does not quantize in precision \"low\", in which it would round twice";
    return false;
  }
  return are(node, {0}, {DType::kF32}, why);
}

class LookUpKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    return device_of(node).program("dense_look_up",
                                   {{"TYPE_X", type_of(node, 0)}, {"TYPE_Y", type_of(node.out[0]->dtype)}}, &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[1]->data).buffer(context.out[0]->data).add(to_i32(n));
    return stream.launch(*program_, arguments, {launch_groups(n, *program_)});
  }

 private:
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_gpu_look_up(const NodeContext&) { return std::make_unique<LookUpKernel>(); }

bool supports_look_up(const NodeContext& node, std::string* why) {
  return are(node, {0}, kNarrow, why) &&
         are(node, {1},
             {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
              DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kBool},
             why);
}

class QuantizedSumKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    for (size_t i = 0; i < 3; ++i) {
      constexpr const char* kNames[] = {"zero", "min", "max"};
      limits_[i] = node.attrs.i(kNames[i]);
    }
    return device_of(node).program(
        "dense_quantized_sum",
        {{"TYPE_A", type_of(node, 0)}, {"TYPE_B", type_of(node, 4)}, {"TYPE_Y", type_of(node.out[0]->dtype)}},
        &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    Arguments arguments;
    for (const Tensor* in : context.in) arguments.buffer(in->data);
    arguments.buffer(context.out[0]->data).add(to_i32(n));
    for (int64_t v : limits_) arguments.add(to_i32(v));
    return stream.launch(*program_, arguments, {launch_groups(n, *program_)});
  }

 private:
  int64_t limits_[3] = {0, 0, 0};
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_quantized_sum(const NodeContext&) { return std::make_unique<QuantizedSumKernel>(); }

bool supports_quantized_sum(const NodeContext& node, std::string* why) {
  if (node.accelerator != nullptr && !device_of(node).limits().int64) {
    *why = "has no integers of 64 bits, in which products are";
    return false;
  }
  if (node.in[0]->shape != node.in[4]->shape || node.in[1]->count() != 1) {
    *why = "adds numbers of one shape, with one factor";
    return false;
  }
  return are(node, {0, 4}, kNarrow, why);
}

}  // namespace

MINNOW_GPU_KERNEL("QuantizeLinear", create_gpu_scale<true>, supports_quantize);
MINNOW_GPU_KERNEL("DequantizeLinear", create_gpu_scale<false>, supports_dequantize);
MINNOW_GPU_KERNEL("DynamicQuantizeLinear", create_gpu_dynamic, supports_dynamic);
MINNOW_GPU_KERNEL("LookUp", create_gpu_look_up, supports_look_up);
MINNOW_GPU_KERNEL("QuantizedSum", create_quantized_sum, supports_quantized_sum);

}  // namespace minnow::gpu
