// What an op is, on any device: its name, the types and shapes of its results, and what holds of it wherever it is
// computed. How a device computes it is a row of that device's own table (kernel_table.h).
//
//   MINNOW_OP("Softmax", infer_softmax);
//
// The name, the inputs and the attributes are those of the Python registry (schema/ops); a missing optional input is a
// null tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/attrs.h"
#include "kernels/core/registrar.h"
#include "kernels/core/status.h"
#include "kernels/core/tensor.h"

namespace minnow {

struct NodeContext;

// What an op asks of and gives to its surroundings while shapes are inferred.
class InferContext {
 public:
  InferContext(const Attrs& attrs, std::vector<const TensorType*> inputs, std::vector<const Tensor*> values,
               std::vector<TensorType>* outputs)
      : attrs(attrs), inputs_(std::move(inputs)), values_(std::move(values)), outputs_(outputs) {}

  const Attrs& attrs;

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < num_inputs() && inputs_[static_cast<size_t>(i)] != nullptr; }
  const TensorType& in(int i) const { return *inputs_[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return in(i).shape; }

  // The contents of an input, plain layout, or null when they are not known yet. An op whose output shape depends on
  // contents returns needs_value(i) in that case; the engine asks again at run time, when they are known.
  const Tensor* value(int i) const {
    if (i < 32) asked_ |= 1u << i;
    return has(i) ? values_[static_cast<size_t>(i)] : nullptr;
  }
  // Bit i: value(i) was called. By this the engine knows on which contents the shapes depend.
  uint32_t asked() const { return asked_; }
  Status needs_value(int i) const { return fail(Code::kNeedsValue, "needs the contents of input %d", i); }
  // Contents of an integer input (i32 or i64) as int64 numbers.
  Status ints(int i, std::vector<int64_t>* out) const;

  int num_outputs() const { return static_cast<int>(outputs_->size()); }
  // Cold, and with it every rule, which comes to this or to an error.
  [[gnu::cold]] void set(int i, DType dtype, const Shape& shape);

 private:
  std::vector<const TensorType*> inputs_;
  std::vector<const Tensor*> values_;
  std::vector<TensorType>* outputs_;
  mutable uint32_t asked_ = 0;
};

using InferFunction = Status (*)(InferContext&);

// What holds of an op on every device; a set of them.
enum OpTrait : uint8_t {
  kNoTrait = 0,
  // Other results in every run, whatever the inputs: never computed ahead of the run.
  kRandom = 1,
  // Where the element type stays, the result is the same memory as in[0], under another shape.
  kView = 2,
  // The contents of the results follow from the types of the inputs alone.
  kTypeOnly = 4,
  // Each element of the output is made of one element of each input, with broadcasting.
  kElementwise = 8,
  // Output i, from 1 on, is input i + 2 with some elements replaced: of those that are the same memory, the kernel
  // writes just these.
  kUpdates = 16,
};

// The multiply-accumulates of a node, where they are what takes the time.
using MacsFunction = int64_t (*)(const NodeContext& node);

struct OpSpec {
  const char* name;
  InferFunction infer;
  uint8_t traits;
  MacsFunction macs;  // null: it takes as long as its operands and results are large

  bool has(OpTrait trait) const { return (traits & trait) != 0; }
};

// Adds an op; used through MINNOW_OP at namespace scope. Names are unique.
void add_op(const char* name, InferFunction infer, int traits, MacsFunction macs);
// The values are arguments, and no data: a pointer in data takes, with the record by which it is set, 32 bytes of the
// library.
struct OpRegistrar {
  OpRegistrar(const char* name, InferFunction infer, int traits = kNoTrait, MacsFunction macs = nullptr) {
    add_op(name, infer, traits, macs);
  }
};
// Null for a name that is no op.
const OpSpec* find_op(const std::string& name);
std::vector<const OpSpec*> all_ops();  // sorted by name

#define MINNOW_OP(...) MINNOW_REGISTER(::minnow::OpRegistrar, MINNOW_UNIQUE(op_registrar_), __VA_ARGS__)

}  // namespace minnow
