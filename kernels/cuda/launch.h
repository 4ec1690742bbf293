// How the kernels of this folder are started. Every kernel lets the next one begin early (allow_next) and waits for the
// one before (wait_previous) until it reads what that one has written: programmatic dependent launch, from sm_90 on.
// Every kernel waits, also one that reads nothing new, because only so does the order of two kernels hold for a third.
#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace minnow::cuda {

// Where kernels go. Launching allocates nothing and waits for nothing, so it may be captured in a graph.
struct Target {
  cudaStream_t stream = nullptr;
  // A kernel may begin while the one before it ends; the device has compute capability 9.0 or more.
  bool overlap = false;
  int capability = 90;  // of the device: ten times the major one, and the minor one
  int multiprocessors = 132;
};

#ifdef __CUDACC__
__device__ __forceinline__ void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Starts a kernel. `cluster`: blocks of a cluster along z, 1 for none.
template <class... Parameters, class... Arguments>
cudaError_t launch(const Target& target, void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes,
                   int cluster, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = target.stream;
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (target.overlap) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = 1;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = static_cast<unsigned>(cluster);
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}
#endif

}  // namespace minnow::cuda
