// Rows of bytes at twice their width.
#pragma once

#include <cstdint>

namespace minnow {

// Each of `rows` rows of `n` bytes, which follow each other, becomes a row in which each byte is there twice; with
// `twice`, that row follows once more.
void double_bytes(const char* src, int64_t rows, int64_t n, bool twice, char* dst);

}  // namespace minnow
