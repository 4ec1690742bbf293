// Attention written out as matrix products around a Softmax becomes one node, which reads its operands where they lie:
// what transposes, splits, slices, repeats or scales them beforehand is not run.
#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/core/sort.h"
#include "runtime/src/plan/planner.h"
#include "runtime/src/fuse/view.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

bool reshapes(std::string_view op) {
  return op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "ExpandDims" || op == "Flatten" ||
         op == "Identity";
}

// AttentionFinder::step() knows it.
bool moves(std::string_view op) {
  return reshapes(op) || op == "Transpose" || op == "Expand" || op == "Split" || op == "Gather" || op == "Slice";
}

// Where a value is written: how it lies in another one.
struct Destination {
  View view;
  int value;
};

// Rows and columns have one stride each, and columns are side by side.
bool is_of_matrices(const View& view) {
  const size_t rank = view.dims.size();
  const Factors &rows = view.dims[rank - 2], &columns = view.dims[rank - 1];
  return rows.size() <= 1 && columns.size() <= 1 && (columns.empty() || columns[0].stride == 1);
}

// As [batch, heads of keys, heads that share these, length, size]: of [batch, length, features], or of [batch, heads,
// length, size].
bool part_heads(View* view, int64_t kv, int64_t group) {
  std::vector<int64_t> sizes;
  for (const Factors& dim : view->dims) sizes.push_back(size_of(dim));
  Shape parts;
  const bool joined = sizes.size() == 3;
  if (joined) {
    parts = {sizes[0], sizes[1], kv, group, sizes[2] / (kv * group)};
  } else {
    parts = {sizes[0], sizes[1] == 1 ? 1 : kv, sizes[1] == 1 ? 1 : group, sizes[2], sizes[3]};
  }
  if (!view->reshape(parts)) return false;
  if (joined) std::rotate(view->dims.begin() + 1, view->dims.begin() + 2, view->dims.begin() + 4);
  return true;
}

// Some of the heads that lie side by side in [batch, length, features].
bool take_heads(View* view, int64_t heads, int64_t first, int64_t count) {
  if (view->dims.size() != 3) return false;
  const int64_t batch = size_of(view->dims[0]), length = size_of(view->dims[1]), size = size_of(view->dims[2]) / heads;
  return view->reshape({batch, length, heads, size}) && view->narrow(2, first, count) &&
         view->reshape({batch, length, count * size});
}

class AttentionFinder {
 public:
  AttentionFinder(std::vector<PlanNode>& nodes, std::vector<PlanValue>& values, std::vector<std::vector<int>> readers)
      : nodes_(nodes), values_(values), readers_(std::move(readers)), maker_(values.size(), -1) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (int v : nodes[i].out)
        if (v >= 0) maker_[static_cast<size_t>(v)] = static_cast<int>(i);
  }

  // The node that does the work around this Softmax, and which node it takes the place of.
  std::optional<PlanNode> find(size_t softmax, size_t* place) const;
  // The same for a node of attention that something moves the operands or the result of.
  std::optional<PlanNode> reread(size_t attention, size_t* place) const;

  // Puts a node in the place of another one, and keeps in step what is known of who reads and makes what.
  void replace(size_t place, PlanNode node) {
    const auto index = static_cast<int>(place);
    for (int v : nodes_[place].in)
      if (v >= 0)
        readers_of(v).erase(std::remove(readers_of(v).begin(), readers_of(v).end(), index), readers_of(v).end());
    for (int v : nodes_[place].out)
      if (v >= 0 && maker_[static_cast<size_t>(v)] == index) maker_[static_cast<size_t>(v)] = -1;
    for (int v : node.in)
      if (v >= 0) readers_of(v).insert(readers_of(v).begin(), index);
    for (int v : node.out)
      if (v >= 0) maker_[static_cast<size_t>(v)] = index;
    nodes_[place] = std::move(node);
  }

 private:
  std::vector<int>& readers_of(int v) { return readers_[static_cast<size_t>(v)]; }
  const TensorType& type(int v) const { return values_[static_cast<size_t>(v)].type; }
  const Shape& shape(int v) const { return type(v).shape; }
  const PlanNode* maker(int v) const {
    const int i = v < 0 ? -1 : maker_[static_cast<size_t>(v)];
    return i < 0 || nodes_[static_cast<size_t>(i)].op == nullptr ? nullptr : &nodes_[static_cast<size_t>(i)];
  }
  const PlanNode* only_reader(int v, int* index) const {
    const std::vector<int>& r = readers_[static_cast<size_t>(v)];
    if (r.size() != 1 || r[0] < 0 || nodes_[static_cast<size_t>(r[0])].op == nullptr) return nullptr;
    *index = r[0];
    return &nodes_[static_cast<size_t>(r[0])];
  }
  std::optional<double> number(int v) const;
  std::optional<Ints> ints(const PlanNode& node, size_t i) const;
  bool is_scaling(const PlanNode& node, int* of, double* factor) const;
  bool leads_to_product(int v, const Shape& scores) const;
  View base(int v) const;
  View view(int v, bool scaled) const;
  bool step(const PlanNode& node, int v, View* view) const;
  std::optional<View> matrix(int v, const Shape& batch, bool transposed, bool scaled) const;
  Destination destination(int value, size_t* place, const std::function<bool(const View&)>& accepts) const;
  std::optional<PlanNode> assemble(const PlanNode& like, const std::vector<View>& operands, int result,
                                   Attrs attrs) const;

  std::vector<PlanNode>& nodes_;
  std::vector<PlanValue>& values_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> maker_;
};

// A constant of one float.
std::optional<double> AttentionFinder::number(int v) const {
  const PlanValue& value = values_[static_cast<size_t>(v)];
  std::shared_ptr<const Tensor> tensor;
  if (value.constant == nullptr || value.type.dtype != DType::kF32 || value.type.count() != 1) return std::nullopt;
  if (!value.constant->acquire(&tensor).ok()) return std::nullopt;
  return *tensor->as<float>();
}

// The contents of operand i, of constant integers.
std::optional<Ints> AttentionFinder::ints(const PlanNode& node, size_t i) const {
  if (i >= node.in.size() || node.in[i] < 0) return std::nullopt;
  const PlanValue& value = values_[static_cast<size_t>(node.in[i])];
  std::shared_ptr<const Tensor> tensor;
  Ints numbers;
  if (value.constant == nullptr || !value.constant->acquire(&tensor).ok()) return std::nullopt;
  if (!InferContext(*node.attrs, {&value.type}, {tensor.get()}, nullptr).ints(0, &numbers).ok()) return std::nullopt;
  return numbers;
}

// A product with, or a quotient by a constant number.
bool AttentionFinder::is_scaling(const PlanNode& node, int* of, double* factor) const {
  const std::string_view op = node.op->name;
  if ((op != "Mul" && op != "Div") || node.in.size() != 2 || type(node.out[0]).dtype != DType::kF32) return false;
  for (size_t i = op == "Div" ? 1 : 0; i < 2; ++i) {
    const std::optional<double> n = number(node.in[i]);
    if (!n || shape(node.in[1 - i]) != shape(node.out[0]) || number(node.in[1 - i])) continue;
    *of = node.in[1 - i];
    *factor = op == "Div" ? 1 / *n : *n;
    return true;
  }
  return false;
}

View AttentionFinder::base(int v) const {
  View view;
  view.value = v;
  int64_t stride = 1;
  for (int k = shape(v).rank(); k-- > 0;) {
    Factors dim;
    append(&dim, {shape(v)[k], stride});
    stride *= shape(v)[k];
    view.dims.insert(view.dims.begin(), std::move(dim));
  }
  return view;
}

// Value `v`, as `node` makes it from its first operand. `view` shows that operand.
bool AttentionFinder::step(const PlanNode& node, int v, View* view) const {
  const std::string_view op = node.op->name;
  if (reshapes(op)) return view->reshape(shape(v));
  if (op == "Transpose") return view->transpose(*node.attrs), true;
  if (op == "Expand") return view->expand(shape(v));
  const int64_t axis = node.attrs->i("axis");
  if (op == "Split") {
    int64_t first = 0;
    for (int out : node.out) {
      if (out < 0) return false;
      const int64_t size = shape(out).at(static_cast<int>(axis));
      if (out == v) return view->narrow(axis, first, size);
      first += size;
    }
  }
  if (op == "Gather") {
    const std::optional<Ints> index = ints(node, 1);
    const int64_t size = shape(node.in[0]).at(static_cast<int>(axis));
    if (!index || index->size() != 1 || (*index)[0] < -size || (*index)[0] >= size) return false;
    return view->narrow(axis, ((*index)[0] + size) % size, 1) && view->reshape(shape(v));
  }
  if (op == "Slice") {
    const std::optional<Ints> starts = ints(node, 1), axes = ints(node, 3), steps = ints(node, 4);
    if (!starts || (node.in.size() > 3 && node.in[3] >= 0 && !axes) ||
        (node.in.size() > 4 && node.in[4] >= 0 && !steps))
      return false;
    for (size_t i = 0; i < starts->size(); ++i) {
      const int rank = shape(v).rank();
      const int k = static_cast<int>(axes ? (*axes)[i] : static_cast<int64_t>(i));
      const int64_t size = shape(node.in[0]).at(k);
      if ((steps && (*steps)[i] != 1) || k >= rank) return false;
      const int64_t start = (*starts)[i] < 0 ? std::max<int64_t>(0, (*starts)[i] + size) : (*starts)[i];
      if (!view->narrow(k, start, shape(v).at(k))) return false;
    }
    return true;
  }
  return false;
}

View AttentionFinder::view(int v, bool scaled) const {
  const PlanNode* node = maker(v);
  if (node == nullptr || values_[static_cast<size_t>(v)].constant != nullptr) return base(v);
  int of = -1;
  double factor = 1;
  if (scaled && is_scaling(*node, &of, &factor)) {
    View result = view(of, scaled);
    result.scale *= factor;
    return result;
  }
  // Whatever else there is before it is not looked at: that may be the whole model.
  if (!moves(node->op->name) || node->in.empty() || node->in[0] < 0 || type(node->in[0]).dtype != type(v).dtype)
    return base(v);
  if (type(v).count() == 0 || type(node->in[0]).count() == 0) return base(v);
  View result = view(node->in[0], scaled);
  return step(*node, v, &result) ? result : base(v);
}

// An operand of a product, repeated to the product's batch. Its two matrix dims, the last ones, have one stride each.
std::optional<View> AttentionFinder::matrix(int v, const Shape& batch, bool transposed, bool scaled) const {
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

// Whether value `v` is made from the product of Q and K, and by nothing but masks and scales.
bool AttentionFinder::leads_to_product(int v, const Shape& scores) const {
  const PlanNode* node = maker(v);
  int of = -1;
  double factor = 1;
  if (node == nullptr || readers_[static_cast<size_t>(v)].size() != 1 || shape(v) != scores) return false;
  if (std::string_view(node->op->name) == "MatMul") return true;
  if (is_scaling(*node, &of, &factor)) return leads_to_product(of, scores);
  return std::string_view(node->op->name) == "Add" &&
         (leads_to_product(node->in[0], scores) || leads_to_product(node->in[1], scores));
}

std::optional<PlanNode> AttentionFinder::find(size_t softmax, size_t* place) const {
  const PlanNode& root = nodes_[softmax];
  if (root.op == nullptr || std::string_view(root.op->name) != "Softmax" || root.out[0] < 0) return std::nullopt;
  const Shape scores = shape(root.out[0]);
  const int rank = scores.rank();
  const int64_t axis = root.attrs->i("axis", -1);
  if (rank < 2 || type(root.out[0]).dtype != DType::kF32 || (axis != -1 && axis != rank - 1)) return std::nullopt;

  // The product with V.
  int after = -1;
  const PlanNode* weighted = only_reader(root.out[0], &after);
  if (weighted == nullptr || std::string_view(weighted->op->name) != "MatMul" || weighted->in[0] != root.out[0] ||
      weighted->attrs->b("transpose_a") || shape(weighted->in[1]).rank() < 2)
    return std::nullopt;

  // What makes the scores: masks and scales, up to the product of Q and K.
  double scale = 1, mask_scale = 1, fill = 0;
  bool scaled_after_mask = false;
  std::optional<bool> keep;
  std::vector<int> masks;
  int condition = -1;
  const PlanNode* product = nullptr;
  for (int v = root.in[0];;) {
    const PlanNode* node = maker(v);
    int index = -1;
    if (node == nullptr || only_reader(v, &index) == nullptr || shape(v) != scores) return std::nullopt;
    const std::string_view op = node->op->name;
    int of = -1;
    double factor = 1;
    if (op == "MatMul") {
      product = node;
      break;
    }
    if (is_scaling(*node, &of, &factor)) {
      scale *= factor;
      // Of the masks this scales those that are added before it, which must then be all of them.
      if (masks.empty()) mask_scale *= factor;
      scaled_after_mask = scaled_after_mask || !masks.empty();
      v = of;
    } else if (op == "Add" && !scaled_after_mask) {
      const size_t side = leads_to_product(node->in[0], scores) ? 0 : 1;
      masks.push_back(node->in[1 - side]);
      v = node->in[side];
    } else if (op == "Where" && masks.empty() && !keep && scale == 1) {
      const std::optional<double> yes = number(node->in[1]), no = number(node->in[2]);
      if (yes.has_value() == no.has_value() || type(node->in[0]).dtype != DType::kBool) return std::nullopt;
      keep = no.has_value();
      fill = yes ? *yes : *no;
      condition = node->in[0];
      v = node->in[yes ? 2 : 1];
    } else {
      return std::nullopt;
    }
  }
  if (shape(product->in[0]).rank() < 2 || shape(product->in[1]).rank() < 2) return std::nullopt;
  for (int v : {product->in[0], product->in[1], weighted->in[1], weighted->out[0]})
    if (type(v).dtype != DType::kF32 || type(v).count() == 0) return std::nullopt;

  Shape batch;
  for (int i = 0; i + 2 < rank; ++i) batch.push_back(scores[i]);
  Shape weighted_batch;
  for (int i = 0; i + 2 < shape(weighted->out[0]).rank(); ++i) weighted_batch.push_back(shape(weighted->out[0])[i]);
  if (weighted_batch != batch) return std::nullopt;
  std::vector<View> operands;
  const auto take = [&](std::optional<View> view) {
    if (view) operands.push_back(std::move(*view));
    return view.has_value();
  };
  if (!take(matrix(product->in[0], batch, product->attrs->b("transpose_a"), true)) ||
      !take(matrix(product->in[1], batch, !product->attrs->b("transpose_b"), true)) ||
      !take(matrix(weighted->in[1], batch, weighted->attrs->b("transpose_b"), false)))
    return std::nullopt;
  scale *= operands[0].scale * operands[1].scale;
  if (condition >= 0) masks.push_back(condition);
  for (int v : masks) {
    View found = view(v, false);
    if (!found.expand(scores) || found.dims.end()[-1].size() > 1 || found.dims.end()[-2].size() > 1) {
      found = base(v);
      if (shape(v).rank() > rank || !found.expand(scores)) return std::nullopt;
    }
    if (type(v).dtype != (v == condition ? DType::kBool : DType::kF32)) return std::nullopt;
    operands.push_back(std::move(found));
  }

  *place = static_cast<size_t>(after);
  const Destination to = destination(weighted->out[0], place, is_of_matrices);
  operands.push_back(to.view);

  Attrs attrs;
  attrs.set("scale", scale);
  attrs.set("mask_scale", mask_scale);
  if (keep) {
    attrs.set("keep", *keep);
    attrs.set("fill", fill);
  }
  return assemble(*weighted, operands, to.value, std::move(attrs));
}

// Where the value goes: to the end of what moves it about, as long as the strides of its dims are of a form that is
// accepted. `place` becomes the last of the nodes that do so.
Destination AttentionFinder::destination(int value, size_t* place,
                                         const std::function<bool(const View&)>& accepts) const {
  View moved = base(value);
  Destination to = {moved, value};
  for (int v = value, index = -1;;) {
    const PlanNode* next = only_reader(v, &index);
    if (next == nullptr || next->in[0] != v) break;
    const bool transposes = std::string_view(next->op->name) == "Transpose";
    if (!(transposes || reshapes(next->op->name)) || !step(*next, next->out[0], &moved)) break;
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
    if (!back.reshape(shape(value)) || !accepts(back)) continue;
    to = {back, v};
    *place = static_cast<size_t>(index);
  }
  return to;
}

// The node that does the work, in the place of `node`: of queries, keys, values, masks and the result, each with the
// two dims of its matrices last.
std::optional<PlanNode> AttentionFinder::assemble(const PlanNode& like, const std::vector<View>& operands, int result,
                                                  Attrs attrs) const {
  std::vector<Factors> walks;
  for (const View& view : operands) {
    Factors all;
    for (size_t k = 0; k + 2 < view.dims.size(); ++k)
      for (const Factor& f : view.dims[k]) append(&all, f);
    walks.push_back(std::move(all));
  }
  Ints sizes;
  std::vector<Ints> strides;
  if (!align(std::move(walks), &sizes, &strides)) return std::nullopt;

  const auto lies = [&](size_t i) {
    const View& view = operands[i];
    // V is [keys, width] like all others, of which K has been turned to [keys, depth].
    const Factors &row = view.dims.end()[-2], &column = view.dims.end()[-1];
    Ints numbers = {view.offset, row.empty() ? 0 : row[0].stride, column.empty() ? 1 : column[0].stride};
    numbers.insert(numbers.end(), strides[i].begin(), strides[i].end());
    return numbers;
  };
  const Shape& whole = shape(result);
  attrs.set("shape", Ints(whole.begin(), whole.end()));
  attrs.set("batch", sizes);
  attrs.set("rows", size_of(operands[0].dims.end()[-2]));
  attrs.set("keys", size_of(operands[1].dims.end()[-2]));
  attrs.set("depth", size_of(operands[0].dims.end()[-1]));
  attrs.set("width", size_of(operands[2].dims.end()[-1]));
  attrs.set("q", lies(0));
  attrs.set("k", lies(1));
  attrs.set("v", lies(2));
  attrs.set("out", lies(operands.size() - 1));
  PlanNode node = like;
  node.op = find_op("FusedAttention");
  node.in.clear();
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    node.in.push_back(operands[i].value);
    if (i >= 3) attrs.set("mask" + std::to_string(i - 3), lies(i));
  }
  node.attrs = std::make_shared<const Attrs>(std::move(attrs));
  node.out = {result};
  node.types.clear();
  return node;
}

std::optional<PlanNode> AttentionFinder::reread(size_t attention, size_t* place) const {
  const PlanNode& node = nodes_[attention];
  const auto in = [&](size_t i) { return i < node.in.size() ? node.in[i] : -1; };
  const int64_t heads = node.attrs->i("num_heads"), some = node.attrs->i("num_kv_heads");
  const int64_t kv = some == 0 ? heads : some, group = heads / kv;
  const bool packed = in(1) < 0;
  // What is kept or broadcast is left to the node itself.
  if (node.out.size() != 1 || in(3) >= 0) return std::nullopt;
  bool moved = false;
  std::vector<View> operands;
  for (size_t i = 0; i < std::max<size_t>(3, node.in.size()); ++i) {
    const int v = in(packed && i < 3 ? 0 : i);
    if (v < 0) continue;
    std::optional<View> found;
    for (View candidate : {i < 3 ? view(v, i < 2 && !packed) : base(v), base(v)}) {
      if (i >= 3) candidate.dims.insert(candidate.dims.begin(), 4 - candidate.dims.size(), Factors());
      if (packed && i < 3) {
        const int64_t first = i == 0 ? 0 : heads + (static_cast<int64_t>(i) - 1) * kv;
        if (!take_heads(&candidate, heads + 2 * kv, first, i == 0 ? heads : kv)) continue;
      }
      if (!part_heads(&candidate, kv, i == 0 || i >= 3 ? group : 1)) continue;
      if (candidate.dims[3].size() > 1 || candidate.dims[4].size() > 1) continue;
      if (i == 1 || i == 2) append(&candidate.dims[2], {group, 0});
      found = std::move(candidate);
      break;
    }
    if (!found || type(v).count() == 0) return std::nullopt;
    moved = moved || found->value != v;
    operands.push_back(std::move(*found));
  }
  const auto size = [&](size_t i, size_t dim) { return size_of(operands[i].dims[dim]); };
  if (size(1, 0) != size(0, 0) || size(2, 0) != size(0, 0) || size(1, 3) != size(2, 3)) return std::nullopt;
  for (size_t i = 3; i < operands.size(); ++i) {
    const int64_t full[] = {size(0, 0), kv, group, size(0, 3), size(1, 3)};
    for (size_t d = 0; d < 5; ++d) {
      if (size(i, d) == full[d]) continue;
      if (size(i, d) != 1) return std::nullopt;
      operands[i].dims[d] = {{full[d], 0}};
    }
  }
  *place = attention;
  Destination to =
      destination(node.out[0], place, [&](View view) { return part_heads(&view, kv, group) && is_of_matrices(view); });
  if ((!moved && to.value == node.out[0]) || !part_heads(&to.view, kv, group)) return std::nullopt;
  Attrs attrs;
  attrs.merge(*node.attrs);
  attrs.set("scale", node.attrs->f("scale") * operands[0].scale * operands[1].scale);
  attrs.set("causal", node.attrs->b("causal") ? int64_t{0} : int64_t{-1});
  if (!node.attrs->has("fill")) attrs.set("fill", -static_cast<double>(__builtin_inff()));
  operands.push_back(to.view);
  return assemble(node, operands, to.value, std::move(attrs));
}

}  // namespace

void Planner::fuse_attention() {
  bool found = false;
  std::optional<AttentionFinder> finder;  // made once: it looks at all nodes
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string_view op = nodes_[i].op == nullptr ? "" : nodes_[i].op->name;
    if (op != "Softmax" && op != "Attention") continue;
    if (!finder) finder.emplace(nodes_, stage_.values, readers());
    size_t place = 0;
    std::optional<PlanNode> node = op == "Softmax" ? finder->find(i, &place) : finder->reread(i, &place);
    if (!node) continue;
    finder->replace(place, std::move(*node));
    found = true;
  }
  if (found) drop_dead();
}

}  // namespace minnow
