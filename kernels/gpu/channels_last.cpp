#include "kernels/gpu/channels_last.h"

namespace minnow::gpu {

bool is_depthwise(const NodeContext& node) {
  const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
  return (x.rank() == 3 || x.rank() == 4) && w.rank() == x.rank() && node.attrs.i("group", 1) == x[1] && w[0] == x[1] &&
         w[1] == 1;
}

}  // namespace minnow::gpu
