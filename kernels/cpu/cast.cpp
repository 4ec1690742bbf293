// Cast, CastLike and Identity.
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/infer.h"

namespace minnow {
namespace {

Status infer_cast(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (!c.attrs.has("to")) return fail(Code::kFormat, "the attribute \"to\" is missing");
  c.set(0, c.attrs.get("to", DType::kF32), c.shape(0));
  return ok();
}

Status infer_cast_like(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  c.set(0, c.in(1).dtype, c.shape(0));
  return ok();
}

void run_cast(const Attrs&, const RunContext& context) {
  const TensorType& from = context.in[0]->type;
  const TensorType& to = context.out[0]->type;
  const void* in = context.in[0]->data;
  void* out = context.out[0]->data;
  context.pool->parallel_for(stored_count(from), 16384, [&](int64_t begin, int64_t end, int) {
    convert(from.dtype, offset(in, begin, dtype_size(from.dtype)), to.dtype, offset(out, begin, dtype_size(to.dtype)),
            end - begin);
  });
}

MINNOW_OP("Cast", infer_cast, create_simple<run_cast>, LayoutRule::kFollow, /*in_place=*/true);
MINNOW_OP("CastLike", infer_cast_like, create_simple<run_cast>, LayoutRule::kFollow, /*in_place=*/true);

}  // namespace
}  // namespace minnow
