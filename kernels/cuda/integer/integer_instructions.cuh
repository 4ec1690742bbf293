// The instructions of integer products. As kernels/cuda/product/ptx.cuh.
#pragma once

#include "kernels/cuda/product/ptx.cuh"

namespace minnow::cuda {

// 8 bytes; those from `bytes` on become zero.
__device__ __forceinline__ void copy8(uint32_t to, const void* from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
#else
  uint2 v = bytes > 0 ? *static_cast<const uint2*>(from) : make_uint2(0, 0);
  if (bytes < 4) v.x = bytes <= 0 ? 0u : v.x & ((1u << (8 * bytes)) - 1);
  if (bytes < 8) v.y = bytes <= 4 ? 0u : v.y & ((1u << (8 * (bytes - 4))) - 1);
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};\n" ::"r"(to), "r"(v.x), "r"(v.y));
#endif
}

// c[16, 8] += a[16, 32] * b[8, 32]^T of signed bytes.
__device__ __forceinline__ void multiply(int* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)  // rows from 0 or 8 on, depth from 0 or 16 on
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
                 : "+r"(c[2 * (i & 1)]), "+r"(c[2 * (i & 1) + 1])
                 : "r"(a[i]), "r"(i < 2 ? b0 : b1));
#endif
}

__device__ __forceinline__ void store_pair(uint32_t to, int a, int b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void store_integer(uint32_t to, int a) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory");
}
__device__ __forceinline__ int load_integer(uint32_t address) {
  int v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ int load_integer_from_cluster(uint32_t address) {
  int v = 0;
#if MINNOW_CLUSTERS
  asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
#endif
  return v;
}
__device__ __forceinline__ uint4 load_words_from_cluster(uint32_t address) {
  uint4 v = {};
#if MINNOW_CLUSTERS
  asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
#endif
  return v;
}

}  // namespace minnow::cuda
