#include "kernels/cuda/product/tiles.h"
#include "kernels/cuda/product/wgmma_kernel.cuh"

namespace minnow::cuda {
namespace {

#define MINNOW_TILE(M, N, STAGES, BLOCKS)                                                      \
  {                                                                                            \
    "wgmma" #M "x" #N "x" #STAGES, Family::kWgmma, Element::kF16, M, N, M * 2, STAGES, BLOCKS, \
        reinterpret_cast<const void*>(&wgmma_kernel<__half, M, N, STAGES, BLOCKS, true>),      \
        reinterpret_cast<const void*>(&wgmma_kernel<__half, M, N, STAGES, BLOCKS, false>)      \
  }

const Tile kTiles[] = {
    MINNOW_TILE(64, 32, 4, 3),  MINNOW_TILE(64, 64, 3, 3),   MINNOW_TILE(64, 64, 6, 2),  MINNOW_TILE(64, 96, 3, 3),
    MINNOW_TILE(64, 128, 3, 2), MINNOW_TILE(64, 192, 3, 2),  MINNOW_TILE(128, 32, 4, 2), MINNOW_TILE(128, 64, 3, 2),
    MINNOW_TILE(128, 96, 3, 2), MINNOW_TILE(128, 128, 3, 2),
};

}  // namespace

TileRows wgmma_tiles() { return {kTiles, static_cast<int>(sizeof kTiles / sizeof *kTiles)}; }

}  // namespace minnow::cuda
