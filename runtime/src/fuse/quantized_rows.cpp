// A product with quantized weights is a convolution in the file, since the format has such weights there alone: of
// images whose pixels are the rows of a matrix, which is transposed before and after. Here it is the product again,
// which reads the weights once for few rows.
#include "runtime/src/fuse/operand_view.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

// A convolution of each pixel alone by quantized weights, without a residual.
bool is_quantized_pointwise(const PlanGraph& graph, const PlanNode& conv) {
  const int w = conv.in.size() > 1 ? conv.in[1] : -1;
  if (conv.in.size() > kResidual || w < 0 || !graph.is_constant(w) || !graph.value(w).is_static) return false;
  const QuantizedMatrix* matrix = graph.value(w).constant->quantized();
  const TensorType &x = graph.type(conv.in[0]), &y = graph.type(conv.out[0]);
  const Shape& weights = graph.shape(w);
  if (matrix == nullptr || x.dtype != DType::kF32 || x.shape.rank() != 4 || weights.rank() != 4) return false;
  if (conv.in.size() > 2 && conv.in[2] >= 0 && !graph.is_constant(conv.in[2])) return false;
  return weights[1] == x.shape[1] && weights[2] == 1 && weights[3] == 1 && matrix->rows == weights[0] &&
         x.shape[0] == y.shape[0] && x.shape[2] == y.shape[2] && x.shape[3] == y.shape[3] && x.shape.count() > 0 &&
         y.shape.count() > 0;
}

// Whether the image, as the view shows it, is rows of channels one after the other.
bool is_rows(View view) {
  if (view.scale != 1 || view.offset != 0 || view.dims.size() != 4) return false;
  view.dims.push_back(view.dims[1]);
  view.dims.erase(view.dims.begin() + 1);
  const Factors walk = view.walk();
  return walk.empty() || (walk.size() == 1 && walk[0].stride == 1);
}

// The rows that an image is made of by moves alone: a value of this shape; -1 where there is none.
int rows_of(const PlanGraph& graph, const OperandViews& views, int image, const Shape& shape) {
  const View view = views.view(image, false);
  if (!is_rows(view) || graph.shape(view.value).count() != graph.shape(image).count()) return -1;
  for (int v = image;;) {
    if (graph.shape(v) == shape) {
      // It is not moved, seen from where the image comes from.
      const Factors walk = views.view(v, false).walk();
      if (walk.empty() || (walk.size() == 1 && walk[0].stride == 1)) return v;
    }
    if (v == view.value) return -1;
    v = graph.node(graph.maker(v)).in[0];
  }
}

// The product that the convolution is, of these rows; its output is still to be set.
PlanNode product_of(PlanGraph& graph, const PlanNode& conv, int rows) {
  PlanValue matrix = graph.value(conv.in[1]);
  matrix.type.shape = Shape{matrix.type.shape[0], matrix.type.shape[1]};
  matrix.constant = Constant::in_shape(matrix.constant, matrix.type.shape);
  PlanNode product = conv;
  product.op = find_op("Linear");
  product.in[0] = rows;
  product.in[1] = graph.add_value(std::move(matrix));
  return product;
}

// Images that come from rows, and become rows again.
void replace_moved_rows(PlanGraph& graph) {
  bool found = false;
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Conv") || !is_quantized_pointwise(graph, graph.node(i))) continue;
    const PlanNode conv = graph.node(i);
    const OperandViews views(graph);
    const Destination to = views.destination(conv.out[0], is_rows);
    if (to.last < 0) continue;
    Shape rows = graph.shape(to.value);
    const Shape& weights = graph.shape(conv.in[1]);
    if (rows.rank() < 1 || rows.at(-1) != weights[0]) continue;
    rows[rows.rank() - 1] = weights[1];
    const int x = rows_of(graph, views, conv.in[0], rows);
    if (x < 0) continue;
    PlanNode product = product_of(graph, conv, x);
    product.out = {to.value};
    graph.replace(to.last, std::move(product));
    found = true;
  }
  if (found) graph.drop_unread();
}

// Images of one pixel are rows as they are.
void replace_pixels(PlanGraph& graph) {
  const auto is_pixel = [&](int id) {
    if (!graph.is(id, "Conv") || !is_quantized_pointwise(graph, graph.node(id))) return false;
    const Shape& x = graph.shape(graph.node(id).in[0]);
    return x[2] == 1 && x[3] == 1;
  };
  bool found = false;
  for (int i = 0; i < graph.size() && !found; ++i) found = is_pixel(i);
  const auto *squeeze = find_op("Squeeze"), *unsqueeze = find_op("Unsqueeze");
  if (!found || squeeze == nullptr || unsqueeze == nullptr) return;
  const auto axes = std::make_shared<const Attrs>(make_attrs({{"axes", std::vector<int64_t>{2, 3}}}));
  const auto rows_like = [&](int v) {
    PlanValue rows = graph.value(v);
    rows.type.shape = Shape{rows.type.shape[0], rows.type.shape[1]};
    return graph.add_value(std::move(rows));
  };
  std::vector<PlanNode> nodes;
  for (int i = 0; i < graph.size(); ++i) {
    PlanNode node = graph.node(i);
    if (is_pixel(i)) {
      PlanNode before = node, after = node;
      before.op = squeeze, after.op = unsqueeze;
      before.attrs = after.attrs = axes;
      before.part = node.part * (1 << 16) + (1 << 14) + 1, after.part = before.part + 1;
      before.in = {node.in[0]};
      before.out = {rows_like(node.in[0])};
      PlanNode product = product_of(graph, node, before.out[0]);
      product.out = after.in = {rows_like(node.out[0])};
      nodes.push_back(std::move(before));
      nodes.push_back(std::move(product));
      node = std::move(after);
    }
    nodes.push_back(std::move(node));
  }
  graph.reset(std::move(nodes));
}

}  // namespace

void fuse_quantized_rows(PlanGraph& graph) {
  replace_moved_rows(graph);
  replace_pixels(graph);
}

}  // namespace minnow
