#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/recurrent/byte_gates.h"
#include "kernels/cpu/recurrent/operands.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void finish_gate(const GateSums& g) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row = hn::Set(du, g.row), zero = hn::Set(du, g.zero);
  const auto scale = hn::Set(d, g.scale);
  for (int64_t i = 0; i < g.n; i += lanes) {
    const auto of_row = hn::Mul(hn::LoadU(du, g.column + g.width + i), row);
    const auto of_column = hn::Mul(hn::LoadU(du, g.column + i), zero);
    const auto sum = hn::Sub(hn::LoadU(du, g.sums + i), hn::Add(of_row, of_column));
    const auto step = hn::Mul(hn::LoadU(d, reinterpret_cast<const float*>(g.column) + 2 * g.width + i), scale);
    const auto y = hn::ConvertTo(d, hn::BitCast(di, sum));
    if (g.n - i >= lanes) {
      hn::StoreU(g.bias == nullptr ? hn::Mul(y, step) : hn::MulAdd(y, step, hn::LoadU(d, g.bias + i)), d, g.out + i);
    } else {
      const auto bias = g.bias == nullptr ? hn::Zero(d) : LoadPart(d, g.bias + i, g.n - i);
      StorePart(d, hn::MulAdd(y, step, bias), g.out + i, g.n - i);
    }
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {
namespace {

HWY_EXPORT(finish_gate);

constexpr int64_t kRows = 64, kMostColumns = 64;  // of sums at a time
constexpr uint32_t kNoStart[kRows] = {};
constexpr int64_t kCachedWords = 1 << 19;  // which a second-level cache holds

}  // namespace

ByteGates::ByteGates(int64_t k, int64_t units, int64_t gates)
    : unit_(byte_unit()),
      k_(k),
      units_(units),
      gates_(gates),
      steps_(integer_steps(k)),
      width_(integer_panel()),
      panels_(ceil_div(units, width_)) {
  if (unit_ != nullptr) steps_ = byte_steps(*unit_, steps_);
  if (unit_ != nullptr) return;
  offset_.resize(static_cast<size_t>(steps_));
  for (int64_t i = 0; i < steps_; ++i) offset_[static_cast<size_t>(i)] = i * width_;
}

void ByteGates::pack(const GateWeights& w, uint32_t* to, ThreadPool* pool) const {
  const auto pack_panels = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) pack_panel(w, i / panels_, i % panels_, to + i * panel_words());
  };
  if (pool == nullptr) return pack_panels(0, gates_ * panels_, 0);
  pool->parallel_for(gates_ * panels_, 1 + 20000 / panel_words(), pack_panels);
}

void ByteGates::pack_panel(const GateWeights& w, int64_t gate, int64_t panel, uint32_t* to) const {
  const int64_t n = gates_ * units_, first = gate * units_ + panel * width_, group = integer_group();
  const int64_t columns = std::min(width_, units_ - panel * width_);
  const uint8_t flip = flip_for(w.type, false);
  const int32_t shift = shift_for(w.type, false);
  std::fill(to, to + panel_words(), 0u);
  uint32_t *sums = to + steps_ * width_, *zeros = sums + width_;
  const uint8_t* from = w.bytes + first;
  LongLoop loop;
  for (int64_t k = 0; k < k_ && loop.goes_on(width_); k += group, to += width_) {
    const uint8_t* rows[4] = {};
    for (int64_t g = 0; g < std::min(group, k_ - k); ++g) rows[g] = from + (k + g) * n;
    pack_right(rows, columns, flip, to);
    for (int64_t g = 0; g < std::min(group, k_ - k); ++g)
      for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<uint32_t>(rows[g][j] ^ flip);
  }
  for (int64_t j = 0; j < columns; ++j) {
    int32_t zero = shift;
    if (w.zero != nullptr) {
      const uint8_t byte = w.zero[w.zero_of_column ? first + j : 0];
      zero += w.type == DType::kU8 ? static_cast<int32_t>(byte) : static_cast<int32_t>(static_cast<int8_t>(byte));
    }
    zeros[j] = static_cast<uint32_t>(zero);
    sums[j] -= static_cast<uint32_t>(k_) * zeros[j];
    std::memcpy(zeros + width_ + j, w.scale + (w.scale_of_column ? first + j : 0), sizeof(float));
  }
}

int64_t ByteGates::row_words(int64_t rows) const { return round_up(lanes(rows) + 3 * rows, 16); }

void ByteGates::round(const float* x, int64_t rows, int64_t begin, int64_t end, const ByteRange* shared,
                      uint32_t* to) const {
  constexpr int64_t kPart = 256;  // lanes
  uint8_t bytes[4 * kPart];
  uint32_t part[kPart];
  const uint8_t flip = flip_for(DType::kU8, true);
  const int64_t group = integer_group();
  uint32_t *sums = to + lanes(rows), *zeros = sums + rows, *scales = zeros + rows;
  for (int64_t r = begin; r < end; ++r) {
    const float* from = x + r * k_;
    const ByteRange range = shared != nullptr ? *shared : byte_range(from, k_);
    uint32_t sum = 0;
    for (int64_t k = 0; k < k_; k += group * kPart) {
      const int64_t n = std::min(group * kPart, k_ - k), s = k / group;
      quantize_bytes(from + k, n, range, bytes);
      if (unit_ == nullptr) {
        sum += pack_left(bytes, n, 1, flip, to + r * steps_ + s);
        continue;
      }
      sum += pack_left(bytes, n, 1, flip, part);
      place_left(*unit_, part, integer_steps(n), r, s, steps_, to);
    }
    // Steps that fill up a block: what they meet is 0 in the weights.
    sums[r] = sum;
    zeros[r] = static_cast<uint32_t>(static_cast<int32_t>(range.zero) + shift_for(DType::kU8, true));
    std::memcpy(scales + r, &range.scale, sizeof(float));
  }
}

void ByteGates::multiply(const Call& call, int64_t begin, int64_t end) const {
  const int64_t n = end - begin, all = gates_ * n;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t item = call.backward ? all - 1 - i : i;
    multiply_panel(call, item / n, begin + item % n);
  }
}

void ByteGates::multiply_panel(const Call& call, int64_t gate, int64_t panel) const {
  alignas(64) uint32_t tile[kRows * kMostColumns];
  const int64_t columns = std::min(width_, units_ - panel * width_), unit = panel * width_;
  const uint32_t* right = call.packed + (gate * panels_ + panel) * panel_words();
  const uint32_t *sums = call.rows + lanes(call.count), *zeros = sums + call.count, *scales = zeros + call.count;
  for (int64_t first = 0; first < call.count; first += kRows) {
    const int64_t rows = std::min(kRows, call.count - first);
    if (unit_ != nullptr) {
      ByteProduct p;
      p.left = call.rows + first * steps_;
      p.right = right;
      p.steps = steps_;
      p.rows = rows;
      p.columns = columns;
      p.width = width_;
      p.is_cached = packed_words() <= kCachedWords;  // since the step before
      p.start = kNoStart;
      p.sums = tile;
      p.ldc = width_;
      ByteUse(*unit_).multiply(p);
    } else {
      IntegerProduct p;
      p.left = call.rows + first * steps_;
      p.right = right;
      p.offset = offset_.data();
      p.steps = steps_;
      p.rows = rows;
      p.columns = columns;
      p.start = kNoStart;
      p.c = tile;
      p.ldc = width_;
      gemm_integer(p);
    }
    for (int64_t r = 0; r < rows; ++r) {
      GateSums g;
      g.sums = tile + r * width_;
      g.column = right + steps_ * width_;
      g.width = width_;
      g.row = sums[first + r];
      g.zero = zeros[first + r];
      std::memcpy(&g.scale, scales + first + r, sizeof(float));
      g.bias = call.bias == nullptr ? nullptr : call.bias + gate * units_ + unit;
      g.out = call.out + (first + r) * call.row_step + gate * call.gate_step + unit;
      g.n = columns;
      HWY_DYNAMIC_DISPATCH(finish_gate)(g);
    }
  }
}

void pack_gates(const ByteGates& input, const ByteGates& recurrent, FunctionRef<const Tensor*(int)> tensor_of,
                uint32_t* to, ThreadPool* pool) {
  for (int64_t d = 0; d < tensor_of(kW)->type.shape[0]; ++d) {
    for (int i = 0; i < 2; ++i) {
      const ByteGates& gates = i == 0 ? input : recurrent;
      const Tensor &w = *tensor_of(kW + i), &scale = *tensor_of(kScales + i);
      const Tensor* zero = tensor_of(kZeros + i);
      const int64_t n = w.type.shape[2];
      GateWeights weights;
      weights.bytes = w.as<uint8_t>() + d * w.type.shape[1] * n;
      weights.type = w.type.dtype;
      weights.scale_of_column = scale.type.shape.rank() == 2;
      weights.scale = scale.as<float>() + d * (weights.scale_of_column ? n : 1);
      if (zero != nullptr) {
        weights.zero_of_column = zero->type.shape.rank() == 2;
        weights.zero = zero->as<uint8_t>() + d * (weights.zero_of_column ? n : 1);
      }
      gates.pack(weights, to, pool);
      to += gates.packed_words();
    }
  }
}

}  // namespace minnow
#endif
