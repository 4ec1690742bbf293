// Lowering that depends on the element types of the inputs, or on numbers that are given as an operand.
#include <algorithm>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

bool is_bool(const Expansion& e, int i) { return e.type(i).dtype == DType::kBool; }

// The value as bool: what is not 0 is true.
int as_bool(Expansion& e, int i) { return is_bool(e, i) ? e.in(i) : e.add("Cast", {e.in(i)}, {{"to", DType::kBool}}); }

Status expand_logic(Expansion& e, const char* op) {
  e.finish(op, {as_bool(e, 0), as_bool(e, 1)});
  return ok();
}
MINNOW_LOWERING("mnn.Or", [](Expansion& e) { return expand_logic(e, "Or"); });
MINNOW_LOWERING("mnn.Xor", [](Expansion& e) { return expand_logic(e, "Xor"); });

// Floats: the remainder of C. Integers: the sign of the divisor.
Status expand_mod(Expansion& e) {
  e.finish("Mod", {e.in(0), e.in(1)}, {{"fmod", is_float(e.type(0).dtype)}});
  return ok();
}
MINNOW_LOWERING("mnn.Mod", expand_mod);

// The other way round.
Status expand_floor_mod(Expansion& e) {
  e.finish("Mod", {e.in(0), e.in(1)}, {{"fmod", !is_float(e.type(0).dtype)}});
  return ok();
}
MINNOW_LOWERING("mnn.FloorMod", expand_floor_mod);

Status expand_select(Expansion& e) {
  e.finish("Where", {as_bool(e, 0), e.in(1), e.in(2)});
  return ok();
}
MINNOW_LOWERING("mnn.Select", expand_select);

Status expand_zeros_like(Expansion& e) {
  const int zero = e.zero(e.type(0).dtype);
  e.finish("Fill", {e.add("Shape", {e.in(0)}), zero});
  return ok();
}
MINNOW_LOWERING("mnn.ZerosLike", expand_zeros_like);

// Zeros of a shape, of the type of the second input.
Status expand_zeros(Expansion& e) {
  e.finish("Fill", {e.in(0), e.zero(e.type(1).dtype)});
  return ok();
}
MINNOW_LOWERING("mnn.Zeros", expand_zeros);

Status expand_rank(Expansion& e) {
  const int shape = e.add("Shape", {e.in(0)});
  e.finish("Size", {shape});
  return ok();
}
MINNOW_LOWERING("mnn.Rank", expand_rank);

Status expand_arg_where(Expansion& e) {
  e.finish("Transpose", {e.add("NonZero", {e.in(0)})}, {{"perm", std::vector<int64_t>{1, 0}}});
  return ok();
}
MINNOW_LOWERING("mnn.ArgWhere", expand_arg_where);

// What a graph gives: of the type the source model says; in foreign files, which know no wider integers, of 32 bits.
Status expand_output(Expansion& e) {
  const DType from = e.type(0).dtype;
  const DType narrow = from == DType::kI64 || from == DType::kBool ? DType::kI32 : from;
  const DType to = e.attrs().get<DType>("to", narrow);
  if (to == from) {
    e.finish("Identity", {e.in(0)});
  } else {
    e.finish("Cast", {e.in(0)}, {{"to", to}});
  }
  return ok();
}
MINNOW_LOWERING("mnn.Output", expand_output);

// The last input holds the numbers of an attribute.
Status expand_with_ints(Expansion& e) {
  std::vector<int64_t> values;
  const int last = e.num_inputs() - 1;
  MINNOW_RETURN_IF_ERROR(e.ints(last, &values));
  const std::string attr = e.attrs().s("mnn.attr");
  Attrs attrs;
  attrs.merge(e.attrs(), "mnn.");
  if (attr == "axes") {
    attrs.set(attr, values);
  } else if (values.size() == 1) {
    attrs.set(attr, values[0]);
  } else {
    return fail(Code::kFormat, "%s must be one number, not %zu", attr.c_str(), values.size());
  }
  std::vector<int> inputs;
  for (int i = 0; i < last; ++i) inputs.push_back(e.in(i));
  e.finish(e.attrs().s("mnn.op").c_str(), inputs, std::move(attrs));
  return ok();
}
MINNOW_LOWERING("mnn.WithInts", expand_with_ints);

// A slope per channel: [C] becomes [C, 1, 1...].
Status expand_prelu(Expansion& e) {
  const int64_t n = e.shape(1).count();
  Shape shape{n};
  if (n > 1) shape.resize(std::max(1, e.rank(0) - 1), 1);
  const std::vector<int64_t> dims(shape.begin(), shape.end());
  e.finish("PRelu", {e.in(0), e.add("Reshape", {e.in(1), e.ints(dims)})});
  return ok();
}
MINNOW_LOWERING("mnn.PRelu", expand_prelu);

// As many axes at the end as are listed; the vectors of scales and shifts get the shape of these axes.
Status expand_layer_norm(Expansion& e) {
  const auto count = static_cast<int>(e.attrs().ints("axes").size());
  const int rank = e.rank(0);
  if (count < 1 || count > rank) return fail(Code::kFormat, "it normalizes %d axes of %d", count, rank);
  const Shape x = e.shape(0);
  const std::vector<int64_t> tail(x.begin() + (rank - count), x.end());
  std::vector<int> inputs = {e.in(0)};
  const bool rms = e.attrs().b("rms");
  for (int i = 1; i <= (rms ? 1 : 2); ++i) inputs.push_back(e.has(i) ? e.add("Reshape", {e.in(i), e.ints(tail)}) : -1);
  const AttrList attrs = {{"axis", int64_t{-count}}, {"epsilon", e.attrs().f("epsilon")}};
  if (rms && e.has(2)) {
    const int beta = e.add("Reshape", {e.in(2), e.ints(tail)});
    e.finish("Add", {e.add("RMSNorm", inputs, attrs), beta});
  } else {
    e.finish(rms ? "RMSNorm" : "LayerNorm", inputs, attrs);
  }
  return ok();
}
MINNOW_LOWERING("mnn.LayerNorm", expand_layer_norm);

}  // namespace
}  // namespace minnow
