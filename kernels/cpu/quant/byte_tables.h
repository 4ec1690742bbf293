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
};
void sum_bytes(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y);

}  // namespace minnow
