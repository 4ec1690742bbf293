// RoundTo: floats with the precision and the range of a narrower type.
#include <algorithm>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

Status infer_round_to(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const DType dtype = c.in(0).dtype, to = c.attrs.get("to", DType::kF32);
  if (!is_float(dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(dtype));
  if (to != DType::kF16 && to != DType::kBF16)
    return fail(Code::kFormat, "numbers are rounded to those of f16 or bf16, not of %s", dtype_name(to));
  c.set(0, dtype, c.shape(0));
  return ok();
}

void run_round_to(const Attrs& attrs, const RunContext& context) {
  const TensorType& type = context.in[0]->type;
  const DType to = attrs.get("to", DType::kF16);
  const size_t size = dtype_size(type.dtype);
  context.pool->parallel_for(stored_count(type), 16384, [&](int64_t begin, int64_t end, int) {
    Block block;
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      convert(type.dtype, offset(static_cast<const void*>(context.in[0]->data), i, size), to, block.bytes, n);
      convert(to, block.bytes, type.dtype, offset(context.out[0]->data, i, size), n);
    }
  });
}

MINNOW_OP("RoundTo", infer_round_to, kElementwise);
MINNOW_KERNEL("RoundTo", create_simple<run_round_to>, LayoutRule::kFollow, /*in_place=*/true, nullptr,
              Pieces::kVectors);

}  // namespace
}  // namespace minnow
