// Runs one kernel on given inputs, right now: constant folding, and the tests of single kernels.
#pragma once

#include <memory>
#include <vector>

#include "runtime/src/backend/backend.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

struct Evaluation {
  bool packed = false;               // use the packed layout where the op's layout rule allows it
  bool with_constants = false;       // tell the kernel that all inputs but the first are constant, as weights are
  bool guarded = false;              // surround all buffers with guard zones, and fail when one was written to
  MemoryAccount* account = nullptr;  // counts all buffers, also those of the outputs; may be null
};

// Types the node: calls infer with the contents of all inputs, and checks what it gives.
Status infer_types(const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs, int num_outputs,
                   std::vector<TensorType>* types);

// The outputs of the op, in plain layout, computed by a backend whose memory is the host's; null inputs are missing
// optional ones. `types` are those of infer.
Status evaluate(Backend& backend, const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs,
                const std::vector<TensorType>& types, ThreadPool* pool, Precision precision, const Evaluation& how,
                std::vector<Buffer>* outputs);

// The same on any other device: all inputs and outputs are copied, all memory has guard zones where they are asked for.
// kUnsupported, with the reason, where the device does not compute this node.
Status evaluate_on(Backend& backend, const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs,
                   const std::vector<TensorType>& types, ThreadPool* pool, Precision precision, const Evaluation& how,
                   std::vector<Buffer>* outputs);

// That of an output which infer has said nothing of: an op has no such output.
TensorType unset_type();
inline bool is_unset(const TensorType& type) { return !type.shape.fits() && type.shape.rank() == 0; }

// Rank, sizes and number of elements are such that nothing overflows.
Status check_type(const TensorType& type);

}  // namespace minnow
