// Nodes that follow each other, each of which makes rows of rows, become one (kernels/cpu/elementwise/fused_rows.cpp):
// of quantized transformers what lies between the products, such as a bias between two quantizations, or a sum, its
// normalization and the way back to bytes.
#include <algorithm>
#include <map>

#include "kernels/core/program.h"
#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

constexpr int64_t kLeastOfChain = 16384;  // fewer are not worth several threads
constexpr int64_t kLeastOfRow = 256;      // of elements that need no rows; others come with it
constexpr int kReach = 64;                // between nodes of a chain lie at the most so many
constexpr size_t kMostOfChain = 16;

struct Chain {
  std::vector<int> nodes;   // in order, views among them
  std::vector<int> values;  // that they make
  int64_t count = 0;        // elements of each value
  int64_t length = 0;       // of a row; 0: any
  bool mixes = false;       // some node is not elementwise
};

bool contains(const std::vector<int>& all, int one) { return std::find(all.begin(), all.end(), one) != all.end(); }

// Whether node `id` can be part of the chain, as the first node or another one; then its rows are the chain's.
bool fits(const PlanGraph& graph, int id, Chain* chain) {
  const PlanNode& node = graph.node(id);
  if (node.op == nullptr || !graph.is_looked_at(id) || node.out.size() != 1 || node.out[0] < 0 || node.in.empty() ||
      node.in[0] < 0)
    return false;
  const auto has_kind = [&](int v) {
    const DType t = graph.type(v).dtype;
    return t == DType::kF32 || t == DType::kU8 || t == DType::kI8;
  };
  const Shape &x = graph.shape(node.in[0]), &y = graph.shape(node.out[0]);
  const int64_t count = y.count();
  int64_t length = chain->length;
  // A number for each element of a row, or one for all.
  const auto is_of_row = [&](int v) {
    const Shape& own = graph.shape(v);
    if (own.count() == 1) return true;
    int64_t matched = 1;
    for (int k = 1; k <= own.rank() && matched < own.count(); ++k) {
      if (k > y.rank() || own.at(-k) != y.at(-k)) return false;
      matched *= own.at(-k);
    }
    if (length == 0) length = matched;
    return length == matched;
  };
  const auto is_whole = [&](int v) { return graph.shape(v).count() == count && has_kind(v); };
  const auto is_one = [&](size_t i) {
    return i >= node.in.size() || node.in[i] < 0 || graph.shape(node.in[i]).count() == 1;
  };
  if (count < kLeastOfChain || !has_kind(node.out[0]) || (chain->count != 0 && chain->count != count)) return false;
  bool takes = false, mixes = true;
  if (graph.is(id, "QuantizeLinear") || graph.is(id, "DequantizeLinear")) {
    takes = is_whole(node.in[0]) && is_one(1) && is_one(2);
  } else if (graph.is(id, "LookUp")) {
    takes = is_whole(node.in[0]);
  } else if (graph.is(id, "QuantizedSum")) {
    takes = node.in.size() == 6 && is_whole(node.in[0]) && is_whole(node.in[4]) && is_one(1) && is_one(2);
  } else if (graph.is(id, "LayerNorm") || graph.is(id, "RMSNorm") || graph.is(id, "Softmax")) {
    const int64_t axis = node.attrs->i("axis", -1);
    takes = is_whole(node.in[0]) && x.rank() > 0 && (axis == -1 || axis == x.rank() - 1) &&
            (length == 0 || length == x.at(-1));
    if (takes) length = x.at(-1);
    for (size_t i = 1; i < node.in.size(); ++i)
      takes = takes && (node.in[i] < 0 || graph.shape(node.in[i]).count() == length);
  } else if ((node.op->has(kElementwise) && !node.op->has(kRandom)) || graph.is(id, "Fused")) {
    mixes = false;
    takes = std::all_of(node.in.begin(), node.in.end(),
                        [&](int v) { return v >= 0 && has_kind(v) && (is_whole(v) || is_of_row(v)); });
    takes = takes && std::any_of(node.in.begin(), node.in.end(), is_whole);
  }
  if (!takes) return false;
  chain->count = count;
  chain->length = length;
  chain->mixes = chain->mixes || mixes;
  chain->nodes.push_back(id);
  chain->values.push_back(node.out[0]);
  return true;
}

// The chain that begins with this node. What it makes is read by nodes of it, or behind all of them.
Chain chain_from(const PlanGraph& graph, int begin) {
  Chain chain;
  // An image may lie with its channels in blocks, as nodes around it want it.
  const auto is_image = [&](int id) {
    return graph.shape(graph.node(id).in[0]).rank() == 4 && !graph.is(id, "Softmax") && !graph.is(id, "LayerNorm");
  };
  if (!fits(graph, begin, &chain)) return {};
  bool images = is_image(begin);
  for (int i = begin + 1; i < std::min(graph.size(), chain.nodes.back() + kReach); ++i) {
    const PlanNode& node = graph.node(i);
    const auto reads = [&](int v) { return contains(chain.values, v); };
    if (std::none_of(node.in.begin(), node.in.end(), reads)) continue;
    if (chain.nodes.size() == kMostOfChain) break;
    if (graph.is_view(i) && graph.is_looked_at(i) && reads(node.in[0])) {
      chain.nodes.push_back(i);
      chain.values.push_back(node.out[0]);
      continue;
    }
    if (!fits(graph, i, &chain)) break;
    images = images && is_image(i);
  }
  for (; graph.is_view(chain.nodes.back()); chain.nodes.pop_back()) chain.values.pop_back();
  return images ? Chain() : chain;
}

// Nothing where it is not worth it, or some value is read outside in two shapes.
void fuse(PlanGraph& graph, const Chain& chain) {
  auto program = std::make_shared<Program>();
  std::map<int, int> number;  // of each value in the program
  std::vector<int> in, out;
  for (int id : chain.nodes)
    for (int v : graph.node(id).in)
      if (v >= 0 && !graph.is_view(id) && !contains(chain.values, v) && number.emplace(v, program->operands).second) {
        ++program->operands;
        in.push_back(v);
      }
  int last_step = -1;
  for (int id : chain.nodes) {
    const PlanNode& node = graph.node(id);
    if (graph.is_view(id)) {
      number[node.out[0]] = number[node.in[0]];
      continue;
    }
    Program::Step step{node.op, node.attrs, {}, graph.type(node.out[0]).dtype};
    if (node.attrs->has("axis")) {  // the last one, of rows, too
      auto own = std::make_shared<Attrs>(*node.attrs);
      own->set("axis", int64_t{-1});
      step.attrs = std::move(own);
    }
    for (int v : node.in) step.in.push_back(v < 0 ? -1 : number[v]);
    number[node.out[0]] = program->operands + static_cast<int>(program->steps.size());
    program->steps.push_back(std::move(step));
    last_step = id;
  }
  for (int v : chain.values) {
    const std::vector<int>& readers = graph.readers(v);
    if (std::all_of(readers.begin(), readers.end(), [&](int r) { return contains(chain.nodes, r); })) continue;
    if (contains(program->results, number[v])) return;
    program->results.push_back(number[v]);
    out.push_back(v);
  }
  int64_t length = chain.length;
  const Shape& y = graph.shape(chain.values.back());
  for (int k = 1; chain.length == 0 && k <= y.rank() && length < kLeastOfRow; ++k)
    length = std::max<int64_t>(length, 1) * y.at(-k);
  const int64_t rows = chain.count / std::max<int64_t>(length, 1);
  if (rows < 2 || program->steps.size() < 2 || !chain.mixes || out.empty()) return;
  program->set("rows", rows);
  program->seal();
  PlanNode fused = graph.node(last_step);
  fused.op = find_op("FusedRows");
  fused.attrs = std::move(program);
  fused.in = std::move(in);
  fused.out = std::move(out);
  for (int id : chain.nodes) graph.drop(id);
  graph.replace(chain.nodes.back(), std::move(fused));
}

}  // namespace

void fuse_rows(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i)
    if (const Chain chain = chain_from(graph, i); !chain.nodes.empty()) fuse(graph, chain);
}

}  // namespace minnow
