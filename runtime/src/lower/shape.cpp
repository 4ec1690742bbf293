// Lowering that depends on the shapes of the inputs.
#include <algorithm>
#include <limits>

#include "kernels/core/infer.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// Between [N, spatial..., C] and [N, C, spatial...].
Ints channels_perm(int rank, bool first) {
  Ints perm;
  for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
  if (rank < 3) return perm;
  if (first) {
    std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  } else {
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  }
  return perm;
}

Status expand_transpose(Expansion& e) {
  e.finish("Transpose", {e.in(0)}, {{"perm", channels_perm(e.rank(0), e.attrs().s("to") == "channels_first")}});
  return ok();
}
MINNOW_LOWERING("mnn.Transpose", expand_transpose);

// By the attribute or the second input; without either, the axes are reversed.
Status expand_permute(Expansion& e) {
  Ints perm = e.attrs().ints("perm");
  if (e.has(1)) MINNOW_RETURN_IF_ERROR(e.ints(1, &perm));
  if (perm.empty())
    for (int64_t i = e.rank(0); i-- > 0;) perm.push_back(i);
  // Some files list an axis of one element twice instead of another one.
  for (size_t i = 0; perm.size() == static_cast<size_t>(e.rank(0)) && i < perm.size(); ++i) {
    const auto is_listed = [&](int64_t axis) { return std::find(perm.begin(), perm.end(), axis) != perm.end(); };
    const auto first = perm.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(perm.begin(), first, perm[i]) == first || *first < 0 || e.shape(0)[static_cast<int>(*first)] != 1)
      continue;
    for (int axis = 0; axis < e.rank(0); ++axis)
      if (!is_listed(axis) && e.shape(0)[axis] == 1) perm[i] = axis;
  }
  e.finish("Transpose", {e.in(0)}, {{"perm", perm}});
  return ok();
}
MINNOW_LOWERING("mnn.Permute", expand_permute);

Status expand_flatten(Expansion& e) {
  int first = 0, last = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(e.attrs().i("axis"), e.rank(0), &first));
  MINNOW_RETURN_IF_ERROR(normalize_axis(e.attrs().i("end"), e.rank(0), &last));
  if (last < first) return fail(Code::kFormat, "the axes %d to %d are in the wrong order", first, last);
  Ints dims;
  for (int i = 0; i < first; ++i) dims.push_back(e.shape(0)[i]);
  dims.push_back(e.shape(0).count(first, last + 1));
  for (int i = last + 1; i < e.rank(0); ++i) dims.push_back(e.shape(0)[i]);
  e.finish("Reshape", {e.in(0), e.ints(dims)}, {{"allowzero", true}});
  return ok();
}
MINNOW_LOWERING("mnn.Flatten", expand_flatten);

// The operand counts the axes, and the elements are, in the order [N, H, W, C].
Status expand_reshape_nhwc(Expansion& e) {
  int x = e.in(0);
  if (e.rank(0) == 4) x = e.add("Transpose", {x}, {{"perm", channels_perm(4, false)}});
  const bool back = e.shape(1).count() == 4;
  const AttrList attrs = {{"allowzero", e.attrs().b("allowzero")}};
  if (back) {
    e.finish("Transpose", {e.add("Reshape", {x, e.in(1)}, attrs)}, {{"perm", channels_perm(4, true)}});
  } else {
    e.finish("Reshape", {x, e.in(1)}, attrs);
  }
  return ok();
}
MINNOW_LOWERING("mnn.ReshapeNHWC", expand_reshape_nhwc);

Status expand_split(Expansion& e) {
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(e.attrs().i("axis"), e.rank(0), &axis));
  enum Source : int64_t { kCaffe = 0, kTensorflow = 1, kTorch = 4 };
  const int64_t source = e.attrs().i("source"), n = e.num_outputs(), total = e.shape(0)[axis];
  Ints points = e.attrs().ints("points"), sizes;
  if (points.empty() && e.has(1)) MINNOW_RETURN_IF_ERROR(e.ints(1, &points));
  const auto count = static_cast<int64_t>(points.size());
  if (points.empty() || (count == 1 && source == kTensorflow && n > 1) ||
      (count == 1 && source != kTorch && source != kCaffe && n > 1)) {
    if (n == 0 || total % n != 0)
      return fail(Code::kFormat, "%lld elements do not make %lld equal parts", static_cast<long long>(total),
                  static_cast<long long>(n));
    sizes.assign(static_cast<size_t>(n), total / n);
  } else if (source == kCaffe) {
    int64_t from = 0;
    points.push_back(total);
    for (int64_t p : points) {
      if (p < from || p > total)
        return fail(Code::kFormat, "it is cut at %lld, of %lld elements", static_cast<long long>(p),
                    static_cast<long long>(total));
      sizes.push_back(p - from);
      from = p;
    }
  } else if (count == 1 && n > 1) {
    for (int64_t left = total; static_cast<int64_t>(sizes.size()) < n; left -= sizes.back())
      sizes.push_back(std::clamp<int64_t>(points[0], 0, left));
  } else {
    sizes = points;
    int64_t known = 0;
    for (int64_t s : sizes) {
      if (s > total)
        return fail(Code::kFormat, "a part of %lld elements of %lld", static_cast<long long>(s),
                    static_cast<long long>(total));
      known += std::max<int64_t>(s, 0);
    }
    for (int64_t& s : sizes)
      if (s < 0) s = total - known;
  }
  e.finish("Split", {e.in(0)}, {{"axis", int64_t{axis}}, {"sizes", sizes}});
  return ok();
}
MINNOW_LOWERING("mnn.Split", expand_split);

Status expand_unpack(Expansion& e) {
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(e.attrs().i("axis"), e.rank(0), &axis));
  if (e.shape(0)[axis] != e.num_outputs())
    return fail(Code::kFormat, "axis %d of %s does not make %d outputs", axis, e.shape(0).str().c_str(),
                e.num_outputs());
  Ints dims = dims_of(e.shape(0));
  dims.erase(dims.begin() + axis);
  const int shape = e.ints(dims);
  for (int i = 0; i < e.num_outputs(); ++i) {
    const int part = e.add("Slice", {e.in(0), e.ints({i}), e.ints({i + 1}), e.ints({axis})});
    e.finish(i, "Reshape", {part, shape}, make_attrs({{"allowzero", true}}));
  }
  return ok();
}
MINNOW_LOWERING("mnn.Unpack", expand_unpack);

Status expand_slice_tf(Expansion& e) {
  Ints begin, size, end;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &begin));
  MINNOW_RETURN_IF_ERROR(e.ints(2, &size));
  if (begin.size() != size.size() || static_cast<int>(begin.size()) != e.rank(0))
    return fail(Code::kFormat, "%zu begins and %zu sizes for rank %d", begin.size(), size.size(), e.rank(0));
  for (size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] < 0) begin[i] = std::max<int64_t>(0, begin[i] + e.shape(0)[static_cast<int>(i)]);
    end.push_back(size[i] < 0 ? kEnd : begin[i] + std::min(size[i], kEnd - begin[i]));
  }
  e.finish("Slice", {e.in(0), e.ints(begin), e.ints(end)});
  return ok();
}
MINNOW_LOWERING("mnn.SliceTf", expand_slice_tf);

// TensorFlow's slice: bit i of a mask is about the i-th of the numbers.
Status expand_strided_slice(Expansion& e) {
  Ints begin, end, stride;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &begin));
  MINNOW_RETURN_IF_ERROR(e.ints(2, &end));
  if (e.has(3)) MINNOW_RETURN_IF_ERROR(e.ints(3, &stride));
  if (stride.empty()) stride.assign(begin.size(), 1);
  if (end.size() != begin.size() || stride.size() != begin.size() || begin.size() > 31)
    return fail(Code::kFormat, "%zu begins, %zu ends, %zu strides", begin.size(), end.size(), stride.size());
  const auto bit = [&](const char* mask, size_t i) { return (e.attrs().i(mask) >> i & 1) != 0; };

  const int rank = e.rank(0);
  int consumed = 0;  // axes of x that the numbers name, all but the ellipsis
  for (size_t i = 0; i < begin.size(); ++i) consumed += !bit("ellipsis", i) && !bit("new_axis", i);
  if (consumed > rank) return fail(Code::kFormat, "it slices %d axes of %d", consumed, rank);
  Ints starts, ends, axes, steps, dims;
  Shape shape = e.shape(0);
  int axis = 0;
  bool seen = false;
  const auto keep = [&](int count) {
    for (; count > 0; --count) dims.push_back(shape[axis++]);
  };
  for (size_t i = 0; i < begin.size(); ++i) {
    if (bit("ellipsis", i)) {
      if (seen) return fail(Code::kFormat, "it has more than one ellipsis");
      seen = true;
      keep(rank - consumed);
    } else if (bit("new_axis", i)) {
      dims.push_back(1);
    } else {
      // No step within an axis is longer than it: so that no sum of a few overflows.
      const int64_t n = shape[axis], step = std::clamp(stride[i], -n - 1, n + 1);
      if (step == 0) return fail(Code::kFormat, "a stride is 0");
      const auto clamp = [&](int64_t at) {
        at = at < 0 ? at + n : at;
        return step > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
      };
      int64_t from = bit("begin", i) ? (step > 0 ? 0 : n - 1) : clamp(begin[i]);
      int64_t to = bit("end", i) ? (step > 0 ? n : -1) : clamp(end[i]);
      int64_t count = step > 0 ? (to - from + step - 1) / step : (to - from + step + 1) / step;
      int64_t stride_now = step;
      if (bit("shrink", i)) {
        from = begin[i] < 0 ? begin[i] + n : begin[i];
        if (from < 0 || from >= n)
          return fail(Code::kFormat, "index %lld is outside of %lld", static_cast<long long>(begin[i]),
                      static_cast<long long>(n));
        to = from + 1;
        stride_now = 1;
      } else {
        dims.push_back(std::max<int64_t>(count, 0));
      }
      starts.push_back(from);
      // Slice reads -1 as the last element; a number this small means "before the first".
      ends.push_back(to < 0 ? -kEnd : to);
      axes.push_back(axis++);
      steps.push_back(stride_now);
    }
  }
  keep(rank - axis);
  int x = e.in(0);
  if (!axes.empty()) x = e.add("Slice", {x, e.ints(starts), e.ints(ends), e.ints(axes), e.ints(steps)});
  e.finish("Reshape", {x, e.ints(dims)}, {{"allowzero", true}});
  return ok();
}
MINNOW_LOWERING("mnn.StridedSlice", expand_strided_slice);

// The table of paddings may be [rank, 2].
Status expand_pad(Expansion& e) {
  const int pads = e.rank(1) == 1 ? e.in(1) : e.add("Reshape", {e.in(1), e.ints({-1})});
  e.finish("Pad", {e.in(0), pads, e.in(2)}, {{"mode", e.attrs().s("mode")}});
  return ok();
}
MINNOW_LOWERING("mnn.Pad", expand_pad);

struct Blocks {
  Ints block, pads;
  int first = 0;  // axis that the first block size is for
};

Status read_blocks(Expansion& e, Blocks* b) {
  MINNOW_RETURN_IF_ERROR(e.ints(1, &b->block));
  MINNOW_RETURN_IF_ERROR(e.ints(2, &b->pads));
  b->first = static_cast<int>(e.attrs().i("first"));
  const auto m = static_cast<int>(b->block.size());
  if (b->pads.size() != 2 * b->block.size() || b->first + m > e.rank(0) || e.rank(0) + m > kMaxRank)
    return fail(Code::kFormat, "%d block sizes and %zu paddings for rank %d", m, b->pads.size(), e.rank(0));
  constexpr int64_t kMost = int64_t{1} << 31;  // so that no sum or product of a few overflows
  int64_t all = 1;
  for (int64_t size : b->block) {
    if (size < 1 || size > kMost || all > kMost / size)
      return fail(Code::kFormat, "a block size is %lld", static_cast<long long>(size));
    all *= size;
  }
  for (int64_t pad : b->pads)
    if (pad < -kMost || pad > kMost) return fail(Code::kFormat, "a padding is %lld", static_cast<long long>(pad));
  return ok();
}

// [N, ..., S, ...] padded, then [N, ..., S/b, b, ...] to [b, N, ..., S/b, ...].
Status expand_space_to_batch(Expansion& e) {
  Blocks b;
  MINNOW_RETURN_IF_ERROR(read_blocks(e, &b));
  Shape shape = e.shape(0);
  Ints pads(2 * static_cast<size_t>(shape.rank()));
  for (size_t i = 0; i < b.block.size(); ++i) {
    const auto axis = static_cast<size_t>(b.first) + i;
    pads[2 * axis] = b.pads[2 * i];
    pads[2 * axis + 1] = b.pads[2 * i + 1];
    int64_t& n = shape[static_cast<int>(axis)];
    n += b.pads[2 * i] + b.pads[2 * i + 1];
    if (n < 0 || n % b.block[i] != 0)
      return fail(Code::kFormat, "%lld elements do not divide into blocks of %lld", static_cast<long long>(n),
                  static_cast<long long>(b.block[i]));
  }
  Ints split, blocks, kept, result;
  int64_t batch = shape[0];
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int i = axis - b.first;
    const bool blocked = i >= 0 && i < static_cast<int>(b.block.size());
    const int64_t size = blocked ? b.block[static_cast<size_t>(i)] : 1;
    kept.push_back(static_cast<int64_t>(split.size()));
    split.push_back(shape[axis] / size);
    result.push_back(shape[axis] / size);
    if (!blocked) continue;
    blocks.push_back(static_cast<int64_t>(split.size()));
    split.push_back(size);
    batch *= size;
  }
  result[0] = batch;
  blocks.insert(blocks.end(), kept.begin(), kept.end());
  const int padded = e.add("Pad", {e.in(0), e.ints(pads)});
  const int parts = e.add("Reshape", {padded, e.ints(split)}, {{"allowzero", true}});
  const int turned = e.add("Transpose", {parts}, {{"perm", blocks}});
  e.finish("Reshape", {turned, e.ints(result)}, {{"allowzero", true}});
  return ok();
}
MINNOW_LOWERING("mnn.SpaceToBatch", expand_space_to_batch);

// The inverse: [b, N, ..., S, ...] to [N, ..., S, b, ...], then cropped.
Status expand_batch_to_space(Expansion& e) {
  Blocks b;
  MINNOW_RETURN_IF_ERROR(read_blocks(e, &b));
  const Shape shape = e.shape(0);
  const auto m = static_cast<int64_t>(b.block.size());
  int64_t all = 1;
  for (int64_t size : b.block) all *= size;
  if (shape[0] % all != 0)
    return fail(Code::kFormat, "a batch of %lld is no multiple of %lld", static_cast<long long>(shape[0]),
                static_cast<long long>(all));
  Ints split = b.block, perm, joined, starts, ends, axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t n = axis == 0 ? shape[0] / all : shape[axis];
    split.push_back(n);
    perm.push_back(m + axis);
    const int i = axis - b.first;
    if (i < 0 || i >= m) {
      joined.push_back(n);
      continue;
    }
    const auto k = static_cast<size_t>(i);
    perm.push_back(i);
    joined.push_back(n * b.block[k]);
    starts.push_back(b.pads[2 * k]);
    ends.push_back(std::max<int64_t>(b.pads[2 * k], n * b.block[k] - b.pads[2 * k + 1]));
    axes.push_back(axis);
  }
  const int parts = e.add("Reshape", {e.in(0), e.ints(split)}, {{"allowzero", true}});
  const int turned = e.add("Transpose", {parts}, {{"perm", perm}});
  const int whole = e.add("Reshape", {turned, e.ints(joined)}, {{"allowzero", true}});
  e.finish("Slice", {whole, e.ints(starts), e.ints(ends), e.ints(axes)});
  return ok();
}
MINNOW_LOWERING("mnn.BatchToSpace", expand_batch_to_space);

}  // namespace
}  // namespace minnow
