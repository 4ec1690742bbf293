// Recognizes ops that a file has as several others, because the format has no bool or MNN's runtime computes another
// function under that name. Nodes that are no longer read are left for drop_unread.
#include "kernels/core/infer.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

// Operands of a node, or of none (-1).
class Speller {
 public:
  explicit Speller(PlanGraph& graph) : graph_(graph) {}

  void spell(int id);

 private:
  int in(int of, size_t i) const { return of < 0 || i >= graph_.node(of).in.size() ? -1 : graph_.node(of).in[i]; }
  // The node that makes operand i, if it is of this op.
  int made_by(int of, size_t i, std::string_view op) const {
    const int maker = graph_.maker(in(of, i));
    return graph_.is(maker, op) ? maker : -1;
  }
  bool is_number(int of, size_t i, double number) const;
  void set_input(int id, size_t i, int v) {
    std::vector<int> in = graph_.node(id).in;
    in[i] = v;
    graph_.set_inputs(id, std::move(in));
  }
  void become(int id, const char* op, std::vector<int> in, AttrList attrs = {}) {
    if (find_op(op) != nullptr) graph_.become(id, op, std::move(in), std::make_shared<const Attrs>(make_attrs(attrs)));
  }
  void see_through_identities(int id);
  void spell_comparison(int id, bool equal);
  void spell_indices(int id);
  void spell_choice(int id);

  PlanGraph& graph_;
};

// Whether operand i is this one number.
bool Speller::is_number(int of, size_t i, double number) const { return graph_.number(in(of, i)) == number; }

// Reads what has become the same value.
void Speller::see_through_identities(int id) {
  for (size_t i = 0; i < graph_.node(id).in.size(); ++i) {
    const int identity = made_by(id, i, "Identity");
    if (identity < 0) continue;
    const TensorType &same = graph_.type(in(identity, 0)), &now = graph_.type(in(id, i));
    if (same.dtype == now.dtype && same.shape == now.shape) set_input(id, i, in(identity, 0));
  }
}

// Equal and NotEqual with 0, of a bool as a number.
void Speller::spell_comparison(int id, bool equal) {
  const int cast = made_by(id, 0, "Cast"), from = in(cast, 0);
  if (cast < 0 || graph_.type(from).dtype != DType::kBool || !is_number(id, 1, 0)) return;
  if (graph_.shape(from) == graph_.shape(graph_.node(id).out[0])) become(id, equal ? "Not" : "Identity", {from});
}

// Indices counted from the front: max(i, i mod n), but n where i < -n. Here any may be negative.
void Speller::spell_indices(int id) {
  const int outside = made_by(id, 1, "Where"), test = made_by(outside, 0, "Greater");
  const int most = made_by(outside, 2, "Max"), mod = made_by(most, 1, "Mod");
  if (test < 0 || mod < 0 || graph_.node(mod).attrs->b("fmod")) return;
  const int index = in(mod, 0);
  int axis = 0;
  const Shape& shape = graph_.shape(in(id, 0));
  if (in(test, 1) != index || in(most, 0) != index || graph_.shape(index) != graph_.shape(in(id, 1)) ||
      !normalize_axis(graph_.node(id).attrs->i("axis", 0), shape.rank(), &axis).ok())
    return;
  const auto n = static_cast<double>(shape[axis]);
  if (is_number(mod, 1, n) && is_number(outside, 1, n) && is_number(test, 0, -n)) set_input(id, 1, index);
}

// Where, as Max and Min that keep what is no number, and as Round to the even neighbor.
void Speller::spell_choice(int id) {
  int test = made_by(id, 0, "LessOrEqual"), most = made_by(id, 1, "Max");
  if (most < 0) most = made_by(id, 1, "Min");
  if (test >= 0 && most >= 0 && in(test, 0) == in(test, 1) && in(id, 2) == in(test, 0) &&
      in(most, 0) == in(test, 0)) {  // what is no number stays so here, as ONNX asks for
    const PlanNode& node = graph_.node(most);
    return become(id, node.op->name, std::vector<int>(node.in));
  }
  test = made_by(id, 0, "Equal");
  const int away = made_by(id, 2, "Round"), apart = made_by(made_by(test, 0, "Abs"), 0, "Sub");
  const int twice = made_by(id, 1, "Mul"), half = made_by(made_by(twice, 0, "Round"), 0, "Mul");
  if (away < 0 || apart < 0 || half < 0) return;
  const int x = in(away, 0);
  if (in(half, 0) != x || graph_.node(apart).in != std::vector<int>{x, graph_.node(away).out[0]}) return;
  if (graph_.node(away).attrs->s("halves") != "away") return;
  if (is_number(test, 1, 0.5) && is_number(half, 1, 0.5) && is_number(twice, 1, 2))
    become(id, "Round", {x}, {{"halves", "even"}});
}

void Speller::spell(int id) {
  const auto* spec = graph_.node(id).op;
  if (spec == nullptr) return;
  see_through_identities(id);
  const std::string_view op = spec->name;
  if (op == "Equal" || op == "NotEqual") {
    spell_comparison(id, op == "Equal");
  } else if (op == "Cast") {
    const int round = made_by(id, 0, "RoundTo");  // which rounds to what is asked for here
    const DType to = graph_.type(graph_.node(id).out[0]).dtype;
    if (round >= 0 && graph_.node(round).attrs->get("to", DType::kF16) == to) set_input(id, 0, in(round, 0));
  } else if (op == "Gather" || op == "GatherElements" || op == "ScatterElements") {
    spell_indices(id);
  } else if (op == "And") {
    int least = made_by(id, 0, "GreaterOrEqual"), most = made_by(id, 1, "LessOrEqual");
    if (least < 0) least = made_by(id, 1, "GreaterOrEqual"), most = made_by(id, 0, "LessOrEqual");
    if (least >= 0 && most >= 0 && graph_.node(least).in == graph_.node(most).in)
      become(id, "Equal", std::vector<int>(graph_.node(least).in));
  } else if (op == "Where") {
    spell_choice(id);
  }
}

}  // namespace

void fuse_spelled(PlanGraph& graph) {
  Speller speller(graph);
  for (int i = 0; i < graph.size(); ++i) speller.spell(i);
}

}  // namespace minnow
