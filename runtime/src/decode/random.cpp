// Random numbers.
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_random(Decoder& d, const char* op, const char* low, const char* high) {
  const auto* main = d.main<wire::RandomUniform>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  DType to = DType::kF32;
  MINNOW_RETURN_IF_ERROR(to_dtype(main->type(), &to));
  // Without a seed each op still has its own sequence of numbers.
  const int64_t given = main->seed() ^ main->seed2(), seed = given != 0 ? given : d.out(0) + 1;
  d.finish(
      op, {d.in(0)},
      {{low, static_cast<double>(main->low())}, {high, static_cast<double>(main->high())}, {"seed", seed}, {"to", to}});
  return ok();
}

Status decode_uniform(Decoder& d) { return decode_random(d, "RandomUniform", "low", "high"); }
MINNOW_DECODE(RandomUniform, decode_uniform);

Status decode_normal(Decoder& d) { return decode_random(d, "RandomNormal", "mean", "scale"); }
MINNOW_DECODE(RandomNormal, decode_normal);

}  // namespace
}  // namespace minnow
