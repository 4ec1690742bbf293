// Matrix products with weights of 2 to 8 bits, which stay packed in memory: C = activation(A W^T + bias + start). Each
// product of few rows reads them once, and makes numbers of them in registers.
#pragma once

#include <string>

#include "kernels/core/quantized.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/gemm.h"

namespace minnow {

// Codes are packed by 32 along the columns.
constexpr int64_t kQuantizedUnit = 32;

// How W lies in memory: panels of `lanes` rows, each filled up to whole lines of the cache. First the scales of all
// blocks of columns, of f16 where the file has such: for each block `lanes` scales, then as many offsets where there
// are any. Then the codes, block by block, each plus 2^(bits - 1). A unit of 32 codes of each row is `bits` vectors of
// 32-bit lanes, a lane for each row. It consists of 8 groups of 4 codes, one in each byte of a lane. The lowest bits of
// the codes are in vectors of the first kind that they fill, the next ones in the next kind:
//   8 bits of a byte: 8 vectors, one for each group;
//   4 bits: 4 vectors, of groups 2 v in the low half of a byte and 2 v + 1 in the high one;
//   2 bits: 2 vectors, of groups 4 v up to 4 v + 3;  1 bit: 1 vector.
// Blocks are filled up to whole units.
struct QuantizedForm {
  int64_t rows = 0, columns = 0, block = 0, blocks = 0;
  int64_t units = 0;  // of a block
  int bits = 8;
  bool has_offset = false;
  bool half_scales = false, offset_of_least = false;  // as in QuantizedMatrix

  QuantizedForm() = default;
  explicit QuantizedForm(const QuantizedMatrix& matrix);
  int64_t panels() const;
  int64_t scale_bytes() const { return half_scales ? 2 : 4; }  // of one number
  int64_t scale_words() const;                                 // of a panel, of 32 bits
  int64_t block_words() const;                                 // of codes
  int64_t panel_words() const;
  int64_t bytes() const { return 4 * panels() * panel_words(); }
  int zero() const { return 1 << (bits - 1); }  // in memory
  // What is to be added to stored offsets for each scale: then they are what the code 0 stands for.
  float offset_scale() const { return offset_of_least ? static_cast<float>(zero()) : 0.0f; }
  int64_t padded_block() const { return units * kQuantizedUnit; }
  // The scales of a block of a panel; those of the next block are scale_step() bytes further on.
  int64_t scale_step() const;
  // `order`: the column of the matrix that comes at each place of a row, or null: as they are. Columns of different
  // blocks must not mix.
  void pack(const QuantizedMatrix& matrix, const int32_t* order, void* to, ThreadPool* pool) const;
  // The same piece by piece, of a matrix with one block in a row. First scales of 1; then units of codes, to which
  // zero() was added.
  void pack_ones(void* to) const;
  void pack_unit(int64_t row, int64_t unit, const uint8_t* codes, void* to) const;
  std::string packing() const { return "codes" + std::to_string(bits) + "," + std::to_string(block); }
};

// Makes floats of the columns [begin, end) of a panel, as gemm_pack_b() has them: [column][lane]. Begin is a multiple
// of 32 in its block, and end too or the end of the block.
struct QuantizedPart {
  const QuantizedForm* form = nullptr;
  const uint32_t* packed = nullptr;
  int64_t panel = 0, block = 0, begin = 0, end = 0;  // columns of the block
};
void unpack_quantized(const QuantizedPart& part, float* to);
// All of them, as gemm_pack_b() would pack the floats.
void unpack_quantized(const QuantizedForm& form, const void* packed, float* to, ThreadPool* pool);

// One row times panels: the arguments of the inner loops.
struct QuantizedRow {
  const QuantizedForm* form = nullptr;
  const uint32_t* packed = nullptr;
  const float* a = nullptr;     // with each block filled up to whole units by zeros
  const float* sums = nullptr;  // of a's blocks, for the offsets
  GemvCall call = {};           // bias, start, c, n, low and high
};

// Rows of A as integers of 8 or 24 bits, with a scale for each chunk of a block: a line of bytes for each digit of a
// row, the lowest first, which all are signed. A line has padded columns, and lines are `stride` apart.
struct ByteRows {
  int8_t* codes = nullptr;
  float* scale = nullptr;    // [row][chunk], of the lowest digit
  int32_t* start = nullptr;  // [line][chunk]: what the sum of a chunk begins with, for the codes' zero
  float* sums = nullptr;     // [row][block]
  int64_t rows = 0, digits = 1, stride = 0, chunks = 0, chunk_units = 1;
};
struct ByteCall {
  const QuantizedForm* form = nullptr;
  const uint32_t* packed = nullptr;
  ByteRows a;
  const float *bias = nullptr, *start = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  float low = 0, high = 0;
};
constexpr int64_t kSerialWeights = 30000;  // products of fewer are not worth waking a thread
// The most columns whose products of two bytes have sums of 32 bits.
constexpr int64_t kMostWholeColumns = 32768;
// Lines are filled up to so many.
constexpr int64_t kByteLines = 16;
// Whether this machine multiplies bytes fast enough for it.
bool has_byte_products();
// Makes bytes of a row. False: it holds an infinity, NaN or what is too small, and gives NaN in such a chunk, or 0.
bool round_quantized_row(const QuantizedForm& form, const float* from, int64_t row, const ByteRows& to);
// Makes numbers of a panel whose blocks are whole units, in the form of bf16_pack_b() but for denormal results.
void unpack_quantized_bf16(const QuantizedForm& form, const void* packed, int64_t panel, float* to);
// Computes the panels [begin, end) of all rows. The results of a row do not depend on the others, nor on the unit.
void multiply_quantized_bytes(const ByteCall& call, int64_t begin, int64_t end);

// The plan for one set of sizes.
class QuantizedGemm {
 public:
  QuantizedGemm() = default;
  // On machines that multiply bytes fast A is rounded to integers: of 24 bits with precision high, 8 with low. With
  // normal, where there are tiles, both factors are rounded to integers of 16 bits, each row of A and of W with one
  // scale; elsewhere normal is high. Many rows are rounded to bf16 with low where that is faster: only then the results
  // of a row depend on how many there are.
  QuantizedGemm(int64_t m, const QuantizedForm& form, const Activation& activation, int threads, Precision precision);

  const QuantizedForm& form() const { return form_; }
  int64_t workspace_bytes() const;
  const char* scheme() const {
    return bf16_ ? "quantized_bf16" : digits_ > 0 ? "quantized_bytes" : m_ == 1 ? "quantized_row" : "quantized_panels";
  }
  // With `packed_b` as the form packs it. A is not transposed.
  void run(const GemmCall& call) const;

 private:
  void run_row(const GemmCall& call) const;
  void run_panels(const GemmCall& call) const;
  // What the byte kernels need of a call; the rest of its rows is for them to make.
  ByteCall byte_call(const GemmCall& call) const;
  void run_bytes(const GemmCall& call) const;
  void run_bf16(const GemmCall& call) const;
  void run_whole(const GemmCall& call) const;
  int64_t whole_bytes() const;  // of the workspace of run_whole()
  void multiply_bytes(ByteCall bytes, int64_t first, int64_t end, ThreadPool* pool) const;
  int64_t tile_worker_bytes() const;
  int64_t row_bytes() const;  // of the workspace of run_row()
  // Rows of A at such a distance do not drive each other out of the first-level cache.
  bool copies_rows() const { return m_ > 4; }
  int64_t spread_row() const { return 16 * ((form_.columns + 15) / 16 | 1); }
  int64_t padded_columns() const { return form_.blocks * form_.padded_block(); }
  // Not a multiple of a page, which would drive lines out of the first-level cache.
  int64_t line_bytes() const { return round_up(padded_columns(), 128) + 64; }
  int64_t chunks() const { return form_.blocks * form_.units / chunk_units_; }

  QuantizedForm form_;
  Activation activation_;
  int64_t m_ = 0, chunk_units_ = 1;
  int threads_ = 1, width_ = 1;  // panels that are unpacked at a time
  int digits_ = 0;               // 0: A stays in floats
  bool bf16_ = false;
  bool exact_ = false;  // what no bytes stand for is computed in floats
};

}  // namespace minnow
