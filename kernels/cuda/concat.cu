// One launch copies all parts: a thread finds the part that its elements of the result come from.
#include "kernels/cuda/concat.h"

#include "kernels/cuda/divide.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostCount = 2'000'000'000;  // so that the last threads count in ints, too
constexpr int kMany = 4;                       // elements of a thread, where there are enough of them

// In elements.
struct Parts {
  const void* from[Concat::kMostParts];
  int64_t stride[Concat::kMostParts];
  int begin[Concat::kMostParts];  // in a row of the result
  void* to;
  int64_t to_stride;
  int parts, count;
  Divisor by_row;
};

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) concat_kernel(const __grid_constant__ Parts a) {
  allow_next();
  wait_previous();
  const int first = static_cast<int>(blockIdx.x) * (kThreads * kEach) + static_cast<int>(threadIdx.x);
  T v[kEach];
  int64_t place[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    int at = first + e * kThreads;
    place[e] = -1;
    if (at >= a.count) continue;
    const int row = a.by_row.split(&at);
    int part = 0;
#pragma unroll
    for (int p = 1; p < Concat::kMostParts; ++p) part += p < a.parts && at >= a.begin[p] ? 1 : 0;
    v[e] = static_cast<const T*>(a.from[part])[row * a.stride[part] + at - a.begin[part]];
    place[e] = row * a.to_stride + at;
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    if (place[e] >= 0) static_cast<T*>(a.to)[place[e]] = v[e];
}

template <typename T>
cudaError_t run(const Concat& p, const Target& target) {
  constexpr int64_t size = sizeof(T);
  Parts a{};
  a.parts = p.parts;
  int64_t row = 0;
  for (int i = 0; i < p.parts; ++i) {
    a.from[i] = p.part[i].from;
    a.stride[i] = p.part[i].stride / size;
    a.begin[i] = static_cast<int>(row);
    row += p.part[i].run / size;
  }
  a.to = p.to;
  a.to_stride = p.stride / size;
  const int64_t count = row * p.rows;
  if (count > kMostCount) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  a.count = static_cast<int>(count);
  a.by_row = Divisor(static_cast<int>(row));
  const bool many = count >= int64_t{kThreads} * kMany * 4 * target.multiprocessors;
  const int64_t each = kThreads * (many ? kMany : 1);
  return launch(target, many ? concat_kernel<T, kMany> : concat_kernel<T, 1>,
                dim3(static_cast<unsigned>((count + each - 1) / each)), kThreads, 0, 1, a);
}

}  // namespace

cudaError_t concat(const Concat& problem, const Target& target) {
  uint64_t all = 16 | reinterpret_cast<uintptr_t>(problem.to);
  if (problem.rows > 1) all |= static_cast<uint64_t>(problem.stride);
  for (int i = 0; i < problem.parts; ++i) {
    all |= static_cast<uint64_t>(problem.part[i].run) | reinterpret_cast<uintptr_t>(problem.part[i].from);
    if (problem.rows > 1) all |= static_cast<uint64_t>(problem.part[i].stride);
  }
  switch (all & (~all + 1)) {  // its lowest bit
    case 16:
      return run<uint4>(problem, target);
    case 8:
      return run<uint2>(problem, target);
    case 4:
      return run<uint32_t>(problem, target);
    case 2:
      return run<uint16_t>(problem, target);
    default:
      return run<uint8_t>(problem, target);
  }
}

}  // namespace minnow::cuda
