// Ops that make tensors from shapes and from few numbers: Shape, Size, Range, Fill, OneHot, EyeLike, Trilu.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/convert/operand.h"
#include "kernels/core/region.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// `count` copies of one element.
void fill(const void* value, void* dst, int64_t count, size_t element_size, ThreadPool* pool) {
  Region r;
  r.add(count, 0, 1);
  copy_region(r, value, dst, element_size, pool);
}

// --- Shape, Size

void shape_range(const Attrs& attrs, int rank, int* begin, int* end) {
  const auto place = [rank](int64_t at) {
    return static_cast<int>(std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank));
  };
  *begin = place(attrs.i("start", 0));
  *end = std::max(*begin, place(attrs.i("end", rank)));
}

Status infer_shape(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  int begin = 0, end = 0;
  shape_range(c.attrs, c.shape(0).rank(), &begin, &end);
  c.set(0, DType::kI64, {end - begin});
  return ok();
}

void run_shape(const Attrs& attrs, const RunContext& c) {
  int begin = 0, end = 0;
  shape_range(attrs, c.in[0]->rank(), &begin, &end);
  std::copy(c.in[0]->shape().begin() + begin, c.in[0]->shape().begin() + end, c.out[0]->as<int64_t>());
}

Status infer_size(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  c.set(0, DType::kI64, {});
  return ok();
}

void run_size(const Attrs&, const RunContext& c) { *c.out[0]->as<int64_t>() = c.in[0]->count(); }

MINNOW_OP("Shape", infer_shape, kTypeOnly);
MINNOW_KERNEL("Shape", create_simple<run_shape>);
MINNOW_OP("Size", infer_size, kTypeOnly);
MINNOW_KERNEL("Size", create_simple<run_size>);

// --- Range

// Elements of start, start + delta, ... before limit; -1 when there is no end to them.
template <typename T>
int64_t range_count(T start, T limit, T delta) {
  if (delta == 0) return -1;
  if constexpr (std::is_floating_point_v<T>) {
    const double n = std::ceil(static_cast<double>(limit - start) / static_cast<double>(delta));
    return n > 1e15 ? -1 : n > 0 ? static_cast<int64_t>(n) : 0;
  } else {
    using U = uint64_t;
    const U from = static_cast<U>(start), to = static_cast<U>(limit), by = static_cast<U>(delta);
    if (delta > 0) return limit > start ? static_cast<int64_t>((to - from - 1) / by + 1) : 0;
    return limit < start ? static_cast<int64_t>((from - to - 1) / (0 - by) + 1) : 0;
  }
}

Status infer_range(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  for (int i = 0; i < 3; ++i) {
    MINNOW_RETURN_IF_ERROR(require_dtype(c, i, c.in(0).dtype));
    if (c.in(i).count() != 1)
      return fail(Code::kFormat, "input %d must be one number, not %s", i, c.shape(i).str().c_str());
    if (c.value(i) == nullptr) return c.needs_value(i);
  }
  int64_t n = -1;
  const bool known = with_number(c.in(0).dtype, [&](auto type) {
    using T = decltype(type);
    n = range_count(*c.value(0)->as<T>(), *c.value(1)->as<T>(), *c.value(2)->as<T>());
  });
  if (!known) return fail(Code::kUnsupported, "a range of %s", dtype_name(c.in(0).dtype));
  if (n < 0) return fail(Code::kFormat, "the range has no end: delta is 0 or much too small");
  c.set(0, c.in(0).dtype, {n});
  return check_shape({n});
}

void run_range(const Attrs&, const RunContext& c) {
  with_number(c.in[0]->type.dtype, [&](auto type) {
    using T = decltype(type);
    const T start = *c.in[0]->as<T>(), delta = *c.in[2]->as<T>();
    T* y = c.out[0]->as<T>();
    for (int64_t i = 0; i < c.out[0]->count(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        y[i] = start + static_cast<T>(i) * delta;
      } else {
        y[i] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      }
    }
  });
}

MINNOW_OP("Range", infer_range);
MINNOW_KERNEL("Range", create_simple<run_range>);

// --- Fill

Status infer_fill(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.has(1) && c.in(1).count() != 1)
    return fail(Code::kFormat, "the value must be one element, not %s", c.shape(1).str().c_str());
  std::vector<int64_t> dims;
  MINNOW_RETURN_IF_ERROR(c.ints(0, &dims));
  MINNOW_RETURN_IF_ERROR(require_out_rank(static_cast<int64_t>(dims.size())));
  Shape y;
  for (int64_t d : dims) y.push_back(d);
  c.set(0, c.has(1) ? c.in(1).dtype : DType::kF32, y);
  return check_shape(y);
}

void run_fill(const Attrs&, const RunContext& c) {
  const float zero = 0;
  const void* value = c.in.size() > 1 && c.in[1] != nullptr ? c.in[1]->data : &zero;
  fill(value, c.out[0]->data, c.out[0]->count(), dtype_size(c.out[0]->type.dtype), c.pool);
}

MINNOW_OP("Fill", infer_fill);
MINNOW_KERNEL("Fill", create_simple<run_fill>);

// --- OneHot

// Indices and depth may be floats. What no int64 holds becomes a number that is out of any range.
int64_t whole_number(const Tensor& t, int64_t i) {
  if (!is_float(t.type.dtype)) return number_at<int64_t>(t, i);
  const double v = number_at<double>(t, i);
  return v > -1e18 && v < 1e18 ? static_cast<int64_t>(v) : int64_t{1} << 62;
}

Status infer_one_hot(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  if (c.in(1).count() != 1) return fail(Code::kFormat, "depth must be one number, not %s", c.shape(1).str().c_str());
  if (c.shape(2) != Shape{2})
    return fail(Code::kFormat, "values must be [off, on], not of shape %s", c.shape(2).str().c_str());
  const Shape& x = c.shape(0);
  MINNOW_RETURN_IF_ERROR(require_out_rank(x.rank() + 1));
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", -1), x.rank() + 1, &axis));
  if (c.value(1) == nullptr) return c.needs_value(1);
  const int64_t depth = whole_number(*c.value(1), 0);
  Shape y;
  for (int k = 0; k <= x.rank(); ++k) y.push_back(k < axis ? x[k] : k == axis ? depth : x[k - 1]);
  c.set(0, c.in(2).dtype, y);
  return check_shape(y);
}

void run_one_hot(const Attrs& attrs, const RunContext& c) {
  const Tensor& indices = *c.in[0];
  Tensor& y = *c.out[0];
  int axis = 0;
  const Status status = normalize_axis(attrs.i("axis", -1), y.rank(), &axis);
  if (!status.ok()) return c.report(status);
  const size_t size = dtype_size(y.type.dtype);
  const char* values = c.in[2]->as<char>();
  fill(values, y.data, y.count(), size, c.pool);
  const int64_t depth = y.dim(axis), inner = y.shape().count(axis + 1, y.rank());
  if (y.count() == 0) return;
  for (int64_t i = 0; i < indices.count(); ++i) {
    int64_t hot = whole_number(indices, i);
    if (hot < 0) hot += depth;
    if (hot < 0 || hot >= depth) continue;  // such a row is all off
    const int64_t at = (i / inner * depth + hot) * inner + i % inner;
    std::memcpy(y.as<char>() + at * static_cast<int64_t>(size), values + size, size);
  }
}

MINNOW_OP("OneHot", infer_one_hot);
MINNOW_KERNEL("OneHot", create_simple<run_one_hot>);

// --- EyeLike, Trilu

Status infer_eye_like(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 2, 2));
  const DType dtype = c.attrs.get<DType>("to", c.in(0).dtype);
  c.set(0, dtype, c.shape(0));
  return ok();
}

void run_eye_like(const Attrs& attrs, const RunContext& c) {
  Tensor& y = *c.out[0];
  const int64_t rows = y.dim(0), cols = y.dim(1);
  const int64_t k = std::clamp(attrs.i("k", 0), -rows, cols);
  if (y.count() == 0) return;
  std::memset(y.data, 0, static_cast<size_t>(y.type.bytes()));
  const int32_t number = 1;
  uint64_t one = 0;  // as the type has it
  convert(DType::kI32, &number, y.type.dtype, &one, 1);
  const size_t size = dtype_size(y.type.dtype);
  for (int64_t i = std::max<int64_t>(0, -k); i < rows && i + k < cols; ++i)
    std::memcpy(offset(y.data, i * cols + i + k, size), &one, size);
}

Status infer_trilu(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 2, kMaxRank));
  if (c.has(1)) {
    MINNOW_RETURN_IF_ERROR(require_int(c, 1));
    if (c.in(1).count() != 1) return fail(Code::kFormat, "k must be one number, not %s", c.shape(1).str().c_str());
  }
  return infer_same(c);
}

void run_trilu(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  if (x.count() == 0) return;
  const int64_t rows = x.dim(-2), cols = x.dim(-1);
  const int64_t k = c.in.size() > 1 && c.in[1] != nullptr ? std::clamp(IntView(*c.in[1])[0], -rows, cols) : 0;
  const bool upper = attrs.b("upper", true);
  const int64_t size = static_cast<int64_t>(dtype_size(x.type.dtype)), bytes = cols * size;
  auto part = [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const char* from = x.as<char>() + row * bytes;
      char* to = c.out[0]->as<char>() + row * bytes;
      // `edge` is the first element that the upper triangle keeps, or the first one that the lower one drops.
      const int64_t edge = std::clamp<int64_t>(row % rows + k + (upper ? 0 : 1), 0, cols) * size;
      if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
      upper ? std::memset(to, 0, static_cast<size_t>(edge))
            : std::memset(to + edge, 0, static_cast<size_t>(bytes - edge));
    }
  };
  c.pool->parallel_for(x.count() / cols, (64 << 10) / bytes + 1, part);
}

MINNOW_OP("EyeLike", infer_eye_like);
MINNOW_KERNEL("EyeLike", create_simple<run_eye_like>);
MINNOW_OP("Trilu", infer_trilu);
MINNOW_KERNEL("Trilu", create_simple<run_trilu>, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace
}  // namespace minnow
