// The ops ConvInteger, and QuantizedConv, which has three more inputs: what they take and give.
#include "kernels/core/infer.h"
#include "kernels/core/window.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/quant/requantize.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using LongLong = long long;

Status infer_sums_of_windows(InferContext& c, Shape* sums) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const Shape &x = c.shape(0), &w = c.shape(1);
  for (int i = 0; i < 2; ++i)
    if (!is_byte(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be u8 or i8, not %s", i, dtype_name(c.in(i).dtype));
  if (x.rank() < 3 || w.rank() != x.rank())
    return fail(Code::kFormat, "weights of shape %s for an input of shape %s: both need the same rank, 3 or more",
                w.str().c_str(), x.str().c_str());
  const int64_t group = c.attrs.i("group", 1);
  if (group < 1 || w[0] % group != 0 || x[1] % group != 0 || w[1] != x[1] / group)
    return fail(Code::kFormat, "weights of shape %s in %lld groups do not fit an input of shape %s", w.str().c_str(),
                static_cast<LongLong>(group), x.str().c_str());
  for (int i = 2; i < 4; ++i) {
    if (!c.has(i)) continue;
    if (c.in(i).dtype != c.in(i - 2).dtype)
      return fail(Code::kFormat, "zero point %d is %s, but its operand %s", i - 2, dtype_name(c.in(i).dtype),
                  dtype_name(c.in(i - 2).dtype));
    const int64_t zeros = c.shape(i).count();
    if (zeros != 1 && (i == 2 || zeros != w[0]))
      return fail(Code::kFormat, "zero point %d has shape %s", i - 2, c.shape(i).str().c_str());
  }
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window));
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(slide_window(window, x, false, &size));
  Shape out{x[0], w[0]};
  for (int i = 0; i < window.rank; ++i) out.push_back(size[Window::at(i)]);
  *sums = out;
  return ok();
}

Status infer_conv_integer(InferContext& c) {
  if (c.num_inputs() > 4) return fail(Code::kFormat, "takes 4 inputs, not %d", c.num_inputs());
  Shape sums;
  MINNOW_RETURN_IF_ERROR(infer_sums_of_windows(c, &sums));
  c.set(0, DType::kI32, sums);
  return ok();
}

Status infer_quantized_conv(InferContext& c) {
  Shape sums;
  DType to = DType::kI8;
  MINNOW_RETURN_IF_ERROR(infer_sums_of_windows(c, &sums));
  MINNOW_RETURN_IF_ERROR(infer_requantized(c, 4, sums, 1 - sums.rank(), &to));
  c.set(0, to, sums);
  return ok();
}

MINNOW_OP("ConvInteger", infer_conv_integer);
MINNOW_OP("QuantizedConv", infer_quantized_conv);

}  // namespace
}  // namespace minnow
