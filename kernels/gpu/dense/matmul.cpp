// The ops MatMul and Linear.
#include "kernels/gpu/dense/matmul.h"

#include <algorithm>

namespace minnow::gpu {

Product product_of(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  Product p;
  transpose_a = transpose_a && a.rank() > 1;
  transpose_b = transpose_b && b.rank() > 1;
  p.m = a.rank() == 1 ? 1 : a.at(transpose_a ? -1 : -2);
  p.k = a.rank() == 1 ? a[0] : a.at(transpose_a ? -2 : -1);
  p.n = b.rank() == 1 ? 1 : b.at(transpose_b ? -2 : -1);
  p.a_row = transpose_a ? 1 : p.k;
  p.a_column = transpose_a ? p.m : 1;
  p.b_row = transpose_b ? 1 : p.n;
  p.b_column = transpose_b ? p.k : 1;
  const int rank = std::max({a.rank(), b.rank(), 2});
  // Which matrices of a and b, counted in the order of the results.
  std::vector<int32_t> which = {0, 0};
  int64_t steps[2] = {p.m * p.k, p.k * p.n};
  for (int axis = 3; axis <= rank; ++axis) {
    const int64_t sizes[2] = {axis <= a.rank() ? a.at(-axis) : 1, axis <= b.rank() ? b.at(-axis) : 1};
    const int64_t size = sizes[0] == 1 ? sizes[1] : sizes[0];
    std::vector<int32_t> wider;
    for (int64_t i = 0; i < size; ++i)
      for (size_t k = 0; k < which.size(); ++k)
        wider.push_back(which[k] + to_i32(sizes[k % 2] == 1 ? 0 : i * steps[k % 2]));
    which = std::move(wider);
    for (int t : {0, 1}) steps[t] *= sizes[t];
    p.products *= size;
  }
  bool a_follows = true, b_follows = true, b_is_one = true;
  for (int64_t i = 0; i < p.products; ++i) {
    const auto at = static_cast<size_t>(2 * i);
    a_follows = a_follows && which[at] == i * p.m * p.k;
    b_follows = b_follows && which[at + 1] == i * p.k * p.n;
    b_is_one = b_is_one && which[at + 1] == 0;
  }
  if (a_follows && b_is_one && !transpose_a) {  // one product with more rows
    p.m *= p.products;
    p.products = 1;
  } else if (!a_follows || !b_follows) {
    p.table = std::move(which);
  }
  return p;
}

Status ProductLaunch::prepare(const NodeContext& node, Product product, size_t a, size_t b,
                              const LayerActivation& activation, bool bias_of_row, size_t weights, int64_t* workspace) {
  Device& device = device_of(node);
  product_ = std::move(product);
  a_ = a;
  b_ = b;
  activation_ = activation;
  bias_of_row_ = bias_of_row;
  Product& p = product_;
  packed_input_ = weights;
  packed_.clear();
  if (weights != 0) {
    // [m, k] or [n, k], as layers have them.
    const bool is_a = weights == a;
    pack_columns(node, weights, 1, is_a ? p.m : p.n, p.k, &packed_);
    if (!packed_.empty() && is_a) {
      p.a_row = 1;
      p.a_column = p.m;
    } else if (!packed_.empty()) {
      p.b_row = p.n;
      p.b_column = 1;
    }
  }
  const int64_t results = p.products * p.m * p.n;
  tile_ = choose_tile(device, p.m, p.n, p.products);
  const int64_t tiles = p.products * tile_.count(p.m, p.n);
  parts_ = choose_parts(device, tiles, p.k, results);
  *workspace = parts_.count > 1 ? parts_.count * results * 4 : 0;
  table_ = nullptr;
  if (!p.table.empty())
    MINNOW_RETURN_IF_ERROR(device.upload(p.table.data(), static_cast<int64_t>(p.table.size()) * 4, &table_));
  if (parts_.count > 1)
    MINNOW_RETURN_IF_ERROR(
        finish_.prepare(node, activation, results, parts_.count, bias_of_row ? p.n : 1, bias_of_row ? p.m : p.n));
  return device.program((std::string("dense_matmul") + tile_.suffix).c_str(),
                        {{"TYPE_A", type_of(node, a)},
                         {"TYPE_B", type_of(node, b)},
                         {"TYPE_BIAS", type_of(node, 2)},
                         {"TYPE_Y", parts_.count > 1 ? type_of(DType::kF32) : type_of(node.out[0]->dtype)},
                         {"ACTIVATION", parts_.count > 1 ? 0 : activation.kind}},
                        &program_);
}

Status ProductLaunch::enqueue(const RunContext& context, Stream& stream, size_t gate) const {
  const Product& p = product_;
  const bool whole = parts_.count == 1;
  const void* y = whole ? context.out[0]->data : context.workspace;
  int32_t flags = (p.one_a ? kOneA : 0) | (p.table.empty() ? 0 : kTable);
  if (gate != 0 && input_data(context, gate) != nullptr) flags |= kGate;
  if (whole && input_data(context, 2) != nullptr) flags |= bias_of_row_ ? kBiasOfRow : kBiasOfColumn;
  if (whole && input_data(context, 3) != nullptr) flags |= kResidual;
  Arguments arguments;
  for (size_t i : {a_, b_}) arguments.buffer(packs(i) ? packed_.data() : input_or(context, i, y));
  arguments.buffer(input_or(context, 2, y));
  arguments.buffer(input_or(context, 3, y)).buffer((flags & kGate) != 0 ? input_data(context, gate) : y);
  arguments.buffer(table_ == nullptr ? y : table_->data()).buffer(y);
  for (int64_t v : {p.m, p.n, p.k, p.products, p.a_row, p.a_column, p.b_row, p.b_column}) arguments.add(to_i32(v));
  arguments.add(flags).add(to_i32(parts_.count)).add(to_i32(parts_.k));
  arguments.add(activation_.alpha).add(activation_.beta);
  const int64_t tiles = p.products * tile_.count(p.m, p.n) * parts_.count;
  MINNOW_RETURN_IF_ERROR(stream.launch(*program_, arguments, {std::min<int64_t>(tiles, 65535)}));
  return whole ? ok() : finish_.enqueue(context, stream);
}

namespace {

class ProductKernel final : public GpuKernel {
 public:
  explicit ProductKernel(bool linear) : linear_(linear) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    LayerActivation activation;
    if (linear_) MINNOW_RETURN_IF_ERROR(read_layer_activation(node.attrs, &activation));
    const bool transpose_a = !linear_ && node.attrs.b("transpose_a");
    const bool transpose_b = linear_ || node.attrs.b("transpose_b");
    Product product = product_of(node.in[0]->shape, node.in[1]->shape, transpose_a, transpose_b);
    macs_ = product.products * product.m * product.n * product.k;
    return launch_.prepare(node, std::move(product), 0, 1, activation, false, linear_ ? 1 : 0, workspace);
  }
  Status enqueue(const RunContext& context, Stream& stream) override { return launch_.enqueue(context, stream, 0); }
  bool reads(int i) const override { return !launch_.packs(static_cast<size_t>(i)); }
  Profile profile() const override { return {"gemm", macs_, {}}; }

 private:
  const bool linear_;
  int64_t macs_ = 0;
  ProductLaunch launch_;
};

std::unique_ptr<Kernel> create_gpu_matmul(const NodeContext& node) {
  if (!is_float(node.in[0]->dtype)) return create_plain_integer_product(node);
  return std::make_unique<ProductKernel>(false);
}
std::unique_ptr<Kernel> create_gpu_linear(const NodeContext&) { return std::make_unique<ProductKernel>(true); }

bool supports_product(const NodeContext& node, std::string* why) { return has_types(node, kFloats, why); }

bool supports_matmul(const NodeContext& node, std::string* why) {
  const bool has_int64 = node.accelerator == nullptr || device_of(node).limits().int64;
  if (is_float(node.in[0]->dtype) || !has_int64) return supports_product(node, why);
  return has_types(node, {DType::kI32, DType::kU32, DType::kI64, DType::kU64}, why);
}

}  // namespace

MINNOW_GPU_KERNEL("MatMul", create_gpu_matmul, supports_matmul);
MINNOW_GPU_KERNEL("Linear", create_gpu_linear, supports_product);

}  // namespace minnow::gpu
