#include "kernels/cuda/quantized_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace minnow::cuda {

void QuantizedWeights::make(const NodeContext& node, size_t input, const QuantizedMatrix& matrix) {
  there_ = true;
  QuantizedTiles t;
  t.n = static_cast<int>(matrix.rows), t.k = static_cast<int>(matrix.columns);
  t.bits = matrix.bits <= 4 ? 4 : 8, t.group = static_cast<int>(matrix.block);
  tiles_ = t;
  q_.make(node, {input}, "quantized_tiles" + std::to_string(t.bits), t.bytes(), [&](void* to) {
    std::memset(to, t.empty_byte(), static_cast<size_t>(t.bytes()));
    const int half = t.bits == 4 ? 8 : 128, units = t.units();
    std::vector<int8_t> codes(static_cast<size_t>(t.k + 7));
    for (int row = 0; row < t.n; ++row) {
      matrix.codes(int64_t{row} * t.k, t.k, codes.data());
      for (int first = 0; first < t.k; first += 8) {
        const PlaceOfEight place(row, first, t.bits, units);
        for (int i = 0; i < 8; ++i) {
          if (first + i >= t.k) break;
          const auto code = static_cast<uint32_t>((codes[static_cast<size_t>(first + i)] + half) ^ half);
          static_cast<uint32_t*>(to)[place.word + PlaceOfEight::word_of(i, t.bits)] ^= code << place.shift(i, t.bits);
        }
      }
    }
  });
  const int groups = t.groups();
  const auto numbers = [&](bool scales) {
    return [&, scales](void* to) {
      std::vector<float> scale(static_cast<size_t>(groups)), offset(static_cast<size_t>(groups));
      float* out = static_cast<float*>(to);
      std::fill(out, out + t.scales(), 0.0f);
      for (int row = 0; row < t.n; ++row) {
        matrix.scales(int64_t{row} * groups, groups, scale.data(), offset.data());
        for (int g = 0; g < groups; ++g)
          out[place_of_scale(row, g, groups)] = (scales ? scale : offset)[static_cast<size_t>(g)];
      }
    };
  };
  scale_.make(node, {input}, "quantized_tile_scales", 4 * t.scales(), numbers(true));
  if (matrix.has_offset) {
    offset_.make(node, {input}, "quantized_tile_offsets", 4 * t.scales(), numbers(false));
  } else {
    offset_.clear();
  }
}

Status QuantizedWeights::unpack(DType dtype, int padded, void* to, cudaStream_t stream) const {
  UnpackWeights u;
  u.n = tiles_.n, u.k = tiles_.k, u.padded = padded, u.bits = tiles_.bits, u.group = tiles_.group;
  u.q = q_.as<uint8_t>(), u.scale = scale_.data(), u.offset = offset_.empty() ? nullptr : offset_.data();
  u.dtype = dtype, u.to = to;
  return check(unpack_weights(u, stream), "to unpack weights");
}

FewRowsQuantized QuantizedWeights::product(const FewRows& rows) const {
  FewRowsQuantized p;
  p.product = rows;
  p.bits = tiles_.bits, p.group = tiles_.group;
  p.q = q_.as<uint8_t>(), p.scale = scale_.data();
  p.offset = offset_.empty() ? nullptr : offset_.data();
  return p;
}

}  // namespace minnow::cuda
