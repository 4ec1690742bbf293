#include "kernels/core/quantized.h"

#include <algorithm>

#include "kernels/core/interrupt.h"
#include "kernels/core/status_guard.h"

namespace minnow {

void QuantizedMatrix::scales(int64_t first, int64_t count, float* scale, float* offset) const {
  stored_scales(first, count, scale, offset);
  const float half = static_cast<float>(int64_t{1} << (bits - 1));
  for (int64_t i = 0; offset_of_least && i < count; ++i) offset[i] += half * scale[i];
}

void QuantizedMatrix::floats(int64_t first, int64_t count, float* to) const {
  constexpr int64_t kPart = 512;
  int8_t code[kPart];
  LongLoop loop;
  for (const int64_t end = first + count; first < end && loop.goes_on(2 * std::min(kPart, block));) {
    const int64_t of = first / block, n = std::min({kPart, end - first, (of + 1) * block - first});
    float scale = 0, offset = 0;
    scales(of, 1, &scale, &offset);
    codes(first, n, code);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(code[i]) * scale + offset;
    first += n;
    to += n;
  }
}

FloatBuffer QuantizedMatrix::floats() const {
  FloatBuffer all;
  throw_unless(room_for(4 * rows * columns));
  all.allocate(rows * columns);
  floats(0, rows * columns, all.data());
  return all;
}

}  // namespace minnow
