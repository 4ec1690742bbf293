// Fewer nodes: what follows a convolution or a matrix product element by element is done while its result is written.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/layout.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

constexpr int64_t kStoredBytes = 16 << 20;  // see keep_stored_weights()

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

bool is(const PlanNode& node, std::string_view op) { return node.op != nullptr && node.op->name == op; }

}  // namespace

void Planner::drop(const std::vector<bool>& gone) {
  std::vector<PlanNode> left;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (!gone[i]) left.push_back(std::move(nodes_[i]));
  nodes_ = std::move(left);
}

// Who reads each value: nodes of this stage by number, and whatever else as -1.
std::vector<std::vector<int>> Planner::readers() const {
  std::vector<std::vector<int>> readers(stage_.values.size());
  const auto add = [&](int value, int reader) {
    if (value >= 0) readers[static_cast<size_t>(value)].push_back(reader);
  };
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (int v : nodes_[i].in) add(v, static_cast<int>(i));
  for (const PlanNode& node : stage_.pending)
    for (int v : node.in) add(v, -1);
  for (int v : x_.graph_.outputs) add(v, -1);
  return readers;
}

std::vector<int> Planner::producers() const {
  std::vector<int> producers(stage_.values.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (int v : nodes_[i].out)
      if (v >= 0) producers[static_cast<size_t>(v)] = static_cast<int>(i);
  return producers;
}

void Planner::fuse() {
  std::vector<std::vector<int>> readers = this->readers();
  std::vector<bool> gone(nodes_.size());
  const auto type = [&](int v) -> const TensorType& { return stage_.values[static_cast<size_t>(v)].type; };
  const auto only_reader = [&](int v) -> int {
    const std::vector<int>& r = readers[static_cast<size_t>(v)];
    return r.size() == 1 ? r[0] : -1;
  };

  for (size_t i = 0; i < nodes_.size(); ++i) {
    size_t at = i;  // where the node is now: it moves to the place of what it takes in
    const bool conv = is(nodes_[i], "Conv") || is(nodes_[i], "ConvTranspose");
    if (gone[i] || !(conv || is(nodes_[i], "Linear")) || type(nodes_[i].out[0]).dtype != DType::kF32) continue;
    if (!nodes_[i].attrs->s("activation").empty()) continue;
    const auto absorb = [&](size_t reader, int result) {
      PlanNode node = nodes_[at];
      node.out[0] = result;
      gone[at] = true;
      gone[reader] = false;
      nodes_[reader] = std::move(node);
      at = reader;
    };
    const auto activate = [&](const Epilogue& epilogue) {
      auto attrs = std::make_shared<Attrs>(*nodes_[at].attrs);
      attrs->set("activation", std::string(epilogue.activation));
      attrs->set("alpha", epilogue.alpha);
      attrs->set("beta", epilogue.beta);
      nodes_[at].attrs = std::move(attrs);
    };
    for (bool done = false; !done;) {
      done = true;
      const int y = nodes_[at].out[0];
      const std::vector<int>& users = readers[static_cast<size_t>(y)];
      const int reader = only_reader(y);
      // Silu written out: y * Sigmoid(y).
      if (users.size() == 2 && users[0] >= 0 && users[1] >= 0) {
        for (int k : {0, 1}) {
          const PlanNode& gate = nodes_[static_cast<size_t>(users[static_cast<size_t>(k)])];
          const int product = users[static_cast<size_t>(1 - k)];
          if (!is(gate, "Sigmoid") || !is(nodes_[static_cast<size_t>(product)], "Mul")) continue;
          if (only_reader(gate.out[0]) != product) continue;
          gone[static_cast<size_t>(users[static_cast<size_t>(k)])] = true;
          const int result = nodes_[static_cast<size_t>(product)].out[0];
          absorb(static_cast<size_t>(product), result);
          activate({"silu"});
          break;
        }
        break;
      }
      if (reader < 0) break;
      const PlanNode& user = nodes_[static_cast<size_t>(reader)];
      const std::optional<Epilogue> epilogue = epilogue_of(user);
      if (epilogue && same_type(type(y), type(user.out[0]))) {
        const int result = user.out[0];
        absorb(static_cast<size_t>(reader), result);
        activate(*epilogue);
        break;  // an activation is the last
      }
      if (is(user, "Add") && nodes_[at].in.size() <= kResidual) {
        const int other = user.in[0] == y ? user.in[1] : user.in[0];
        if (!same_type(type(other), type(y)) || stage_.values[static_cast<size_t>(other)].constant != nullptr) break;
        const int result = user.out[0];
        absorb(static_cast<size_t>(reader), result);
        nodes_[at].in.resize(kResidual, -1);
        nodes_[at].in.push_back(other);
        for (int& r : readers[static_cast<size_t>(other)])
          if (r == reader) r = static_cast<int>(at);
        done = false;
      }
    }
  }
  drop(gone);
}

// A factor per channel of what a pointwise convolution reads becomes one of its weights, where these are fewer: the
// gates of squeeze and excitation.
void Planner::fuse_gates() {
  const std::vector<std::vector<int>> readers = this->readers();
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  const std::vector<int> producer = producers();
  std::vector<bool> gone(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    PlanNode& conv = nodes_[i];
    if (!is(conv, "Conv") || conv.in.size() > kResidual + 1 || !is_pointwise(conv)) continue;
    const int made = producer[static_cast<size_t>(conv.in[0])];
    if (made < 0 || !is(nodes_[static_cast<size_t>(made)], "Mul")) continue;
    const PlanNode& mul = nodes_[static_cast<size_t>(made)];
    const TensorType& x = value(conv.in[0]).type;
    for (size_t k : {0, 1}) {
      const int gate = mul.in[k], image = mul.in[1 - k];
      if (gone[static_cast<size_t>(made)] || gate < 0 || image < 0 || !same_type(value(image).type, x)) continue;
      if (value(gate).constant != nullptr || value(gate).type.shape != Shape{1, x.shape[1], 1, 1}) continue;
      if (x.shape[0] != 1 || readers[static_cast<size_t>(conv.in[0])].size() != 1) continue;
      if (value(conv.in[1]).type.shape[0] > x.shape[2] * x.shape[3]) continue;
      conv.in[0] = image;
      conv.in.resize(kResidual + 1, -1);
      conv.in.push_back(gate);
      gone[static_cast<size_t>(made)] = true;
    }
  }
  drop(gone);
}

// What is left of sums and the like before a Relu: one pass over memory instead of two.
void Planner::fuse_rectified() {
  constexpr std::string_view kOps[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
  const std::vector<std::vector<int>> readers = this->readers();
  std::vector<bool> gone(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const PlanNode& node = nodes_[i];
    if (node.op == nullptr || std::find(std::begin(kOps), std::end(kOps), node.op->name) == std::end(kOps)) continue;
    const std::vector<int>& users = readers[static_cast<size_t>(node.out[0])];
    if (users.size() != 1 || users[0] < 0 || !is(nodes_[static_cast<size_t>(users[0])], "Relu")) continue;
    if (!is_float(stage_.values[static_cast<size_t>(node.out[0])].type.dtype)) continue;
    PlanNode& relu = nodes_[static_cast<size_t>(users[0])];
    relu.attrs = std::make_shared<const Attrs>(make_attrs({{"op", node.op->name}}));
    relu.op = find_op("BinaryRelu");
    relu.in = node.in;
    gone[i] = true;
  }
  drop(gone);
}

// The weights of products with one row are read as they are stored, where they are few: to pack them costs more than
// hundreds of runs gain by it. Where all of a model's weights are of this kind, they come from memory in each run, and
// faster from the large pages of packed ones.
void Planner::keep_stored_weights() {
  const auto is_row = [&](const PlanNode& node) {
    if (!is(node, "Linear")) return false;
    const Shape& x = stage_.values[static_cast<size_t>(node.in[0])].type.shape;
    return stage_.values[static_cast<size_t>(node.in[1])].constant != nullptr && x.count(0, x.rank() - 1) == 1;
  };
  int64_t bytes = 0;
  for (const PlanNode& node : nodes_)
    if (is_row(node)) bytes += stage_.values[static_cast<size_t>(node.in[1])].type.bytes();
  if (bytes > kStoredBytes) return;
  for (PlanNode& node : nodes_) {
    if (!is_row(node)) continue;
    auto attrs = std::make_shared<Attrs>(*node.attrs);
    attrs->set("stored", true);
    node.attrs = std::move(attrs);
  }
}

// A convolution in f32 of each pixel alone, by constant weights.
bool Planner::is_pointwise(const PlanNode& conv) const {
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  const TensorType &x = value(conv.in[0]).type, &y = value(conv.out[0]).type, &w = value(conv.in[1]).type;
  if (x.dtype != DType::kF32 || w.dtype != DType::kF32 || x.shape.rank() != 4 || value(conv.in[1]).constant == nullptr)
    return false;
  const std::vector<int64_t> strides = conv.attrs->ints("strides"), pads = conv.attrs->ints("pads");
  const bool moves = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s != 1; }) ||
                     std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  return !moves && w.shape[1] == x.shape[1] && w.shape[2] == 1 && w.shape[3] == 1 && x.shape[2] == y.shape[2] &&
         x.shape[3] == y.shape[3] && x.shape[1] > 4;
}

// A pointwise convolution is computed band by band with the depthwise one that reads it, where a narrow image becomes a
// wide one: of many pixels, which would not stay in the cache; or of few, whose channels a thread makes and reads whole
// (their rows are so short that what processors fetch ahead would take them from each other all the time).
void Planner::pair_convolutions() {
  constexpr int64_t kLeastBytes = 1 << 20, kFewPixels = 1024;
  const std::vector<std::vector<int>> readers = this->readers();
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  const auto is_weight = [&](const PlanNode& node, size_t i) {
    return i < node.in.size() && node.in[i] >= 0 && value(node.in[i]).constant != nullptr &&
           value(node.in[i]).type.dtype == DType::kF32;
  };
  const auto is_plain_conv = [&](const PlanNode& node) {  // weights and bias constant, no residual
    const bool bias = node.in.size() < 3 || node.in[2] < 0 || is_weight(node, 2);
    return is(node, "Conv") && is_weight(node, 1) && bias && node.in.size() <= kResidual &&
           value(node.out[0]).type.dtype == DType::kF32 && value(node.out[0]).type.shape.rank() == 4;
  };
  std::vector<bool> gone(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    PlanNode& first = nodes_[i];
    if (!is_plain_conv(first)) continue;
    const std::vector<int>& users = readers[static_cast<size_t>(first.out[0])];
    if (users.size() != 1 || users[0] < 0 || !is_plain_conv(nodes_[static_cast<size_t>(users[0])])) continue;
    PlanNode& next = nodes_[static_cast<size_t>(users[0])];
    const Shape &x = value(first.in[0]).type.shape, &wide = value(first.out[0]).type.shape;
    const Shape& taps = value(next.in[1]).type.shape;
    const bool depthwise = next.in[0] == first.out[0] && taps[0] == wide[1] && taps[1] == 1 && wide[1] > 1 &&
                           next.attrs->i("group", 1) == wide[1];
    if (!is_pointwise(first) || !depthwise || wide[3] == 1 || 2 * x[1] > wide[1]) continue;
    // Smaller numbers gain more than pairs do, which are computed in f32.
    const bool few = wide[2] * wide[3] <= kFewPixels && x_.environment().precision == Precision::kHigh;
    if (!few && 4 * wide[1] * wide[2] * wide[3] < kLeastBytes) continue;
    auto attrs = std::make_shared<Attrs>(*next.attrs);
    attrs->set("first_activation", first.attrs->s("activation"));
    for (const char* name : {"alpha", "beta"})
      if (first.attrs->has(name)) attrs->set(std::string("first_") + name, first.attrs->f(name));
    next.op = find_op("ConvPair");
    next.attrs = std::move(attrs);
    const std::vector<int> own = next.in;
    next.in = first.in;
    next.in.resize(kResidual + 1, -1);
    next.in.insert(next.in.end(), own.begin() + 1, own.end());
    gone[i] = true;
  }
  drop(gone);
}

// Nodes whose results nobody reads, such as those of which only the shape was asked for.
void Planner::drop_dead() {
  std::vector<bool> needed(stage_.values.size());
  const auto need = [&](const std::vector<int>& values) {
    for (int v : values)
      if (v >= 0) needed[static_cast<size_t>(v)] = true;
  };
  need(x_.graph_.outputs);
  for (const PlanNode& node : stage_.pending) need(node.in);
  std::vector<PlanNode> kept;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const std::vector<int>& out = nodes_[i].out;
    if (std::none_of(out.begin(), out.end(), [&](int v) { return v >= 0 && needed[static_cast<size_t>(v)]; })) continue;
    need(nodes_[i].in);
    kept.push_back(std::move(nodes_[i]));
  }
  std::reverse(kept.begin(), kept.end());
  nodes_ = std::move(kept);
}

}  // namespace minnow
