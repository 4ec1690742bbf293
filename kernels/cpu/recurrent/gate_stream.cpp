#include "kernels/cpu/recurrent/gate_stream.h"

#include <algorithm>
#include <limits>

#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();

}  // namespace

void stream_gates(const GateStream& s) {
  Tile tile;
  tile.in = s.from;
  tile.in_pixel = tile.steps[0].length = s.hidden;
  tile.steps[1].outer = 0;
  const int64_t pack = pack_width();
  tile.w_block = s.hidden * pack;
  tile.out_pixel = s.n;
  tile.out_block = pack;
  tile.lanes = static_cast<int>(pack);
  tile.low = -kNoBound;
  tile.high = kNoBound;
  const int64_t blocks = ceil_div(s.end - s.begin, pack), groups = ceil_div(blocks, int64_t{kStreamBlocks});
  const int64_t all = s.n / s.stride * groups;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t item = s.backward ? all - 1 - i : i;
    const int64_t column = item / groups * s.stride + s.begin + item % groups * kStreamBlocks * pack;
    const int64_t left = std::min<int64_t>(kStreamBlocks, blocks - item % groups * kStreamBlocks);
    for (int64_t done = 0, count = kStreamBlocks; done < left; count /= 2) {
      if (left - done < count) continue;
      tile.w = s.packed + (column + done * pack) * s.hidden;
      tile.out = s.to + column + done * pack;
      tile_function(static_cast<int>(count), static_cast<int>(s.rows))(tile);
      done += count;
    }
  }
}

void stream_gates_bf16(const GateStream& s) {
  const int64_t pack = pack_width(), gates = s.n / s.stride;
  for (int64_t i = 0; i < gates; ++i) {
    const int64_t gate = s.backward ? gates - 1 - i : i;
    for (int64_t r = 0; r < s.rows; r += kBf16Rows) {
      const Bf16RowsCall call = {s.from + r * s.hidden,
                                 s.hidden,
                                 s.packed + gate * s.stride * bf16_pairs(s.hidden),
                                 nullptr,
                                 nullptr,
                                 s.to + r * s.n + gate * s.stride,
                                 s.n,
                                 s.stride,
                                 s.hidden,
                                 -kNoBound,
                                 kNoBound};
      const int rows = static_cast<int>(std::min<int64_t>(kBf16Rows, s.rows - r));
      bf16_rows(call, rows, s.begin / pack, ceil_div(s.end, pack));
    }
  }
}

}  // namespace minnow
