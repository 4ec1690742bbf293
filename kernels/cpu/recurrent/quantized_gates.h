// Products of rows of floats with the weights of some gates of a recurrent layer, which stay quantized.
#pragma once

#include "kernels/cpu/gemm/quantized.h"

namespace minnow {

class QuantizedGates {
 public:
  QuantizedGates() = default;
  // `gates` gates of `units` rows each, all of a matrix whose rows have `k` columns. A gate begins every `stride`
  // columns of a result: whole panels where there are several. `m` is the most rows of a product.
  QuantizedGates(const QuantizedMatrix& w, int64_t m, int64_t gates, int64_t units, int64_t stride, int64_t k,
                 int threads, Precision precision);

  bool empty() const { return gates_ == 0; }
  int64_t packed_floats() const { return form_.bytes() / 4; }
  std::string packing() const { return form_.packing(); }
  // The gates whose first row is number `row`.
  void pack(const QuantizedMatrix& w, int64_t row, float* to, ThreadPool* pool) const;
  int64_t workspace_bytes() const { return gemm_.workspace_bytes(); }
  const char* scheme() const { return gemm_.scheme(); }
  // Makes floats of them, as gemm_pack_b() would pack these.
  void unpack(const float* packed, float* to, ThreadPool* pool) const { unpack_quantized(form_, packed, to, pool); }
  // The units [begin, end) of all gates, for call.c with all columns. Begin is where a panel begins.
  void multiply(GemmCall call, int64_t rows, int64_t begin, int64_t end) const;

 private:
  int64_t m_ = 0, gates_ = 0, units_ = 0, stride_ = 0;
  Precision precision_ = Precision::kHigh;
  QuantizedForm form_;  // of all gates
  QuantizedGemm gemm_;
};

}  // namespace minnow
