// Products of bytes by the fastest instructions of x86-64, whose sums become results while they are in registers or
// close by: what integer.h is for other processors. The left matrix is signed, the right one
// unsigned; see there for zero points.
//
// The left matrix lies in blocks of rows, which byte_index() numbers, the right one in panels of columns: a line of
// `width` lanes for each step, a lane being four bytes along K. Both have byte_steps() steps, and what K lacks of them
// is zero on the left and anything on the right, or the other way round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/core/status.h"

namespace minnow {

struct ByteUnit;
struct BytePixels;
struct BytePixelsSpace;
struct ByteSegment;

// What this machine has, with the instruction set in use; null: none. MINNOW_INT8 names one: "amx" or "avx512" with
// AVX-512, "avx_vnni" or "avx2" with AVX2, "emulated" (AMX in software, to test what is written for it), or "none".
const ByteUnit* byte_unit();
// An error when MINNOW_INT8 names what is not there.
Status byte_status();
// The best one for an instruction set that is there, or the one that is named; null: it has no such one.
const ByteUnit* avx512_byte_unit(const std::string& wanted);
const ByteUnit* avx2_byte_unit(const std::string& wanted);

struct ByteProduct {
  const uint32_t* left = nullptr;  // from a block's first row on
  // In its place, for a unit that has them: ByteTerms of the blocks, from blocks[i] on.
  const uint32_t *terms = nullptr, *blocks = nullptr;
  const uint32_t* right = nullptr;
  int64_t steps = 0, rows = 0, columns = 0;
  int64_t width = 0;                 // lanes from one step of the right matrix to the next, a multiple of 16
  bool is_cached = false;            // the right matrix is in a cache, most likely
  const uint32_t* start = nullptr;   // of each row's sums
  const uint32_t* offset = nullptr;  // of each column's sums; may be null
  const uint32_t* factor = nullptr;  // of each row, times `column` of each column, which is subtracted; may be null
  const uint32_t* column = nullptr;
  // The sums ...
  uint32_t* sums = nullptr;
  // ... or, with a scale, bytes: saturate(round(sum * scale) + zero), halves to even.
  const float* scale = nullptr;
  bool scale_of_row = false, scale_of_column = false;  // neither: one for all
  bool is_signed = false;
  int32_t zero = 0;
  uint8_t* bytes = nullptr;
  int64_t ldc = 0;  // elements from one row of results to the next, or, for bytes by terms, from one column
  bool is_transposed = false;
  // Lanes that will be read next: they are brought closer meanwhile, as far as there is time for it. May be null.
  const uint32_t* soon = nullptr;
  int64_t soon_lanes = 0;
};

// A part of a panel's columns.
struct ByteSegment {
  int64_t from, to, n;  // lanes
};

enum class ByteTiles : uint8_t { kNone, kAmx, kEmulated };

struct ByteUnit {
  const char* name;
  int64_t rows;                            // of a block of the left matrix
  int64_t steps;                           // their number is a multiple of it
  int64_t vectors;                         // of 16 columns each, in a panel
  int64_t rate;                            // lanes of 16 columns that are multiplied in a cycle
  void (*multiply)(const ByteProduct& p);  // see ByteUse
  // A panel of pixels that lie in planes of bytes: channel by channel, `plane` bytes apart; n pixels, n <= width.
  void (*panel_of_planes)(const uint8_t* from, int64_t plane, int64_t channels, int64_t n, uint8_t flip, int64_t width,
                          uint32_t* panel);
  // A panel of pixels that lie in lanes: those of step s from offset[s] on.
  void (*panel_of_lanes)(const uint32_t* from, const int64_t* offset, int64_t steps, const ByteSegment* segments,
                         int count, int64_t width, uint32_t* panel);
  // Rows of k bytes as columns of a panel: n <= width, with zeros behind each. Null where there are no terms.
  void (*panel_of_rows)(const uint8_t* from, int64_t k, int64_t n, uint8_t flip, int64_t width,
                        uint32_t* panel) = nullptr;
  bool takes_terms = false;  // multiplies a constant left matrix faster by terms (byte_terms.h)
  // What a thread holds while it multiplies more rows than these; may be null.
  int64_t few_rows = 0;
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  ByteTiles tiles = ByteTiles::kNone;
  // Between the two above, for images with channels last; null: it has none.
  void (*multiply_pixels)(const BytePixels& rows, BytePixelsSpace& space) = nullptr;
};

// A thread multiplies by one of these, from the first product to the last one that follow each other.
class ByteUse {
 public:
  explicit ByteUse(const ByteUnit& unit) : unit_(unit) {}
  ~ByteUse() {
    if (begun_) unit_.end();
  }
  ByteUse(const ByteUse&) = delete;
  ByteUse& operator=(const ByteUse&) = delete;

  void multiply(const ByteProduct& p) {
    if (p.rows > unit_.few_rows) begin();
    unit_.multiply(p);
  }
  void multiply(const BytePixels& rows, BytePixelsSpace& space) {
    begin();
    unit_.multiply_pixels(rows, space);
  }

 private:
  void begin() {
    if (begun_ || unit_.begin == nullptr) return;
    unit_.begin();
    begun_ = true;
  }

  const ByteUnit& unit_;
  bool begun_ = false;
};

constexpr int64_t kByteLanes = 16;  // of a vector

// For K numbers in so many groups of four.
inline int64_t byte_steps(const ByteUnit& unit, int64_t groups) {
  return (groups + unit.steps - 1) / unit.steps * unit.steps;
}
// Lanes of the left matrix.
inline int64_t byte_size(const ByteUnit& unit, int64_t rows, int64_t steps) {
  return (rows + unit.rows - 1) / unit.rows * unit.rows * steps;
}
// Where the lane for a row and a step is. Within a block, all rows of a step (of unit.steps steps, row by row) follow
// each other.
inline int64_t byte_index(const ByteUnit& unit, int64_t row, int64_t step, int64_t steps) {
  return row / unit.rows * unit.rows * steps + step / unit.steps * unit.rows * unit.steps +
         row % unit.rows * unit.steps + step % unit.steps;
}

// n lanes of a row into a left matrix, from step `first` on.
void place_left(const ByteUnit& unit, const uint32_t* lanes, int64_t n, int64_t row, int64_t first, int64_t steps,
                uint32_t* left);

}  // namespace minnow
