// Ops whose outputs are strided copies of their inputs.
#include <algorithm>

#include "kernels/core/int_view.h"
#include "kernels/core/movement.h"
#include "kernels/core/slice.h"
#include "kernels/gpu/movement/moves.h"

namespace minnow::gpu {

// Items count in ints, up to the last element and one step of all groups beyond it.
constexpr int64_t kMostMoved = 2'000'000'000;

bool can_move(const NodeContext& node, std::string* why) {
  const bool bytes = node.accelerator == nullptr || device_of(node).limits().bytes;
  for (const auto* tensors : {&node.in, &node.out})
    for (const TensorType* type : *tensors) {
      if (type == nullptr) continue;
      if (type->count() > kMostMoved) {
        *why = "computes tensors of at most 2e9 elements";
        return false;
      }
      if (!bytes && dtype_size(type->dtype) < 4) {
        *why = std::string("has no buffers of 8 or 16 bits, as ") + dtype_name(type->dtype) + " needs them";
        return false;
      }
    }
  return true;
}

int64_t widest_factor(int64_t size, int64_t run, std::initializer_list<const void*> addresses) {
  int64_t factor = 8 / size;
  const auto fits = [&] {
    return run % factor == 0 && std::all_of(addresses.begin(), addresses.end(), [&](const void* address) {
             return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(size * factor) == 0;
           });
  };
  while (factor > 1 && !fits()) factor /= 2;
  return factor;
}

Status RegionMove::make_launch(Device& device, const Region& region, int64_t size, Launch* out) {
  Region r = region;
  out->size = size;
  out->src = as_int(r.src_offset);
  out->dst = as_int(r.dst_offset);
  out->count = 1;
  DimRows dims;
  const auto add_dims = [&](int most, int but) {
    for (int k = most - 1; k >= 0; --k)
      if (const auto u = static_cast<size_t>(k); k != but) {
        dims.add(r.size[u], r.src_stride[u], r.dst_stride[u]);
        out->count *= r.size[u];
      }
  };
  // A matrix that is transposed: the last dim is in the destination what another one is in the source.
  int row = -1;
  const auto last = static_cast<size_t>(std::max(r.rank - 1, 0));
  for (int k = 0; r.rank > 1 && k < r.rank - 1; ++k)
    if (const auto u = static_cast<size_t>(k); r.src_stride[u] == 1 && r.size[u] >= 16) row = k;
  out->tiled = row >= 0 && r.dst_stride[last] == 1 && r.src_stride[last] > 1 && r.size[last] >= 16 &&
               groups_for(r.size[static_cast<size_t>(row)], 32) <= 65535 && groups_for(r.size[last], 32) <= 65535;
  if (out->tiled) {
    const auto u = static_cast<size_t>(row);
    out->matrix = {r.size[u], r.size[last], r.src_stride[last], r.dst_stride[u]};
    add_dims(r.rank - 1, row);
  } else {
    add_dims(r.rank, -1);
  }
  out->rank = dims.rank();
  return out->code.make(device, dims.words());
}

Status RegionMove::make(Device& device, const Region& region, int64_t element_size) {
  device_ = &device;
  wide_.size = narrow_.size = 0;
  Region r = region;
  if (!r.simplify()) return ok();
  MINNOW_RETURN_IF_ERROR(make_launch(device, r, element_size, &narrow_));
  if (r.rank == 0 || r.src_stride[static_cast<size_t>(r.rank - 1)] != 1 ||
      r.dst_stride[static_cast<size_t>(r.rank - 1)] != 1)
    return ok();
  const auto last = static_cast<size_t>(r.rank - 1);
  int64_t factor = 8 / element_size;
  const auto fits = [&] {
    bool whole = r.src_offset % factor == 0 && r.dst_offset % factor == 0 && r.size[last] % factor == 0;
    for (size_t k = 0; k < last; ++k) whole = whole && r.src_stride[k] % factor == 0 && r.dst_stride[k] % factor == 0;
    return whole;
  };
  while (factor > 1 && !fits()) factor /= 2;
  if (factor == 1) return ok();
  r.src_offset /= factor;
  r.dst_offset /= factor;
  r.size[last] /= factor;
  for (size_t k = 0; k < last; ++k) {
    r.src_stride[k] /= factor;
    r.dst_stride[k] /= factor;
  }
  return r.simplify() ? make_launch(device, r, element_size * factor, &wide_) : ok();
}

Status RegionMove::enqueue(Stream& stream, const void* from, void* to) const {
  const auto aligned = [&](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(wide_.size) == 0;
  };
  if (wide_.size > 0 && aligned(from) && aligned(to)) return enqueue(wide_, stream, from, to);
  return narrow_.size > 0 ? enqueue(narrow_, stream, from, to) : ok();
}

Status RegionMove::enqueue(const Launch& launch, Stream& stream, const void* from, void* to) const {
  const Program* program = nullptr;
  MINNOW_RETURN_IF_ERROR(device_->program(launch.tiled ? "movement_transpose" : "movement_region",
                                          {{"SIZE", static_cast<int>(launch.size)}}, &program));
  Arguments arguments;
  arguments.buffer(from).buffer(to).buffer(launch.code.data()).add(as_int(launch.count));
  if (!launch.tiled) {
    arguments.add(launch.rank).add(launch.src).add(launch.dst);
    return stream.launch(*program, arguments, groups_of(*program, launch.count));
  }
  const int64_t deep = std::min<int64_t>(launch.count, 65535);
  arguments.add(as_int(deep)).add(launch.rank).add(launch.src).add(launch.dst);
  for (int64_t number : launch.matrix) arguments.add(as_int(number));
  return stream.launch(*program, arguments, {groups_for(launch.matrix[1], 32), groups_for(launch.matrix[0], 32), deep});
}

namespace {

using PlanCopies = void (*)(const NodeContext&, std::vector<Copy>*);

// Copies of regions that are known from types and attributes.
class CopiesKernel : public GpuKernel {
 public:
  explicit CopiesKernel(PlanCopies plan) : plan_(plan) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    copies_.clear();
    plan_(node, &copies_);
    moves_.clear();
    for (const Copy& copy : copies_) {
      const auto size = static_cast<int64_t>(dtype_size(node.out[static_cast<size_t>(copy.output)]->dtype));
      MINNOW_RETURN_IF_ERROR(moves_.emplace_back().make(device_of(node), copy.region, size));
    }
    return ok();
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      const Tensor& from = *context.in[static_cast<size_t>(copies_[i].input)];
      Tensor* to = context.out[static_cast<size_t>(copies_[i].output)];
      if (to == nullptr || copies_[i].lies_there(from, *to)) continue;
      MINNOW_RETURN_IF_ERROR(moves_[i].enqueue(stream, from.data, to->data));
    }
    return ok();
  }
  bool reads(int i) const override { return i == 0 || reads_all_; }
  Profile profile() const override { return {"region"}; }

 protected:
  bool reads_all_ = false;

 private:
  PlanCopies plan_;
  std::vector<Copy> copies_;
  std::vector<RegionMove> moves_;
};

template <PlanCopies Plan>
std::unique_ptr<Kernel> create_copies(const NodeContext&) {
  return std::make_unique<CopiesKernel>(Plan);
}

// In channels-last layout channels are the innermost dim, and rounded up.
int64_t run_length(const TensorType& t, int axis, const Device& device) {
  if (t.layout == Layout::kPlain || t.shape.rank() < 2) return t.shape.count(axis, t.shape.rank());
  const int64_t places = t.count() / t.shape[1];
  const int64_t channels = device.bytes(t) / static_cast<int64_t>(dtype_size(t.dtype)) / places;
  return axis == 0 ? places * channels : t.shape.count(std::max(axis, 2), t.shape.rank()) * channels;
}

int64_t plain_run_length(const TensorType& t, int axis) { return t.shape.count(axis, t.shape.rank()); }

void plan_gpu_concat(const NodeContext& node, std::vector<Copy>* copies) {
  const TensorType& y = *node.out[0];
  if (y.layout == Layout::kPlain) return plan_concat(node, plain_run_length, copies);
  int axis = 0;
  if (!normalize_axis(node.attrs.i("axis"), y.shape.rank(), &axis).ok() || y.count() == 0) return;
  const Device& device = device_of(node);
  // Along the channels every pixel is a run; their padding is not copied.
  const bool pixels = axis == 1;
  const int64_t last = run_length(y, y.shape.rank(), device);
  const int64_t total = pixels ? last : run_length(y, axis, device), outer = run_length(y, 0, device) / total;
  int64_t offset = 0;
  for (size_t i = 0; i < node.in.size(); ++i) {
    const TensorType& x = *node.in[i];
    if (x.count() == 0) continue;
    const int64_t stored = pixels ? run_length(x, x.shape.rank(), device) : run_length(x, axis, device);
    const int64_t run = pixels ? x.shape[1] : stored;
    Copy copy;
    copy.input = static_cast<int>(i);
    copy.region.dst_offset = offset;
    copy.region.add(outer, stored, total);
    copy.region.add(run, 1, 1);
    copies->push_back(copy);
    offset += run;
  }
}

class ConcatKernel final : public CopiesKernel {
 public:
  ConcatKernel() : CopiesKernel(plan_gpu_concat) { reads_all_ = true; }
};
std::unique_ptr<Kernel> create_concat(const NodeContext&) { return std::make_unique<ConcatKernel>(); }

// One element, again and again.
void plan_fill(const NodeContext& node, std::vector<Copy>* copies) {
  Copy copy;
  copy.input = 1;
  copy.region.add(node.out[0]->count(), 0, 1);
  copies->push_back(copy);
}

class FillKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    std::vector<Copy> copies;
    plan_fill(node, &copies);
    MINNOW_RETURN_IF_ERROR(zero_.make(device_of(node), std::vector<uint32_t>(2)));
    return move_.make(device_of(node), copies[0].region, static_cast<int64_t>(dtype_size(node.out[0]->dtype)));
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const bool given = context.in.size() > 1 && context.in[1] != nullptr;
    return move_.enqueue(stream, given ? context.in[1]->data : zero_.data(), context.out[0]->data);
  }
  bool reads(int i) const override { return i == 1; }

 private:
  Uploaded zero_;
  RegionMove move_;
};
std::unique_ptr<Kernel> create_fill(const NodeContext&) { return std::make_unique<FillKernel>(); }

// ---- Slice

class SliceKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    device_ = &device_of(node);
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    is_constant_ = true;
    for (size_t i = 1; i < node.in.size(); ++i)
      is_constant_ = is_constant_ && (node.in[i] == nullptr || node.constant[i] != nullptr);
    return is_constant_ ? plan_constant(node) : plan(x, y);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor& x = *context.in[0];
    Tensor& y = *context.out[0];
    if (y.count() == 0) return ok();
    if (is_constant_) return move_.enqueue(stream, x.data, y.data);
    const auto given = [&](size_t i) {
      return context.in.size() > i && context.in[i] != nullptr ? context.in[i] : nullptr;
    };
    const Tensor &starts = *context.in[1], *axes = given(3), *steps = given(4);
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("movement_slice",
                                            {{"SIZE", size_of(x)},
                                             {"TYPE", type_of(starts)},
                                             {"HAS_AXES", axes != nullptr ? 1 : 0},
                                             {"HAS_STEPS", steps != nullptr ? 1 : 0}},
                                            &program));
    Arguments arguments;
    arguments.buffer(x.data).buffer(starts.data).buffer((axes != nullptr ? *axes : starts).data);
    arguments.buffer((steps != nullptr ? *steps : starts).data).buffer(y.data).buffer(code_.data());
    arguments.add(as_int(y.count())).add(rank_).add(as_int(starts.count()));
    return stream.launch(*program, arguments, groups_of(*program, y.count()));
  }
  bool reads(int i) const override { return i == 0 || !is_constant_; }

 private:
  Status plan_constant(const NodeContext& node) {
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    std::array<AxisCut, kMaxRank> cuts;
    const auto has = [&](size_t i) { return node.in.size() > i && node.in[i] != nullptr; };
    const auto at = [&](int i, int64_t k) { return IntView(*node.constant[static_cast<size_t>(i)])[k]; };
    MINNOW_RETURN_IF_ERROR(resolve_cuts(x, node.in[1]->count(), has(3), has(4), at, &cuts));
    const auto src = strides_of(x), dst = strides_of(y);
    Region r;
    for (int k = 0; k < x.rank(); ++k) {
      const auto i = static_cast<size_t>(k);
      r.src_offset += cuts[i].start * src[i];
      r.add(cuts[i].count, (cuts[i].count > 1 ? cuts[i].step : 0) * src[i], dst[i]);
    }
    return move_.make(*device_, r, static_cast<int64_t>(dtype_size(node.in[0]->dtype)));
  }
  Status plan(const Shape& x, const Shape& y) {
    const auto stride = strides_of(x);
    DimRows dims;
    for (int k = x.rank() - 1; k >= 0; --k) dims.add(y[k], x[k], stride[static_cast<size_t>(k)]);
    rank_ = dims.rank();
    return code_.make(*device_, dims.words());
  }

  Device* device_ = nullptr;
  bool is_constant_ = false;
  RegionMove move_;
  int32_t rank_ = 0;
  Uploaded code_;
};

std::unique_ptr<Kernel> create_slice(const NodeContext&) { return std::make_unique<SliceKernel>(); }

bool supports_slice(const NodeContext& node, std::string* why) {
  if (!can_move(node, why)) return false;
  for (size_t i = 2; i < node.in.size(); ++i)
    if (node.in[i] != nullptr && node.in[i]->dtype != node.in[1]->dtype) {
      *why = "slices by starts, axes and steps of one type only";
      return false;
    }
  return true;
}

}  // namespace

MINNOW_GPU_KERNEL("Transpose", create_copies<plan_transpose>, can_move);
MINNOW_GPU_KERNEL("DepthToSpace", create_copies<plan_depth_to_space>, can_move);
MINNOW_GPU_KERNEL("SpaceToDepth", create_copies<plan_space_to_depth>, can_move);
MINNOW_GPU_KERNEL("Split", create_copies<plan_split>, can_move);
MINNOW_GPU_KERNEL("Expand", create_copies<plan_expand>, can_move);
MINNOW_GPU_KERNEL("Tile", create_copies<plan_tile>, can_move);
MINNOW_GPU_KERNEL("Reverse", create_copies<plan_reverse>, can_move);
MINNOW_GPU_KERNEL("Concat", create_concat, can_move, LayoutRule::kConcat);
MINNOW_GPU_KERNEL("Fill", create_fill, can_move);
MINNOW_GPU_KERNEL("Slice", create_slice, supports_slice);

}  // namespace minnow::gpu
