// The instructions that CUDA C++ has no words for: asynchronous copies, matrix fragments, barriers in shared memory,
// programmatic launches, clusters. Each wrapper is one instruction; on processors without it, what does the same.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

// Hopper's own instructions (wgmma, setmaxnreg, tensor maps) are only in code for sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MINNOW_HOPPER 1
#else
#define MINNOW_HOPPER 0
#endif
// Clusters, programmatic launches.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define MINNOW_CLUSTERS 1
#else
#define MINNOW_CLUSTERS 0
#endif

namespace minnow::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- copies to shared memory -------------------------------------------------------------------------------------

// 16 bytes; those from `bytes` on become zero. With `kKeep` the line also goes to the L1 cache.
template <bool kKeep = false>
__device__ __forceinline__ void copy16(uint32_t to, const void* from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kKeep) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
  } else {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
  }
#else
  uint4 v = bytes > 0 ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  uint32_t* word = &v.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int left = bytes - 4 * i;
    if (left < 4) word[i] = left <= 0 ? 0u : word[i] & ((1u << (8 * left)) - 1);
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
#endif
}

__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

// Returns when at most `kPending` of the groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#endif
}

// ---- fragments of matrices ---------------------------------------------------------------------------------------

// Four blocks of 8 rows of 16 bytes; thread i gives the address of row i % 8 of block i / 8.
__device__ __forceinline__ void load_blocks(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// As load_blocks, the other way.
__device__ __forceinline__ void store_blocks(uint32_t address, const uint32_t (&r)[4]) {
#if MINNOW_CLUSTERS
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#endif
}

// c[16, 8] += a[16, 32 bytes] * b[8, 32 bytes]^T. The fragments lie alike, in bytes, for all types of elements.
__device__ __forceinline__ void multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const __half*) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
#pragma unroll
  for (int i = 0; i < 2; ++i)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(i == 0 ? b0 : b1));
#endif
}

__device__ __forceinline__ void multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                         const __nv_bfloat16*) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();  // no row of the table offers it there
#endif
}

// In TF32. The processor drops the low 13 bits: what is added makes that rounding to the nearest.
__device__ __forceinline__ void multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const float*) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr uint32_t kHalf = 0x1000;
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0] + kHalf), "r"(a[1] + kHalf), "r"(a[2] + kHalf), "r"(a[3] + kHalf), "r"(b0 + kHalf), "r"(b1 + kHalf));
#else
  __trap();
#endif
}

// ---- programmatic launches ---------------------------------------------------------------------------------------

// The next kernel may start as soon as all blocks have said so.
__device__ __forceinline__ void let_next_start() {
#if MINNOW_CLUSTERS
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernels before have ended and their results are visible. Every kernel calls it, since that of the next one
// only waits for this one.
__device__ __forceinline__ void wait_for_previous() {
#if MINNOW_CLUSTERS
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- clusters ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t cluster_rank() {
#if MINNOW_CLUSTERS
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// All threads of all blocks of the cluster meet; what they wrote before is visible after.
__device__ __forceinline__ void cluster_sync() {
#if MINNOW_CLUSTERS
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}

// All threads of the block, or of the cluster if it has more blocks.
__device__ __forceinline__ void meet(int blocks) {
  if (blocks == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }
}

// The address, in the cluster, of what lies at this address in block `rank`.
__device__ __forceinline__ uint32_t of_block(uint32_t address, uint32_t rank) {
#if MINNOW_CLUSTERS
  uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
#else
  return address;
#endif
}

__device__ __forceinline__ void store2(uint32_t to, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}

__device__ __forceinline__ void store_word(uint32_t to, uint32_t a) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory");
}

__device__ __forceinline__ uint4 load_words(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_words(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t to, float a) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(a) : "memory");
}

__device__ __forceinline__ float4 load_shared(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ float4 load_from_cluster(uint32_t address) {
  float4 v = {};
#if MINNOW_CLUSTERS
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
#endif
  return v;
}

// ---- registers ----------------------------------------------------------------------------------------------------

// All four warps of a group call these. How many registers a thread has from then on.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
#if MINNOW_HOPPER
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
#if MINNOW_HOPPER
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// ---- barriers in shared memory, and copies by tensor maps ----------------------------------------------------------

__device__ __forceinline__ void init_barrier(uint32_t barrier, uint32_t arrivals) {
#if MINNOW_CLUSTERS
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#endif
}

// After init_barrier, before others in the cluster and the copy engine may use the barriers.
__device__ __forceinline__ void fence_barriers() {
#if MINNOW_CLUSTERS
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
#if MINNOW_CLUSTERS
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

// At the barrier of block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
#if MINNOW_CLUSTERS
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(of_block(barrier, rank))
               : "memory");
#endif
}

__device__ __forceinline__ void arrive(uint32_t barrier) {
#if MINNOW_CLUSTERS
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

// Until the phase of this parity has ended. With MINNOW_WATCHDOG, a wait of two seconds is an error of the kernel.
__device__ __forceinline__ void wait_barrier(uint32_t barrier, uint32_t parity) {
#if MINNOW_CLUSTERS
#ifdef MINNOW_WATCHDOG
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
#endif
  uint32_t done = 0;
  while (true) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, "
        "p;\n}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done != 0) break;
#ifdef MINNOW_WATCHDOG
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begin > 2000000000ull) __trap();
#endif
  }
#endif
}

__device__ __forceinline__ void prefetch_map(const void* map) {
#if MINNOW_CLUSTERS
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

__device__ __forceinline__ void load_box3(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z) {
#if MINNOW_CLUSTERS
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
#endif
}

__device__ __forceinline__ void load_box4(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, int v) {
#if MINNOW_CLUSTERS
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(v)
      : "memory");
#endif
}

// From shared memory; what lies outside of the tensor is left out. Counts to the next commit_stores().
__device__ __forceinline__ void store_box3(const void* map, uint32_t from, int x, int y, int z) {
#if MINNOW_CLUSTERS
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y), "r"(z)
               : "memory");
#endif
}

__device__ __forceinline__ void commit_stores() {
#if MINNOW_CLUSTERS
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Returns when at most `kPending` of the groups have yet to read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_stores() {
#if MINNOW_CLUSTERS
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
#endif
}

// To the same place of all blocks of `mask`, and to the barrier at the same place of each.
__device__ __forceinline__ void load_box4_to(uint16_t mask, uint32_t to, const void* map, uint32_t barrier, int x,
                                             int y, int z, int v) {
#if MINNOW_CLUSTERS
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(v), "h"(mask)
      : "memory");
#endif
}

// The pixels of windows: channels from c of the pixels from (w, h, n) on, shifted by (dw, dh).
__device__ __forceinline__ void load_windows(uint32_t to, const void* map, uint32_t barrier, int c, int w, int h, int n,
                                             uint16_t dw, uint16_t dh) {
#if MINNOW_CLUSTERS
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"(dw), "h"(dh)
      : "memory");
#endif
}

}  // namespace minnow::cuda
