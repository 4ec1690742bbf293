// Constant weights as the instructions of AVX2 multiply them exactly. Those add the products of two unsigned bytes with
// two signed ones in 16 bits, and limit what is too large: the positive ones of two weights may be 128 together, the
// negative ones likewise (255 times 128 is within 16 bits). So steps (four numbers along K each) are split in two where
// weights go beyond that, and those whose weights keep to it even together are multiplied as pairs: with one sum of 16
// bits for both, which takes less time than two.
#pragma once

#include <cstdint>

namespace minnow {

constexpr int64_t kTermRows = 4;

struct ByteTerm {
  uint32_t step;  // of the right matrix
  uint32_t weight[kTermRows];
};

// Of a block of rows: `pairs` times two terms, then so many `singles`.
struct ByteTerms {
  uint32_t pairs, singles;
  const ByteTerm* terms() const { return reinterpret_cast<const ByteTerm*>(this + 1); }
};

// Of a block: kTermRows lanes for each step. How many words there are is asked first.
int64_t byte_terms_words(const uint32_t* lanes, int64_t steps);
void make_byte_terms(const uint32_t* lanes, int64_t steps, uint32_t* to, int64_t words);

}  // namespace minnow
