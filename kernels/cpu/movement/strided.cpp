// Ops whose outputs are strided copies of their inputs, known from types and attributes alone.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/core/region.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

struct Copy {
  Region region;
  int input = 0;
  int output = 0;
};

using PlanCopies = void (*)(const NodeContext&, std::vector<Copy>*);

// A part that was computed where it belongs.
bool lies_there(const Region& r, const Tensor& from, const Tensor& to) {
  const int64_t size = static_cast<int64_t>(dtype_size(from.type.dtype));
  if (static_cast<const char*>(from.data) + r.src_offset * size != static_cast<char*>(to.data) + r.dst_offset * size)
    return false;
  for (size_t k = 0; k < static_cast<size_t>(r.rank); ++k)
    if (r.size[k] > 1 && r.src_stride[k] != r.dst_stride[k]) return false;
  return true;
}

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
      if (to == nullptr || lies_there(copy.region, from, *to)) continue;
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

// Writes the dims `from[k]` of the source, one after the other, as a row-major output.
void add_permuted(Region* r, const int* from, const int64_t* size, const int64_t* stride, int rank) {
  int64_t dst = 1;
  std::array<int64_t, Region::kMaxDims> dst_stride;
  for (int k = rank - 1; k >= 0; --k) {
    dst_stride[static_cast<size_t>(k)] = dst;
    dst *= size[from[k]];
  }
  for (int k = 0; k < rank; ++k) r->add(size[from[k]], stride[from[k]], dst_stride[static_cast<size_t>(k)]);
}

// --- Transpose

std::vector<int64_t> permutation(const Attrs& attrs, int rank) {
  std::vector<int64_t> perm = attrs.ints("perm");
  if (!attrs.has("perm"))
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  return perm;
}

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

void plan_transpose(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape& x = node.in[0]->shape;
  const std::vector<int64_t> perm = permutation(node.attrs, x.rank());
  const auto stride = strides_of(x);
  int from[kMaxRank];
  for (int k = 0; k < x.rank(); ++k) {
    const int64_t axis = perm[static_cast<size_t>(k)];
    from[k] = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  }
  Copy copy;
  add_permuted(&copy.region, from, x.begin(), stride.data(), x.rank());
  copies->push_back(copy);
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

void plan_depth_to_space(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape& x = node.in[0]->shape;
  const int64_t b = node.attrs.i("blocksize"), area = x[2] * x[3], c = x[1] / (b * b);
  const bool crd = node.attrs.s("mode", "DCR") == "CRD";
  // Source dims: image, block row, block column, channel, row, column.
  const int64_t size[] = {x[0], b, b, c, x[2], x[3]};
  const int64_t stride[] = {
      x[1] * area, (crd ? b : b * c) * area, (crd ? 1 : c) * area, (crd ? b * b : 1) * area, x[3], 1};
  const int from[] = {0, 3, 4, 1, 5, 2};
  Copy copy;
  add_permuted(&copy.region, from, size, stride, 6);
  copies->push_back(copy);
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

void plan_space_to_depth(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape& x = node.in[0]->shape;
  const int64_t b = node.attrs.i("blocksize"), area = x[2] * x[3];
  // Source dims: image, channel, block row, row in the block, block column, column in the block.
  const int64_t size[] = {x[0], x[1], x[2] / b, b, x[3] / b, b};
  const int64_t stride[] = {x[1] * area, area, b * x[3], x[3], b, 1};
  const int from[] = {0, 3, 5, 1, 2, 4};
  Copy copy;
  add_permuted(&copy.region, from, size, stride, 6);
  copies->push_back(copy);
}

MINNOW_OP("DepthToSpace", infer_depth_to_space);
MINNOW_KERNEL("DepthToSpace", create_copy<plan_depth_to_space>);
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

void plan_concat(const NodeContext& node, std::vector<Copy>* copies) {
  const TensorType& y = *node.out[0];
  int axis = 0;
  if (!normalize_axis(node.attrs.i("axis"), y.shape.rank(), &axis).ok() || y.count() == 0) return;
  const int64_t total = run_length(y, axis), outer = run_length(y, 0) / total;
  int64_t offset = 0;
  for (size_t i = 0; i < node.in.size(); ++i) {
    if (node.in[i]->count() == 0) continue;
    const int64_t run = run_length(*node.in[i], axis);
    Copy copy;
    copy.input = static_cast<int>(i);
    copy.region.dst_offset = offset;
    copy.region.add(outer, run, total);
    copy.region.add(run, 1, 1);
    copies->push_back(copy);
    offset += run;
  }
}

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

void plan_split(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape& x = node.in[0]->shape;
  int axis = 0;
  if (!normalize_axis(node.attrs.i("axis"), x.rank(), &axis).ok()) return;
  const int64_t total = x.count(axis, x.rank());
  int64_t offset = 0;
  for (size_t i = 0; i < node.out.size(); ++i) {
    const int64_t run = node.out[i]->shape.count(axis, x.rank());
    Copy copy;
    copy.output = static_cast<int>(i);
    copy.region.src_offset = offset;
    copy.region.add(x.count(0, axis), total, run);
    copy.region.add(run, 1, 1);
    copies->push_back(copy);
    offset += run;
  }
}

MINNOW_OP("Concat", infer_concat);
MINNOW_KERNEL("Concat", create_copy<plan_concat>, LayoutRule::kConcat);
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

void plan_expand(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
  const auto src = strides_of(x), dst = strides_of(y);
  Copy copy;
  for (int k = 0; k < y.rank(); ++k) {
    const int from = k - (y.rank() - x.rank());
    const bool repeats = from < 0 || x[from] == 1;
    copy.region.add(y[k], repeats ? 0 : src[static_cast<size_t>(from)], dst[static_cast<size_t>(k)]);
  }
  copies->push_back(copy);
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

void plan_tile(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
  if (y.count() == 0) return;
  const auto src = strides_of(x), dst = strides_of(y);
  Copy copy;
  for (int k = 0; k < y.rank(); ++k) {
    const size_t i = static_cast<size_t>(k);
    copy.region.add(y[k] / x[k], 0, dst[i] * x[k]);
    copy.region.add(x[k], src[i], dst[i]);
  }
  copies->push_back(copy);
}

Status infer_reverse(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  std::vector<int> axes;
  return normalize_axes(c.attrs.ints("axes"), c.shape(0).rank(), false, &axes);
}

void plan_reverse(const NodeContext& node, std::vector<Copy>* copies) {
  const Shape& x = node.in[0]->shape;
  std::vector<int> axes;
  if (!normalize_axes(node.attrs.ints("axes"), x.rank(), false, &axes).ok()) return;
  const auto stride = strides_of(x);
  Copy copy;
  for (int k = 0; k < x.rank(); ++k) {
    const int64_t s = stride[static_cast<size_t>(k)];
    const bool reversed = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (reversed) copy.region.src_offset += s * (x[k] - 1);
    copy.region.add(x[k], reversed ? -s : s, s);
  }
  copies->push_back(copy);
}

MINNOW_OP("Expand", infer_expand);
MINNOW_KERNEL("Expand", create_copy<plan_expand>);
MINNOW_OP("Tile", infer_tile);
MINNOW_KERNEL("Tile", create_copy<plan_tile>);
MINNOW_OP("Reverse", infer_reverse);
MINNOW_KERNEL("Reverse", create_copy<plan_reverse>);

}  // namespace
}  // namespace minnow
