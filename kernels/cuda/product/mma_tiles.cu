#include "kernels/cuda/product/mma_kernel.cuh"
#include "kernels/cuda/product/tiles.h"

namespace minnow::cuda {
namespace {

// rows and columns of the tile, those of a warp, stages, blocks on a processor
#define MINNOW_TILE(PREFIX, ELEMENT, T, M, N, WM, WN, STAGES, BLOCKS)                                             \
  {                                                                                                               \
    PREFIX #M "x" #N "x" #STAGES, Family::kMma, Element::ELEMENT, M, N, (M / WM) * (N / WN) * 32, STAGES, BLOCKS, \
        reinterpret_cast<const void*>(&mma_kernel<T, M, N, WM, WN, STAGES, true>),                                \
        reinterpret_cast<const void*>(&mma_kernel<T, M, N, WM, WN, STAGES, false>)                                \
  }

const Tile kTiles[] = {
    MINNOW_TILE("mma", kF16, __half, 16, 128, 16, 32, 5, 2),
    MINNOW_TILE("mma", kF16, __half, 32, 32, 16, 32, 6, 4),
    MINNOW_TILE("mma", kF16, __half, 32, 64, 16, 32, 5, 3),
    MINNOW_TILE("mma", kF16, __half, 64, 32, 16, 32, 5, 3),
    MINNOW_TILE("mma", kF16, __half, 64, 64, 32, 32, 5, 2),
    MINNOW_TILE("mma", kF16, __half, 128, 64, 32, 32, 3, 2),
    MINNOW_TILE("mma", kF16, __half, 128, 128, 64, 32, 3, 2),
    MINNOW_TILE("mma_bf16_", kBF16, __nv_bfloat16, 32, 64, 16, 32, 5, 3),
    MINNOW_TILE("mma_bf16_", kBF16, __nv_bfloat16, 128, 64, 32, 32, 3, 2),
    MINNOW_TILE("mma_tf32_", kTF32, float, 16, 128, 16, 32, 5, 2),
    MINNOW_TILE("mma_tf32_", kTF32, float, 32, 32, 16, 32, 6, 4),
    MINNOW_TILE("mma_tf32_", kTF32, float, 64, 64, 32, 32, 5, 2),
    MINNOW_TILE("mma_tf32_", kTF32, float, 128, 64, 32, 32, 3, 2),
};

}  // namespace

TileRows mma_tiles() { return {kTiles, static_cast<int>(sizeof kTiles / sizeof *kTiles)}; }

}  // namespace minnow::cuda
