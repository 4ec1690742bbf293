#include "kernels/order.h"

#include <algorithm>
#include <numeric>

namespace minnow {

void sort_numbers(int64_t* numbers, int64_t n, Before before) {
  std::sort(numbers, numbers + n, [&before](int64_t a, int64_t b) { return before(a, b); });
}

std::vector<int64_t> order_of(int64_t n, Before before) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  sort_numbers(order.data(), n, [&](int64_t a, int64_t b) { return before(a, b) || (a < b && !before(b, a)); });
  return order;
}

}  // namespace minnow
