// Attention written out as matrix products around a Softmax becomes one node, which reads its operands as strided
// views: the nodes that transpose, split, slice, repeat or scale them are not run.
#include <algorithm>
#include <optional>

#include "runtime/src/fuse/operand_view.h"
#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

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

// The node that does the work around a Softmax, or in the place of one of attention.
class AttentionFinder {
 public:
  explicit AttentionFinder(const PlanGraph& graph) : graph_(graph), views_(graph) {}

  // The node that does the work around this Softmax, and which node it takes the place of.
  std::optional<PlanNode> find(int softmax, int* place) const;
  // The same for a node of attention that something moves the operands or the result of.
  std::optional<PlanNode> reread(int attention, int* place) const;

 private:
  const TensorType& type(int v) const { return graph_.type(v); }
  const Shape& shape(int v) const { return graph_.shape(v); }
  bool leads_to_product(int v, const Shape& scores, int depth = 0) const;
  std::optional<PlanNode> assemble(const PlanNode& like, const std::vector<View>& operands, int result,
                                   Attrs attrs) const;

  const PlanGraph& graph_;
  OperandViews views_;
};

// Whether value `v` is made from the product of Q and K, and by nothing but masks and scales.
bool AttentionFinder::leads_to_product(int v, const Shape& scores, int depth) const {
  constexpr int kMostMasks = 64;  // and scales
  if (depth > kMostMasks) return false;
  const int maker = graph_.maker(v);
  int of = -1;
  double factor = 1;
  if (maker < 0 || graph_.node(maker).op == nullptr || graph_.readers(v).size() != 1 || shape(v) != scores)
    return false;
  if (graph_.is(maker, "MatMul")) return true;
  if (views_.is_scaling(maker, &of, &factor)) return leads_to_product(of, scores, depth + 1);
  const std::vector<int>& in = graph_.node(maker).in;
  return graph_.is(maker, "Add") &&
         (leads_to_product(in[0], scores, depth + 1) || leads_to_product(in[1], scores, depth + 1));
}

std::optional<PlanNode> AttentionFinder::find(int softmax, int* place) const {
  const PlanNode& root = graph_.node(softmax);
  if (root.out[0] < 0) return std::nullopt;
  const Shape scores = shape(root.out[0]);
  const int rank = scores.rank();
  const int64_t axis = root.attrs->i("axis", -1);
  if (rank < 2 || type(root.out[0]).dtype != DType::kF32 || (axis != -1 && axis != rank - 1)) return std::nullopt;

  // The product with V.
  const int after = graph_.only_reader(root.out[0]);
  if (!graph_.is(after, "MatMul")) return std::nullopt;
  const PlanNode* weighted = &graph_.node(after);
  if (weighted->in[0] != root.out[0] || weighted->attrs->b("transpose_a") || shape(weighted->in[1]).rank() < 2)
    return std::nullopt;

  // What makes the scores: masks and scales, up to the product of Q and K.
  double scale = 1, mask_scale = 1, fill = 0;
  bool scaled_after_mask = false;
  std::optional<bool> keep;
  std::vector<int> masks;
  int condition = -1;
  const PlanNode* product = nullptr;
  for (int v = root.in[0];;) {
    const int maker = graph_.maker(v);
    if (maker < 0 || graph_.only_reader(v) < 0 || shape(v) != scores) return std::nullopt;
    const PlanNode* node = &graph_.node(maker);
    if (node->op == nullptr) return std::nullopt;
    const std::string_view op = node->op->name;
    int of = -1;
    double factor = 1;
    if (op == "MatMul") {
      product = node;
      break;
    }
    if (views_.is_scaling(maker, &of, &factor)) {
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
      const std::optional<double> yes = views_.number(node->in[1]), no = views_.number(node->in[2]);
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
  if (!take(views_.matrix(product->in[0], batch, product->attrs->b("transpose_a"), true)) ||
      !take(views_.matrix(product->in[1], batch, !product->attrs->b("transpose_b"), true)) ||
      !take(views_.matrix(weighted->in[1], batch, weighted->attrs->b("transpose_b"), false)))
    return std::nullopt;
  scale *= operands[0].scale * operands[1].scale;
  if (condition >= 0) masks.push_back(condition);
  for (int v : masks) {
    View found = views_.view(v, false);
    if (!found.expand(scores) || found.dims.end()[-1].size() > 1 || found.dims.end()[-2].size() > 1) {
      found = views_.base(v);
      if (shape(v).rank() > rank || !found.expand(scores)) return std::nullopt;
    }
    if (type(v).dtype != (v == condition ? DType::kBool : DType::kF32)) return std::nullopt;
    operands.push_back(std::move(found));
  }

  const Destination to = views_.destination(weighted->out[0], is_of_matrices);
  *place = to.last < 0 ? after : to.last;
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

std::optional<PlanNode> AttentionFinder::reread(int attention, int* place) const {
  const PlanNode& node = graph_.node(attention);
  const auto in = [&](size_t i) { return i < node.in.size() ? node.in[i] : -1; };
  const int64_t heads = node.attrs->i("num_heads", 1), some = node.attrs->i("num_kv_heads");
  const int64_t kv = some == 0 ? heads : some;
  if (heads < 1 || kv < 1) return std::nullopt;
  const int64_t group = heads / kv;
  const bool packed = in(1) < 0;
  // What is kept or broadcast is left to the node itself.
  if (node.out.size() != 1 || in(3) >= 0) return std::nullopt;
  bool moved = false;
  std::vector<View> operands;
  for (size_t i = 0; i < std::max<size_t>(3, node.in.size()); ++i) {
    const int v = in(packed && i < 3 ? 0 : i);
    if (v < 0) continue;
    if (type(v).count() == 0) return std::nullopt;
    std::optional<View> found;
    for (View candidate : {i < 3 ? views_.view(v, i < 2 && !packed) : views_.base(v), views_.base(v)}) {
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
    if (!found) return std::nullopt;
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
  Destination to =
      views_.destination(node.out[0], [&](View view) { return part_heads(&view, kv, group) && is_of_matrices(view); });
  *place = to.last < 0 ? attention : to.last;
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

void fuse_attention(PlanGraph& graph) {
  const AttentionFinder finder(graph);
  bool found = false;
  for (int i = 0; i < graph.size(); ++i) {
    const bool softmax = graph.is(i, "Softmax");
    if (!softmax && !graph.is(i, "Attention")) continue;
    int place = 0;
    std::optional<PlanNode> node = softmax ? finder.find(i, &place) : finder.reread(i, &place);
    if (!node) continue;
    graph.replace(place, std::move(*node));
    found = true;
  }
  if (found) graph.drop_unread();
}

}  // namespace minnow
