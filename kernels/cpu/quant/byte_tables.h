// Tables for numbers of 8 bits in registers, where the processor has instructions that look up 64 bytes at once.
#pragma once

#include <cstdint>

namespace minnow {

bool has_byte_tables();

// y[i] = table[x[i] ^ lowest].
void find_narrow(const uint8_t* x, const uint8_t* table, uint8_t lowest, int64_t n, uint8_t* y);
// The same with numbers of 32 bits; n is a multiple of 64.
void find_wide(const uint8_t* x, const uint32_t* table, uint8_t lowest, int64_t n, uint32_t* y);

// What QuantizedSum does with two tensors of bytes that gives bytes, and scales by less than a fourth.
struct ByteSum {
  const uint32_t* table[2] = {nullptr, nullptr};
  uint8_t lowest[2] = {0, 0};
  int32_t multiplier = 0;  // not negative
  int32_t right = 2;       // 2 to 31: what is shifted right after the product
  int32_t zero = 0, least = 0, most = 0;

  // Tables are mostly multiples of their arguments, rounded. Then the result is nearly
  //   slope[0] * a + slope[1] * b + start, in units of 2^-fraction
  // for the places a and b in the tables; where that is farther than some doubt from the middle between two integers,
  // rounding it gives what the tables do.
  struct Lines {
    uint32_t high = 0, low = 0;  // of the slopes, 256 * high + low: two numbers of 16 bits each, 256 * low among them
    int32_t start = 0;           // at place 128 of both, with what makes a floor of the rounding, and the doubt
    int32_t doubt = 0;           // bits of the fraction; those of a number in doubt are all zero
    int fraction = 0;            // 0: the tables are not like that
  } lines;
  // Finds the lines, once all the above is there.
  void prepare();
};
void sum_bytes(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y);
// The same on any processor, where there are lines.
void sum_byte_lines(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y);

}  // namespace minnow
