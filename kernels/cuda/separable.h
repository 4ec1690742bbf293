// A depthwise convolution and the pointwise one that alone reads its result, in one kernel: the image between is in
// shared memory only. For small images, where kernels wait for each other most of the time; each block makes all that
// its results need of that image, however often others make it, too.
#pragma once

#include <string>

#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

struct Separable {
  Depthwise depthwise;  // its residual, gate, y and scheme do not count
  Product pointwise;    // of the image between, a matrix of rows of `depthwise.channels` elements
};

// In how many ways it can be computed; 0: not at all. The most promising one is scheme 0.
int separable_schemes(const Separable& problem, const Target& target);
std::string separable_name(const Separable& problem, int scheme, const Target& target);

// `operands` are those of the pointwise product, whose x does not count.
cudaError_t separable(const Separable& problem, int scheme, const ProductOperands& operands, const Target& target);

}  // namespace minnow::cuda
