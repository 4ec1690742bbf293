// Attention on tensor cores in bf16.
#include "kernels/cuda/attention_tensor.cuh"

namespace minnow::cuda {

cudaError_t launch_attention_bf16(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  return launch_attention<bfloat16>(plan, a, target);
}

}  // namespace minnow::cuda
