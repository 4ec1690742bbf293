#include "kernels/cpu/recurrent/quantized_gates.h"

#include <algorithm>

#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {

QuantizedGates::QuantizedGates(const QuantizedMatrix& w, int64_t m, int64_t gates, int64_t units, int64_t stride,
                               int64_t k, int threads, Precision precision)
    : m_(m),
      gates_(gates),
      units_(units),
      stride_(stride),
      precision_(precision),
      form_(QuantizedRows(w, 0, gates == 1 ? units : gates * stride, k)),
      gemm_(m, form_, Activation(), threads, precision) {}

void QuantizedGates::pack(const QuantizedMatrix& w, int64_t row, float* to, ThreadPool* pool) const {
  for (int64_t gate = 0; gate < gates_; ++gate) {
    const QuantizedRows rows(w, row + gate * units_, units_, form_.columns);
    const QuantizedForm form(rows);
    form.pack(rows, nullptr, to, pool);
    to += form.bytes() / 4;
  }
}

void QuantizedGates::multiply(GemmCall call, int64_t rows, int64_t begin, int64_t end) const {
  if (begin == 0 && end == units_ && rows == m_) return gemm_.run(call);
  QuantizedForm part = form_;
  part.rows = end - begin;
  // One row alone is added up in another order, which must not depend on how rows are divided: another one goes along.
  const QuantizedGemm gemm(std::max(rows, std::min<int64_t>(m_, 2)), part, Activation(), 1, precision_);
  const float *weights = call.packed_b, *bias = call.bias;
  float* c = call.c;
  for (int64_t gate = 0; gate < gates_; ++gate) {
    const int64_t column = gate * stride_ + begin;
    call.packed_b = weights + column / pack_width() * form_.panel_words();
    call.c = c + column;
    if (bias != nullptr) call.bias = bias + column;
    gemm.run(call);
  }
}

}  // namespace minnow
