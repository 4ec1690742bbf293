// How quantized weights lie in the device's memory: in tiles of 16 rows, and along k in units of 512 / bits numbers, so
// that each thread of a warp finds the bytes that it multiplies on tensor cores in two places of 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/activation.h"

namespace minnow::cuda {

struct QuantizedTiles {
  int n = 0, k = 0;  // of the matrix, [n, k]; what is beyond them is 2^(bits - 1), the number for 0
  int bits = 4;      // 4 or 8
  int group = 32;    // numbers of a row that share a scale and an offset; divides k

  static constexpr int kRows = 16, kUnitBytes = 1024;
  MINNOW_HOST_DEVICE int units() const { return (k + 512 / bits - 1) / (512 / bits); }
  int tiles() const { return (n + kRows - 1) / kRows; }
  MINNOW_HOST_DEVICE int groups() const { return k / group; }
  int64_t bytes() const { return int64_t{tiles()} * units() * kUnitBytes; }
  uint8_t empty_byte() const { return bits == 4 ? 0x88 : 0x80; }
  // Of scales, and of offsets: [tiles, groups, 8, 2], for rows i and i + 8 of a tile.
  int64_t scales() const { return int64_t{tiles()} * groups() * kRows; }
};

// Which number of the scales belongs to a row and a group.
MINNOW_HOST_DEVICE inline int64_t place_of_scale(int row, int group, int groups) {
  return ((int64_t{row / 16} * groups + group) * 8 + row % 8) * 2 + row % 16 / 8;
}

// Of numbers `first` to `first + 7` of a row, where `first` is a multiple of 8.
struct PlaceOfEight {
  int64_t word = 0;  // the first of two words of 32 bits for 4 bits, of four for 8
  int upper = 0;     // 1 in rows 8 to 15 of a tile

  MINNOW_HOST_DEVICE PlaceOfEight(int row, int first, int bits, int units) : upper(row % 16 / 8) {
    const int step = 256 / bits;  // numbers that 16 bytes of each thread are
    const int64_t thread = (int64_t{row / 16} * units * 2 + first / step) * 32 + row % 8 * 4 + first % 32 / 8;
    word = thread * 4 + (bits == 4 ? first % 64 / 32 * 2 : 0);
  }
  // By how many bits number i is shifted in which of the words. Of 4 bits, numbers of a pair lie 16 bits apart, so that
  // one instruction takes out both.
  MINNOW_HOST_DEVICE int shift(int i, int bits) const {
    return bits == 4 ? 4 * (i % 4 / 2 * 2 + upper) + 16 * (i % 2) : 16 * upper + 8 * (i % 2);
  }
  MINNOW_HOST_DEVICE static int word_of(int i, int bits) { return bits == 4 ? i / 4 : i / 2; }
};

}  // namespace minnow::cuda
