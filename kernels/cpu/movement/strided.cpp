// Ops whose outputs are strided copies of their inputs, known from types and attributes alone.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/core/movement.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

using PlanCopies = void (*)(const NodeContext&, std::vector<Copy>*);

template <PlanCopies Plan>
class CopyKernel final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    copies_.clear();
    Plan(node, &copies_);
    elements_ = 0;
    for (const TensorType* out : node.out) elements_ += out == nullptr ? 0 : stored_count(*out);
    return ok();
  }
  void run(const RunContext& c) override {
    for (const Copy& copy : copies_) {
      const Tensor& from = *c.in[static_cast<size_t>(copy.input)];
      Tensor* to = c.out[static_cast<size_t>(copy.output)];
      if (to == nullptr || copy.lies_there(from, *to)) continue;
      copy_region(copy.region, from.data, to->data, dtype_size(from.type.dtype), c.pool);
    }
  }
  [[gnu::cold]] Profile profile() const override { return {"region"}; }
  double seconds() const override { return estimate_seconds(elements_, 16384); }

 private:
  std::vector<Copy> copies_;
  int64_t elements_ = 0;
};

template <PlanCopies Plan>
std::unique_ptr<Kernel> create_copy(const NodeContext&) {
  return std::make_unique<CopyKernel<Plan>>();
}

// --- Transpose

Status infer_transpose(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& x = c.shape(0);
  const std::vector<int64_t> perm = permutation(c.attrs, x.rank());
  std::vector<int> sorted;
  MINNOW_RETURN_IF_ERROR(normalize_axes(perm, x.rank(), false, &sorted));
  if (static_cast<int>(perm.size()) != x.rank())
    return fail(Code::kFormat, "perm has %zu numbers, the input has the shape %s", perm.size(), x.str().c_str());
  Shape y;
  for (int64_t axis : perm) y.push_back(x.at(static_cast<int>(axis)));
  c.set(0, c.in(0).dtype, y);
  return ok();
}

MINNOW_OP("Transpose", infer_transpose);
MINNOW_KERNEL("Transpose", create_copy<plan_transpose>);

// --- DepthToSpace, SpaceToDepth

Status block_size(InferContext& c, int64_t* b) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 4, 4));
  *b = c.attrs.i("blocksize", 0);
  if (*b >= 1 && *b <= 1 << 15) return ok();
  return fail(Code::kFormat, "blocksize is %lld; it must be from 1 to 32768", static_cast<long long>(*b));
}

Status infer_depth_to_space(InferContext& c) {
  int64_t b = 0;
  MINNOW_RETURN_IF_ERROR(block_size(c, &b));
  const Shape& x = c.shape(0);
  if (x[1] % (b * b) != 0)
    return fail(Code::kFormat, "%lld channels do not divide by blocksize squared, %lld", static_cast<long long>(x[1]),
                static_cast<long long>(b * b));
  c.set(0, c.in(0).dtype, {x[0], x[1] / (b * b), x[2] * b, x[3] * b});
  return check_shape({x[0], x[1] / (b * b), x[2] * b, x[3] * b});
}

Status infer_space_to_depth(InferContext& c) {
  int64_t b = 0;
  MINNOW_RETURN_IF_ERROR(block_size(c, &b));
  const Shape& x = c.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0)
    return fail(Code::kFormat, "the shape %s does not divide by blocksize %lld", x.str().c_str(),
                static_cast<long long>(b));
  c.set(0, c.in(0).dtype, {x[0], x[1] * b * b, x[2] / b, x[3] / b});
  return check_shape({x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

// Of pixels of bytes with their channels side by side.
[[maybe_unused]] void run_depth_to_space_last(const Attrs& attrs, const RunContext& context) {
  const Shape &x = context.in[0]->shape(), &y = context.out[0]->shape();
  const int64_t b = attrs.i("blocksize"), channels = y[1], from = last_channels(x[1]), to = last_channels(channels);
  const bool crd = attrs.s("mode", "DCR") == "CRD";
  context.pool->parallel_for(y[0] * y[2], 1 + 16384 / (y[3] * to + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < y[3]; ++i) {
        const int64_t place = row % b * b + i % b;  // y[2] is a multiple of b
        const char* pixel = context.in[0]->as<char>() + (row / b * x[3] + i / b) * from;
        char* out = context.out[0]->as<char>() + (row * y[3] + i) * to;
        if (!crd) std::memcpy(out, pixel + place * channels, static_cast<size_t>(channels));
        for (int64_t c = 0; crd && c < channels; ++c) out[c] = pixel[c * b * b + place];
      }
    }
  });
}

LayoutRule layout_of_depth_to_space(const std::vector<const TensorType*>& in) {
  return kHasLast && dtype_size(in[0]->dtype) == 1 ? LayoutRule::kFollowLast : LayoutRule::kPlain;
}

std::unique_ptr<Kernel> create_depth_to_space(const NodeContext& node) {
  if constexpr (kHasLast)
    if (node.out[0]->layout == Layout::kLast) return create_simple<run_depth_to_space_last>(node);
  return create_copy<plan_depth_to_space>(node);
}

MINNOW_OP("DepthToSpace", infer_depth_to_space);
MINNOW_KERNEL("DepthToSpace", create_depth_to_space, LayoutRule::kPlain, /*in_place=*/false, layout_of_depth_to_space);
MINNOW_OP("SpaceToDepth", infer_space_to_depth);
MINNOW_KERNEL("SpaceToDepth", create_copy<plan_space_to_depth>);

// --- Concat, Split

Status infer_concat(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, std::max(1, c.num_inputs())));
  Shape y = c.shape(0);
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis"), y.rank(), &axis));
  for (int i = 1; i < c.num_inputs(); ++i) {
    MINNOW_RETURN_IF_ERROR(require_dtype(c, i, c.in(0).dtype));
    Shape other = c.shape(i);
    const int64_t n = other.rank() == y.rank() ? other[axis] : 0;
    if (other.rank() == y.rank()) other[axis] = y[axis];
    if (other != y)
      return fail(Code::kFormat, "input %d has the shape %s, input 0 has %s: they may differ at axis %d only", i,
                  c.shape(i).str().c_str(), c.shape(0).str().c_str(), axis);
    y[axis] += n;
  }
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

// Elements from one index of `axis` to the next, times the indices there are, as the tensor lies in memory.
int64_t run_length(const TensorType& t, int axis) {
  if (t.layout == Layout::kPlain || t.shape.rank() < 2) return t.shape.count(axis, t.shape.rank());
  const int64_t lanes = pack_width(), blocks = (t.shape[1] + lanes - 1) / lanes;
  const int64_t area = t.shape.count(std::max(axis, 2), t.shape.rank()) * lanes;
  return axis >= 2 ? area : axis == 1 ? area * blocks : area * blocks * t.shape[0];
}

void plan_stored_concat(const NodeContext& node, std::vector<Copy>* copies) { plan_concat(node, run_length, copies); }

Status infer_split(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  Shape y = c.shape(0);
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis"), y.rank(), &axis));
  std::vector<int64_t> sizes = c.attrs.ints("sizes");
  if (c.has(1)) MINNOW_RETURN_IF_ERROR(c.ints(1, &sizes));
  if (static_cast<int>(sizes.size()) != c.num_outputs())
    return fail(Code::kFormat, "%zu sizes for %d outputs", sizes.size(), c.num_outputs());
  int64_t rest = y[axis];
  for (int i = 0; i < c.num_outputs(); ++i) {
    const int64_t n = sizes[static_cast<size_t>(i)];
    if (n < 0 || n > rest) break;
    rest -= n;
    y[axis] = n;
    c.set(i, c.in(0).dtype, y);
    if (i == c.num_outputs() - 1 && rest == 0) return ok();
  }
  return fail(Code::kFormat, "the sizes do not add up to %lld, axis %d of the input",
              static_cast<long long>(c.shape(0)[axis]), axis);
}

[[maybe_unused]] void run_concat_last(const Attrs&, const RunContext& c) { join_channels_last(c.in, c.out[0], c.pool); }

LayoutRule layout_of_concat(const std::vector<const TensorType*>& in) {
  return kHasLast && dtype_size(in[0]->dtype) == 1 ? LayoutRule::kFollowLast : LayoutRule::kConcat;
}

LayoutRule layout_of_half_concat(const std::vector<const TensorType*>&) {
  return kHasLast && bf16_unit() != nullptr ? LayoutRule::kConcatLast : LayoutRule::kConcat;
}

std::unique_ptr<Kernel> create_concat(const NodeContext& node) {
  if constexpr (kHasLast)
    if (node.out[0]->layout == Layout::kLast) return create_simple<run_concat_last>(node);
  return create_copy<plan_stored_concat>(node);
}

MINNOW_OP("Concat", infer_concat);
MINNOW_KERNEL("Concat", create_concat, LayoutRule::kConcat, /*in_place=*/false, layout_of_concat, Pieces::kNone,
              layout_of_half_concat);
MINNOW_OP("Split", infer_split);
MINNOW_KERNEL("Split", create_copy<plan_split>);

// --- Expand, Tile, Reverse

Status infer_expand(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  std::vector<int64_t> dims;
  MINNOW_RETURN_IF_ERROR(c.ints(1, &dims));
  MINNOW_RETURN_IF_ERROR(require_out_rank(static_cast<int64_t>(dims.size())));
  Shape wanted, y;
  for (int64_t d : dims) wanted.push_back(d);
  MINNOW_RETURN_IF_ERROR(broadcast_shapes(c.shape(0), wanted, &y));
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

Status infer_tile(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  std::vector<int64_t> repeats;
  MINNOW_RETURN_IF_ERROR(c.ints(1, &repeats));
  Shape y = c.shape(0);
  if (static_cast<int>(repeats.size()) != y.rank())
    return fail(Code::kFormat, "%zu repeats for the shape %s", repeats.size(), y.str().c_str());
  for (int k = 0; k < y.rank(); ++k) {
    const int64_t n = repeats[static_cast<size_t>(k)];
    if (n < 0 || __builtin_mul_overflow(y[k], n, &y[k]))
      return fail(Code::kFormat, "axis %d is repeated %lld times", k, static_cast<long long>(n));
  }
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

Status infer_reverse(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  std::vector<int> axes;
  return normalize_axes(c.attrs.ints("axes"), c.shape(0).rank(), false, &axes);
}

MINNOW_OP("Expand", infer_expand);
MINNOW_KERNEL("Expand", create_copy<plan_expand>);
MINNOW_OP("Tile", infer_tile);
MINNOW_KERNEL("Tile", create_copy<plan_tile>);
MINNOW_OP("Reverse", infer_reverse);
MINNOW_KERNEL("Reverse", create_copy<plan_reverse>);

}  // namespace
}  // namespace minnow
