// Products and convolutions of integers, and the layers of quantized networks.
#include <algorithm>
#include <limits>

#include "kernels/gpu/dense/matmul.h"
#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::gpu {
namespace {

// Inputs of the layers of quantized networks.
enum QuantizedInput : size_t { kLeftZero = 2, kRightZero = 3, kIntegerBias = 4, kFactor = 5, kLast = 6 };

// What becomes of a sum, as the constant END of the texts.
enum class IntegerEnd : int32_t { kSum, kFixedPoint, kFloatFactor };

bool is_there(const NodeContext& node, size_t i) { return i < node.in.size() && node.in[i] != nullptr; }

IntegerEnd end_of(const NodeContext& node) {
  if (!is_there(node, kFactor)) return IntegerEnd::kSum;
  return node.in[kFactor]->dtype == DType::kI32 ? IntegerEnd::kFixedPoint : IntegerEnd::kFloatFactor;
}

void limits_of(DType t, int64_t* least, int64_t* most) {
  const bool is_signed = t == DType::kI8 || t == DType::kI16 || t == DType::kI32;
  const int bits = static_cast<int>(8 * dtype_size(t));
  *most = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  *least = is_signed ? -*most - 1 : 0;
}

// The parameters zero, least and most.
struct IntegerLimits {
  int64_t zero = 0, least = 0, most = 0;
  void read(const NodeContext& node) {
    if (end_of(node) == IntegerEnd::kFixedPoint) {
      zero = node.attrs.i("zero");
      least = node.attrs.i("min");
      most = node.attrs.i("max");
    } else {
      limits_of(node.out[0]->dtype, &least, &most);
    }
  }
  void add_to(Arguments* arguments) const {
    for (int64_t v : {zero, least, most}) arguments->add(to_i32(v));
  }
};

// Bits of `flags` in dense_matmul_int and dense_conv_int.
int32_t integer_flags(const NodeContext& node) {
  int32_t flags = 0;
  const auto is_list = [&](size_t i) { return is_there(node, i) && node.in[i]->count() > 1; };
  if (is_there(node, kLeftZero)) flags |= 1 | (is_list(kLeftZero) ? 4 : 0);
  if (is_there(node, kRightZero)) flags |= 2 | (is_list(kRightZero) ? 8 : 0);
  if (is_there(node, kIntegerBias)) flags |= 16 | (is_list(kIntegerBias) ? 32 : 0);
  if (is_list(kFactor)) flags |= 64;
  if (is_there(node, kLast)) flags |= 128;
  return flags;
}

class IntegerProductKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    Device& device = device_of(node);
    // Zero points of rows: products that share b stay apart.
    product_ =
        product_of(node.in[0]->shape, node.in[1]->shape, node.attrs.b("transpose_a"), node.attrs.b("transpose_b"));
    table_ = nullptr;
    if (!product_.table.empty())
      MINNOW_RETURN_IF_ERROR(
          device.upload(product_.table.data(), static_cast<int64_t>(product_.table.size()) * 4, &table_));
    limits_.read(node);
    flags_ = integer_flags(node) | (table_ == nullptr ? 0 : 256);
    return device.program("dense_matmul_int",
                          {{"TYPE_A", type_of(node, 0)},
                           {"TYPE_B", type_of(node, 1)},
                           {"TYPE_LAST", type_of(node, kLast)},
                           {"TYPE_FACTOR", type_of(node, kFactor)},
                           {"TYPE_Y", type_of(node.out[0]->dtype)},
                           {"END", static_cast<int32_t>(end_of(node))}},
                          &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t results = context.out[0]->count();
    if (results == 0) return ok();
    const void* y = context.out[0]->data;
    Arguments arguments;
    for (size_t i = 0; i <= kLast; ++i) arguments.buffer(input_or(context, i, y));
    arguments.buffer(table_ == nullptr ? y : table_->data()).buffer(y);
    const Product& p = product_;
    for (int64_t v : {p.m, p.n, p.k, p.products, p.a_row, p.a_column, p.b_row, p.b_column}) arguments.add(to_i32(v));
    arguments.add(flags_);
    limits_.add_to(&arguments);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(results, program_->text.group), 65535)});
  }

 private:
  Product product_;
  IntegerLimits limits_;
  int32_t flags_ = 0;
  std::unique_ptr<Memory> table_;
  const Program* program_ = nullptr;
};

class IntegerConvKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    MINNOW_RETURN_IF_ERROR(window_.read_conv(node));
    groups_ = node.attrs.i("group", 1);
    images_ = x[0];
    inputs_ = x[1] / groups_;
    outputs_ = y[1] / groups_;
    limits_.read(node);
    flags_ = integer_flags(node);
    return device_of(node).program("dense_conv_int",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_W", type_of(node, 1)},
                                    {"TYPE_LAST", type_of(node, kLast)},
                                    {"TYPE_FACTOR", type_of(node, kFactor)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"END", static_cast<int32_t>(end_of(node))},
                                    {"KERNEL_D", window_.kernel(0)},
                                    {"KERNEL_H", window_.kernel(1)},
                                    {"KERNEL_W", window_.kernel(2)}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t results = context.out[0]->count();
    if (results == 0) return ok();
    const void* y = context.out[0]->data;
    Arguments arguments;
    for (size_t i = 0; i <= kLast; ++i) arguments.buffer(input_or(context, i, y));
    arguments.buffer(y);
    window_.add_to(&arguments);
    for (int64_t v : {images_, inputs_, outputs_, groups_}) arguments.add(to_i32(v));
    arguments.add(flags_);
    limits_.add_to(&arguments);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(results, program_->text.group), 65535)});
  }

 private:
  WindowArguments window_;
  IntegerLimits limits_;
  int64_t images_ = 0, inputs_ = 0, outputs_ = 0, groups_ = 1;
  int32_t flags_ = 0;
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_integer_product(const NodeContext&) { return std::make_unique<IntegerProductKernel>(); }
std::unique_ptr<Kernel> create_integer_conv(const NodeContext&) { return std::make_unique<IntegerConvKernel>(); }

bool supports_integers(const NodeContext& node, std::string* why) {
  if (node.in.size() > kLast + 1) {
    *why = "has no tables at the end of a layer";
    return false;
  }
  if (node.accelerator != nullptr && !device_of(node).limits().int64) {
    *why = "has no integers of 64 bits, with which it would compute results";
    return false;
  }
  if (node.precision == Precision::kLow && end_of(node) == IntegerEnd::kFloatFactor) {
    *why = "does not quantize in precision \"low\", in which factors have too few bits";
    return false;
  }
  NodeContext known = node;
  if (is_there(node, kFactor)) known.in[kFactor] = nullptr;  // i32 or f32
  return has_types(known, {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32}, why);
}

// A zero point for each row needs the rows of one product.
bool supports_integer_product(const NodeContext& node, std::string* why) {
  if (is_there(node, kLeftZero) && node.in[kLeftZero]->count() > 1 && node.in[0]->shape.rank() > 2) {
    *why = "takes zero points of rows for matrices only";
    return false;
  }
  return supports_integers(node, why);
}

}  // namespace

std::unique_ptr<Kernel> create_plain_integer_product(const NodeContext& node) { return create_integer_product(node); }

MINNOW_GPU_KERNEL("MatMulInteger", create_integer_product, supports_integer_product);
MINNOW_GPU_KERNEL("QuantizedMatMul", create_integer_product, supports_integer_product);
MINNOW_GPU_KERNEL("ConvInteger", create_integer_conv, supports_integers);
MINNOW_GPU_KERNEL("QuantizedConv", create_integer_conv, supports_integers);

}  // namespace minnow::gpu
