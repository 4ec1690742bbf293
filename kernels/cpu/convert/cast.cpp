// Cast, BitCast and CastLike.
#include <cstring>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

bool rounding_of(const Attrs& attrs, RoundingMode* out) {
  const std::string mode = attrs.s("round_mode", "up");
  *out = mode == "up" ? RoundingMode::kUp : mode == "down" ? RoundingMode::kDown : RoundingMode::kNearest;
  return *out != RoundingMode::kNearest || mode == "nearest";
}

Status check_rounding(const Attrs& attrs) {
  RoundingMode rounding;
  if (rounding_of(attrs, &rounding)) return ok();
  return fail(Code::kFormat, "there is no round_mode '%s'", attrs.s("round_mode", "").c_str());
}

Status infer_cast(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(check_rounding(c.attrs));
  if (!c.attrs.has("to")) return fail(Code::kFormat, "the attribute \"to\" is missing");
  c.set(0, c.attrs.get("to", DType::kF32), c.shape(0));
  return ok();
}

Status infer_cast_like(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(check_rounding(c.attrs));
  c.set(0, c.in(1).dtype, c.shape(0));
  return ok();
}

void run_cast(const Attrs& attrs, const RunContext& context) {
  const TensorType& from = context.in[0]->type;
  const TensorType& to = context.out[0]->type;
  const void* in = context.in[0]->data;
  void* out = context.out[0]->data;
  Storing how;
  how.saturate = attrs.get("saturate", true);
  rounding_of(attrs, &how.rounding);
  context.pool->parallel_for(stored_count(from), 16384, [&](int64_t begin, int64_t end, int) {
    convert(from.dtype, offset(in, begin, dtype_size(from.dtype)), to.dtype, offset(out, begin, dtype_size(to.dtype)),
            end - begin, how);
  });
}

int bits_of(DType t) {
  if (t == DType::kI4 || t == DType::kU4 || t == DType::kF4E2M1) return 4;
  if (t == DType::kI2 || t == DType::kU2) return 2;
  if (t == DType::kF6E2M3 || t == DType::kF6E3M2) return 6;
  return static_cast<int>(dtype_size(t)) * 8;
}

Status infer_bit_cast(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (!c.attrs.has("to")) return fail(Code::kFormat, "the attribute \"to\" is missing");
  const DType from = c.in(0).dtype, to = c.attrs.get("to", from);
  if (bits_of(from) != bits_of(to))
    return fail(Code::kFormat, "%s has %d bits, %s has %d", dtype_name(from), bits_of(from), dtype_name(to),
                bits_of(to));
  c.set(0, to, c.shape(0));
  return ok();
}

void run_bit_cast(const Attrs&, const RunContext& context) {
  const int64_t bytes = stored_bytes(context.in[0]->type);
  if (context.out[0]->data == context.in[0]->data || bytes == 0) return;
  std::memcpy(context.out[0]->data, context.in[0]->data, static_cast<size_t>(bytes));
}

MINNOW_OP("Cast", infer_cast, kView | kElementwise);
MINNOW_KERNEL("Cast", create_simple<run_cast>, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);
MINNOW_OP("BitCast", infer_bit_cast, kElementwise);
MINNOW_KERNEL("BitCast", create_simple<run_bit_cast>, LayoutRule::kFollow, /*in_place=*/true, nullptr,
              Pieces::kVectors);
MINNOW_OP("CastLike", infer_cast_like);
MINNOW_KERNEL("CastLike", create_simple<run_cast>, LayoutRule::kFollow, /*in_place=*/true);

}  // namespace
}  // namespace minnow
