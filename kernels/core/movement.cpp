#include "kernels/core/movement.h"

#include <algorithm>

#include "kernels/core/infer.h"

namespace minnow {
namespace {

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

}  // namespace

bool Copy::lies_there(const Tensor& from, const Tensor& to) const {
  if (from.data == nullptr || to.data == nullptr) return false;  // nothing: offsets are of no place
  const Region& r = region;
  const int64_t size = static_cast<int64_t>(dtype_size(from.type.dtype));
  if (static_cast<const char*>(from.data) + r.src_offset * size != static_cast<char*>(to.data) + r.dst_offset * size)
    return false;
  for (size_t k = 0; k < static_cast<size_t>(r.rank); ++k)
    if (r.size[k] > 1 && r.src_stride[k] != r.dst_stride[k]) return false;
  return true;
}

std::vector<int64_t> permutation(const Attrs& attrs, int rank) {
  std::vector<int64_t> perm = attrs.ints("perm");
  if (!attrs.has("perm"))
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  return perm;
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

void plan_concat(const NodeContext& node, RunLength run_length, std::vector<Copy>* copies) {
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

}  // namespace minnow
