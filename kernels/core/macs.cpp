#include "kernels/core/macs.h"

#include "kernels/core/kernel.h"

namespace minnow {
namespace {

int64_t per_channel(const Shape& weights) { return weights.rank() == 0 ? 0 : weights.count(1, weights.rank()); }

}  // namespace

int64_t macs_per_output(const NodeContext& node) {
  return Shape{node.out[0]->count(), per_channel(node.in[1]->shape)}.count();
}

int64_t macs_per_input(const NodeContext& node) {
  return Shape{node.in[0]->count(), per_channel(node.in[1]->shape)}.count();
}

int64_t macs_of_product(const NodeContext& node) {
  const Shape& a = node.in[0]->shape;
  if (a.rank() == 0) return 0;
  return Shape{node.out[0]->count(), a.at(a.rank() > 1 && node.attrs.b("transpose_a") ? -2 : -1)}.count();
}

}  // namespace minnow
