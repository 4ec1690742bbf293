// What computes a node on a device. Life of a kernel: create -> reshape -> run, run, run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/accelerator.h"
#include "kernels/core/registrar.h"
#include "kernels/core/attrs.h"
#include "kernels/core/packed.h"
#include "kernels/core/status.h"
#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace minnow {

class QuantizedMatrix;

enum class Precision : uint8_t { kHigh, kNormal, kLow };
// Whether to compile what multiplies in bfloat16 or float16. Without, precision "low" is that of f32.
constexpr bool kHasLowPrecision = is_kept("low precision");
// Whether to compile what computes with weights as they are packed in files. Without, they become numbers beforehand.
constexpr bool kHasPackedWeights = is_kept("packed weights");

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
  ThreadPool* pool = nullptr;          // to pack with; null: this thread alone
  Accelerator* accelerator = nullptr;  // on which the kernel runs; null: the CPU
  // Of constants that are quantized in the file, for a kernel that unpacks() them: their `constant` has no contents
  // then. Shorter than `in` where there are none.
  std::vector<const QuantizedMatrix*> quantized = {};

  const QuantizedMatrix* quantized_input(size_t i) const {
    return kHasPackedWeights && i < quantized.size() ? quantized[i] : nullptr;
  }
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
  // Whether reshape() takes input i, a constant, as the quantized numbers that the file has, where it has such. The
  // same before and after reshape().
  virtual bool unpacks(int i) const {
    (void)i;
    return false;
  }
  virtual Profile profile() const { return {}; }
  // An estimate of what one run takes one thread, where that can be told. A kernel that tells it may run beside others:
  // from within parallel_for, where its own loops are one worker's, and with the same result. 0: it is not told.
  virtual double seconds() const { return 0; }
};

using CreateFunction = std::unique_ptr<Kernel> (*)(const NodeContext&);
// Whether there is a kernel for a node of these types and attributes; if not, `why` says what is missing: "computes no
// f64". The contents of constants are not there.
using SupportsFunction = bool (*)(const NodeContext&, std::string* why);

// Wraps a plain function as a kernel without state: create_simple<run_abs>.
using SimpleFunction = void (*)(const Attrs&, const RunContext&);
std::unique_ptr<Kernel> simple_kernel(SimpleFunction run, const NodeContext& node);
template <SimpleFunction Run>
std::unique_ptr<Kernel> create_simple(const NodeContext& node) {
  return simple_kernel(Run, node);
}

}  // namespace minnow
