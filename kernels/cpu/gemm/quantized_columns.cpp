#include "kernels/cpu/gemm/quantized_columns.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// A part of the columns of a matrix as rows, whose scales are all 1.
class Turned final : public QuantizedMatrix {
 public:
  Turned(const QuantizedMatrix& whole, int64_t first, int64_t n, int64_t part, int64_t taps, int64_t k)
      : whole_(whole), first_(first), n_(n), taps_(taps) {
    rows = part;
    columns = block = k;
    bits = whole.bits;
  }
  void codes(int64_t first, int64_t count, int8_t* to) const override {
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t row = i / columns, units = rows / taps_;
      whole_.codes(first_ + i % columns * n_ + row % units * taps_ + row / units, 1, to++);
    }
  }
  void stored_scales(int64_t, int64_t count, float* scale, float* offset) const override {
    std::fill_n(scale, count, 1.0f);
    std::fill_n(offset, count, 0.0f);
  }

 private:
  const QuantizedMatrix& whole_;
  const int64_t first_, n_, taps_;
};

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
      form_(Turned(w, 0, n, part_, taps, k)),
      gemm_(m, form_, Activation(), threads, std::min(precision, Precision::kNormal)) {}

int64_t QuantizedColumns::packed_floats() const { return n_ / part_ * part_floats(); }

void QuantizedColumns::pack(const QuantizedMatrix& w, int64_t first, float* to, ThreadPool* pool) const {
  for (int64_t at = 0; at < n_; at += part_, to += part_floats()) {
    form_.pack(Turned(w, first + at, n_, part_, taps_, k_), nullptr, to, pool);
    float *scale = to + form_.bytes() / 4, *offset = scale + k_, none = 0;
    for (int64_t k = 0; k < k_; ++k)
      w.scales((first + at + k * n_) / w.block, 1, scale + k, has_offset_ ? offset + k : &none);
  }
  w.release(first, k_ * n_);
}

int64_t QuantizedColumns::workspace_bytes() const {
  return round_up(gemm_.workspace_bytes(), 64) + 4 * m_ * round_up(k_, 16);
}

void QuantizedColumns::run(GemmCall call) const {
  float* scaled = reinterpret_cast<float*>(static_cast<char*>(call.workspace) + round_up(gemm_.workspace_bytes(), 64));
  const float* a = call.a;
  const int64_t lda = call.lda;
  call.a = scaled;
  call.lda = round_up(k_, 16);
  for (int64_t at = 0; at < n_; at += part_, call.c += part_, call.packed_b += part_floats()) {
    const float *scale = call.packed_b + form_.bytes() / 4, *offset = scale + k_;
    for (int64_t r = 0; r < m_; ++r) {
      const float sum = scale_row(a + r * lda, scale, has_offset_ ? offset : nullptr, k_, scaled + r * call.lda);
      if (has_offset_) std::fill_n(call.c + r * call.ldc, part_, sum);
    }
    call.start = has_offset_ ? call.c : nullptr;
    gemm_.run(call);
  }
}

}  // namespace minnow
