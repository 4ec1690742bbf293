#include "kernels/core/region.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/movement/transpose.h"

namespace minnow {
namespace {

// Less is not worth several threads. A task is less still: mostly other threads have written what it reads, and it
// waits for their lines of the cache.
constexpr int64_t kSerialBytes = 32 << 10, kBytesPerTask = 8 << 10;

// The two inner loops of a copy; strides in bytes.
struct Plane {
  int64_t rows, cols;
  int64_t src_row, src_col, dst_row, dst_col;
};

// A constant size lets the compiler make one load and one store of it, whatever the alignment.
template <int kSize>
void copy_plane(Plane p, const char* src, char* dst) {
  if (p.cols < 8 && p.rows > p.cols) {
    std::swap(p.rows, p.cols);
    std::swap(p.src_row, p.src_col);
    std::swap(p.dst_row, p.dst_col);
  }
  for (int64_t i = 0; i < p.rows; ++i, src += p.src_row, dst += p.dst_row) {
    const char* s = src;
    char* d = dst;
    if (p.src_col == 0 && p.dst_col == kSize) {
      char value[kSize];
      std::memcpy(value, s, kSize);
      for (int64_t j = 0; j < p.cols; ++j, d += kSize) std::memcpy(d, value, kSize);
    } else {
      for (int64_t j = 0; j < p.cols; ++j, s += p.src_col, d += p.dst_col) std::memcpy(d, s, kSize);
    }
  }
}

void copy_strided(const Plane& p, const char* src, char* dst, int64_t size) {
  switch (size) {
    case 1:
      return copy_plane<1>(p, src, dst);
    case 2:
      return copy_plane<2>(p, src, dst);
    case 4:
      return copy_plane<4>(p, src, dst);
    case 8:
      return copy_plane<8>(p, src, dst);
    default:
      return copy_plane<16>(p, src, dst);
  }
}

void copy_runs(const Plane& p, const char* src, char* dst, int64_t size) {
  constexpr int64_t kPiece = 16, kShort = 256;  // short runs are not worth a call each
  const int64_t bytes = p.cols * size;
  const bool is_short = bytes >= kPiece && bytes <= kShort;
  for (int64_t i = 0; i < p.rows; ++i, src += p.src_row, dst += p.dst_row) {
    if (!is_short) {
      std::memcpy(dst, src, static_cast<size_t>(bytes));
      continue;
    }
    for (int64_t at = 0; at + kPiece <= bytes; at += kPiece) std::memcpy(dst + at, src + at, kPiece);
    std::memcpy(dst + bytes - kPiece, src + bytes - kPiece, kPiece);  // the rest, and some once more
  }
}

void copy_transposed(const Plane& p, const char* src, char* dst, int64_t size) {
  const Transposition t{p.rows, p.cols, p.src_col / size, p.dst_row / size, p.cols, p.rows};
  transpose(t, src, dst, static_cast<size_t>(size));
}

// Planes of colors from pixels of three, and pixels from planes.
void copy_separated(const Plane& p, const char* src, char* dst, int64_t size) {
  separate3(src, p.cols, dst, p.dst_row / size, static_cast<size_t>(size));
}

void copy_interleaved(const Plane& p, const char* src, char* dst, int64_t size) {
  interleave3(reinterpret_cast<const float*>(src), p.src_col / size, p.rows, reinterpret_cast<float*>(dst));
}

using CopyPlane = void (*)(const Plane&, const char*, char*, int64_t);

// Takes short runs as one larger element: the transposition of [.., 2] pairs of f32 moves 8-byte elements.
void widen(Region* r, int64_t* element_size) {
  if (r->rank == 0) return;
  const size_t last = static_cast<size_t>(r->rank - 1);
  const int64_t run = r->size[last], bytes = run * *element_size;
  if (r->src_stride[last] != 1 || r->dst_stride[last] != 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) return;
  bool fits = r->src_offset % run == 0 && r->dst_offset % run == 0;
  for (size_t k = 0; k < last; ++k) fits = fits && r->src_stride[k] % run == 0 && r->dst_stride[k] % run == 0;
  if (!fits) return;
  r->src_offset /= run;
  r->dst_offset /= run;
  for (size_t k = 0; k < last; ++k) {
    r->src_stride[k] /= run;
    r->dst_stride[k] /= run;
  }
  --r->rank;
  *element_size = bytes;
}

// Puts the dims of the inner loops last and says how to copy them.
CopyPlane choose(Region* r, int64_t element_size) {
  const size_t last = static_cast<size_t>(r->rank - 1);
  if (r->dst_stride[last] != 1) return copy_strided;
  if (r->src_stride[last] == 1) {
    // Short runs: as many as there are one after the other, in any order.
    size_t most = last - 1;
    for (size_t k = most; k-- > 0 && r->size[most] < 8;)
      if (r->size[k] > r->size[most]) most = k;
    for (auto* list : {&r->size, &r->src_stride, &r->dst_stride}) std::swap((*list)[most], (*list)[last - 1]);
    return copy_runs;
  }
  const auto move_before_last = [&](size_t k) {
    for (auto* list : {&r->size, &r->src_stride, &r->dst_stride})
      std::rotate(list->begin() + static_cast<int64_t>(k), list->begin() + static_cast<int64_t>(k) + 1,
                  list->begin() + static_cast<int64_t>(last));
  };
  for (size_t k = 0; k < last; ++k) {
    const bool pixels = r->size[k] == 3 && r->src_stride[k] == 1 && r->src_stride[last] == 3;
    const bool planes = r->size[last] == 3 && r->src_stride[k] == 1 && r->dst_stride[k] == 3;
    if (!(pixels && (element_size == 1 || element_size == 4)) && !(planes && element_size == 4)) continue;
    move_before_last(k);
    return pixels ? copy_separated : copy_interleaved;
  }
  const int64_t least = 16 / element_size;  // a smaller matrix has no whole tile
  if (element_size == 16 || r->size[last] < least) return copy_strided;
  for (size_t k = 0; k < last; ++k) {
    if (r->src_stride[k] != 1 || r->size[k] < least) continue;
    move_before_last(k);
    return copy_transposed;
  }
  return copy_strided;
}

// Position in the outer loops of a copy, which are many when the inner ones are small, so a step must be cheap.
class Odometer {
 public:
  void add(int64_t n, int64_t src, int64_t dst) {
    dims_[static_cast<size_t>(rank_++)] = {n, src, dst, 0};
    total_ *= n;
  }
  int64_t total() const { return total_; }
  void seek(int64_t index) {
    src_ = dst_ = 0;
    for (int k = rank_ - 1; k >= 0; --k) {
      Dim& d = dims_[static_cast<size_t>(k)];
      d.at = index % d.n;
      index /= d.n;
      src_ += d.at * d.src;
      dst_ += d.at * d.dst;
    }
  }
  void step() {
    for (int k = rank_ - 1; k >= 0; --k) {
      Dim& d = dims_[static_cast<size_t>(k)];
      src_ += d.src;
      dst_ += d.dst;
      if (++d.at < d.n) return;
      src_ -= d.n * d.src;
      dst_ -= d.n * d.dst;
      d.at = 0;
    }
  }
  int64_t at(int from_end) const { return dims_[static_cast<size_t>(rank_ - from_end)].at; }
  int64_t src() const { return src_; }
  int64_t dst() const { return dst_; }

 private:
  struct Dim {
    int64_t n, src, dst, at;
  };
  std::array<Dim, Region::kMaxDims + 2> dims_;
  int rank_ = 0;
  int64_t total_ = 1, src_ = 0, dst_ = 0;
};

}  // namespace

void copy_region(const Region& region, const void* src, void* dst, size_t element_size, ThreadPool* pool) {
  Region r = region;
  if (!r.simplify()) return;
  int64_t size = static_cast<int64_t>(element_size);
  widen(&r, &size);
  while (r.rank < 2) {  // dims of size 1 in front
    for (auto* list : {&r.size, &r.src_stride, &r.dst_stride})
      std::copy_backward(list->begin(), list->begin() + r.rank, list->begin() + r.rank + 1);
    r.size[0] = 1;
    r.src_stride[0] = r.dst_stride[0] = r.rank == 0 ? 1 : 0;
    ++r.rank;
  }
  const CopyPlane copy = choose(&r, size);

  const size_t col = static_cast<size_t>(r.rank - 1), row = col - 1;
  const int64_t rows = r.size[row], cols = r.size[col];
  int64_t block_rows = 64, block_cols = 64;  // for transposition: source and destination lie in the first cache
  if (copy != copy_transposed) {
    block_cols = std::min(cols, kBytesPerTask / size);
    block_rows = std::max<int64_t>(1, kBytesPerTask / size / block_cols);
    if (copy == copy_separated) block_rows = rows;
  }
  Odometer outer;
  for (size_t k = 0; k < row; ++k) outer.add(r.size[k], r.src_stride[k] * size, r.dst_stride[k] * size);
  const Plane plane{rows,
                    cols,
                    r.src_stride[row] * size,
                    r.src_stride[col] * size,
                    r.dst_stride[row] * size,
                    r.dst_stride[col] * size};
  outer.add((rows + block_rows - 1) / block_rows, block_rows * plane.src_row, block_rows * plane.dst_row);
  outer.add((cols + block_cols - 1) / block_cols, block_cols * plane.src_col, block_cols * plane.dst_col);

  const char* from = static_cast<const char*>(src) + r.src_offset * size;
  char* to = static_cast<char*>(dst) + r.dst_offset * size;
  auto range = [&](int64_t begin, int64_t end, int) {
    Odometer place = outer;
    place.seek(begin);
    for (int64_t i = begin; i < end; ++i, place.step()) {
      Plane part = plane;
      part.rows = std::min(block_rows, rows - place.at(2) * block_rows);
      part.cols = std::min(block_cols, cols - place.at(1) * block_cols);
      copy(part, from + place.src(), to + place.dst(), size);
    }
  };
  const int64_t bytes = std::min(rows, block_rows) * std::min(cols, block_cols) * size;
  if (pool == nullptr || outer.total() * bytes <= kSerialBytes) return range(0, outer.total(), 0);
  pool->parallel_for(outer.total(), kBytesPerTask / bytes + 1, range);
}

void copy_bytes(const void* src, void* dst, int64_t bytes, ThreadPool* pool) {
  if (src == dst || bytes == 0) return;
  Region r;
  r.add(bytes, 1, 1);
  copy_region(r, src, dst, 1, pool);
}

}  // namespace minnow
