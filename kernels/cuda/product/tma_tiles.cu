#include "kernels/cuda/product/tiles.h"
#include "kernels/cuda/product/tma_kernel.cuh"

namespace minnow::cuda {
namespace {

#define MINNOW_TILE(PREFIX, ELEMENT, T, M, N, GROUPS, STAGES, BLOCKS)                                       \
  {                                                                                                         \
    PREFIX #M "x" #N "x" #STAGES, Family::kTma, Element::ELEMENT, M, N, GROUPS * 128 + 128, STAGES, BLOCKS, \
        reinterpret_cast<const void*>(&tma_kernel<T, M, N, GROUPS, STAGES, BLOCKS>),                        \
        reinterpret_cast<const void*>(&tma_kernel<T, M, N, GROUPS, STAGES, BLOCKS>)                         \
  }

const Tile kTiles[] = {
    MINNOW_TILE("tma", kF16, __half, 64, 32, 1, 6, 3),
    MINNOW_TILE("tma", kF16, __half, 64, 64, 1, 4, 3),
    MINNOW_TILE("tma", kF16, __half, 64, 64, 1, 6, 2),
    MINNOW_TILE("tma", kF16, __half, 64, 128, 1, 4, 2),
    MINNOW_TILE("tma", kF16, __half, 64, 256, 1, 5, 1),
    MINNOW_TILE("tma", kF16, __half, 128, 32, 1, 5, 2),
    MINNOW_TILE("tma", kF16, __half, 128, 64, 1, 3, 3),
    MINNOW_TILE("tma", kF16, __half, 128, 64, 2, 4, 2),
    MINNOW_TILE("tma", kF16, __half, 128, 96, 1, 3, 2),
    MINNOW_TILE("tma", kF16, __half, 128, 128, 1, 3, 2),
    MINNOW_TILE("tma", kF16, __half, 128, 128, 2, 6, 1),
    MINNOW_TILE("tma", kF16, __half, 128, 192, 2, 5, 1),
    MINNOW_TILE("tma", kF16, __half, 128, 256, 2, 4, 1),
    MINNOW_TILE("tma", kF16, __half, 192, 128, 3, 5, 1),
    MINNOW_TILE("tma", kF16, __half, 256, 64, 2, 5, 1),
    MINNOW_TILE("tma", kF16, __half, 256, 128, 2, 4, 1),
    MINNOW_TILE("tma_bf16_", kBF16, __nv_bfloat16, 64, 64, 1, 6, 2),
    MINNOW_TILE("tma_bf16_", kBF16, __nv_bfloat16, 128, 128, 1, 3, 2),
    MINNOW_TILE("tma_tf32_", kTF32, float, 64, 64, 1, 6, 2),
    MINNOW_TILE("tma_tf32_", kTF32, float, 128, 64, 1, 4, 2),
    MINNOW_TILE("tma_tf32_", kTF32, float, 128, 128, 1, 3, 2),
    MINNOW_TILE("tma_tf32_", kTF32, float, 128, 256, 2, 4, 1),
};

}  // namespace

TileRows tma_tiles() { return {kTiles, static_cast<int>(sizeof kTiles / sizeof *kTiles)}; }

}  // namespace minnow::cuda
