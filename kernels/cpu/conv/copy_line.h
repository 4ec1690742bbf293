// Short lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace minnow {

// Copies a short line. What memcpy becomes for a size that is not known takes longer to begin than such a line takes.
template <size_t kBytes>
bool copy_some(const char* from, size_t n, char* to) {
  if (n < kBytes) return false;
  for (size_t i = 0; i + kBytes < n; i += kBytes) std::memcpy(to + i, from + i, kBytes);
  std::memcpy(to + n - kBytes, from + n - kBytes, kBytes);
  return true;
}

inline void copy_line(const void* from, size_t n, void* to) {
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
  if (copy_some<32>(source, n, target) || copy_some<8>(source, n, target) || n == 0) return;
  copy_some<1>(source, n, target);
}

// std::fill stores lane by lane unless it is compiled for speed at any size.
inline void fill_lanes(uint32_t lane, int64_t n, uint32_t* to) {
  constexpr int64_t kLine = 16;
  uint32_t line[kLine];
  std::fill(line, line + kLine, lane);
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) std::memcpy(to + i, line, sizeof(line));
  std::copy_n(line, n - i, to + i);
}

}  // namespace minnow
