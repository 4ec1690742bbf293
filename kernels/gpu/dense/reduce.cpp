// Reductions over any axes; the pools over all of an image are some, too. Adjacent axes that are alike are merged.
#include <algorithm>

#include "kernels/core/infer.h"
#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {
namespace {

// As the texts dense_reduce and dense_reduce_int number them.
enum Pre : int32_t { kAsItIs, kAbs, kSquare, kPower };
enum Combine : int32_t { kSum, kMaximum, kMinimum, kProduct, kLogSumOfExp };
enum Post : int32_t { kNothing, kByCount, kRoot, kLog, kUnpower };

struct ReductionKind {
  Pre pre;
  Combine combine;
  Post post;
};

constexpr ReductionKind kSumOf{kAsItIs, kSum, kNothing}, kMeanOf{kAsItIs, kSum, kByCount},
    kMaxOf{kAsItIs, kMaximum, kNothing}, kMinOf{kAsItIs, kMinimum, kNothing}, kProdOf{kAsItIs, kProduct, kNothing},
    kL1Of{kAbs, kSum, kNothing}, kL2Of{kSquare, kSum, kRoot}, kSquaresOf{kSquare, kSum, kNothing},
    kLogSumOf{kAsItIs, kSum, kLog}, kLogSumExpOf{kAsItIs, kLogSumOfExp, kNothing}, kPowersOf{kPower, kSum, kUnpower};

struct Axis {
  int64_t size, step;
};

// The axes that a node reduces, as bits. False where only contents that are not known tell them.
bool reduced_axes(const NodeContext& node, bool spatial, uint32_t* axes) {
  const Shape& x = node.in[0]->shape;
  const uint32_t all = (1u << x.rank()) - 1;
  *axes = all;
  if (spatial) {
    *axes = all & ~3u;
    return true;
  }
  std::vector<int64_t> listed = node.attrs.ints("axes");
  if (node.in.size() > 1 && node.in[1] != nullptr) {
    const Tensor* given = node.constant.size() > 1 ? node.constant[1] : nullptr;
    if (given == nullptr || given->data == nullptr) {
      // With an axis of size 1 it is all the same whether it is reduced.
      const Shape& y = node.out[0]->shape;
      if (!node.attrs.b("keepdims", true)) {
        *axes = y.rank() == 0 ? all : 0;
        return y.rank() == 0 || y.rank() == x.rank();
      }
      *axes = 0;
      for (int i = 0; i < x.rank(); ++i)
        if (y[i] != x[i]) *axes |= 1u << i;
      return true;
    }
    listed.clear();
    for (int64_t i = 0; i < given->count(); ++i)
      listed.push_back(given->type.dtype == DType::kI64 ? given->as<int64_t>()[i] : given->as<int32_t>()[i]);
  } else if (!node.attrs.has("axes")) {
    return true;
  }
  *axes = 0;
  for (int64_t axis : listed) *axes |= 1u << (axis < 0 ? axis + x.rank() : axis);
  return true;
}

class ReduceKernel final : public GpuKernel {
 public:
  ReduceKernel(const ReductionKind& kind, bool spatial) : kind_(kind), spatial_(spatial) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override;
  Status enqueue(const RunContext& context, Stream& stream) override;
  bool reads(int i) const override { return i == 0; }

 private:
  const ReductionKind kind_;
  const bool spatial_;
  bool integers_ = false, wide_ = false, wide_end_ = false;
  int64_t count_ = 1, n_ = 1, parts_ = 1, part_n_ = 1;
  float p_ = 2;
  std::unique_ptr<Memory> table_, end_table_;
  const Program* program_ = nullptr;
  const Program* end_ = nullptr;
};

Status ReduceKernel::reshape(const NodeContext& node, int64_t* workspace) {
  *workspace = 0;
  Device& device = device_of(node);
  const Shape& x = node.in[0]->shape;
  uint32_t axes = 0;
  if (!reduced_axes(node, spatial_, &axes))
    return fail(Code::kUnsupported, "the axes of a reduction that are computed by a graph");
  std::vector<Axis> kept, reduced;  // outermost first
  int64_t step = 1;
  int last = -1;
  count_ = n_ = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    const int is_reduced = (axes >> i & 1) != 0 ? 1 : 0;
    std::vector<Axis>& of = is_reduced != 0 ? reduced : kept;
    (is_reduced != 0 ? n_ : count_) *= x[i];
    if (x[i] != 1) {
      if (last == is_reduced) {
        of.front().size *= x[i];
      } else {
        of.insert(of.begin(), {x[i], step});
      }
      last = is_reduced;
    }
    step *= x[i];
  }
  const bool rows = last < 0 || reduced.empty() || reduced.back().step == 1;
  for (auto* list : {&kept, &reduced})
    if (list->empty()) list->push_back({1, 1});
  std::vector<int32_t> table;
  for (const auto* list : {&kept, &reduced})
    for (const Axis& axis : *list) {
      table.push_back(to_i32(axis.size));
      table.push_back(to_i32(axis.step));
    }
  MINNOW_RETURN_IF_ERROR(device.upload(table.data(), static_cast<int64_t>(table.size()) * 4, &table_));
  const DType dtype = node.in[0]->dtype;
  integers_ = !is_float(dtype);
  // A work-group for a row, unless work-items side by side read what lies side by side.
  wide_ = (rows && n_ >= 32) || (count_ < 1024 && n_ >= 64);
  parts_ = 1;
  p_ = static_cast<float>(node.attrs.i("p", 2));
  constexpr int64_t kEnoughGroups = 256, kLeastOfPart = 2048;
  if (!integers_ && wide_ && kind_.combine != kLogSumOfExp && has_many_units(device) && count_ < kEnoughGroups)
    parts_ = std::max<int64_t>(1, std::min(kEnoughGroups / std::max<int64_t>(count_, 1), n_ / kLeastOfPart));
  part_n_ = groups_for(std::max<int64_t>(n_, 1), parts_);
  const bool whole = parts_ == 1;
  if (!whole) {
    *workspace = 4 * count_ * parts_;
    const int32_t end_table[] = {to_i32(count_), to_i32(parts_), to_i32(parts_), 1};
    MINNOW_RETURN_IF_ERROR(device.upload(end_table, sizeof end_table, &end_table_));
    wide_end_ = parts_ >= 32;
    MINNOW_RETURN_IF_ERROR(device.program("dense_reduce",
                                          {{"TYPE_Y", type_of(node.out[0]->dtype)},
                                           {"COMBINE", kind_.combine},
                                           {"POST", kind_.post},
                                           {"WIDE", wide_end_ ? 1 : 0}},
                                          &end_));
  }
  return device.program(integers_ ? "dense_reduce_int" : "dense_reduce",
                        {{"TYPE_X", type_of(dtype)},
                         {"TYPE_Y", whole ? type_of(node.out[0]->dtype) : type_of(DType::kF32)},
                         {"PRE", kind_.pre},
                         {"COMBINE", kind_.combine},
                         {"POST", whole ? kind_.post : kNothing},
                         {"WIDE", wide_ ? 1 : 0},
                         {"KEPT", to_i32(static_cast<int64_t>(kept.size()))},
                         {"REDUCED", to_i32(static_cast<int64_t>(reduced.size()))}},
                        &program_);
}

Status ReduceKernel::enqueue(const RunContext& context, Stream& stream) {
  if (count_ == 0) return ok();
  void* y = context.out[0]->data;
  const bool whole = parts_ == 1;
  const auto launch = [&](const Program& program, bool wide, int64_t results, const Arguments& arguments) {
    const int64_t groups = wide ? results : groups_for(results, program.text.group);
    return stream.launch(program, arguments, {std::min<int64_t>(groups, 65535)});
  };
  const auto divisor = static_cast<float>(n_);
  Arguments arguments;
  // An empty tensor has no memory.
  arguments.buffer(n_ == 0 ? y : context.in[0]->data).buffer(whole ? y : context.workspace).buffer(table_->data());
  arguments.add(to_i32(count_)).add(to_i32(n_));
  if (!integers_) arguments.add(to_i32(parts_)).add(to_i32(part_n_)).add(divisor).add(p_);
  MINNOW_RETURN_IF_ERROR(launch(*program_, wide_, count_ * parts_, arguments));
  if (whole) return ok();
  Arguments end;
  end.buffer(context.workspace).buffer(y).buffer(end_table_->data());
  end.add(to_i32(count_)).add(to_i32(parts_)).add(1).add(to_i32(parts_)).add(divisor).add(p_);
  return launch(*end_, wide_end_, count_, end);
}

template <const ReductionKind& Kind, bool Spatial = false>
std::unique_ptr<Kernel> create_gpu_reduce(const NodeContext&) {
  return std::make_unique<ReduceKernel>(Kind, Spatial);
}

bool has_reduction_types(const NodeContext& node, std::initializer_list<DType> types, std::string* why) {
  NodeContext numbers = node;
  numbers.in.resize(1);  // axes are of another type
  return has_types(numbers, types, why);
}

// Whether the axes are known, and reductions of integers can be computed.
bool supports_axes(const NodeContext& node, std::string* why) {
  uint32_t axes = 0;
  const bool is_constant = node.constant.size() > 1 && node.constant[1] != nullptr;
  if (node.in.size() > 1 && node.in[1] != nullptr && !is_constant && !reduced_axes(node, false, &axes)) {
    *why = "reduces no axes that are computed, unless they are kept";
    return false;
  }
  const bool has_int64 = node.accelerator == nullptr || device_of(node).limits().int64;
  if (!is_float(node.in[0]->dtype) && !has_int64) {
    *why = "has no integers of 64 bits, with which it would reduce others";
    return false;
  }
  return true;
}

bool supports_float_reduce(const NodeContext& node, std::string* why) {
  return has_reduction_types(node, kFloats, why) && supports_axes(node, why);
}

bool supports_reduce(const NodeContext& node, std::string* why) {
  return has_reduction_types(node,
                             {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                              DType::kI32, DType::kU32, DType::kI64, DType::kBool},
                             why) &&
         supports_axes(node, why);
}

bool supports_global_pool(const NodeContext& node, std::string* why) { return has_types(node, kFloats, why); }

}  // namespace

MINNOW_GPU_KERNEL("ReduceSum", create_gpu_reduce<kSumOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceMean", create_gpu_reduce<kMeanOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceMax", create_gpu_reduce<kMaxOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceMin", create_gpu_reduce<kMinOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceProd", create_gpu_reduce<kProdOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceL1", create_gpu_reduce<kL1Of>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceL2", create_gpu_reduce<kL2Of>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceSumSquare", create_gpu_reduce<kSquaresOf>, supports_reduce);
MINNOW_GPU_KERNEL("ReduceLogSum", create_gpu_reduce<kLogSumOf>, supports_float_reduce);
MINNOW_GPU_KERNEL("ReduceLogSumExp", create_gpu_reduce<kLogSumExpOf>, supports_float_reduce);
MINNOW_GPU_KERNEL("GlobalAveragePool", (create_gpu_reduce<kMeanOf, true>), supports_global_pool);
MINNOW_GPU_KERNEL("GlobalMaxPool", (create_gpu_reduce<kMaxOf, true>), supports_global_pool);
MINNOW_GPU_KERNEL("GlobalLpPool", (create_gpu_reduce<kPowersOf, true>), supports_global_pool);

}  // namespace minnow::gpu
