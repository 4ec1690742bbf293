// Products C = A B with quantized weights that follow each other along the rows of B [k][n], so that the numbers of a
// row of B share a scale, not those of a column. The columns of A are multiplied with the scales instead; where there
// are blocks of columns of B, for each of them.
#pragma once

#include "kernels/cpu/gemm/quantized.h"

namespace minnow {

class QuantizedColumns {
 public:
  QuantizedColumns() = default;
  // Whether matrices [k][n], one after the other in `w`, stay quantized. The columns are units of `taps` numbers, which
  // have a scale together.
  static bool takes(const QuantizedMatrix& w, int64_t n, int64_t taps);
  QuantizedColumns(const QuantizedMatrix& w, int64_t m, int64_t k, int64_t n, int64_t taps, int threads,
                   Precision precision);

  bool empty() const { return k_ == 0; }
  std::string packing() const { return (half_scales_ ? "columns,half," : "columns,") + form_.packing(); }
  int64_t packed_floats() const;  // of a matrix
  // The matrix whose first number is number `first`.
  void pack(const QuantizedMatrix& w, int64_t first, float* to, ThreadPool* pool) const;
  int64_t workspace_bytes() const;
  const char* scheme() const { return gemm_.scheme(); }
  // Of m rows. The columns of C are in parts of part() units, in each of them the first numbers of all units, then the
  // second ones. There is neither bias nor start.
  void run(GemmCall call) const;
  int64_t part() const { return part_ / taps_; }

 private:
  static constexpr int64_t kLeastPart = 16;  // units that have a scale together

  int64_t scale_bytes() const { return half_scales_ ? 2 : 4; }
  // Its codes, then the scales as the file has them, and the offsets.
  int64_t part_floats() const { return (form_.bytes() + round_up((has_offset_ ? 2 : 1) * k_ * scale_bytes(), 64)) / 4; }

  int64_t m_ = 0, k_ = 0, n_ = 0, taps_ = 1, part_ = 1;
  bool has_offset_ = false, half_scales_ = false, offset_of_least_ = false;  // as in QuantizedMatrix
  QuantizedForm form_;                                                       // of a part
  QuantizedGemm gemm_;
};

}  // namespace minnow
