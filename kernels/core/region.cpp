#include "kernels/core/region.h"

namespace minnow {

bool Region::simplify() {
  int kept = 0;
  for (int k = 0; k < rank; ++k) {
    const size_t from = static_cast<size_t>(k);
    const int64_t n = size[from], src = src_stride[from], dst = dst_stride[from];
    if (n <= 0) return false;
    if (n == 1) continue;
    // Insertion into the dims kept so far, which is cheap for so few and keeps the order of equals.
    size_t to = static_cast<size_t>(kept++);
    for (; to > 0 && dst_stride[to - 1] < dst; --to) {
      size[to] = size[to - 1];
      src_stride[to] = src_stride[to - 1];
      dst_stride[to] = dst_stride[to - 1];
    }
    size[to] = n;
    src_stride[to] = src;
    dst_stride[to] = dst;
  }
  rank = 0;
  for (size_t k = 0; k < static_cast<size_t>(kept); ++k) {
    const int64_t n = size[k], src = src_stride[k], dst = dst_stride[k];
    const size_t outer = static_cast<size_t>(rank - 1);
    if (rank > 0 && src_stride[outer] == n * src && dst_stride[outer] == n * dst) {
      size[outer] *= n;
      src_stride[outer] = src;
      dst_stride[outer] = dst;
    } else {
      add(n, src, dst);
    }
  }
  return true;
}

std::array<int64_t, kMaxRank> strides_of(const Shape& shape) {
  std::array<int64_t, kMaxRank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace minnow
