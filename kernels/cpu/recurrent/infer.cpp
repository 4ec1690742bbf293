// What LSTM, DynamicLSTM, GRU and RNN take and give.
#include <algorithm>

#include "kernels/core/gate_function.h"
#include "kernels/core/infer.h"
#include "kernels/core/op_spec.h"
#include "kernels/cpu/recurrent/operands.h"

namespace minnow {
namespace {

using Layer = RecurrentLayer;

Status check_shape(const InferContext& c, int i, const char* name, const Shape& expected) {
  if (!c.has(i) || c.shape(i) == expected) return ok();
  return fail(Code::kFormat, "%s has the shape %s, not %s", name, c.shape(i).str().c_str(), expected.str().c_str());
}

Status check_bytes(const InferContext& c, int i, int64_t directions, int64_t columns) {
  const DType type = c.in(kW + i).dtype;
  if (type != DType::kI8 && type != DType::kU8) return fail(Code::kFormat, "weights of %s", dtype_name(type));
  if (!c.has(kScales + i)) return fail(Code::kFormat, "the scale of weights is missing");
  for (int k : {kScales + i, kZeros + i}) {
    if (!c.has(k)) continue;
    const DType wanted = k < kZeros ? DType::kF32 : type;
    if (c.in(k).dtype != wanted) return fail(Code::kFormat, "input %d is %s", k, dtype_name(c.in(k).dtype));
    if (!(c.shape(k) == Shape{directions}) && !(c.shape(k) == Shape{directions, columns}))
      return fail(Code::kFormat, "input %d has the shape %s", k, c.shape(k).str().c_str());
  }
  return ok();
}

Status infer_recurrent(InferContext& c, Layer layer, bool dynamic) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  if (c.num_inputs() > (dynamic ? kDynamicInputs : kInputs))
    return fail(Code::kFormat, "takes no %d inputs", c.num_inputs());
  const DType dtype = c.in(kX).dtype;
  const std::string direction = c.attrs.s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return fail(Code::kFormat, "direction \"%s\" is unknown", direction.c_str());
  if (dynamic && dtype != DType::kF32) return fail(Code::kFormat, "an input of %s", dtype_name(dtype));
  for (int i = 0; i < std::min<int>(kInputs, c.num_inputs()); ++i) {
    if (!c.has(i) || (dynamic && is_weight(i))) continue;
    if (i == kLens ? c.in(i).dtype != DType::kI32 && c.in(i).dtype != DType::kI64
                   : c.in(i).dtype != dtype || !is_float(dtype))
      return fail(Code::kFormat, "input %d is %s beside an input 0 of %s", i, dtype_name(c.in(i).dtype),
                  dtype_name(dtype));
  }
  if (c.shape(kX).rank() != 3 || c.shape(kR).rank() != 3)
    return fail(Code::kFormat,
                "the input must be [time, batch, features] and the recurrent weights [D, gates H, H], not %s and %s",
                c.shape(kX).str().c_str(), c.shape(kR).str().c_str());
  const int64_t steps = c.shape(kX)[0], batch = c.shape(kX)[1], features = c.shape(kX)[2];
  const int64_t d = directions_of(c.attrs), h = c.shape(kR)[dynamic ? 1 : 2], g = gates_of(layer);
  if (h < 1 || c.attrs.i("hidden", h) != h)
    return fail(Code::kFormat, "a hidden size of %lld, and recurrent weights of shape %s",
                static_cast<long long>(c.attrs.i("hidden", h)), c.shape(kR).str().c_str());
  MINNOW_RETURN_IF_ERROR(check_shape(c, kW, "w", dynamic ? Shape{d, features, g * h} : Shape{d, g * h, features}));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kR, "r", dynamic ? Shape{d, h, g * h} : Shape{d, g * h, h}));
  for (int i = 0; i < (dynamic ? 2 : 0); ++i) MINNOW_RETURN_IF_ERROR(check_bytes(c, i, d, g * h));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kBias, "b", {d, 2 * g * h}));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kLens, "lens", {batch}));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kH0, "h0", {d, batch, h}));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kC0, "c0", {d, batch, h}));
  MINNOW_RETURN_IF_ERROR(check_shape(c, kPeephole, "p", {d, 3 * h}));
  std::vector<GateFunction> functions;
  MINNOW_RETURN_IF_ERROR(read_gate_functions(c.attrs, layer, static_cast<int>(d), &functions));
  c.set(0, dtype, {steps, d, batch, h});
  c.set(1, dtype, {d, batch, h});
  c.set(2, dtype, {d, batch, h});
  return ok();
}

template <Layer layer, bool dynamic = false>
Status infer(InferContext& c) {
  return infer_recurrent(c, layer, dynamic);
}

MINNOW_OP("LSTM", infer<Layer::kLstm>);
MINNOW_OP("DynamicLSTM", (infer<Layer::kLstm, true>));
MINNOW_OP("GRU", infer<Layer::kGru>);
MINNOW_OP("RNN", infer<Layer::kRnn>);

}  // namespace
}  // namespace minnow
