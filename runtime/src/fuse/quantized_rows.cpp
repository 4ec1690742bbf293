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

// Images one pixel wide: rows, with channels before them. Where others move them about, too, rows are made for each
// product; of one row that is no copy.
void replace_lines(PlanGraph& graph) {
  const auto *squeeze = find_op("Squeeze"), *unsqueeze = find_op("Unsqueeze"), *transpose = find_op("Transpose");
  if (squeeze == nullptr || unsqueeze == nullptr || transpose == nullptr) return;
  const auto is_line = [&](int id) {
    return graph.is(id, "Conv") && graph.node(id).has_parts() && is_quantized_pointwise(graph, graph.node(id)) &&
           graph.shape(graph.node(id).in[0])[3] == 1;
  };
  bool found = false;
  for (int i = 0; i < graph.size() && !found; ++i) found = is_line(i);
  if (!found) return;
  using Ints = std::vector<int64_t>;
  const auto pixel = std::make_shared<const Attrs>(make_attrs({{"axes", Ints{2, 3}}}));
  const auto line = std::make_shared<const Attrs>(make_attrs({{"axes", Ints{3}}}));
  const auto turn = std::make_shared<const Attrs>(make_attrs({{"perm", Ints{0, 2, 1}}}));
  const auto value_of = [&](int like, const Shape& shape) {
    PlanValue value = graph.value(like);
    value.type.shape = shape;
    return graph.add_value(std::move(value));
  };
  std::vector<PlanNode> nodes;
  std::map<int, int> rows_of_image;
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_line(i)) {
      nodes.push_back(graph.node(i));
      continue;
    }
    const PlanNode conv = graph.node(i);
    int64_t part = conv.part_number(1 << 14);
    const auto add = [&](const OpSpec* op, const std::shared_ptr<const Attrs>& attrs, int in, int out) {
      PlanNode node = conv;
      node.op = op;
      node.attrs = attrs;
      node.part = ++part;
      node.in = {in};
      node.out = {out};
      nodes.push_back(std::move(node));
      return out;
    };
    const int image = conv.in[0], y = conv.out[0];
    const Shape x = graph.shape(image), out = graph.shape(y);
    const bool one = x[2] == 1;
    const auto known = rows_of_image.find(image);
    int rows = known == rows_of_image.end() ? -1 : known->second;
    if (rows < 0 && one) rows = add(squeeze, pixel, image, value_of(image, Shape{x[0], x[1]}));
    if (rows < 0) {
      const int squeezed = add(squeeze, line, image, value_of(image, Shape{x[0], x[1], x[2]}));
      rows = add(transpose, turn, squeezed, value_of(image, Shape{x[0], x[2], x[1]}));
    }
    rows_of_image[image] = rows;
    PlanNode product = product_of(graph, conv, rows);
    const int made = value_of(y, one ? Shape{out[0], out[1]} : Shape{out[0], out[2], out[1]});
    product.out = {made};
    nodes.push_back(std::move(product));
    if (one) {
      add(unsqueeze, pixel, made, y);
    } else {
      add(unsqueeze, line, add(transpose, turn, made, value_of(y, Shape{out[0], out[1], out[2]})), y);
    }
  }
  graph.reset(std::move(nodes));
}

}  // namespace

void fuse_quantized_rows(PlanGraph& graph) {
  replace_moved_rows(graph);
  replace_lines(graph);
}

}  // namespace minnow
