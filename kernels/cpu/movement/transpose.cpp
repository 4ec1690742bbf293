#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/core/region.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kBlockBytes = 16;
template <typename T>
constexpr int kBlock = kBlockBytes / static_cast<int>(sizeof(T));  // lanes of a block; a tile has as many columns

// Block b of the vector is a block of row b * kBlock.
template <typename T, int kLanes>
HWY_INLINE hn::Vec<hn::FixedTag<T, kLanes>> load_blocks(const T* src, int64_t stride) {
  const hn::FixedTag<T, kLanes> d;
  if constexpr (kLanes == kBlock<T>) {
    return hn::LoadU(d, src);
  } else {
    constexpr int kHalf = kLanes / 2;
    return hn::Combine(d, load_blocks<T, kHalf>(src + kHalf * stride, stride), load_blocks<T, kHalf>(src, stride));
  }
}

// Transposes kLanes rows of kBlock elements. Each round interleaves the first with the second half of the vectors.
template <typename T, int kLanes>
HWY_INLINE void transpose_tile(const T* src, int64_t src_stride, T* dst, int64_t dst_stride) {
  constexpr int kRows = kBlock<T>;
  const hn::FixedTag<T, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  V a[kRows], b[kRows];
  for (int r = 0; r < kRows; ++r) a[r] = load_blocks<T, kLanes>(src + r * src_stride, src_stride);
  for (int span = 1; span < kRows; span *= 2) {
    for (int r = 0; r < kRows / 2; ++r) {
      b[2 * r] = hn::InterleaveLower(d, a[r], a[r + kRows / 2]);
      b[2 * r + 1] = hn::InterleaveUpper(d, a[r], a[r + kRows / 2]);
    }
    for (int r = 0; r < kRows; ++r) a[r] = b[r];
  }
  for (int r = 0; r < kRows; ++r) hn::StoreU(a[r], d, dst + r * dst_stride);
}

// A tile that lacks rows or columns, through a buffer.
template <typename T, int kLanes>
HWY_NOINLINE void transpose_edge(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int rows, int cols,
                                 int src_rows, bool whole_rows) {
  HWY_ALIGN T in[kLanes * kBlock<T>];
  HWY_ALIGN T out[kLanes * kBlock<T>];
#pragma GCC unroll 1
  for (int j = 0; j < kLanes; ++j) {
    const T* row = src + (j < src_rows ? j : 0) * src_stride;
    if (whole_rows) {
      std::memcpy(in + j * kBlock<T>, row, kBlockBytes);
    } else {
      std::memset(in + j * kBlock<T>, 0, kBlockBytes);
#pragma GCC unroll 1
      for (int i = 0; i < rows; ++i) {
        keep_scalar();
        in[j * kBlock<T> + i] = row[i];
      }
    }
  }
  transpose_tile<T, kLanes>(in, kBlock<T>, out, kLanes);
#pragma GCC unroll 1
  for (int i = 0; i < rows; ++i) {
    if (cols == kLanes) {
      std::memcpy(dst + i * dst_stride, out + i * kLanes, kLanes * sizeof(T));
    } else {
      std::memcpy(dst + i * dst_stride, out + i * kLanes, static_cast<size_t>(cols) * sizeof(T));
    }
  }
}

// The columns of dst from `j` on, as long as there are kLanes of them (or any, with `all`). Returns the next one.
template <typename T, int kLanes>
int64_t transpose_columns(const Transposition& t, const T* src, T* dst, int64_t j, bool all) {
  for (; j + kLanes <= t.cols || (all && j < t.cols); j += kLanes) {
    // Beyond the last row of src everything repeats row 0, which stands for the tile's first row too.
    const int64_t first = j < t.src_rows ? j : 0;
    const int src_rows = static_cast<int>(std::clamp<int64_t>(t.src_rows - first, 1, kLanes));
    const int cols = static_cast<int>(std::min<int64_t>(t.cols - j, kLanes));
    const bool full = src_rows == kLanes && cols == kLanes && j < t.src_rows;
    const T* from = src + first * t.src_stride;
    T* to = dst + j;
    for (int64_t i = 0; i < t.rows; i += kBlock<T>) {
      const int rows = static_cast<int>(std::min<int64_t>(t.rows - i, kBlock<T>));
      if (full && rows == kBlock<T>) {
        transpose_tile<T, kLanes>(from + i, t.src_stride, to + i * t.dst_stride, t.dst_stride);
      } else {
        transpose_edge<T, kLanes>(from + i, t.src_stride, to + i * t.dst_stride, t.dst_stride, rows, cols, src_rows,
                                  i + kBlock<T> <= t.src_cols);
      }
    }
  }
  return j;
}

template <typename T>
void transpose_typed(const Transposition& t, const void* src, void* dst) {
  constexpr int kFull = HWY_MAX_BYTES / static_cast<int>(sizeof(T));
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  const int64_t j = transpose_columns<T, kFull>(t, from, to, 0, false);
  transpose_columns<T, kBlock<T>>(t, from, to, j, true);
}

void transpose_any(const Transposition& t, const void* src, void* dst, size_t element_size) {
  switch (element_size) {
    case 1:
      return transpose_typed<uint8_t>(t, src, dst);
    case 2:
      return transpose_typed<uint16_t>(t, src, dst);
    case 4:
      return transpose_typed<uint32_t>(t, src, dst);
    default:
      return transpose_typed<uint64_t>(t, src, dst);
  }
}

void interleave3_floats(const float* from, int64_t plane, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved3(hn::LoadU(d, from + i), hn::LoadU(d, from + plane + i), hn::LoadU(d, from + 2 * plane + i), d,
                          to + 3 * i);
  for (; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) to[3 * i + c] = from[c * plane + i];
}

template <typename T>
void separate(const T* from, int64_t n, T* to, int64_t plane) {
  const hn::FixedTag<T, kBlock<T>> d;  // longer vectors take much more code for it
  const int64_t lanes = kBlock<T>;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, from + 3 * i, a, b, c);
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + plane + i);
    hn::StoreU(c, d, to + 2 * plane + i);
  }
  for (; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) to[c * plane + i] = from[3 * i + c];
}

void separate3_any(const void* from, int64_t n, void* to, int64_t plane, size_t element_size) {
  if (element_size == 1) return separate(static_cast<const uint8_t*>(from), n, static_cast<uint8_t*>(to), plane);
  separate(static_cast<const uint32_t*>(from), n, static_cast<uint32_t*>(to), plane);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(transpose_any);
HWY_EXPORT(interleave3_floats);

void transpose(const Transposition& t, const void* src, void* dst, size_t element_size) {
  HWY_DYNAMIC_DISPATCH(transpose_any)(t, src, dst, element_size);
}

void interleave3(const float* from, int64_t plane, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(interleave3_floats)(from, plane, n, to);
}

void separate3(const void* from, int64_t n, void* to, int64_t plane, size_t element_size) {
  HWY_STATIC_DISPATCH(separate3_any)(from, n, to, plane, element_size);  // the same on all instruction sets
}

namespace {

constexpr int64_t kBytesPerTask = 64 << 10;

struct PackedView {
  int64_t batch, channels, blocks, area, lanes;

  explicit PackedView(const Shape& s) : batch(s[0]), channels(s[1]), area(s.count(2, s.rank())), lanes(pack_width()) {
    blocks = (channels + lanes - 1) / lanes;
  }
};

// Calls body(image, block, first, count) for parts of all the channel blocks.
template <typename Body>
void for_each_part(const PackedView& v, size_t element_size, ThreadPool* pool, Body body) {
  const int64_t part = std::max<int64_t>(64, kBytesPerTask / (v.lanes * static_cast<int64_t>(element_size)) / 64 * 64);
  const int64_t parts = (v.area + part - 1) / part;
  auto range = [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % parts * part, plane = task / parts;
      body(plane / v.blocks, plane % v.blocks, first, std::min(part, v.area - first));
    }
  };
  const int64_t bytes = std::min(part, v.area) * v.lanes * static_cast<int64_t>(element_size);
  const int64_t tasks = v.batch * v.blocks * parts;
  if (tasks == 0) return;
  if (pool == nullptr) return range(0, tasks, 0);
  pool->parallel_for(tasks, kBytesPerTask / std::max<int64_t>(bytes, 1) + 1, range);
}

}  // namespace

void pack_channels(const Tensor& plain, Tensor* packed, ThreadPool* pool) {
  if (plain.rank() < 2) return copy_bytes(plain.data, packed->data, plain.type.bytes(), pool);
  const PackedView v(plain.shape());
  const size_t size = dtype_size(plain.type.dtype);
  const char* src = plain.as<char>();
  char* dst = packed->as<char>();
  for_each_part(v, size, pool, [&](int64_t image, int64_t block, int64_t first, int64_t count) {
    const int64_t valid = std::min(v.lanes, v.channels - block * v.lanes);
    const int64_t from = (image * v.channels + block * v.lanes) * v.area + first;
    const int64_t to = ((image * v.blocks + block) * v.area + first) * v.lanes;
    const Transposition t{count, v.lanes, v.area, v.lanes, valid, count};
    transpose(t, src + from * static_cast<int64_t>(size), dst + to * static_cast<int64_t>(size), size);
  });
}

void unpack_channels(const Tensor& packed, Tensor* plain, ThreadPool* pool) {
  if (plain->rank() < 2) return copy_bytes(packed.data, plain->data, plain->type.bytes(), pool);
  const PackedView v(plain->shape());
  const size_t size = dtype_size(plain->type.dtype);
  const char* src = packed.as<char>();
  char* dst = plain->as<char>();
  for_each_part(v, size, pool, [&](int64_t image, int64_t block, int64_t first, int64_t count) {
    const int64_t valid = std::min(v.lanes, v.channels - block * v.lanes);
    const int64_t from = ((image * v.blocks + block) * v.area + first) * v.lanes;
    const int64_t to = (image * v.channels + block * v.lanes) * v.area + first;
    const Transposition t{valid, count, v.lanes, v.area, count, v.lanes};
    transpose(t, src + from * static_cast<int64_t>(size), dst + to * static_cast<int64_t>(size), size);
  });
}

namespace {

// Bytes between planes of channels and pixels of channels.
[[maybe_unused]] void convert_last(const Tensor& from, Tensor* to, ThreadPool* pool) {
  const bool makes = to->type.layout == Layout::kLast;
  const Shape& s = from.shape();
  const int64_t channels = s[1], area = s.count(2, s.rank()), own = last_channels(channels), part = 64;
  const auto range = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t parts = (area + part - 1) / part, first = i % parts * part, n = std::min(part, area - first);
      const int64_t plain = i / parts * channels * area + first, last = (i / parts * area + first) * own;
      if (makes)
        transpose({n, own, area, own, channels, n}, from.as<char>() + plain, to->as<char>() + last, 1);
      else
        transpose({channels, n, own, area, n, channels}, from.as<char>() + last, to->as<char>() + plain, 1);
    }
  };
  if (s.count() == 0) return;
  const int64_t tasks = s[0] * ((area + part - 1) / part);
  pool == nullptr ? range(0, tasks, 0) : pool->parallel_for(tasks, 1 + kBytesPerTask / (4 * part * own), range);
}

// Planes of f32 and pixels of bf16, with zeros beyond their channels.
[[maybe_unused]] void convert_half(const Tensor& from, Tensor* to, ThreadPool* pool) {
  constexpr int64_t kPixels = 64, kChannels = 32;
  const bool makes = to->type.layout == Layout::kLast;
  const Shape& s = from.shape();
  const int64_t channels = s[1], area = s.count(2, s.rank()), own = half_channels(channels);
  const int64_t pixel = half_pixel(makes ? to->type : from.type);
  const int64_t parts = (area + kPixels - 1) / kPixels;
  const auto range = [&](int64_t begin, int64_t end, int) {
    float floats[kPixels * kChannels];
    uint16_t halves[kPixels * kChannels];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * kPixels, n = std::min(kPixels, area - first);
      for (int64_t c = 0; c < own; c += kChannels) {
        const int64_t some = std::clamp<int64_t>(channels - c, 0, kChannels);
        const int64_t plain = (i / parts * channels + c) * area + first, last = (i / parts * area + first) * pixel + c;
        if (makes) {
          transpose({n, some, area, kChannels, some, n}, from.as<float>() + plain, floats, sizeof(float));
          for (int64_t p = 0; p < n; ++p)
            bf16_round_row(floats + p * kChannels, some, kChannels, to->as<uint16_t>() + last + p * pixel, nullptr, 0);
          continue;
        }
        transpose({some, n, pixel, kPixels, n, kChannels}, from.as<uint16_t>() + last, halves, sizeof(uint16_t));
        for (int64_t k = 0; k < some; ++k)
          convert(DType::kBF16, halves + k * kPixels, DType::kF32, to->as<float>() + plain + k * area, n);
      }
    }
  };
  if (s.count() == 0) return;
  const int64_t tasks = s[0] * parts;
  pool == nullptr ? range(0, tasks, 0) : pool->parallel_for(tasks, 1 + kBytesPerTask / (4 * kPixels * own), range);
}

}  // namespace

// Lines of 64 bytes are copied whole: what lies behind a pixel's channels is written after them, but for the last
// pixels of a piece.
void join_channels_last(const std::vector<const Tensor*>& from, Tensor* to, ThreadPool* pool) {
  constexpr int64_t kLine = 64;
  const bool half = to->type.dtype == DType::kF32;
  const auto stored = [&](const TensorType& x) { return half ? 2 * half_pixel(x) : last_channels(x.shape[1]); };
  const int64_t pixels = to->dim(0) * to->dim(2) * to->dim(3), own = stored(to->type);
  const int64_t channels = half ? 2 * half_channels(to->dim(1)) : own;
  const char* end_of_parts = to->as<char>();
  const bool lie_there = std::all_of(from.begin(), from.end(), [&](const Tensor* x) {
    const bool is_there = x->data == end_of_parts;
    end_of_parts += (half ? 2 : 1) * x->dim(1);
    return is_there;
  });
  if (lie_there) return;
  pool->parallel_for(pixels, 1 + 65536 / own, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      char *out = to->as<char>() + p * own, *const behind = out + channels;
      const bool whole = (end - 1 - p) * own >= kLine;
      for (const Tensor* x : from) {
        const int64_t bytes = (half ? 2 : 1) * x->dim(1);
        const char* in = x->as<char>() + p * stored(x->type);
        for (int64_t at = 0; at < bytes && whole && in != out; at += kLine) std::memcpy(out + at, in + at, kLine);
        if (!whole && in != out) std::memcpy(out, in, static_cast<size_t>(bytes));
        out += bytes;
      }
      if (out < behind) std::memset(out, 0, static_cast<size_t>(behind - out));
    }
  });
}

void convert_layout(const Tensor& from, Tensor* to, ThreadPool* pool) {
  if (from.data == to->data) return;
  if constexpr (kHasLast) {
    const bool is_last = from.type.layout == Layout::kLast || to->type.layout == Layout::kLast;
    if (is_last && from.type.layout != to->type.layout)
      return from.type.dtype == DType::kF32 ? convert_half(from, to, pool) : convert_last(from, to, pool);
  }
  if (from.type.layout == to->type.layout) return copy_bytes(from.data, to->data, stored_bytes(from.type), pool);
  to->type.layout == Layout::kPacked ? pack_channels(from, to, pool) : unpack_channels(from, to, pool);
}

}  // namespace minnow
#endif  // HWY_ONCE
