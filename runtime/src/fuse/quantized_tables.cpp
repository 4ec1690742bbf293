// What follows a layer of a quantized network element by element, as a part of the layer: a function of its bytes (an
// activation, another scale), and the sum with another tensor.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

constexpr int64_t kBytes = 256, kLayerSize = 16384, kLayerWindow = 128, kLayerElements = int64_t{1} << 28;
constexpr size_t kInputs = 7;  // of the layers, before these

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

bool is_small(const std::vector<int64_t>& numbers, int64_t most) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t v) { return v >= 0 && v <= most; });
}

bool is_there(const PlanNode& node, size_t i) { return i < node.in.size() && node.in[i] >= 0; }

// A layer that kernels with such parts take for certain; larger ones are rare.
bool is_layer(const PlanGraph& graph, int id) {
  const bool conv = graph.is(id, "QuantizedConv");
  if (!conv && !graph.is(id, "QuantizedMatMul")) return false;
  const PlanNode& node = graph.node(id);
  if (node.in.size() > kInputs || node.out.size() != 1 || !is_byte(graph.type(node.out[0]).dtype)) return false;
  for (size_t i = 1; i < node.in.size(); ++i)
    if (i != 2 && node.in[i] >= 0 && !graph.is_constant(node.in[i])) return false;
  if (is_there(node, 2) && graph.shape(node.in[2]).count() != 1) return false;
  const Shape &x = graph.shape(node.in[0]), &w = graph.shape(node.in[1]), &y = graph.shape(node.out[0]);
  if (x.count() == 0 || y.count() == 0 || std::max(x.count(), y.count()) > kLayerElements) return false;
  if (!conv) return x.rank() >= 2 && w.rank() == 2 && w.count() > 0;
  const auto within = [&](const Shape& image) {
    for (int i = 2; i < image.rank(); ++i)
      if (image[i] > kLayerSize) return false;
    return true;
  };
  return (x.rank() == 3 || x.rank() == 4) && within(x) && within(y) && w.count(2, w.rank()) <= kLayerWindow &&
         is_small(node.attrs->ints("dilations"), 4) && is_small(node.attrs->ints("strides"), kLayerWindow) &&
         is_small(node.attrs->ints("pads"), kLayerWindow);
}

bool is_table(const PlanGraph& graph, int v, bool of_bytes) {
  if (v < 0 || !graph.is_constant(v) || graph.shape(v).count() != kBytes) return false;
  const DType type = graph.type(v).dtype;
  return of_bytes ? is_byte(type) : type == DType::kI32;
}

// The layer goes where `last` is, makes what that makes, and has these inputs besides.
void extend(PlanGraph& graph, int id, int last, size_t at, const std::vector<int>& more,
            std::shared_ptr<const Attrs> attrs) {
  PlanNode node = graph.node(id);
  node.in.resize(at, -1);
  node.in.insert(node.in.end(), more.begin(), more.end());
  node.out = graph.node(last).out;
  if (attrs != nullptr) node.attrs = std::move(attrs);
  graph.drop(id);
  graph.replace(last, std::move(node));
}

// A LookUp that alone reads what the node makes, or -1.
int look_up_after(const PlanGraph& graph, int id) {
  const int y = graph.node(id).out[0], user = graph.only_reader(y);
  if (!graph.is(user, "LookUp") || graph.node(user).in[0] != y) return -1;
  return is_table(graph, graph.node(user).in[1], true) ? user : -1;
}

// A QuantizedSum of what the node makes and of something that is there before, or -1.
int sum_after(const PlanGraph& graph, int id) {
  const int y = graph.node(id).out[0], user = graph.only_reader(y);
  if (!graph.is(user, "QuantizedSum")) return -1;
  const PlanNode& sum = graph.node(user);
  const size_t own = sum.in[0] == y ? 0 : kOtherTerm, other = kOtherTerm - own;
  const int term = sum.in[other];
  const auto is_number = [&](int v) { return graph.is_constant(v) && graph.shape(v).count() == 1; };
  const bool fits = sum.in.size() == 6 && term != y && term >= 0 && !graph.is_constant(term) &&
                    graph.maker(term) < id && is_byte(graph.type(term).dtype) && graph.shape(term) == graph.shape(y) &&
                    is_byte(graph.type(sum.out[0]).dtype) && is_number(sum.in[1]) && is_number(sum.in[2]) &&
                    is_table(graph, sum.in[3], false) && is_table(graph, sum.in[5], false);
  return fits ? user : -1;
}

}  // namespace

// Inputs of the layers from then on: 7 a table for the result, or -1; of a sum 8 the table for that, 9 the other term,
// 10 its table, 11 the factor, 12 the shift; 13 a table for the sum. The attributes of the sum are called sum_.
void fuse_quantized_tables(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    int id = i;
    if (graph.is_dropped(id) || !is_layer(graph, id)) continue;
    auto attrs = std::make_shared<Attrs>(*graph.node(id).attrs);
    attrs->set("layer_to", graph.type(graph.node(id).out[0]).dtype);
    if (const int next = look_up_after(graph, id); next >= 0) {
      extend(graph, id, next, kInputs, {graph.node(next).in[1]}, attrs);
      id = next;
    }
    if (const int next = sum_after(graph, id); next >= 0) {
      const PlanNode& sum = graph.node(next);
      const size_t own = sum.in[0] == graph.node(id).out[0] ? 0 : kOtherTerm;
      for (const char* name : {"zero", "min", "max"}) attrs->set(std::string("sum_") + name, sum.attrs->i(name));
      attrs->set("sum_to", graph.type(sum.out[0]).dtype);
      const int own_table = sum.in[own == 0 ? 3 : 5], table = sum.in[own == 0 ? 5 : 3], term = sum.in[kOtherTerm - own];
      extend(graph, id, next, kInputs + 1, {own_table, term, table, sum.in[1], sum.in[2]}, attrs);
      id = next;
      if (const int last = look_up_after(graph, id); last >= 0)
        extend(graph, id, last, kQuantizedTerm + 4, {graph.node(last).in[1]}, nullptr);
    }
  }
}

}  // namespace minnow
