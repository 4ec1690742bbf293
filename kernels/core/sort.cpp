#include "kernels/core/sort.h"

#include <algorithm>
#include <numeric>

namespace minnow {

std::vector<int64_t> order_of(int64_t n, FunctionRef<bool(int64_t, int64_t)> before) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return before(a, b) || (a < b && !before(b, a)); });
  return order;
}

}  // namespace minnow
