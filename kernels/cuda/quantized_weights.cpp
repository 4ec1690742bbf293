#include "kernels/cuda/quantized_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace minnow::cuda {

void QuantizedWeights::make(const NodeContext& node, size_t input, const QuantizedMatrix& matrix) {
  there_ = true;
  n_ = static_cast<int>(matrix.rows), k_ = static_cast<int>(matrix.columns);
  group_ = static_cast<int>(matrix.block);
  bits_ = matrix.bits <= 4 ? 4 : 8;
  const int64_t row = (matrix.columns * bits_ + 7) / 8;
  const std::string form = "quantized" + std::to_string(bits_);
  q_.make(node, {input}, form, matrix.rows * row, [&](void* to) {
    std::vector<int8_t> codes(static_cast<size_t>(matrix.columns + 1));
    for (int64_t r = 0; r < matrix.rows; ++r) {
      matrix.codes(r * matrix.columns, matrix.columns, codes.data());
      uint8_t* line = static_cast<uint8_t*>(to) + r * row;
      for (int64_t i = 0; i < row; ++i) {
        const auto code = [&](int64_t c) { return static_cast<uint8_t>(codes[static_cast<size_t>(c)]); };
        line[i] = bits_ == 8 ? static_cast<uint8_t>(code(i) + 128)
                             : static_cast<uint8_t>(((code(2 * i) + 8) & 15) | ((code(2 * i + 1) + 8) & 15) << 4);
      }
    }
  });
  const int64_t groups = matrix.rows * matrix.blocks();
  const auto numbers = [&](bool scales) {
    return [&, scales](void* to) {
      std::vector<float> other(static_cast<size_t>(groups));
      float* out = static_cast<float*>(to);
      matrix.scales(0, groups, scales ? out : other.data(), scales ? other.data() : out);
    };
  };
  scale_.make(node, {input}, "quantized_scales", 4 * groups, numbers(true));
  if (matrix.has_offset) {
    offset_.make(node, {input}, "quantized_offsets", 4 * groups, numbers(false));
  } else {
    offset_.clear();
  }
}

Status QuantizedWeights::unpack(DType dtype, int padded, void* to, cudaStream_t stream) const {
  UnpackWeights u;
  u.n = n_, u.k = k_, u.padded = padded, u.bits = bits_, u.group = group_;
  u.q = q_.as<uint8_t>(), u.scale = scale_.data(), u.offset = offset_.empty() ? nullptr : offset_.data();
  u.dtype = dtype, u.to = to;
  return check(unpack_weights(u, stream), "to unpack weights");
}

FewRowsQuantized QuantizedWeights::product(const FewRows& rows) const {
  FewRowsQuantized p;
  p.product = rows;
  p.bits = bits_, p.group = group_;
  p.q = q_.as<uint8_t>(), p.scale = scale_.data();
  p.offset = offset_.empty() ? nullptr : offset_.data();
  return p;
}

}  // namespace minnow::cuda
