#include "kernels/cuda/product/plain_kernel.cuh"
#include "kernels/cuda/product/tiles.h"

namespace minnow::cuda {
namespace {

#define MINNOW_TILE(M, N, TM, TN, STAGES, BLOCKS)                                                            \
  {                                                                                                          \
    "plain" #M "x" #N "x" #STAGES, Family::kPlain, Element::kF32, M, N, (M / TM) * (N / TN), STAGES, BLOCKS, \
        reinterpret_cast<const void*>(&plain_kernel<M, N, TM, TN, STAGES, true>),                            \
        reinterpret_cast<const void*>(&plain_kernel<M, N, TM, TN, STAGES, false>)                            \
  }

const Tile kTiles[] = {
    MINNOW_TILE(16, 64, 2, 4, 4, 4),  MINNOW_TILE(32, 32, 4, 4, 5, 4),   MINNOW_TILE(64, 64, 4, 4, 3, 4),
    MINNOW_TILE(128, 64, 8, 8, 3, 3), MINNOW_TILE(128, 128, 8, 8, 3, 2),
};

}  // namespace

TileRows plain_tiles() { return {kTiles, static_cast<int>(sizeof kTiles / sizeof *kTiles)}; }

}  // namespace minnow::cuda
