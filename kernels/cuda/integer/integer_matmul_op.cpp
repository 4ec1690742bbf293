// MatMulInteger and QuantizedMatMul on tensor cores.
#include <algorithm>

#include "kernels/cuda/integer/integer_layer.h"

namespace minnow::cuda {
namespace {

int number(int64_t v) { return static_cast<int>(v); }
constexpr int64_t kAlign = 256;

// The product of rows of bytes with one matrix, or of as many matrices with as many.
class IntegerMatMulKernel final : public IntegerLayerKernel {
 public:
  bool reads(int i) const override {
    return i == kLeft || i == kTerm || (i == kLeftZero && !has_x_zero_) || (turns_ && (i == kRight || i == kRightZero));
  }

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape &a = node.in[kLeft]->shape, &b = node.in[kRight]->shape;
    product_ = IntegerProduct();
    set_sizes(a, b);
    MINNOW_RETURN_IF_ERROR(read_ending(node, product_.a.N));
    const Tensor* w = constant_of(node, kRight);
    const bool known = w != nullptr && (!has_input(node, kRightZero) || constant_of(node, kRightZero) != nullptr);
    turns_ = !known || b.rank() > 2;
    if (turns_) {
      MINNOW_RETURN_IF_ERROR(turn(node));
    } else {
      MINNOW_RETURN_IF_ERROR(pack(node));
    }
    MINNOW_RETURN_IF_ERROR(find_configs(node));
    *workspace = padded_bytes_ + turned_bytes_;
    return ok();
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const Target target = target_of(stream);
    IntegerArguments a = product_.a;
    char* space = static_cast<char*>(context.workspace);
    a.x = context.in[kLeft]->data;
    if (pads_) {
      const int64_t rows = int64_t{product_.batch} * a.M;
      MINNOW_RETURN_IF_ERROR(check(pad_rows(a.x, space, rows, a.C, a.pixel, target), "to align rows"));
      a.x = space;
    }
    a.w = weights_.as<int8_t>();
    a.end.y = context.out[0]->data;
    a.end.other = term(context);
    if (turns_) {
      TurnedWeights t = turn_;
      char* at = space + padded_bytes_;
      t.from = context.in[kRight]->data;
      t.zero = data_of(context, kRightZero);
      t.to = reinterpret_cast<int8_t*>(at);
      at += round_up(int64_t{t.batch} * t.n * t.depth, kAlign);
      t.correction = reinterpret_cast<int32_t*>(at);
      at += round_up(int64_t{t.batch} * round_up(t.n, 8) * 4, kAlign);
      t.w_zero = reinterpret_cast<int32_t*>(at);
      MINNOW_RETURN_IF_ERROR(check(turn_weights(t, target), "to turn a matrix"));
      a.w = t.to;
      a.constant_w = false;
      a.end.correction = t.correction;
      if (has_zeros_) a.end.w_zero = t.w_zero;
      if (has_x_zero_) a.end.x_zero = x_zero_at_.data();
    }
    if (!has_x_zero_) a.end.x_zero = data_of(context, kLeftZero);
    return multiply(stream, a);
  }

 private:
  // Rows of x that are not aligned are copied into others that are.
  void set_sizes(const Shape& a, const Shape& b) {
    IntegerArguments& s = product_.a;
    const int64_t k = a[a.rank() - 1], n = b[b.rank() - 1];
    const bool one = b.rank() == 2;
    const int64_t m = one ? a.count(0, a.rank() - 1) : a[a.rank() - 2];
    product_.batch = one ? 1 : number(b.count(0, b.rank() - 2));
    pads_ = k % 8 != 0;
    s.C = number(k);
    s.pixel = number(pads_ ? round_up(k, 16) : k);
    s.W = s.Q = s.M = number(m);
    s.N = number(n);
    product_.chunk = s.pixel % 16 == 0 ? 16 : 8;
    s.depth = number(round_up(k, 16));
    s.x_batch = m * s.pixel;
    s.w_batch = n * s.depth;
    s.y_batch = m * n;
    s.column_batch = number(round_up(n, 8));
    s.end.row = n;
    s.end.columns = s.N;
    s.end.wide = n % 8 == 0;
    padded_bytes_ = pads_ ? round_up(int64_t{product_.batch} * m * s.pixel, kAlign) : 0;
    turned_bytes_ = 0;
    macs_ = int64_t{product_.batch} * m * n * k;
  }

  // Constant weights [k, n], and what is added to the sums.
  Status pack(const NodeContext& node) {
    const IntegerArguments& s = product_.a;
    const std::vector<int> w = host_bytes(*constant_of(node, kRight));
    const size_t n = static_cast<size_t>(s.N), k = static_cast<size_t>(s.C), depth = static_cast<size_t>(s.depth);
    weights_.make(node, {kRight}, "integer_columns", static_cast<int64_t>(n * depth), [&](void* to) {
      int8_t* packed = static_cast<int8_t*>(to);
      std::fill(packed, packed + n * depth, int8_t{0});
      for (size_t i = 0; i < k; ++i)
        for (size_t j = 0; j < n; ++j) packed[j * depth + i] = static_cast<int8_t>(w[i * n + j]);
    });
    std::vector<int> sums(n), zeros(n, node.in[kRight]->dtype == DType::kU8 ? -128 : 0);
    for (size_t i = 0; i < k; ++i)
      for (size_t j = 0; j < n; ++j) sums[j] += w[i * n + j];
    if (const Tensor* zero = constant_of(node, kRightZero); zero != nullptr) {
      const std::vector<int> given = host_bytes(*zero);
      for (size_t j = 0; j < n; ++j) zeros[j] = given[given.size() == 1 ? 0 : j];
    }
    return add_corrections(node, sums, zeros, s.C);
  }

  // What is only there while the network runs.
  Status turn(const NodeContext& node) {
    const IntegerArguments& s = product_.a;
    turn_ = TurnedWeights();
    turn_.is_unsigned = node.in[kRight]->dtype == DType::kU8;
    turn_.batch = product_.batch;
    turn_.k = s.C, turn_.n = s.N, turn_.depth = s.depth;
    turn_.zero_step = has_input(node, kRightZero) && node.in[kRightZero]->count() > 1 ? 1 : 0;
    // One zero point that is 128, or that is not there, needs no sums of rows.
    const Tensor* zero = constant_of(node, kRightZero);
    has_zeros_ = true;
    if (!has_input(node, kRightZero)) {
      has_zeros_ = turn_.is_unsigned;
    } else if (zero != nullptr) {
      const std::vector<int> given = host_bytes(*zero);
      has_zeros_ = std::any_of(given.begin(), given.end(), [](int z) { return z != 0; });
    }
    turned_bytes_ = round_up(int64_t{turn_.batch} * turn_.n * turn_.depth, kAlign) +
                    2 * round_up(int64_t{turn_.batch} * round_up(turn_.n, 8) * 4, kAlign);
    gpu::Device& device = gpu::device_of(node);
    const Tensor* bias = constant_of(node, kIntegerBias);
    if (bias != nullptr) {
      const std::vector<int32_t> one = host_integers(*bias, s.N);
      std::vector<int32_t> all;
      for (int i = 0; i < product_.batch; ++i) all.insert(all.end(), one.begin(), one.end());
      MINNOW_RETURN_IF_ERROR(bias_.make(device, all));
      product_.a.end.bias = static_cast<const int32_t*>(bias_.data());
    }
    if (product_.batch > 1) MINNOW_RETURN_IF_ERROR(repeat_factors(node));
    return x_zero_at_.make(device, std::vector<uint8_t>(16, static_cast<uint8_t>(x_zero_raw_)));
  }

  // The arrays of a batch follow each other.
  Status repeat_factors(const NodeContext& node) {
    IntegerEnding& end = product_.a.end;
    gpu::Device& device = gpu::device_of(node);
    const auto repeat = [&](auto one, gpu::Uploaded* to) {
      decltype(one) all;
      for (int i = 0; i < product_.batch; ++i) all.insert(all.end(), one.begin(), one.end());
      return to->make(device, all);
    };
    const int64_t n = product_.a.N;
    if (end.kind == IntegerEnding::kFixedPoint) {
      MINNOW_RETURN_IF_ERROR(repeat(host_integers(*constant_of(node, kFactor), n), &factor_));
      MINNOW_RETURN_IF_ERROR(repeat(host_integers(*constant_of(node, kLast), n), &shift_));
      end.factor = static_cast<const int32_t*>(factor_.data());
      end.shift = static_cast<const int32_t*>(shift_.data());
    } else if (end.kind == IntegerEnding::kFactor) {
      MINNOW_RETURN_IF_ERROR(repeat(host_factors(*constant_of(node, kFactor), n), &scale_));
      end.scale = static_cast<const float*>(scale_.data());
    }
    return ok();
  }

  Packed weights_;
  bool pads_ = false, turns_ = false;
  int64_t padded_bytes_ = 0, turned_bytes_ = 0;
  TurnedWeights turn_;
  bool has_zeros_ = false;
  gpu::Uploaded x_zero_at_;
};

bool supports_matmul(const NodeContext& node, std::string* why) {
  if (!supports_integer_layer(node, why)) return false;
  const Shape &a = node.in[kLeft]->shape, &b = node.in[kRight]->shape;
  bool together = a.rank() >= 2 && b.rank() >= 2;
  if (together && b.rank() > 2) {
    together = a.rank() == b.rank() && b.count(0, b.rank() - 2) <= 65535;
    for (int i = 0; together && i < b.rank() - 2; ++i) together = a[i] == b[i];
  }
  const int64_t zeros = has_input(node, kRightZero) ? node.in[kRightZero]->count() : 1;
  if (!together || node.attrs.b("transpose_a") || node.attrs.b("transpose_b")) {
    *why = "multiplies rows with one matrix, or as many matrices with as many";
  } else if (zeros != 1 && zeros != b[b.rank() - 1]) {
    *why = "takes one zero point for each column";
  } else if (a.count() * 2 >= int64_t{1} << 31 || b.count() * 2 >= int64_t{1} << 31) {
    *why = "computes tensors of less than 2^30 elements";
  } else {
    return true;
  }
  return false;
}

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<IntegerMatMulKernel>(); }

}  // namespace

MINNOW_CUDA_KERNEL("MatMulInteger", create, supports_matmul);
MINNOW_CUDA_KERNEL("QuantizedMatMul", create, supports_matmul);

}  // namespace minnow::cuda
