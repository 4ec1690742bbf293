// Tensor maps: how the copy engine of Hopper finds boxes of a tensor.
#pragma once

#include <cuda.h>

#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

// Whether the driver can make them.
bool has_tensor_maps();

// Both give false where the driver refuses. `rows` and `columns`: of a box; its rows have 128 bytes of the depth.
bool map_matrix(const Product& product, const void* x, int rows, CUtensorMap* map);
bool map_windows(const Product& product, const void* x, int rows, CUtensorMap* map);
bool map_weights(const Product& product, const void* w, int columns, CUtensorMap* map);

// The result, or what is addressed as it, of 16 bits: boxes of 64 columns.
bool map_result(const Product& product, const void* y, int rows, CUtensorMap* map);

// Whether the windows are of the kind that a map describes.
bool can_map_windows(const ProductArguments& shape);

}  // namespace minnow::cuda
