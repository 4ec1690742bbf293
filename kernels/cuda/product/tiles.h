// The table of kernels: each file of kernels adds its rows.
#pragma once

#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

// How the operands come to shared memory, and what multiplies them.
enum class Family : uint8_t { kPlain, kMma, kWgmma, kTma };

struct Tile {
  const char* name;  // "mma64x64x5": family, rows, columns, stages; with the type of the elements where it is not f16
  Family family;
  Element element;
  int m, n, threads, stages;
  int blocks;                    // that one processor is expected to hold
  const void *matrix, *windows;  // the kernels: x as a matrix, x as windows; the same where one does both

  int shared_bytes() const { return stages * (m + n) * 128 + (family >= Family::kWgmma ? 1024 : 0); }
};

struct TileRows {
  const Tile* rows;
  int count;
};
TileRows plain_tiles();  // f32, exact
TileRows mma_tiles();
TileRows wgmma_tiles();
TileRows tma_tiles();

// All tiles of the table, in one order.
int tile_count();
const Tile& tile_at(int i);

}  // namespace minnow::cuda
