// Ops that stay on the CPU, and why: what `placement` shows of them.
#include "kernels/gpu/device.h"

namespace minnow::gpu {
namespace {

std::unique_ptr<Kernel> create_nothing(const NodeContext&) { return nullptr; }

// What follows would wait for the device to tell the shape.
bool shape_by_contents(const NodeContext&, std::string* why) {
  *why = "leaves to the CPU what has a shape that depends on contents";
  return false;
}

bool lists_of_tensors(const NodeContext&, std::string* why) {
  *why = "leaves lists of tensors to the CPU";
  return false;
}

}  // namespace

MINNOW_GPU_KERNEL("NonZero", create_nothing, shape_by_contents);
MINNOW_GPU_KERNEL("ArgWhere", create_nothing, shape_by_contents);
MINNOW_GPU_KERNEL("Compress", create_nothing, shape_by_contents);
MINNOW_GPU_KERNEL("Unique", create_nothing, shape_by_contents);
MINNOW_GPU_KERNEL("NonMaxSuppression", create_nothing, shape_by_contents);
MINNOW_GPU_KERNEL("SequenceConstruct", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("SequenceInsert", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("SequenceErase", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("SequenceAt", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("SequenceLength", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("ConcatFromSequence", create_nothing, lists_of_tensors);
MINNOW_GPU_KERNEL("SplitToSequence", create_nothing, lists_of_tensors);

}  // namespace minnow::gpu
