// Lowering: ops of the file that become ops of the op table only when the types of their inputs are known, because the
// rank matters, or the layout, or because the file treats booleans as integers. The planner expands them.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/src/plan/plan.h"

namespace minnow {

// An attribute as it is handed to a function: a reference, so that a hundred callers do not each make and drop an Attr.
class AttrArgument {
 public:
  AttrArgument(const char* name, int64_t i) : name(name), kind_(kInt) { at_.i = i; }
  AttrArgument(const char* name, double f) : name(name), kind_(kFloat) { at_.f = f; }
  AttrArgument(const char* name, bool b) : name(name), kind_(kBool) { at_.b = b; }
  AttrArgument(const char* name, DType dtype) : name(name), kind_(kDType) { at_.dtype = dtype; }
  AttrArgument(const char* name, const char* text) : name(name), kind_(kText) { at_.text = text; }
  AttrArgument(const char* name, const std::string& text) : AttrArgument(name, text.c_str()) {}
  AttrArgument(const char* name, const std::vector<int64_t>& ints) : name(name), kind_(kInts) { at_.ints = &ints; }
  Attr value() const;

  const char* name;

 private:
  enum : uint8_t { kInt, kFloat, kBool, kDType, kText, kInts } kind_;
  union {
    int64_t i;
    double f;
    bool b;
    DType dtype;
    const char* text;
    const std::vector<int64_t>* ints;
  } at_;
};
using AttrList = std::initializer_list<AttrArgument>;
Attrs make_attrs(AttrList list);

// Numbers of values as they are handed to a function, in braces or in a vector.
class Values {
 public:
  Values(std::initializer_list<int> list) : begin_(std::data(list)), end_(begin_ + list.size()) {}
  Values(const std::vector<int>& list) : begin_(list.data()), end_(begin_ + list.size()) {}  // NOLINT: implicit
  const int* begin() const { return begin_; }
  const int* end() const { return end_; }

 private:
  const int *begin_, *end_;
};

// Turns one node into others. Values are numbers of the stage.
class Expansion {
 public:
  Expansion(const PlanNode& node, Stage& stage, Watch& watch) : node_(node), stage_(stage), watch_(watch) {}

  const Attrs& attrs() const { return *node_.attrs; }
  int num_inputs() const { return static_cast<int>(node_.in.size()); }
  int num_outputs() const { return static_cast<int>(node_.out.size()); }
  bool has(int i) const { return i < num_inputs() && node_.in[static_cast<size_t>(i)] >= 0; }
  int in(int i) const { return has(i) ? node_.in[static_cast<size_t>(i)] : -1; }
  int out(int i) const { return node_.out[static_cast<size_t>(i)]; }
  // Copies: add() makes values, and so moves the list of them.
  TensorType type(int i) const { return stage_.values[static_cast<size_t>(in(i))].type; }
  Shape shape(int i) const { return type(i).shape; }
  int rank(int i) const { return type(i).shape.rank(); }
  // Of the only output; only where it was inferred before.
  Shape out_shape() const { return stage_.values[static_cast<size_t>(out(0))].type.shape; }

  // The contents of an integer input; kNeedsValue when they are not known yet.
  Status ints(int i, std::vector<int64_t>* out);
  const std::vector<int>& asked() const { return asked_; }

  // An error where that is more than a node can come to; asked before loops whose length a file decides on.
  Status may_add(int64_t nodes) const;
  // New constants: a scalar, vectors.
  int zero(DType dtype);
  int floats(const std::vector<float>& values);
  int ints(const std::vector<int64_t>& values);
  // Adds a node and returns its output.
  int add(const char* op, Values inputs, AttrList attrs = {});
  int add(const char* op, Values inputs, Attrs attrs);
  int another_output();  // of the node that was added last
  // Adds a node that makes the outputs of the expanded one.
  void finish(const char* op, Values inputs, AttrList attrs = {});
  void finish(const char* op, Values inputs, Attrs attrs);
  void finish(int output, const char* op, Values inputs, Attrs attrs);

  std::vector<PlanNode>& nodes() { return nodes_; }
  // The first error of add() and finish(): an op that the table does not have, too many nodes. Nothing is added after
  // it.
  Status status;

 private:
  int add_constant(const TensorType& type, const std::function<void(char*)>& fill);
  PlanNode& append(const char* op, Values inputs, Attrs attrs);

  const PlanNode& node_;
  Stage& stage_;
  Watch& watch_;
  std::vector<PlanNode> nodes_;
  std::vector<int> asked_;
};

inline std::vector<int64_t> dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

struct Lowering {
  const char* name;  // of the op that is lowered
  Status (*expand)(Expansion&);
};
struct LoweringRegistrar {
  explicit LoweringRegistrar(const Lowering& lowering);
};
const Lowering* find_lowering(const std::string& name);
// The lowering of an op of the op table which is faster, or only possible, by way of others for these types; or null.
// `channel_block`: of the host's packed layout.
const Lowering* other_form_of(const OpSpec& op, const Attrs& attrs, const std::vector<const TensorType*>& inputs,
                              const Shape& out, int channel_block);

#define MINNOW_LOWERING(name, function)                                                     \
  MINNOW_REGISTER_AS(name, ::minnow::LoweringRegistrar, MINNOW_UNIQUE(lowering_registrar_), \
                     ::minnow::Lowering{name, function})

}  // namespace minnow
