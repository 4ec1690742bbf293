// What tma_kernel.cuh is told.
#pragma once

#include <cuda.h>

#include "kernels/cuda/product/arguments.h"

namespace minnow::cuda {

struct MapArguments {
  CUtensorMap x;     // windows: images in im2col mode; else [batch, rows, depth] in tiles
  CUtensorMap more;  // as x, where the product has a split
  CUtensorMap w;     // [batch, columns, taps, channels] in tiles
  // The result and the residual, of 16 bits, in tiles of 64 columns; where `staged`.
  CUtensorMap y, residual;
  ProductArguments a;
  int staged = 0;     // results pass through stages of the ring, and are copied from there
  int windows = 0;    // whether x is read as windows
  int x_batches = 1;  // 0: all products of the batch have the same x
  int w_batches = 1;
  int channel_steps = 1;  // steps for each tap
  int split_steps = 0;    // of them, those of x; 0: all
  int row_tiles = 1;      // of the cluster: as many rows as its blocks make at once
  int work = 1;           // tiles of all clusters
  int cluster = 1;        // blocks of a cluster
  int shares_depth = 0;
};

}  // namespace minnow::cuda
