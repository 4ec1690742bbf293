#include "kernels/cpu/gemm/quantized_columns.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/core/elements.h"
#include "kernels/core/interrupt.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// Numbers of a row that are packed at a time: with those of kQuantizedUnit rows they stay in the first-level cache.
constexpr int64_t kChunk = 256;

// A part of the columns of a matrix as rows, whose scales are all 1.
QuantizedForm turned(const QuantizedMatrix& whole, int64_t part, int64_t k) {
  QuantizedForm form;
  form.rows = part;
  form.columns = form.block = k;
  form.blocks = 1;
  form.units = ceil_div(k, kQuantizedUnit);
  form.bits = whole.bits;
  return form;
}

}  // namespace

bool QuantizedColumns::takes(const QuantizedMatrix& w, int64_t n, int64_t taps) {
  const int64_t part = std::gcd(n, w.block);
  return part % taps == 0 && part / taps % kLeastPart == 0;
}

QuantizedColumns::QuantizedColumns(const QuantizedMatrix& w, int64_t m, int64_t k, int64_t n, int64_t taps, int threads,
                                   Precision precision)
    : m_(m),
      k_(k),
      n_(n),
      taps_(taps),
      part_(std::gcd(n, w.block)),
      has_offset_(w.has_offset),
      half_scales_(w.half_scales),
      offset_of_least_(w.offset_of_least),
      form_(turned(w, part_, k)),
      gemm_(m, form_, Activation(), threads, std::min(precision, Precision::kNormal)) {}

int64_t QuantizedColumns::packed_floats() const { return n_ / part_ * part_floats(); }

void QuantizedColumns::pack(const QuantizedMatrix& w, int64_t first, float* to, ThreadPool* pool) const {
  const int64_t parts = n_ / part_, units = part_ / taps_;
  for (int64_t p = 0; p < parts; ++p) form_.pack_ones(to + p * part_floats());
  // The scales of some parts of a row of the matrix.
  const auto pack_scales = [&](int64_t row) {
    float numbers[2][kChunk];
    uint16_t halves[kChunk];
    const int64_t end = (first + (row + 1) * n_ - 1) / w.block + 1;
    for (int64_t p = 0; p < parts;) {
      const int64_t begin = (first + row * n_ + p * part_) / w.block, count = std::min(kChunk, end - begin);
      w.stored_scales(begin, count, numbers[0], numbers[1]);
      const int64_t next = std::min(parts, ((begin + count) * w.block - first - row * n_) / part_);
      for (int offset = 0; offset < (has_offset_ ? 2 : 1); ++offset) {
        if (half_scales_) convert_elements(DType::kF32, numbers[offset], DType::kF16, halves, count);
        for (int64_t i = p; i < next; ++i) {
          char* place =
              reinterpret_cast<char*>(to + i * part_floats() + form_.bytes() / 4) + (offset * k_ + row) * scale_bytes();
          const int64_t from = (first + row * n_ + i * part_) / w.block - begin;
          half_scales_ ? std::memcpy(place, halves + from, 2) : std::memcpy(place, numbers[offset] + from, 4);
        }
      }
      p = next;
    }
  };
  // A band of rows of the matrix is read as it lies.
  const auto pack_bands = [&](int64_t begin, int64_t end, int) {
    const auto half = static_cast<uint8_t>(form_.zero());
    int8_t codes[kQuantizedUnit][kChunk];
    uint8_t unit[kQuantizedUnit];
    LongLoop loop;
    for (int64_t band = begin; band < end && loop.goes_on(kQuantizedUnit * n_); ++band) {
      const int64_t row = band * kQuantizedUnit, rows = std::min(kQuantizedUnit, k_ - row);
      for (int64_t r = 0; r < rows; ++r) pack_scales(row + r);
      std::fill_n(unit, kQuantizedUnit, half);
      for (int64_t at = 0; at < n_; at += kChunk) {
        const int64_t count = std::min(kChunk, n_ - at);
        for (int64_t r = 0; r < rows; ++r) w.codes(first + (row + r) * n_ + at, count, codes[r]);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t p = (at + i) / part_, place = (at + i) % part_;
          for (int64_t r = 0; r < rows; ++r) unit[r] = static_cast<uint8_t>(codes[r][i] + half);
          form_.pack_unit(place % taps_ * units + place / taps_, band, unit, to + p * part_floats());
        }
      }
      w.release(rows * n_);
    }
  };
  if (pool == nullptr) return pack_bands(0, form_.units, 0);
  pool->parallel_for(form_.units, 1, pack_bands);
}

int64_t QuantizedColumns::workspace_bytes() const {
  return round_up(gemm_.workspace_bytes(), 64) + 4 * m_ * round_up(k_, 16) + (half_scales_ ? 8 * round_up(k_, 16) : 0);
}

void QuantizedColumns::run(GemmCall call) const {
  float* scaled = reinterpret_cast<float*>(static_cast<char*>(call.workspace) + round_up(gemm_.workspace_bytes(), 64));
  const float* a = call.a;
  const int64_t lda = call.lda;
  call.a = scaled;
  call.lda = round_up(k_, 16);
  float *wide = scaled + m_ * call.lda, *wide_offset = wide + call.lda;
  for (int64_t at = 0; at < n_; at += part_, call.c += part_, call.packed_b += part_floats()) {
    const float *scale = call.packed_b + form_.bytes() / 4, *offset = scale + k_;
    if (half_scales_) {
      const auto* halves = reinterpret_cast<const uint16_t*>(scale);
      convert_elements(DType::kF16, halves, DType::kF32, wide, k_);
      if (has_offset_) convert_elements(DType::kF16, halves + k_, DType::kF32, wide_offset, k_);
      scale = wide, offset = wide_offset;
    }
    for (int64_t r = 0; r < m_; ++r) {
      float sum = scale_row(a + r * lda, scale, has_offset_ ? offset : nullptr, k_, scaled + r * call.lda);
      if (offset_of_least_)
        for (int64_t k = 0; k < k_; ++k) sum += static_cast<float>(form_.zero()) * scaled[r * call.lda + k];
      if (has_offset_) std::fill_n(call.c + r * call.ldc, part_, sum);
    }
    call.start = has_offset_ ? call.c : nullptr;
    gemm_.run(call);
  }
}

}  // namespace minnow
