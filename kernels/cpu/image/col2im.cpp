// Col2Im: the columns of a matrix are blocks of an image, which are added up where they overlap.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using LongLong = long long;
constexpr int kMostAxes = kMaxRank - 2;

struct Blocks {
  int axes = 0;
  std::array<int64_t, kMostAxes> image{}, block{}, count{}, stride{}, dilation{}, begin{};
  int64_t taps = 1, blocks = 1, pixels = 1;
};

Status read_list(const Attrs& attrs, const char* name, size_t length, int64_t fallback, std::vector<int64_t>* out) {
  *out = attrs.ints(name);
  if (out->empty()) out->assign(length, fallback);
  if (out->size() != length) return fail(Code::kFormat, "%s has %zu numbers, not %zu", name, out->size(), length);
  for (int64_t v : *out)
    if (v < fallback || v > INT32_MAX)
      return fail(Code::kFormat, "%s has %lld; the least is %lld", name, static_cast<LongLong>(v),
                  static_cast<LongLong>(fallback));
  return ok();
}

Status read_blocks(const Attrs& attrs, const std::vector<int64_t>& image, const std::vector<int64_t>& block,
                   Blocks* b) {
  const size_t n = image.size();
  if (n < 1 || n > static_cast<size_t>(kMostAxes) || block.size() != n)
    return fail(Code::kFormat, "an image of %zu axes in blocks of %zu", n, block.size());
  std::vector<int64_t> strides, dilations, pads;
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "strides", n, 1, &strides));
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "dilations", n, 1, &dilations));
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "pads", 2 * n, 0, &pads));
  b->axes = static_cast<int>(n);
  for (size_t i = 0; i < n; ++i) {
    if (image[i] < 0 || image[i] > INT32_MAX || block[i] < 1 || block[i] > INT32_MAX)
      return fail(Code::kFormat, "along axis %zu of the image, %lld elements in blocks of %lld", i,
                  static_cast<LongLong>(image[i]), static_cast<LongLong>(block[i]));
    const int64_t room = image[i] + pads[i] + pads[n + i] - ((block[i] - 1) * dilations[i] + 1);
    b->image[i] = image[i];
    b->block[i] = block[i];
    b->stride[i] = strides[i];
    b->dilation[i] = dilations[i];
    b->begin[i] = pads[i];
    b->count[i] = room < 0 ? 0 : room / strides[i] + 1;
    if (__builtin_mul_overflow(b->taps, block[i], &b->taps) ||
        __builtin_mul_overflow(b->blocks, b->count[i], &b->blocks) ||
        __builtin_mul_overflow(b->pixels, image[i], &b->pixels))
      return fail(Code::kFormat, "the image is too large");
  }
  int64_t elements = 0;  // of an input, which may have no planes
  if (__builtin_mul_overflow(b->taps, b->blocks, &elements) || elements == INT64_MAX)
    return fail(Code::kFormat, "the blocks are too large");
  return ok();
}

// image[j * stride] += column[j]
using AddStrided = void (*)(void* image, int64_t stride, const void* column, int64_t n);
template <typename T>
void add_strided(void* image, int64_t stride, const void* column, int64_t n) {
  T* to = static_cast<T*>(image);
  const T* from = static_cast<const T*>(column);
  for (int64_t j = 0; j < n; ++j) to[j * stride] = static_cast<T>(to[j * stride] + from[j]);
}

// Null for types that are not added here.
AddStrided add_of(DType t) {
  AddStrided add = nullptr;
  // Signs make no difference to a sum that wraps.
  with_number(t, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      add = add_strided<std::make_unsigned_t<T>>;
    else
      add = add_strided<T>;
  });
  return add;
}

Status infer_col2im(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 3, 3));
  std::vector<int64_t> image, block;
  for (int i = 1; i < 3; ++i) {
    MINNOW_RETURN_IF_ERROR(require_int(c, i));
    if (c.value(i) == nullptr) return c.needs_value(i);
    MINNOW_RETURN_IF_ERROR(c.ints(i, i == 1 ? &image : &block));
  }
  if (add_of(c.in(0).dtype) == nullptr) return fail(Code::kUnsupported, "blocks of %s", dtype_name(c.in(0).dtype));
  Blocks b;
  MINNOW_RETURN_IF_ERROR(read_blocks(c.attrs, image, block, &b));
  const Shape& x = c.shape(0);
  if (x[1] % b.taps != 0 || x[2] != b.blocks)
    return fail(Code::kFormat, "an input of shape %s, for blocks of %lld elements, of which %lld fit the image",
                x.str().c_str(), static_cast<LongLong>(b.taps), static_cast<LongLong>(b.blocks));
  Shape y{x[0], x[1] / b.taps};
  for (int64_t d : image) y.push_back(d);
  MINNOW_RETURN_IF_ERROR(check_shape(y));
  c.set(0, c.in(0).dtype, y);
  return ok();
}

// Steps a mixed-radix counter; false when it starts over.
bool advance(const std::array<int64_t, kMostAxes>& sizes, int axes, std::array<int64_t, kMostAxes>* at) {
  for (int i = axes - 1; i >= 0; --i) {
    const size_t k = static_cast<size_t>(i);
    if (++(*at)[k] < sizes[k]) return true;
    (*at)[k] = 0;
  }
  return false;
}

void add_blocks(const Blocks& b, AddStrided add, int64_t size, const char* column, char* image) {
  std::memset(image, 0, static_cast<size_t>(b.pixels * size));
  if (b.blocks == 0 || b.pixels == 0) return;
  const size_t last = static_cast<size_t>(b.axes - 1);
  std::array<int64_t, kMostAxes> rows = b.count;
  rows[last] = 1;
  std::array<int64_t, kMostAxes> tap{};
  do {
    std::array<int64_t, kMostAxes> at{};
    // Blocks whose element falls inside along the last axis are one run.
    const int64_t shift = tap[last] * b.dilation[last] - b.begin[last], stride = b.stride[last];
    const int64_t first = shift >= 0 ? 0 : std::min(b.count[last], (stride - 1 - shift) / stride);
    const int64_t room = b.image[last] - shift;
    const int64_t end = room <= 0 ? 0 : std::min(b.count[last], (room + stride - 1) / stride);
    do {
      int64_t place = 0;
      bool inside = true;
      for (size_t i = 0; i < last; ++i) {
        const int64_t p = at[i] * b.stride[i] + tap[i] * b.dilation[i] - b.begin[i];
        inside = inside && p >= 0 && p < b.image[i];
        place = place * b.image[i] + p;
      }
      if (inside) {
        char* to = image + (place * b.image[last] + shift + first * stride) * size;
        add(to, stride, column + first * size, end - first);
      }
      column += b.count[last] * size;
    } while (advance(rows, b.axes, &at));
  } while (advance(b.block, b.axes, &tap));
}

void run_col2im(const Attrs& attrs, const RunContext& c) {
  std::vector<int64_t> image, block;
  for (size_t i = 1; i < 3; ++i) {
    const IntView numbers(*c.in[i]);
    for (int64_t k = 0; k < numbers.size(); ++k) (i == 1 ? image : block).push_back(numbers[k]);
  }
  Blocks b;
  if (Status s = read_blocks(attrs, image, block, &b); !s.ok()) return c.report(std::move(s));
  const int64_t planes = c.out[0]->dim(0) * c.out[0]->dim(1);
  const int64_t size = static_cast<int64_t>(dtype_size(c.in[0]->type.dtype));
  const AddStrided add = add_of(c.in[0]->type.dtype);
  c.pool->parallel_for(planes, 1 + 20000 / (b.taps * b.blocks + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      add_blocks(b, add, size, c.in[0]->as<char>() + i * b.taps * b.blocks * size,
                 c.out[0]->as<char>() + i * b.pixels * size);
  });
}

MINNOW_OP("Col2Im", infer_col2im);
MINNOW_KERNEL("Col2Im", create_simple<run_col2im>);

}  // namespace
}  // namespace minnow
