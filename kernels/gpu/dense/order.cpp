// Ops about the order of elements, running sums, and square matrices.
#include <algorithm>

#include "kernels/core/infer.h"
#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {
namespace {

constexpr std::initializer_list<DType> kOrdered = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                                                   DType::kU8,  DType::kI16, DType::kU16,  DType::kI32,
                                                   DType::kU32, DType::kI64, DType::kU64};

// Rows along an axis, whose elements are `inner` apart.
struct Rows {
  int64_t rows = 0, n = 0, inner = 1;
  Status read(const Shape& x, int64_t axis) {
    int at = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(axis, x.rank(), &at));
    n = x[at];
    inner = x.count(at + 1, x.rank());
    rows = x.count(0, at) * inner;
    return ok();
  }
};

bool first_has_types(const NodeContext& node, std::initializer_list<DType> types, std::string* why) {
  NodeContext first = node;
  first.in.resize(1);
  first.out.clear();
  return has_types(first, types, why);
}

enum class ArgKind { kMax, kMin, kHard };

class ArgKernel final : public GpuKernel {
 public:
  explicit ArgKernel(ArgKind kind) : kind_(kind) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const bool hard = kind_ == ArgKind::kHard;
    MINNOW_RETURN_IF_ERROR(rows_.read(node.in[0]->shape, node.attrs.i("axis", hard ? -1 : 0)));
    wide_ = rows_.n >= 64 && (rows_.inner == 1 || rows_.rows < 1024);
    return device_of(node).program("dense_arg",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"WIDE", wide_ ? 1 : 0},
                                    {"SMALLEST", kind_ == ArgKind::kMin ? 1 : 0},
                                    {"LAST", node.attrs.b("select_last_index") ? 1 : 0},
                                    {"HARD", hard ? 1 : 0}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (rows_.rows == 0 || rows_.n == 0) return ok();
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.add(to_i32(rows_.rows)).add(to_i32(rows_.n)).add(to_i32(rows_.inner));
    const int64_t groups = wide_ ? rows_.rows : groups_for(rows_.rows, program_->text.group);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }

 private:
  const ArgKind kind_;
  Rows rows_;
  bool wide_ = false;
  const Program* program_ = nullptr;
};

template <ArgKind Kind>
std::unique_ptr<Kernel> create_gpu_arg(const NodeContext&) {
  return std::make_unique<ArgKernel>(Kind);
}

// In precision "low" different numbers may be equal.
bool supports_order(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow && node.in[0]->dtype == DType::kF32) {
    *why = "does not order numbers in precision \"low\", in which different ones are equal";
    return false;
  }
  return first_has_types(node, kOrdered, why);
}

bool supports_hardmax(const NodeContext& node, std::string* why) {
  return supports_order(node, why) && has_types(node, kFloats, why);
}

class TopKKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const int64_t axis = node.attrs.i("axis", -1);
    MINNOW_RETURN_IF_ERROR(rows_.read(node.in[0]->shape, axis));
    k_ = node.out[0]->shape.at(static_cast<int>(axis));
    places_ = node.out.size() > 1 && node.out[1] != nullptr;
    // Without places: the kernel has somewhere to write them.
    if (!places_) *workspace = 8 * node.out[0]->count();
    return device_of(node).program("dense_top_k",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"SMALLEST", node.attrs.b("largest", true) ? 0 : 1}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (context.out[0]->count() == 0) return ok();
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.buffer(places_ ? context.out[1]->data : context.workspace);
    for (int64_t v : {rows_.rows, rows_.n, rows_.inner, k_}) arguments.add(to_i32(v));
    const int64_t groups = groups_for(rows_.rows * rows_.n, program_->text.group);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }
  bool reads(int i) const override { return i == 0; }

 private:
  Rows rows_;
  int64_t k_ = 0;
  bool places_ = false;
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_gpu_top_k(const NodeContext&) { return std::make_unique<TopKKernel>(); }

Status axis_error(const int32_t* words) {
  return fail(Code::kUsage, "axis %d of a tensor of rank %d", words[1], words[2]);
}

class RunningKernel final : public GpuKernel {
 public:
  explicit RunningKernel(bool product) : product_(product) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    rank_ = x.rank();
    std::vector<int32_t> sizes(1, 1);
    count_ = x.count();
    most_rows_ = 1;
    for (int i = 0; i < rank_; ++i) {
      if (i == 0) sizes.clear();
      sizes.push_back(to_i32(x[i]));
      most_rows_ = std::max(most_rows_, count_ / std::max<int64_t>(x[i], 1));
    }
    Device& device = device_of(node);
    MINNOW_RETURN_IF_ERROR(device.upload(sizes.data(), static_cast<int64_t>(sizes.size()) * 4, &table_));
    return device.program(is_float(node.in[0]->dtype) ? "dense_running" : "dense_running_int",
                          {{"TYPE_X", type_of(node, 0)},
                           {"TYPE_Y", type_of(node.out[0]->dtype)},
                           {"TYPE_AXIS", type_of(node, 1)},
                           {"PRODUCT", product_ ? 1 : 0},
                           {"EXCLUSIVE", node.attrs.b("exclusive") ? 1 : 0},
                           {"REVERSE", node.attrs.b("reverse") ? 1 : 0}},
                          &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (count_ == 0) return ok();
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, axis_error, &error));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data).buffer(context.in[1]->data);
    arguments.buffer(table_->data()).buffer(error).add(rank_).add(to_i32(count_));
    const int64_t groups = groups_for(most_rows_, program_->text.group);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }

 private:
  const bool product_;
  int rank_ = 0;
  int64_t count_ = 0, most_rows_ = 1;
  std::unique_ptr<Memory> table_;
  const Program* program_ = nullptr;
};

template <bool Product>
std::unique_ptr<Kernel> create_gpu_running(const NodeContext&) {
  return std::make_unique<RunningKernel>(Product);
}

bool supports_running(const NodeContext& node, std::string* why) {
  const bool has_int64 = node.accelerator == nullptr || device_of(node).limits().int64;
  if (!is_float(node.in[0]->dtype) && !has_int64) {
    *why = "has no integers of 64 bits, with which it would add others";
    return false;
  }
  return first_has_types(node, kOrdered, why);
}

class MatrixKernel final : public GpuKernel {
 public:
  explicit MatrixKernel(bool inverse) : inverse_(inverse) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& x = node.in[0]->shape;
    n_ = x.at(-1);
    matrices_ = x.count(0, x.rank() - 2);
    constexpr int64_t kMostGroups = 16, kItems = 64;
    groups_ = std::min(groups_for(matrices_, kItems), kMostGroups);
    *workspace = groups_ * kItems * n_ * n_ * (inverse_ ? 2 : 1) * 8;
    return device_of(node).program(
        "dense_matrix",
        {{"TYPE_X", type_of(node, 0)}, {"TYPE_Y", type_of(node.out[0]->dtype)}, {"INVERSE", inverse_ ? 1 : 0}},
        &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (context.out[0]->count() == 0) return ok();
    void* y = context.out[0]->data;
    Arguments arguments;
    arguments.buffer(n_ == 0 ? y : context.in[0]->data).buffer(y).buffer(n_ == 0 ? y : context.workspace);
    arguments.add(to_i32(matrices_)).add(to_i32(n_));
    return stream.launch(*program_, arguments, {groups_});
  }

 private:
  const bool inverse_;
  int64_t n_ = 0, matrices_ = 0, groups_ = 1;
  const Program* program_ = nullptr;
};

template <bool Inverse>
std::unique_ptr<Kernel> create_gpu_matrix(const NodeContext&) {
  return std::make_unique<MatrixKernel>(Inverse);
}

bool supports_matrix(const NodeContext& node, std::string* why) {
  // Elimination is by one work-item.
  constexpr int64_t kLargest = 256;
  if (node.in[0]->shape.rank() > 1 && node.in[0]->shape.at(-1) > kLargest) {
    *why = "eliminates in matrices of at most 256 rows";
    return false;
  }
  if (node.precision == Precision::kLow && node.in[0]->dtype == DType::kF32) {
    *why = "does not eliminate in precision \"low\", which magnifies what is rounded";
    return false;
  }
  return has_types(node, kFloats, why);
}

}  // namespace

MINNOW_GPU_KERNEL("ArgMax", create_gpu_arg<ArgKind::kMax>, supports_order);
MINNOW_GPU_KERNEL("ArgMin", create_gpu_arg<ArgKind::kMin>, supports_order);
MINNOW_GPU_KERNEL("Hardmax", create_gpu_arg<ArgKind::kHard>, supports_hardmax);
MINNOW_GPU_KERNEL("TopK", create_gpu_top_k, supports_order);
MINNOW_GPU_KERNEL("CumSum", create_gpu_running<false>, supports_running);
MINNOW_GPU_KERNEL("CumProd", create_gpu_running<true>, supports_running);
MINNOW_GPU_KERNEL("Det", create_gpu_matrix<false>, supports_matrix);
MINNOW_GPU_KERNEL("Inverse", create_gpu_matrix<true>, supports_matrix);

}  // namespace minnow::gpu
