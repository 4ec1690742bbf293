// What the timing programs of CUDA kernels share: a graph of launches, replayed.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"

namespace minnow::cuda::bench {

inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

// Memory with the bytes of small floats of 16 or 32 bits.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    require(cudaMalloc(&data_, bytes + 512), "cudaMalloc");
    std::vector<uint32_t> some(std::min<size_t>(bytes / 4 + 1, 1 << 20));
    uint32_t state = 12345;
    for (uint32_t& word : some) {
      state = state * 1664525u + 1013904223u;
      word = (state & 0x83ff83ffu) | 0x34003400u;  // halves of about 0.3
    }
    for (size_t at = 0; at < bytes; at += some.size() * 4)
      require(cudaMemcpy(static_cast<char*>(data_) + at, some.data(), std::min(some.size() * 4, bytes - at),
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  template <typename T = char>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + offset);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// Microseconds of one call of `enqueue(i, target)`, of `calls` in a graph; the median of the replays.
inline double time_of(int calls, const std::function<cudaError_t(int, const Target&)>& enqueue, int replays = 15) {
  Target target;
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "properties");
  target.capability = 10 * properties.major + properties.minor;
  target.multiprocessors = properties.multiProcessorCount;
  target.overlap = target.capability >= 90;
  require(cudaStreamCreateWithFlags(&target.stream, cudaStreamNonBlocking), "stream");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  require(cudaStreamBeginCapture(target.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < calls; ++i) require(enqueue(i, target), "launch");
  require(cudaStreamEndCapture(target.stream, &graph), "end of capture");
  require(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int r = 0; r < replays + 2; ++r) {
    require(cudaEventRecord(begin, target.stream), "record");
    require(cudaGraphLaunch(exec, target.stream), "replay");
    require(cudaEventRecord(end, target.stream), "record");
    require(cudaStreamSynchronize(target.stream), "run");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "time");
    if (r >= 2) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(target.stream);
  return 1000.0 * times[times.size() / 2] / calls;
}

inline void line(const std::string& what, double us, double bytes, double flops = 0) {
  std::printf("%-56s %9.2f us %8.0f GB/s", what.c_str(), us, bytes / us / 1e3);
  if (flops > 0) std::printf(" %7.1f TFLOP/s", flops / us / 1e6);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace minnow::cuda::bench
