// Attention on tensor cores in f16.
#include "kernels/cuda/attention_tensor.cuh"

namespace minnow::cuda {

cudaError_t launch_attention_f16(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  return launch_attention<half>(plan, a, target);
}

}  // namespace minnow::cuda
