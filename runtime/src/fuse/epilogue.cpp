// Epilogues: a residual and an activation behind a convolution or matrix product are computed as its result is written.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/core/activation.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

struct Epilogue {
  const char* activation;
  double alpha = 0, beta = 0;
};

std::optional<Epilogue> epilogue_of(const PlanNode& node) {
  const ActivationOp* found = node.op == nullptr ? nullptr : as_activation(node.op->name, *node.attrs);
  if (found == nullptr) return std::nullopt;
  Epilogue made{found->name};
  if (*found->alpha != 0) made.alpha = node.attrs->f(found->alpha, found->alpha_value);
  if (*found->beta != 0) made.beta = node.attrs->f(found->beta, found->beta_value);
  return made;
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
