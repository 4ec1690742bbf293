// The contract between the engine and the kernels. An op is one row in the table:
//
//   MINNOW_OP("Softmax", infer_softmax, create_softmax, LayoutRule::kPlain);
//
// beside the code that implements it, in kernels/cpu/<family>/. The op's name, inputs and attributes are those of
// the Python registry (schema/ops); a missing optional input is a null tensor.
//
// Life of a node: infer (types and shapes of the outputs) -> create -> reshape -> run, run, run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/attrs.h"
#include "kernels/core/packed.h"
#include "kernels/core/status.h"
#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace minnow {

enum class Precision : uint8_t { kHigh, kNormal, kLow };

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

// Types (shape and layout) of a node at one set of input shapes. `constant[i]` is the tensor when input i is constant
// for the life of the model (weights), else null; packed weights may be kept across reshapes.
struct NodeContext {
  const Attrs& attrs;                   // outlives the kernel
  std::vector<const TensorType*> in;    // null where an optional input is missing
  std::vector<const Tensor*> constant;  // same length as `in`
  std::vector<const TensorType*> out;
  int threads = 1;
  Precision precision = Precision::kHigh;
  // Where packed weights are kept, and what the constants are called there (-1: nothing): see Packed. Null for a node
  // that is computed without a model.
  PackedStore* store = nullptr;
  std::vector<int64_t> constant_ids = {};
  ThreadPool* pool = nullptr;  // to pack with; null: this thread alone
};

struct RunContext {
  std::vector<const Tensor*> in;  // null where an optional input is missing
  std::vector<Tensor*> out;
  void* workspace = nullptr;  // 64-byte aligned, as large as reshape() asked for
  ThreadPool* pool = nullptr;
  // For what only the contents of the inputs show, such as an index out of range: the engine points this at an ok
  // status before run(), and stops with that error (and the node's name before it) when run() has set it. The outputs
  // are then unspecified, but nothing was read or written out of bounds.
  Status* error = nullptr;
  // Keeps the first error. Call it from the thread that called run(), not inside parallel_for.
  void report(Status status) const {
    if (error != nullptr && error->ok()) *error = std::move(status);
  }
};

// How a node is computed.
struct Profile {
  std::string scheme = {};  // "winograd_f4", "gemm_1x1", "direct", ...
  int64_t macs = 0;         // multiply-accumulates of one run; 0 where they do not matter
  // Where there was a choice: the schemes, with the milliseconds that each was estimated to take one thread.
  std::string considered = {};
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Called before the first run and whenever a shape changes. Chooses the scheme, packs constant weights (once),
  // and sets the bytes of workspace that run() needs.
  virtual Status reshape(const NodeContext& node, int64_t* workspace) {
    (void)node;
    *workspace = 0;
    return ok();
  }
  // No allocation, no lock. The output tensors have the types that infer gave and the layout of the layout rule.
  virtual void run(const RunContext& context) = 0;
  // False when run() does not look at input i, a constant, because reshape() has made its own copy: the engine may
  // then drop the original. The tensor keeps its type, its data is null; reshape() always gets the contents.
  virtual bool reads(int i) const {
    (void)i;
    return true;
  }
  virtual Profile profile() const { return {}; }
  // An estimate of what one run takes one thread, where that can be told. A kernel that tells it may run beside others:
  // from within parallel_for, where its own loops are one worker's, and with the same result. 0: it is not told.
  virtual double seconds() const { return 0; }
};

using InferFunction = Status (*)(InferContext&);
using CreateFunction = std::unique_ptr<Kernel> (*)(const NodeContext&);

// Which layout a node wants for its inputs and gives to its outputs.
enum class LayoutRule : uint8_t {
  kPlain,        // everything plain
  kPacked,       // in[0] and out[0] packed, a convolution's residual in[3] too, other inputs plain (pooling, ...)
  kPacks,        // out[0] packed, and in[3]; other inputs plain (the first convolution, of an image of 3 channels)
  kFollow,       // in[0] either, out[0] the same, other inputs plain (unary elementwise, Resize)
  kElementwise,  // n-ary elementwise: packed if some input is packed and all inputs that are not scalars can be
                 // (rank >= 2 and equal shape, or [1,C,1,1...] with equal rank), else plain
  kConcat,       // packed if all inputs are packed, axis is 1 (or -rank+1) and every C but the last is a multiple of
                 // pack_width(), or axis is 0 or >= 2; else plain
};

// How an op's kernel computes some of the elements alone, where each element of the output is made of one element of
// each input, and as many pieces at a time as there are threads.
enum class Pieces : uint8_t {
  kNone,     // not at all
  kVectors,  // the piece is a plain vector, which run() takes by the types of its context
  kRows,     // it is a kernel of create_rows(), see RowsKernel
};

// What an op asks of the engine, beside its functions.
struct OpTraits {
  LayoutRule layout = LayoutRule::kPlain;
  // The output may share the memory of in[0] when in[0] dies here and has the same bytes and layout.
  bool in_place = false;
  // Other results in every run, whatever the inputs: never computed ahead of the run.
  bool random = false;
  Pieces pieces = Pieces::kNone;
};

// For an op whose rule depends on the types of its inputs (null where an optional one is missing), such as packed for
// 2-D f32 convolution and plain for all others: takes the place of `layout` when set.
using LayoutFunction = LayoutRule (*)(const std::vector<const TensorType*>& inputs);

struct Op : OpTraits {
  const char* name;
  InferFunction infer;
  CreateFunction create;
  LayoutFunction layout_for;
};

// Adds a row; used through MINNOW_OP at namespace scope. Names are unique.
void add_op(const char* name, InferFunction infer, CreateFunction create, OpTraits traits, LayoutFunction layout_for);
// Rows are arguments, and no data: a pointer in data takes, with the record by which it is set, 32 bytes of the
// library.
struct OpRegistrar {
  OpRegistrar(const char* name, InferFunction infer, CreateFunction create, LayoutRule layout = LayoutRule::kPlain,
              bool in_place = false, LayoutFunction layout_for = nullptr, bool random = false,
              Pieces pieces = Pieces::kNone) {
    add_op(name, infer, create, {layout, in_place, random, pieces}, layout_for);
  }
};
const Op* find_op(const std::string& name);
std::vector<const Op*> all_ops();  // sorted by name

#define MINNOW_CONCAT_(a, b) a##b
#define MINNOW_CONCAT(a, b) MINNOW_CONCAT_(a, b)
#define MINNOW_OP(...) static const ::minnow::OpRegistrar MINNOW_CONCAT(op_registrar_, __LINE__)(__VA_ARGS__)

// Wraps a plain function as a kernel without state: MINNOW_OP("Abs", infer_same, create_simple<run_abs>).
using SimpleFunction = void (*)(const Attrs&, const RunContext&);
std::unique_ptr<Kernel> simple_kernel(SimpleFunction run, const NodeContext& node);
template <SimpleFunction Run>
std::unique_ptr<Kernel> create_simple(const NodeContext& node) {
  return simple_kernel(Run, node);
}

}  // namespace minnow
