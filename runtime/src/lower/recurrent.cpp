// Recurrent layers: the file's forms of weights, converted to ours.
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

const char* direction_of(int64_t directions) { return directions == 2 ? "bidirectional" : "forward"; }

// Our op has two biases that are added: the file's sum, then zeros.
Status expand_summed(Expansion& e) {
  if (e.rank(1) != 3 || e.rank(2) != 3 || e.rank(3) != 2)
    return fail(Code::kFormat, "weights of rank %d, %d, %d", e.rank(1), e.rank(2), e.rank(3));
  const int64_t directions = e.shape(1)[0];
  if (directions != 1 && directions != 2) return fail(Code::kFormat, "%d directions", static_cast<int>(directions));
  const int bias = e.add("Concat", {e.in(3), e.add("mnn.ZerosLike", {e.in(3)})}, {{"axis", int64_t{1}}});
  e.finish(e.attrs().s("op").c_str(), {e.in(0), e.in(1), e.in(2), bias, -1, e.in(4), e.in(5)},
           {{"hidden", e.shape(2)[2]}, {"direction", std::string(direction_of(directions))}});
  return ok();
}
MINNOW_LOWERING("mnn.Recurrent", expand_summed);

// Per direction: the gates' matrix [in + h, 2h] and bias, the candidate's [in + h, h] and bias, the bias of the state.
Status expand_gru(Expansion& e) {
  const int64_t directions = e.attrs().i("directions");
  Ints order = {1, 0};
  std::vector<int> w, r, b;
  int64_t hidden = 0;
  for (int64_t d = 0; d < directions; ++d) {
    const int at = static_cast<int>(1 + 5 * d);
    for (int i = at; i < at + 5; ++i)
      if (e.rank(i) != 2) return fail(Code::kFormat, "weights of rank %d", e.rank(i));
    hidden = e.shape(at)[1] / 2;
    const int64_t features = e.shape(at)[0] - hidden;
    if (hidden < 1 || features < 0) return fail(Code::kFormat, "gates of shape %s", e.shape(at).str().c_str());
    const int both = e.add("Concat", {e.in(at), e.in(at + 2)}, {{"axis", int64_t{1}}});
    const int rows = e.add("Unsqueeze", {e.add("Transpose", {both}, {{"perm", order}})}, {{"axes", Ints{0}}});
    const int split[] = {e.ints({0}), e.ints({features}), e.ints({features + hidden}), e.ints({2})};
    w.push_back(e.add("Slice", {rows, split[0], split[1], split[3]}));
    r.push_back(e.add("Slice", {rows, split[1], split[2], split[3]}));
    b.push_back(e.add("Concat", {e.in(at + 1), e.in(at + 3), e.in(at + 4)}, {{"axis", int64_t{1}}}));
  }
  const auto join = [&](const std::vector<int>& parts) {
    return parts.size() == 1 ? parts[0] : e.add("Concat", parts, {{"axis", int64_t{0}}});
  };
  const int state = e.in(static_cast<int>(1 + 5 * directions));
  const int weights = join(w), recurrent = join(r), bias = join(b);
  e.finish("GRU", {e.in(0), weights, recurrent, bias, -1, state},
           {{"hidden", hidden},
            {"direction", std::string(direction_of(directions))},
            {"linear_before_reset", e.attrs().b("linear_before_reset")}});
  return ok();
}
MINNOW_LOWERING("mnn.GRU", expand_gru);

}  // namespace
}  // namespace minnow
