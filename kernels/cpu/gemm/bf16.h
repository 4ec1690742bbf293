// Matrix products with weights of bf16, for precisions "low" and "normal": C[m,n] = activation(A[m,k] B[k,n] + bias[n]
// + start[m,n]). Sums, bias, start and result are f32. With few rows nothing but reading the weights takes time, and
// half the bytes take half of it.
#pragma once

#include <string>

#include "kernels/cpu/gemm/gemm.h"

namespace minnow {

struct Bf16Tile;

// B as [blocks of pack_width() columns][k / 2][column][2 of k], the last block and an odd k filled up with zeros: what
// a tile of AMX or a product of pairs wants, and what a shift and a mask make two vectors of f32 of. Rounded to the
// nearest, ties to even; NaN stays NaN. Sizes in floats because it lies where f32 weights would.
// `split`: after each step of a block, what is left of its numbers; for tiles only (bf16_micro_kernel.h).
int64_t bf16_packed_floats(int64_t k, int64_t n, bool split);
int64_t bf16_pairs(int64_t k);  // of a column: whole tiles where the processor has tiles
// `flush`, not together with `split`: denormal numbers may become 0, as they are for tiles; that is faster.
void bf16_pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, bool split, float* packed,
                 ThreadPool* pool, bool flush = false);

// Some rows of A at once, with everything as in GemmCall but a clamp for the activation.
struct Bf16RowsCall {
  const float* a;
  int64_t lda;
  const float* packed_b;
  const float *bias, *start;
  float* c;
  int64_t ldc, n, k;
  float low, high;  // bounds of the result
};
constexpr int kBf16Rows = 4;  // at the most
// Computes the blocks [begin, end) of pack_width() columns.
void bf16_rows(const Bf16RowsCall& call, int rows, int64_t begin, int64_t end);

// The plan for one set of sizes, in place of Gemm where takes() says so.
class Bf16Gemm {
 public:
  // Whether such products are faster, so that it is worth rounding: those of few rows anywhere, others where the
  // processor has a unit for them.
  static bool takes(int64_t m, int64_t n, int64_t k, Precision precision);

  Bf16Gemm() = default;
  Bf16Gemm(int64_t m, int64_t n, int64_t k, const Activation& activation, int threads, Precision precision);

  // Whether A, or C, may be rows of bf16 that follow each other without gaps, a multiple of kBf16Depth long; without
  // `start` in the case of C.
  static bool takes_half(int64_t m, int64_t n, int64_t k, Precision precision);
  // From now on they are.
  void set_half(bool a, bool c) { half_a_ = a, half_c_ = c; }

  // B in the form that run() reads, and what it is called.
  std::string packing(bool transposed) const {
    return std::string(split_ ? "bf16_split" : "bf16") + (transposed ? "_t" : "");
  }
  int64_t packed_floats() const { return bf16_packed_floats(k_, n_, split_); }
  void pack_b(const float* b, int64_t ldb, bool transposed, float* packed, ThreadPool* pool) const {
    bf16_pack_b(b, ldb, transposed, k_, n_, split_, packed, pool);
  }
  int64_t workspace_bytes() const;
  void run(const GemmCall& call) const;  // A not transposed
  std::string scheme() const;

 private:
  bool few_rows() const { return m_ <= kBf16Rows && !split_; }
  int64_t parts() const { return split_ ? 2 : 1; }
  int64_t tile_bytes() const;  // of kBf16Pixels rounded rows
  void run_rows(const GemmCall& call) const;
  // These rows, which `in` begins with, and pairs of blocks.
  void multiply(const GemmCall& call, int64_t first, int64_t rows, const char* in, int64_t begin, int64_t end,
                char* sums) const;
  // The result of a tile, at this place and column.
  void finish(const GemmCall& call, const Bf16Tile& tile, int64_t at, int64_t column, int64_t columns) const;

  int64_t m_ = 0, n_ = 0, k_ = 0;
  int64_t chunk_tiles_ = 0, band_tiles_ = 0, groups_ = 1;  // tiles of rows, groups of columns
  int threads_ = 1;
  bool split_ = false, half_a_ = false, half_c_ = false;
  Activation activation_;
};

}  // namespace minnow
