// ScatterElements, ScatterND: the data with updates written, or reduced, into it.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/movement/index.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Status find_reduction(const Attrs& attrs, Reduction* reduction) {
  static const char* const kNames[] = {"none", "add", "mul", "max", "min"};
  const std::string name = attrs.s("reduction", "none");
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) {
      *reduction = static_cast<Reduction>(i);
      return ok();
    }
  return fail(Code::kUnsupported, "reduction '%s'; known are none, add, mul, max and min", name.c_str());
}

// Integers wrap around; NaN wins over every number.
template <typename T>
T reduce(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kAdd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      return static_cast<T>(a + b);
    case Reduction::kMul:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      return static_cast<T>(a * b);
    case Reduction::kMax:
      return a > b || a != a ? a : b;
    case Reduction::kMin:
      return a < b || a != a ? a : b;
    default:
      return b;
  }
}

// Merges `n` updates into the data.
using Merge = void (*)(Reduction, char* data, const char* updates, int64_t n, int64_t size);

template <typename T>
void merge_numbers(Reduction reduction, char* data, const char* updates, int64_t n, int64_t) {
  T* d = reinterpret_cast<T*>(data);
  const T* u = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < n; ++i) d[i] = reduce(reduction, d[i], u[i]);
}

// Types without arithmetic of their own: 16-bit floats.
template <DType kType>
void merge_halves(Reduction reduction, char* data, const char* updates, int64_t n, int64_t) {
  for (int64_t i = 0; i < n; ++i) {
    float a = 0, b = 0;
    convert(kType, data + 2 * i, DType::kF32, &a, 1);
    convert(kType, updates + 2 * i, DType::kF32, &b, 1);
    const float result = reduce(reduction, a, b);
    convert(DType::kF32, &result, kType, data + 2 * i, 1);
  }
}

// Sum and maximum are "or", product and minimum "and".
void merge_bools(Reduction reduction, char* data, const char* updates, int64_t n, int64_t) {
  const bool either = reduction == Reduction::kAdd || reduction == Reduction::kMax;
  for (int64_t i = 0; i < n; ++i) {
    const bool a = data[i] != 0, b = updates[i] != 0;
    data[i] = static_cast<char>(either ? a || b : a && b);
  }
}

void merge_by_copy(Reduction, char* data, const char* updates, int64_t n, int64_t size) {
  copy_block(data, updates, n * size);
}

// Null for types that have no arithmetic here.
Merge find_merge(Reduction reduction, DType dtype) {
  if (reduction == Reduction::kNone) return merge_by_copy;
  if (dtype == DType::kBool) return merge_bools;
  if (dtype == DType::kF16) return merge_halves<DType::kF16>;
  if (dtype == DType::kBF16) return merge_halves<DType::kBF16>;
  Merge merge = nullptr;
  with_number(dtype, [&](auto type) { merge = merge_numbers<decltype(type)>; });
  return merge;
}

Status check_scatter(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_dtype(c, 2, c.in(0).dtype));
  Reduction reduction;
  MINNOW_RETURN_IF_ERROR(find_reduction(c.attrs, &reduction));
  if (find_merge(reduction, c.in(0).dtype) == nullptr)
    return fail(Code::kUnsupported, "reduction '%s' of %s", c.attrs.s("reduction").c_str(), dtype_name(c.in(0).dtype));
  return infer_same(c);
}

// --- ScatterElements

Status infer_scatter_elements(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(check_elements(c, &axis));
  if (c.shape(2) != c.shape(1))
    return fail(Code::kFormat, "updates of shape %s for indices of shape %s", c.shape(2).str().c_str(),
                c.shape(1).str().c_str());
  return check_scatter(c);
}

void run_scatter_elements(const Attrs& attrs, const RunContext& c) {
  const Tensor &x = *c.in[0], &updates = *c.in[2];
  int axis = 0;
  Reduction reduction = Reduction::kNone;
  Status status = normalize_axis(attrs.i("axis", 0), x.rank(), &axis);
  if (status.ok()) status = find_reduction(attrs, &reduction);
  if (!status.ok()) return c.report(status);
  copy_bytes(x.data, c.out[0]->data, x.type.bytes(), c.pool);
  if (updates.count() == 0) return;
  const Merge merge = find_merge(reduction, x.type.dtype);
  IndexReader indices(*c.in[1]);
  const ElementLines lines(c.in[1]->shape(), x.shape(), axis);
  const int64_t dim = x.dim(axis), size = static_cast<int64_t>(dtype_size(x.type.dtype)), n = lines.length();
  const char* from = updates.as<char>();
  char* to = c.out[0]->as<char>();
  // Along the last axis every line is its own; else a block of lines is, whose updates must keep their order.
  const int64_t block = std::max<int64_t>(1, lines.block());
  c.pool->parallel_for(lines.lines() / block, (4 << 10) / (block * n) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin * block; line < end * block; ++line) {
      const int64_t base = lines.base(line);
      for (int64_t j = 0; j < n; ++j) {
        const int64_t k = indices.at(line * n + j, dim);
        if (k < 0) continue;
        merge(reduction, to + (base + j * lines.step() + k * lines.along()) * size, from + (line * n + j) * size, 1,
              size);
      }
    }
  });
  indices.report(c);
}

MINNOW_OP("ScatterElements", infer_scatter_elements);
MINNOW_KERNEL("ScatterElements", create_simple<run_scatter_elements>, LayoutRule::kPlain, /*in_place=*/true);

// --- ScatterND

Status infer_scatter_nd(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  const Shape &x = c.shape(0), &indices = c.shape(1);
  if (indices.rank() < 1 || indices.at(-1) > x.rank())
    return fail(Code::kFormat, "indices of shape %s for data of shape %s", indices.str().c_str(), x.str().c_str());
  const int width = static_cast<int>(indices.at(-1));
  MINNOW_RETURN_IF_ERROR(require_out_rank(indices.rank() - 1 + x.rank() - width));
  Shape wanted;
  for (int k = 0; k < indices.rank() - 1; ++k) wanted.push_back(indices[k]);
  for (int k = width; k < x.rank(); ++k) wanted.push_back(x[k]);
  if (c.shape(2) != wanted)
    return fail(Code::kFormat, "updates of shape %s; indices %s and data %s ask for %s", c.shape(2).str().c_str(),
                indices.str().c_str(), x.str().c_str(), wanted.str().c_str());
  return check_scatter(c);
}

void run_scatter_nd(const Attrs& attrs, const RunContext& c) {
  const Tensor &x = *c.in[0], &updates = *c.in[2];
  const Shape& indices = c.in[1]->shape();
  Reduction reduction = Reduction::kNone;
  const Status status = find_reduction(attrs, &reduction);
  if (!status.ok()) return c.report(status);
  copy_bytes(x.data, c.out[0]->data, x.type.bytes(), c.pool);
  if (updates.count() == 0) return;
  const Merge merge = find_merge(reduction, x.type.dtype);
  IndexReader reader(*c.in[1]);
  const auto stride = strides_of(x.shape());
  const int width = static_cast<int>(indices.at(-1));
  const int64_t size = static_cast<int64_t>(dtype_size(x.type.dtype)), block = x.shape().count(width, x.rank());
  // Two updates may have the same place, so they are written one after the other.
  for (int64_t i = 0; i < indices.count(0, indices.rank() - 1); ++i) {
    int64_t offset = 0;
    bool inside = true;
    for (int k = 0; k < width && inside; ++k) {
      const int64_t at = reader.at(i * width + k, x.dim(k));
      inside = at >= 0;
      offset += at * stride[static_cast<size_t>(k)];
    }
    if (inside)
      merge(reduction, c.out[0]->as<char>() + offset * size, updates.as<char>() + i * block * size, block, size);
  }
  reader.report(c);
}

MINNOW_OP("ScatterND", infer_scatter_nd);
MINNOW_KERNEL("ScatterND", create_simple<run_scatter_nd>, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace
}  // namespace minnow
