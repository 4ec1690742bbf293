// Products of bytes by the tiles of AMX whose left operand is read where it lies: rows of bytes (pixels with their
// channels), a tile taking 64 bytes of 16 of them. What byte_product.h has on the left is on the right here: the
// weights.
#pragma once

#include <cstdint>

namespace minnow {

struct FixedLanes;

constexpr int64_t kByteRowsAtOnce = 32, kByteRowColumns = 16, kByteRowBlocks = 2;  // at a time; columns of a block
constexpr int64_t kByteRowDepth = 64;                                              // of a step: bytes of a row
constexpr int64_t kByteRowStep = kByteRowDepth * kByteRowColumns;                  // of weights, for each block

// bytes[place[r] + b * 16 + column] = saturate(round(scale * (start + the sum, over steps s, of
// rows(offset[s])[r][0..64) times weights(s)[b][0..64)[column]))) + zero), halves to even. Tiles read 16 rows of 64
// bytes at once: memory behind the last ones must be there, whatever it holds.
struct BytePixels {
  const uint8_t* from = nullptr;
  int64_t row = 0;                  // bytes from one row to the next
  const int64_t* offset = nullptr;  // bytes from a row to those of a step
  int64_t steps = 0;
  const uint8_t* weights = nullptr;  // signed: [block][step][16 fours][16 columns][4]
  int64_t rows = 0, blocks = 0;
  bool takes_signed = false;          // the bytes of rows
  const int32_t* start = nullptr;     // of each column, as many as blocks have
  const float* scale = nullptr;       // likewise; or, for whole numbers only, ...
  const FixedLanes* fixed = nullptr;  // ... of each block, and the limits of results
  int32_t least = 0, most = 0;
  bool gives_signed = false;
  int32_t zero = 0;
  const int64_t* place = nullptr;  // of the results of each row; -1: they are not wanted
  uint8_t* bytes = nullptr;
  // What will be read soon is brought closer meanwhile; may be nothing.
  const uint8_t* soon = nullptr;
  int64_t soon_bytes = 0;
};

// Of a thread. Sums become results beside the products that follow: tiles and vectors are units of their own.
struct BytePixelsSpace {
  alignas(64) uint32_t sums[2][kByteRowsAtOnce * kByteRowBlocks * kByteRowColumns];
  int64_t next = 0;  // of the two
  BytePixels last;   // whose sums are in the other one
  int64_t done = 0;  // its rows that are results
};

// What units of byte_product.h have for it. What `place` points to must be there until the call after the next, or
// until finish_byte_pixels(), which makes the last results.
void multiply_byte_pixels(const BytePixels& t, BytePixelsSpace& space);
void multiply_emulated_byte_pixels(const BytePixels& t, BytePixelsSpace& space);
void finish_byte_pixels(BytePixelsSpace& space);

// The same by dot products of four bytes, without tiles: rows are unsigned, up to kByteDotRows of them (memory for as
// many must be there), in steps of four bytes that follow each other; weights are [step][block][16 columns][4]. It
// makes the results at once.
constexpr int64_t kByteDotRows = 14;
void multiply_byte_dots(const BytePixels& t, BytePixelsSpace& space);

}  // namespace minnow
