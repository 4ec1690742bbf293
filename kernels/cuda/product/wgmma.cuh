// Products by groups of four warps, of operands in shared memory: d[64, n] += a[64, 32 bytes] * b[n, 32 bytes]^T.
#pragma once

#include "kernels/cuda/product/ptx.cuh"

namespace minnow::cuda {

// Rows of 128 bytes, whose chunks of 16 bytes are exchanged: chunk c of row r lies at c ^ (r % 8). `address` is that of
// the first row, a multiple of 1024; 32 bytes further in the row are 2 more in the descriptor.
__device__ __forceinline__ uint64_t rows_of_128(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Before the first product that uses registers which other instructions have written.
__device__ __forceinline__ void begin_products() {
#if MINNOW_HOPPER
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void commit_products() {
#if MINNOW_HOPPER
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Returns when at most `kPending` of the groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_products() {
#if MINNOW_HOPPER
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

// Nothing that reads the sums is moved to before this.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Makes what was written to shared memory by ordinary instructions visible to these products.
__device__ __forceinline__ void publish_shared() {
#if MINNOW_HOPPER
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The registers, by eights: their names in the instruction, and the operands.
#define MINNOW_TEN(t) \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define MINNOW_UNITS "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
#define MINNOW_8(i)                                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define MINNOW_16(i) MINNOW_8(i), MINNOW_8(i + 8)
#define MINNOW_32(i) MINNOW_16(i), MINNOW_16(i + 16)
#define MINNOW_64(i) MINNOW_32(i), MINNOW_32(i + 32)

#define MINNOW_REGS_32 MINNOW_UNITS "%10, %11, %12, %13, %14, %15"
#define MINNOW_REGS_64 MINNOW_UNITS MINNOW_TEN(1) MINNOW_TEN(2) "%30, %31"
#define MINNOW_REGS_96 MINNOW_UNITS MINNOW_TEN(1) MINNOW_TEN(2) MINNOW_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47"
#define MINNOW_FIFTY MINNOW_UNITS MINNOW_TEN(1) MINNOW_TEN(2) MINNOW_TEN(3) MINNOW_TEN(4)
#define MINNOW_REGS_128 MINNOW_FIFTY MINNOW_TEN(5) "%60, %61, %62, %63"
#define MINNOW_NINETY MINNOW_FIFTY MINNOW_TEN(5) MINNOW_TEN(6) MINNOW_TEN(7) MINNOW_TEN(8)
#define MINNOW_REGS_192 MINNOW_NINETY "%90, %91, %92, %93, %94, %95"
#define MINNOW_REGS_256 \
  MINNOW_NINETY MINNOW_TEN(9) MINNOW_TEN(10) MINNOW_TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"

// A, B, P: the numbers of the operands after the registers.
#define MINNOW_WGMMA(N, SHAPE, ELEMENT, TAIL, A, B, P, ...)                                                       \
  static __device__ __forceinline__ void run(float(&d)[N / 2], uint64_t a, uint64_t b, int add, const ELEMENT*) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N SHAPE       \
                 " {" MINNOW_REGS_##N "}, %" #A ", %" #B ", p, 1, 1" TAIL ";\n}\n"                                \
                 : __VA_ARGS__                                                                                    \
                 : "l"(a), "l"(b), "r"(add));                                                                     \
  }

template <int kColumns>
struct GroupProduct;

#if MINNOW_HOPPER
#define MINNOW_GROUP_PRODUCT(N, A, B, P, ...)                                           \
  template <>                                                                           \
  struct GroupProduct<N> {                                                              \
    MINNOW_WGMMA(N, "k16.f32.f16.f16", __half, ", 0, 0", A, B, P, __VA_ARGS__)          \
    MINNOW_WGMMA(N, "k16.f32.bf16.bf16", __nv_bfloat16, ", 0, 0", A, B, P, __VA_ARGS__) \
    MINNOW_WGMMA(N, "k8.f32.tf32.tf32", float, "", A, B, P, __VA_ARGS__)                \
  };
#else
#define MINNOW_GROUP_PRODUCT(N, A, B, P, ...)                                                   \
  template <>                                                                                   \
  struct GroupProduct<N> {                                                                      \
    template <typename T>                                                                       \
    static __device__ __forceinline__ void run(float (&)[N / 2], uint64_t, uint64_t, int, T) {} \
  };
#endif

MINNOW_GROUP_PRODUCT(32, 16, 17, 18, MINNOW_16(0))
MINNOW_GROUP_PRODUCT(64, 32, 33, 34, MINNOW_32(0))
MINNOW_GROUP_PRODUCT(96, 48, 49, 50, MINNOW_32(0), MINNOW_16(32))
MINNOW_GROUP_PRODUCT(128, 64, 65, 66, MINNOW_64(0))
MINNOW_GROUP_PRODUCT(192, 96, 97, 98, MINNOW_64(0), MINNOW_32(64))
MINNOW_GROUP_PRODUCT(256, 128, 129, 130, MINNOW_64(0), MINNOW_64(64))

}  // namespace minnow::cuda
