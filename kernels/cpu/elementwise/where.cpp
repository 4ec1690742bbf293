// Where: a choice between two operands, element by element. Elements are moved, not computed, so only their size
// counts.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/elementwise/frame.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

Status infer_where(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  if (c.num_inputs() > 3) return fail(Code::kFormat, "takes 3 inputs, not %d", c.num_inputs());
  if (c.in(0).dtype != DType::kBool)
    return fail(Code::kFormat, "the condition must be bool, not %s", dtype_name(c.in(0).dtype));
  if (c.in(1).dtype != c.in(2).dtype)
    return fail(Code::kFormat, "the operands are of two types, %s and %s", dtype_name(c.in(1).dtype),
                dtype_name(c.in(2).dtype));
  Shape shape;
  for (int i = 0; i < 3; ++i) {
    Shape joined;
    MINNOW_RETURN_IF_ERROR(broadcast_shapes(shape, c.shape(i), &joined));
    shape = joined;
  }
  c.set(0, c.in(1).dtype, shape);
  return ok();
}

// With the steps as constants, so that the common cases are vectorized.
template <typename T, int StepA, int StepB>
void choose(const uint8_t* cond, const T* a, const T* b, T* out, int64_t n) {
  const T first_a = *a;
  const T first_b = *b;
  for (int64_t i = 0; i < n; ++i) {
    const T x = StepA ? a[i] : first_a;
    const T y = StepB ? b[i] : first_b;
    out[i] = cond[i] != 0 ? x : y;
  }
}

template <typename T>
void rows(const void* const* in, const int* step, void* out, int64_t n) {
  const uint8_t* cond = static_cast<const uint8_t*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  if (step[0] == 0) {
    const T* source = *cond != 0 ? a : b;
    if ((*cond != 0 ? step[1] : step[2]) == 0) {
      std::fill_n(y, n, *source);
    } else {
      std::memcpy(y, source, static_cast<size_t>(n) * sizeof(T));
    }
  } else if (step[1] != 0) {
    step[2] != 0 ? choose<T, 1, 1>(cond, a, b, y, n) : choose<T, 1, 0>(cond, a, b, y, n);
  } else {
    step[2] != 0 ? choose<T, 0, 1>(cond, a, b, y, n) : choose<T, 0, 0>(cond, a, b, y, n);
  }
}

RowKernel choose_where(const NodeContext& node) {
  RowKernel kernel;
  kernel.native = kernel.takes_single = true;
  switch (dtype_size(node.in[1]->dtype)) {
    case 1:
      kernel.function = rows<uint8_t>;
      break;
    case 2:
      kernel.function = rows<uint16_t>;
      break;
    case 4:
      kernel.function = rows<uint32_t>;
      break;
    default:
      kernel.function = rows<uint64_t>;
  }
  return kernel;
}

MINNOW_OP("Where", infer_where, kElementwise);
MINNOW_KERNEL("Where", create_rows<choose_where>, LayoutRule::kElementwise, /*in_place=*/false, nullptr, Pieces::kRows);

}  // namespace
}  // namespace minnow
