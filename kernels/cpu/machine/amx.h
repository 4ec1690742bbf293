// The eight tiles of AMX, twice: as the processor has them, and computed by us, number for number as the manual says.
// What is written for one is tested with the other, on machines without AMX; they differ by single instructions.
//
// A tile is 16 rows of 64 bytes: 16 rows of 32 numbers of bf16 (or 64 of int8) of a left operand, 16 pairs of rows (or
// rows of fours) of 16 columns of a right one, or 16 x 16 sums of 32 bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "hwy/detect_compiler_arch.h"

namespace minnow {

constexpr int kAmxRows = 16, kAmxBytes = 64;

enum class AmxNumbers { kBf16, kBytes };
// Whether the processor multiplies tiles of such numbers, and the system lets this process use them.
bool request_amx(AmxNumbers numbers);

#if HWY_ARCH_X86_64
struct AmxTiles {
  AmxTiles() = default;
  explicit AmxTiles(int) {}  // see EmulatedTiles
  // Between these two, this thread has all tiles at their full size; with a smaller `depth`, tiles 4 and 5 have that
  // many bytes in a row, and 6 and 7 a quarter as many rows; with fewer `rows`, 0 up to 5 have that many. Holding them
  // makes switching threads slower.
  static void begin() { begin(kAmxBytes, kAmxRows); }
  static void begin(int depth, int rows) {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) config.bytes[i] = kAmxBytes, config.rows[i] = kAmxRows;
    config.bytes[4] = config.bytes[5] = static_cast<uint16_t>(depth);
    for (int i = 0; i < 6; ++i) config.rows[i] = static_cast<uint8_t>(rows);
    config.rows[6] = config.rows[7] = static_cast<uint8_t>(depth / 4);
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  static void end() { asm volatile("tilerelease" ::: "memory"); }

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // Adds the product of tiles of bf16 to one of f32.
  template <int kSums, int kLeft, int kRight>
  void add_product() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // Adds the product of a tile of signed bytes and one of unsigned bytes to one of i32, which wraps.
  template <int kSums, int kLeft, int kRight>
  void add_byte_product() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // The same, both signed.
  template <int kSums, int kLeft, int kRight>
  void add_signed_product() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // The same, those on the left unsigned.
  template <int kSums, int kLeft, int kRight>
  void add_unsigned_product() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};
#endif

class EmulatedTiles {
 public:
  explicit EmulatedTiles(int depth = kAmxBytes) : depth_(depth) {}
  static void begin() {}
  static void begin(int, int) {}
  static void end() {}

  template <int kTile>
  void zero() {
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }
  template <int kTile>
  void load(const void* from, int64_t stride) {
    load(kTile, static_cast<const char*>(from), stride);
  }
  template <int kTile>
  void store(void* to, int64_t stride) {
    store(tiles_[kTile], static_cast<char*>(to), stride);
  }
  template <int kSums, int kLeft, int kRight>
  void add_product() {
    add_product(tiles_[kSums], tiles_[kLeft], tiles_[kRight]);
  }
  template <int kSums, int kLeft, int kRight>
  void add_byte_product() {
    add_byte_product<int8_t, uint8_t>(tiles_[kSums], tiles_[kLeft], tiles_[kRight]);
  }
  template <int kSums, int kLeft, int kRight>
  void add_signed_product() {
    add_byte_product<int8_t, int8_t>(tiles_[kSums], tiles_[kLeft], tiles_[kRight]);
  }
  template <int kSums, int kLeft, int kRight>
  void add_unsigned_product() {
    add_byte_product<uint8_t, int8_t>(tiles_[kSums], tiles_[kLeft], tiles_[kRight]);
  }

 private:
  using Rows = uint32_t[kAmxRows][kAmxBytes / 4];

  [[gnu::noinline]] void load(int tile, const char* from, int64_t stride) {
    std::memset(tiles_[tile], 0, sizeof(tiles_[tile]));
    const int rows = tile >= 6 ? depth_ / 4 : kAmxRows, bytes = tile == 4 || tile == 5 ? depth_ : kAmxBytes;
    for (int r = 0; r < rows; ++r) std::memcpy(tiles_[tile][r], from + r * stride, static_cast<size_t>(bytes));
  }
  [[gnu::noinline]] static void store(const Rows& tile, char* to, int64_t stride) {
    for (int r = 0; r < kAmxRows; ++r) std::memcpy(to + r * stride, tile[r], kAmxBytes);
  }

  static float as_float(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }
  // Denormal numbers are zeros, on the way in and on the way out.
  static float flush(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    return as_float((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  }
  // The products of the first of each pair are summed up by themselves, and those of the second. A product of two
  // numbers of bf16 is exact in f32.
  [[gnu::noinline]] static void add_product(Rows& sums, const Rows& left, const Rows& right) {
    for (int m = 0; m < kAmxRows; ++m) {
      float first[16] = {}, second[16] = {};
      for (int k = 0; k < kAmxRows; ++k) {
        const float a = flush(as_float(left[m][k] << 16)), b = flush(as_float(left[m][k] & 0xffff0000u));
        for (int n = 0; n < 16; ++n) {
          first[n] = flush(first[n] + a * flush(as_float(right[k][n] << 16)));
          second[n] = flush(second[n] + b * flush(as_float(right[k][n] & 0xffff0000u)));
        }
      }
      for (int n = 0; n < 16; ++n) {
        const float sum = flush(flush(as_float(sums[m][n])) + flush(first[n] + second[n]));
        std::memcpy(&sums[m][n], &sum, sizeof(sum));
      }
    }
  }

  template <typename Left, typename Right>
  [[gnu::noinline]] static void add_byte_product(Rows& sums, const Rows& left, const Rows& right) {
    for (int m = 0; m < kAmxRows; ++m)
      for (int k = 0; k < kAmxRows; ++k)
        for (int n = 0; n < 16; ++n)
          for (int shift = 0; shift < 32; shift += 8)
            sums[m][n] += static_cast<uint32_t>(static_cast<Left>(left[m][k] >> shift) *
                                                static_cast<Right>(right[k][n] >> shift));
  }

  Rows tiles_[8];
  int depth_;
};

}  // namespace minnow
