#include "runtime/src/fuse/operand_view.h"

#include <algorithm>

#include "kernels/core/sort.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

// op list: what OperandViews::step() reads through, beside views
constexpr std::string_view kMoves[] = {"Transpose", "Expand", "Split", "Gather", "Slice"};

}  // namespace

std::optional<double> OperandViews::number(int v) const {
  return graph_.type(v).dtype == DType::kF32 ? graph_.number(v) : std::nullopt;
}

// The contents of operand i, of constant integers.
std::optional<Ints> OperandViews::ints(const PlanNode& node, size_t i) const {
  if (i >= node.in.size() || node.in[i] < 0) return std::nullopt;
  const std::shared_ptr<const Tensor> tensor = graph_.contents(node.in[i]);
  Ints numbers;
  if (tensor == nullptr) return std::nullopt;
  if (!InferContext(*node.attrs, {&graph_.type(node.in[i])}, {tensor.get()}, nullptr).ints(0, &numbers).ok())
    return std::nullopt;
  return numbers;
}

bool OperandViews::is_scaling(int id, int* of, double* factor) const {
  const PlanNode& node = graph_.node(id);
  const std::string_view op = node.op->name;
  if ((op != "Mul" && op != "Div") || node.in.size() != 2 || graph_.type(node.out[0]).dtype != DType::kF32)
    return false;
  for (size_t i = op == "Div" ? 1 : 0; i < 2; ++i) {
    const std::optional<double> n = number(node.in[i]);
    if (!n || graph_.shape(node.in[1 - i]) != graph_.shape(node.out[0]) || number(node.in[1 - i])) continue;
    *of = node.in[1 - i];
    *factor = op == "Div" ? 1 / *n : *n;
    return true;
  }
  return false;
}

View OperandViews::base(int v) const {
  View view;
  view.value = v;
  int64_t stride = 1;
  for (int k = graph_.shape(v).rank(); k-- > 0;) {
    Factors dim;
    append(&dim, {graph_.shape(v)[k], stride});
    stride *= graph_.shape(v)[k];
    view.dims.insert(view.dims.begin(), std::move(dim));
  }
  return view;
}

// Value `v`, as the node makes it from its first operand. `view` shows that operand.
bool OperandViews::step(int id, int v, View* view) const {
  const PlanNode& node = graph_.node(id);
  const std::string_view op = node.op->name;
  if (graph_.is_view(id)) return view->reshape(graph_.shape(v));
  if (op == "Transpose") return view->transpose(*node.attrs), true;
  if (op == "Expand") return view->expand(graph_.shape(v));
  const int64_t axis = node.attrs->i("axis");
  if (op == "Split") {
    int64_t first = 0;
    for (int out : node.out) {
      if (out < 0) return false;
      const int64_t size = graph_.shape(out).at(static_cast<int>(axis));
      if (out == v) return view->narrow(axis, first, size);
      first += size;
    }
  }
  if (op == "Gather") {
    const std::optional<Ints> index = ints(node, 1);
    const int64_t size = graph_.shape(node.in[0]).at(static_cast<int>(axis));
    if (!index || index->size() != 1 || (*index)[0] < -size || (*index)[0] >= size) return false;
    return view->narrow(axis, ((*index)[0] + size) % size, 1) && view->reshape(graph_.shape(v));
  }
  if (op == "Slice") {
    const std::optional<Ints> starts = ints(node, 1), axes = ints(node, 3), steps = ints(node, 4);
    if (!starts || (node.in.size() > 3 && node.in[3] >= 0 && !axes) ||
        (node.in.size() > 4 && node.in[4] >= 0 && !steps))
      return false;
    for (size_t i = 0; i < starts->size(); ++i) {
      const int rank = graph_.shape(v).rank();
      const int k = static_cast<int>(axes ? (*axes)[i] : static_cast<int64_t>(i));
      const int64_t size = graph_.shape(node.in[0]).at(k);
      if ((steps && (*steps)[i] != 1) || k >= rank) return false;
      const int64_t start = (*starts)[i] < 0 ? std::max<int64_t>(0, (*starts)[i] + size) : (*starts)[i];
      if (!view->narrow(k, start, graph_.shape(v).at(k))) return false;
    }
    return true;
  }
  return false;
}

View OperandViews::view(int v, bool scaled, int depth) const {
  constexpr int kMostMoves = 64;
  const int maker = graph_.maker(v);
  if (depth == kMostMoves || maker < 0 || graph_.node(maker).op == nullptr || graph_.is_constant(v)) return base(v);
  const PlanNode& node = graph_.node(maker);
  int of = -1;
  double factor = 1;
  if (scaled && is_scaling(maker, &of, &factor)) {
    View result = view(of, scaled, depth + 1);
    result.scale *= factor;
    return result;
  }
  // Whatever else there is before it is not looked at: that may be the whole model.
  const bool moves = std::find(std::begin(kMoves), std::end(kMoves), node.op->name) != std::end(kMoves);
  if (!(moves || graph_.is_view(maker)) || node.in.empty() || node.in[0] < 0 ||
      graph_.type(node.in[0]).dtype != graph_.type(v).dtype)
    return base(v);
  if (graph_.type(v).count() == 0 || graph_.type(node.in[0]).count() == 0) return base(v);
  View result = view(node.in[0], scaled, depth + 1);
  return step(maker, v, &result) ? result : base(v);
}

std::optional<View> OperandViews::matrix(int v, const Shape& batch, bool transposed, bool scaled) const {
  for (View found : {view(v, scaled), base(v)}) {
    if (found.dims.size() < 2) return std::nullopt;
    Shape full = batch;
    const size_t rank = found.dims.size();
    full.push_back(size_of(found.dims[rank - 2]));
    full.push_back(size_of(found.dims[rank - 1]));
    if (full.rank() < static_cast<int>(rank) || !found.expand(full)) return std::nullopt;
    if (transposed) std::swap(found.dims.end()[-1], found.dims.end()[-2]);
    if (found.dims.end()[-1].size() <= 1 && found.dims.end()[-2].size() <= 1) return found;
  }
  return std::nullopt;
}

Destination OperandViews::destination(int value, const std::function<bool(const View&)>& accepts) const {
  View moved = base(value);
  Destination to = {moved, value};
  for (int v = value;;) {
    const int reader = graph_.only_reader(v);
    if (reader < 0 || graph_.node(reader).op == nullptr || graph_.node(reader).in[0] != v) break;
    const PlanNode* next = &graph_.node(reader);
    const bool transposes = std::string_view(next->op->name) == "Transpose";
    if (!(transposes || graph_.is_view(reader)) || !step(reader, next->out[0], &moved)) break;
    v = next->out[0];
    if (!transposes) continue;
    // The walk through the moved value, where strides are those of the first one, the other way around.
    Factors walk = moved.walk();
    const auto factor = [&](int64_t i) -> Factor& { return walk[static_cast<size_t>(i)]; };
    const auto order = order_of(static_cast<int64_t>(walk.size()),
                                [&](int64_t a, int64_t b) { return factor(a).stride > factor(b).stride; });
    int64_t stride = 1;
    for (size_t i = walk.size(); i-- > 0; stride *= walk[i].size) walk[i].stride = stride;
    View back;
    back.dims.resize(1);
    for (int64_t i : order) append(&back.dims[0], factor(i));
    if (!back.reshape(graph_.shape(value)) || !accepts(back)) continue;
    to = {back, v, reader};
  }
  return to;
}

}  // namespace minnow
