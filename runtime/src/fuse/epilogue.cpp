// Fewer nodes: what follows a convolution or a matrix product element by element is done while its result is written.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

struct Epilogue {
  const char* activation;
  double alpha = 0, beta = 0;
};

using MakeEpilogue = std::optional<Epilogue> (*)(const Attrs&);

std::optional<Epilogue> clip(const Attrs& a) {
  const double infinity = std::numeric_limits<double>::infinity();
  return Epilogue{"clip", a.f("min", -infinity), a.f("max", infinity)};
}

std::optional<Epilogue> gelu(const Attrs& a) {
  if (a.s("approximate", "none") != "none") return std::nullopt;
  return Epilogue{"gelu"};
}

struct Row {
  std::string_view op;
  MakeEpilogue make;
};

constexpr Row kActivations[] = {
    {"Relu", [](const Attrs&) -> std::optional<Epilogue> { return Epilogue{"relu"}; }},
    {"Clip", clip},
    {"LeakyRelu",
     [](const Attrs& a) -> std::optional<Epilogue> {
       return Epilogue{"leaky_relu", a.f("alpha", 0.01)};
     }},
    {"HardSwish", [](const Attrs&) -> std::optional<Epilogue> { return Epilogue{"hardswish"}; }},
    {"HardSigmoid",
     [](const Attrs& a) -> std::optional<Epilogue> {
       return Epilogue{"hardsigmoid", a.f("alpha", 0.2), a.f("beta", 0.5)};
     }},
    {"Sigmoid", [](const Attrs&) -> std::optional<Epilogue> { return Epilogue{"sigmoid"}; }},
    {"Silu", [](const Attrs&) -> std::optional<Epilogue> { return Epilogue{"silu"}; }},
    {"Tanh", [](const Attrs&) -> std::optional<Epilogue> { return Epilogue{"tanh"}; }},
    {"Gelu", gelu},
};

std::optional<Epilogue> epilogue_of(const PlanNode& node) {
  if (node.op == nullptr) return std::nullopt;
  for (const Row& row : kActivations)
    if (row.op == node.op->name) return row.make(*node.attrs);
  return std::nullopt;
}

}  // namespace

void fuse_epilogues(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Conv") && !graph.is(i, "ConvTranspose") && !graph.is(i, "Linear")) continue;
    if (graph.type(graph.node(i).out[0]).dtype != DType::kF32 || !graph.node(i).attrs->s("activation").empty())
      continue;
    int at = i;  // where the node is now: it moves to the place of what it takes in
    const auto absorb = [&](int reader, PlanNode node) {
      node.out[0] = graph.node(reader).out[0];
      graph.drop(at);
      graph.replace(reader, std::move(node));
      at = reader;
    };
    const auto activate = [&](const Epilogue& epilogue, int reader) {
      PlanNode node = graph.node(at);
      auto attrs = std::make_shared<Attrs>(*node.attrs);
      attrs->set("activation", std::string(epilogue.activation));
      attrs->set("alpha", epilogue.alpha);
      attrs->set("beta", epilogue.beta);
      node.attrs = std::move(attrs);
      absorb(reader, std::move(node));
    };
    for (;;) {
      const int y = graph.node(at).out[0];
      const std::vector<int>& users = graph.readers(y);
      // Silu written out: y * Sigmoid(y).
      if (users.size() == 2) {
        const bool first = graph.is(users[0], "Sigmoid");
        const int gate = users[first ? 0 : 1], product = users[first ? 1 : 0];
        if (graph.is(gate, "Sigmoid") && graph.is(product, "Mul") &&
            graph.only_reader(graph.node(gate).out[0]) == product) {
          graph.drop(gate);
          activate({"silu"}, product);
        }
        break;
      }
      const int reader = graph.only_reader(y);
      if (reader < 0) break;
      const PlanNode& user = graph.node(reader);
      const std::optional<Epilogue> epilogue = epilogue_of(user);
      if (epilogue && same_type(graph.type(y), graph.type(user.out[0]))) {
        activate(*epilogue, reader);
        break;  // an activation is the last
      }
      if (!graph.is(reader, "Add") || graph.node(at).in.size() > kResidual) break;
      const int other = user.in[0] == y ? user.in[1] : user.in[0];
      if (!same_type(graph.type(other), graph.type(y)) || graph.is_constant(other)) break;
      PlanNode node = graph.node(at);
      node.in.resize(kResidual, -1);
      node.in.push_back(other);
      absorb(reader, std::move(node));
    }
  }
}

}  // namespace minnow
