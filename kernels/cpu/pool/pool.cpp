// Pooling: the maximum or the mean under a sliding window, or of a whole channel.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <limits>

#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/pool/bytes.h"
#include "kernels/cpu/pool/half.h"
#include "kernels/cpu/pool/place.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/window.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// NaN wins over numbers, as in numpy.
HWY_INLINE V max_or_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, AtLeast(a, b)); }

// One row of output pixels of a block of channels: the maximum, or the mean, of rows x columns vectors each. `in` is
// the first row that counts; `row` and `column` are the distances of taps.
void pool_line(const PoolPlace* places, int64_t n, const float* in, int64_t rows, int64_t row, int64_t column,
               int64_t divisor, bool mean, float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  for (int64_t x = 0; x < n; ++x, out += lanes) {
    const PoolPlace& p = places[x];
    const float* from = in + p.first * lanes;
    V most = hn::Neg(infinity), sum = hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i, from += row)
      for (int64_t j = 0; j < p.taps; ++j) {
        const V v = hn::LoadU(d, from + j * column);
        sum = hn::Add(sum, v);
        most = hn::Max(most, v);
      }
    if (mean) {
      hn::StoreU(hn::Mul(sum, hn::Set(d, 1.0f / static_cast<float>(divisor * p.counted))), d, out);
      continue;
    }
    // A sum that is no number tells of NaN, or of infinities: what a maximum alone would lose, or not. Look again.
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(sum)))) {
      from = in + p.first * lanes;
      most = hn::Neg(infinity);
      for (int64_t i = 0; i < rows; ++i, from += row)
        for (int64_t j = 0; j < p.taps; ++j) most = max_or_nan(most, hn::LoadU(d, from + j * column));
    }
    hn::StoreU(most, d, out);
  }
}

// The maxima of the columns of a window, for `n` pixels side by side.
void pool_columns(const float* in, int64_t n, int64_t rows, int64_t row, float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = 0; x < n * lanes; x += lanes) {
    V most = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < rows; ++i) most = max_or_nan(most, hn::LoadU(d, in + i * row + x));
    hn::StoreU(most, d, out + x);
  }
}

// All `n` pixels of a block of channels. Sums are made of short partial sums, so that their error stays small.
void pool_all(const float* in, int64_t n, bool mean, float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V total = mean ? hn::Zero(d) : hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t begin = 0; begin < n; begin += 256) {
    const int64_t end = std::min(n, begin + 256);
    const V empty = mean ? hn::Zero(d) : hn::Set(d, -std::numeric_limits<float>::infinity());
    V a = empty, b = empty, c = empty, e = empty;
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
      const float* p = in + i * lanes;
      const V p0 = hn::LoadU(d, p), p1 = hn::LoadU(d, p + lanes);
      const V p2 = hn::LoadU(d, p + 2 * lanes), p3 = hn::LoadU(d, p + 3 * lanes);
      a = mean ? hn::Add(a, p0) : max_or_nan(a, p0);
      b = mean ? hn::Add(b, p1) : max_or_nan(b, p1);
      c = mean ? hn::Add(c, p2) : max_or_nan(c, p2);
      e = mean ? hn::Add(e, p3) : max_or_nan(e, p3);
    }
    for (; i < end; ++i) {
      const V p = hn::LoadU(d, in + i * lanes);
      a = mean ? hn::Add(a, p) : max_or_nan(a, p);
    }
    const V part = mean ? hn::Add(hn::Add(a, b), hn::Add(c, e)) : max_or_nan(max_or_nan(a, b), max_or_nan(c, e));
    total = mean ? hn::Add(total, part) : max_or_nan(total, part);
  }
  hn::StoreU(mean ? hn::Div(total, hn::Set(d, static_cast<float>(n))) : total, d, out);
}

// The same of the n pixels of one channel that lie beside each other.
float pool_row(const float* in, int64_t n, bool mean) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V empty = mean ? hn::Zero(d) : hn::Set(d, -std::numeric_limits<float>::infinity());
  double sum = 0;
  V most = empty;
  for (int64_t begin = 0; begin < n; begin += 256 * lanes) {
    const int64_t end = std::min(n, begin + 256 * lanes);
    V a = empty, b = empty;
    for (int64_t i = begin; i < end; i += lanes) {
      V p = hn::Zero(d);
      if (i + lanes <= end) {
        p = hn::LoadU(d, in + i);
      } else {
        p = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(end - i)), LoadPart(d, in + i, end - i), empty);
      }
      const V next = mean ? hn::Add(a, p) : max_or_nan(a, p);
      a = b;
      b = next;
    }
    if (mean) sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b))));
    most = max_or_nan(most, max_or_nan(a, b));
  }
  if (mean) return static_cast<float>(sum / static_cast<double>(n));
  if (!hn::AllFalse(d, hn::IsNaN(most))) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <type_traits>

namespace minnow {
namespace {

HWY_EXPORT(pool_line);
HWY_EXPORT(pool_all);
HWY_EXPORT(pool_columns);
HWY_EXPORT(pool_row);

constexpr int64_t kSerialTaps = 20000;    // less work is not worth waking a thread
constexpr int64_t kLongTaps = 1 << 20;    // after which the interrupt is asked
constexpr int64_t kSerialVectors = 1500;  // the same of whole vectors that are added up

bool is_packed(const std::vector<const TensorType*>& inputs) {
  return inputs[0]->dtype == DType::kF32 && inputs[0]->shape.rank() >= 3 && inputs[0]->shape.rank() <= 4;
}

LayoutRule layout_pool(const std::vector<const TensorType*>& inputs) {
  return is_packed(inputs) ? LayoutRule::kPacked : LayoutRule::kPlain;
}

LayoutRule layout_max_pool(const std::vector<const TensorType*>& inputs) {
  const DType type = inputs[0]->dtype;
  return type == DType::kI8 || type == DType::kU8 ? LayoutRule::kFollowLast : layout_pool(inputs);
}

bool takes_half(const Shape& image) { return kHasLast && image.rank() == 4 && bf16_unit() != nullptr; }

// Images of bf16 between convolutions of precision "low"; indices of maxima are of floats alone.
LayoutRule layout_half_pool(const std::vector<const TensorType*>& inputs) {
  return is_packed(inputs) && takes_half(inputs[0]->shape) ? LayoutRule::kLast : layout_pool(inputs);
}

bool can_pool(DType dtype, bool mean) {
  if (mean) return dtype == DType::kF32 || dtype == DType::kF64;
  return dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kBool;
}

Status check_pool(const InferContext& c, bool mean) {
  if (!c.has(0)) return fail(Code::kFormat, "input 0 is missing");
  if (!can_pool(c.in(0).dtype, mean))
    return fail(Code::kUnsupported, "%s pooling of %s", mean ? "average" : "maximum", dtype_name(c.in(0).dtype));
  return ok();
}

Status infer_pool(InferContext& c, bool mean) {
  MINNOW_RETURN_IF_ERROR(check_pool(c, mean));
  const Shape& x = c.shape(0);
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, x, c.attrs.ints("kernel"), &window));
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(slide_window(window, x, c.attrs.b("ceil_mode"), &size));
  Shape out{x[0], x[1]};
  for (int i = 0; i < window.rank; ++i) out.push_back(size[Window::at(i)]);
  c.set(0, c.in(0).dtype, out);
  if (!mean) c.set(1, DType::kI64, out);
  return ok();
}

Status infer_max_pool(InferContext& c) { return infer_pool(c, false); }
Status infer_average_pool(InferContext& c) { return infer_pool(c, true); }

constexpr int64_t kMostColumns = 4096;    // of bytes, on the stack
constexpr int64_t kColumnsOfSome = 1024;  // as many rows at a time as have so many columns together
// Longer axes have no table of places: they are found again in each run.
constexpr int64_t kMostPlaces = 1 << 14;
constexpr int64_t kSomePlaces = 128;  // at once, of such an axis

template <typename T>
constexpr T kLeast = std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();

// Calls visit(flip) for the type that numbers are compared as: integers as signed ones of their size, where the bit
// that those without a sign have in place of it is flipped.
template <typename Visit>
void as_compared(DType dtype, const Visit& visit) {
  if (dtype == DType::kF32) return visit(0.0f);
  if (dtype == DType::kF64) return visit(0.0);
  const bool sign = dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  switch (dtype_size(dtype)) {
    case 1:
      return visit(sign ? int8_t{0} : kLeast<int8_t>);
    case 2:
      return visit(sign ? int16_t{0} : kLeast<int16_t>);
    case 4:
      return visit(sign ? int32_t{0} : kLeast<int32_t>);
    default:
      return visit(sign ? int64_t{0} : kLeast<int64_t>);
  }
}

template <typename T>
T flipped(T x, T flip) {
  if constexpr (std::is_integral_v<T>) x = static_cast<T>(x ^ flip);
  return x;
}

class Pool final : public Kernel {
 public:
  explicit Pool(bool mean) : mean_(mean) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, node.attrs.ints("kernel"), &w_));
    w_ = as_3d(w_);
    in_ = spatial_3d(x);
    out_ = spatial_3d(node.out[0]->shape);
    cut_kernel(&w_, in_);
    lay_down(&w_, &in_, &out_);
    packed_ = node.in[0]->layout == Layout::kPacked;
    half_ = node.in[0]->dtype == DType::kF32;
    last_ = node.in[0]->layout != Layout::kLast ? 0 : half_ ? half_channels(x[1]) : last_channels(x[1]);
    from_ = half_ && last_ > 0 ? half_pixel(*node.in[0]) : last_;
    to_ = half_ && last_ > 0 ? half_pixel(*node.out[0]) : last_;
    if (last_ > 0 && node.out.size() > 1 && node.out[1] != nullptr)
      return fail(Code::kUnsupported, "indices of maxima of such an image");
    include_pad_ = node.attrs.b("count_include_pad");
    lanes_ = packed_ ? pack_width() : 1;
    images_ = x[0];
    channels_ = x[1];
    planes_ = x[0] * (last_ > 0 ? 1 : packed_ ? (x[1] + lanes_ - 1) / lanes_ : x[1]);
    // Of taps in the padding there may be any number; none of them is looked at.
    constexpr int64_t kMostTaps = 1 << 30;
    taps_ = 1;
    for (size_t i = 0; i < 3; ++i) taps_ = std::min(kMostTaps, taps_ * (std::min(w_.kernel[i] - 1, in_[i]) + 1));
    int64_t tables = 0;
    for (size_t i = 0; i < 3; ++i) tables += out_[i] <= kMostPlaces && planes_ > 0 ? out_[i] : 0;
    MINNOW_RETURN_IF_ERROR(tables_.keep(tables * static_cast<int64_t>(sizeof(PoolPlace))));
    for (size_t i = 0; i < 3; ++i) {
      places_[i].clear();
      for (int64_t o = 0; o < out_[i] && out_[i] <= kMostPlaces && planes_ > 0; ++o) places_[i].push_back(place(i, o));
    }
    // Large windows that overlap: first the maxima of columns, which the windows of a row then share.
    const auto number = [](int64_t n) { return static_cast<double>(n); };
    const double joint = number(out_[2]) * number(w_.kernel[2]);
    const double apart = number(in_[2]) * number(w_.kernel[1] + 1) + joint;
    by_columns_ = packed_ && !mean_ && apart < joint * number(w_.kernel[1]);
    if (by_columns_) *workspace = std::max(1, node.threads) * line_floats() * 4;
    return ok();
  }

  void run(const RunContext& context) override {
    if constexpr (kHasLast) {
      if (last_ > 0) return run_last(context);
    }
    const int64_t pixels = out_[1] * out_[2], slices = planes_ * out_[0];
    const bool small = slices * pixels * taps_ < kSerialTaps;
    // Rows of the output, of all planes; of an image, each thread those of one part, as the convolutions do.
    const int64_t threads = context.pool->threads();
    const bool by_rows = packed_ && slices == planes_ && images_ == 1 && threads > 1;
    const bool of_bytes = pools_bytes(context);
    const int64_t bands = by_rows ? std::min(out_[1], threads) : of_bytes ? (out_[1] + 31) / 32 : out_[1];
    const int64_t items = slices * bands;
    context.pool->parallel_for(items, small ? items : 1, [&](int64_t begin, int64_t end, int worker) {
      float* columns = by_columns_ ? static_cast<float*>(context.workspace) + worker * line_floats() : nullptr;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t slice = by_rows ? i % slices : i / bands, band = by_rows ? i / slices : i % bands;
        const int64_t first = band * out_[1] / bands, last = (band + 1) * out_[1] / bands;
        if (of_bytes) {
          run_bytes(context, slice / out_[0], place_at(0, slice % out_[0]), slice * out_[1] + first, last - first);
          continue;
        }
        for (int64_t y = first; y < last; ++y) run_line(context, slice * out_[1] + y, columns);
      }
    });
  }

  double seconds() const override {
    return estimate_seconds(planes_ * out_[0] * out_[1] * out_[2] * taps_, kSerialTaps);
  }

  [[gnu::cold]] Profile profile() const override {
    return {by_columns_ ? "packed_by_columns" : packed_ ? "packed" : "plain"};
  }

 private:
  // Images whose channels are last: those of a window follow each other.
  void run_last(const RunContext& context) const {
    const bool is_signed = context.in[0]->type.dtype == DType::kI8;
    const auto lines = [&](int64_t begin, int64_t end, int) {
      LongLoop loop;
      for (int64_t i = begin; i < end; ++i) {
        const PoolPlace y = place_at(1, i % out_[1]);
        const int64_t first = (i / out_[1] * in_[1] + y.first) * in_[2];
        const auto* halves = context.in[0]->as<uint16_t>() + first * from_;
        auto* half_out = context.out[0]->as<uint16_t>() + i * out_[2] * to_;
        if (half_ && mean_ && in_[2] <= kMostMeanColumns && !places_[2].empty()) {
          if (!loop.goes_on((in_[2] + out_[2]) * taps_ * last_ / 64)) return;
          const ByteColumns rows = {last_, y.taps, w_.dilation[1] * in_[2] * from_, in_[2], from_};
          means_of_halves(halves, rows, {places_[2].data(), out_[2], w_.dilation[2], y.counted}, half_out, to_);
          continue;
        }
        for (int64_t at = 0; at < out_[2] && loop.goes_on(taps_ * last_ / 64); ++at) {
          const PoolPlace x = place_at(2, at);
          const ByteColumns window = {last_, x.taps, w_.dilation[2] * from_, y.taps, w_.dilation[1] * in_[2] * from_};
          if (!half_)
            max_columns(context.in[0]->as<uint8_t>() + (first + x.first) * from_, window, is_signed,
                        context.out[0]->as<uint8_t>() + (i * out_[2] + at) * to_);
          else if (mean_)
            mean_halves(halves + x.first * from_, window, 1.0f / static_cast<float>(y.counted * x.counted),
                        half_out + at * to_);
          else
            max_halves(halves + x.first * from_, window, half_out + at * to_);
        }
      }
    };
    context.pool->parallel_for(images_ * out_[1], 1 + 16384 / (out_[2] * taps_ * last_ + 1), lines);
  }

  PoolPlace place(size_t axis, int64_t at) const {
    const int64_t start = at * w_.stride[axis] - w_.begin[axis], kernel = w_.kernel[axis], dilation = w_.dilation[axis];
    const Taps inside = taps_inside(start, in_[axis], kernel, dilation);
    // Padding counts where asked for, but not what a window with ceil_mode reaches beyond it.
    const Taps counted =
        include_pad_ ? taps_inside(start + w_.begin[axis], in_[axis] + w_.begin[axis] + w_.end[axis], kernel, dilation)
                     : inside;
    const int64_t taps = inside.end - inside.begin;
    return {taps == 0 ? 0 : start + inside.begin * dilation, taps, counted.end - counted.begin};
  }
  PoolPlace place_at(size_t axis, int64_t at) const {
    return places_[axis].empty() ? place(axis, at) : places_[axis][static_cast<size_t>(at)];
  }

  // The places of a window along the three axes.
  struct Place {
    PoolPlace z, y, x;
    int64_t divisor() const { return z.counted * y.counted * x.counted; }
  };

  int64_t line_floats() const { return in_[2] * lanes_; }

  // `columns` has room for a row of the input where maxima of columns come first.
  void run_line(const RunContext& context, int64_t line, float* columns) const {
    const int64_t plane = line / out_[1] / out_[0];
    const PoolPlace y = place_at(1, line % out_[1]), z = place_at(0, line / out_[1] % out_[0]);
    if (packed_) {
      const float* in = context.in[0]->as<float>() + (plane * in_[1] + y.first) * in_[2] * lanes_;
      float* out = context.out[0]->as<float>() + line * out_[2] * lanes_;
      int64_t rows = y.taps, row = w_.dilation[1] * in_[2] * lanes_;
      if (columns != nullptr) {
        HWY_DYNAMIC_DISPATCH(pool_columns)(in, in_[2], rows, row, columns);
        in = columns;
        rows = 1;
        row = 0;
      }
      // Some pixels of huge windows at a time.
      const bool table = !places_[2].empty();
      const int64_t fits = std::max<int64_t>(1, kLongTaps / (1 + rows * w_.kernel[2]));
      const int64_t some = table ? fits : std::min(fits, kSomePlaces);
      PoolPlace found[kSomePlaces];
      LongLoop loop;
      for (int64_t x = 0; x < out_[2] && loop.goes_on(table ? kLongTaps : some * (8 + rows * w_.kernel[2]));
           x += some) {
        const int64_t n = std::min(some, out_[2] - x);
        const PoolPlace* places = table ? places_[2].data() + x : found;
        for (int64_t k = 0; k < n && !table; ++k) found[k] = place(2, x + k);
        HWY_DYNAMIC_DISPATCH(pool_line)
        (places, n, in, rows, row, w_.dilation[2] * lanes_, y.counted, mean_, out + x * lanes_);
      }
    }
    const bool indices = !mean_ && context.out.size() > 1 && context.out[1] != nullptr;
    if (packed_ && !indices) return;
    const DType type = context.in[0]->type.dtype;
    LongLoop loop;
    for (int64_t x = 0; x < out_[2] && loop.goes_on(4 * taps_); ++x) {
      const Place p = {z, y, place_at(2, x)};
      if (packed_) {
        find_indices(context, plane, p, line * out_[2] + x);
      } else {
        as_compared(type, [&](auto flip) { run_plain(context, plane, p, line * out_[2] + x, flip); });
      }
    }
  }

  bool pools_bytes(const RunContext& context) const {
    const DType type = context.in[0]->type.dtype;
    const bool indices = context.out.size() > 1 && context.out[1] != nullptr;
    return !mean_ && !indices && (type == DType::kU8 || type == DType::kI8) && padded_columns() <= kMostColumns;
  }

  // Bytes of a row of the image with its padding, within which all windows are.
  int64_t padded_columns() const {
    const int64_t span = (w_.kernel[2] - 1) * w_.dilation[2];
    return std::max(w_.begin[2] + in_[2], (out_[2] - 1) * w_.stride[2] + span + 1);
  }

  // Rows of the output from `first` on: the maxima of columns of each, which windows then share. Padding is less than
  // all numbers, or no greater. Some rows at a time, since what has just been written is read in other pieces.
  void run_bytes(const RunContext& context, int64_t plane, const PoolPlace& z, int64_t first, int64_t rows) const {
    uint8_t columns[kMostColumns + kReadBehind];
    const bool is_signed = context.in[0]->type.dtype == DType::kI8;
    const int64_t width = padded_columns(), some = std::clamp<int64_t>(kColumnsOfSome / width, 1, rows);
    const uint8_t least = is_signed ? 0x80 : 0;
    std::fill_n(columns, some * width + kReadBehind, least);
    ByteColumns c;
    c.n = in_[2];
    c.planes = z.taps;
    c.plane = w_.dilation[0] * in_[1] * in_[2];
    c.row = w_.dilation[1] * in_[2];
    const uint8_t* in = context.in[0]->as<uint8_t>() + (plane * in_[0] + z.first) * in_[1] * in_[2];
    uint8_t* out = context.out[0]->as<uint8_t>() + first * out_[2];
    for (int64_t done = 0; done < rows; done += some) {
      const int64_t n = std::min(some, rows - done);
      for (int64_t i = 0; i < n; ++i) {
        const PoolPlace y = place_at(1, (first + done + i) % out_[1]);
        c.rows = y.taps;
        max_columns(in + y.first * in_[2], c, is_signed, columns + i * width + w_.begin[2]);
      }
      for (int64_t i = 0; i < n; ++i)
        max_windows(columns + i * width, w_.kernel[2], w_.dilation[2], w_.stride[2], out_[2], is_signed,
                    out + (done + i) * out_[2]);
    }
  }

  // Calls visit(offset in the plane) for all taps inside the input.
  template <typename Visit>
  void each_tap(const Place& p, const Visit& visit) const {
    for (int64_t i = 0; i < p.z.taps; ++i)
      for (int64_t j = 0; j < p.y.taps; ++j)
        for (int64_t k = 0; k < p.x.taps; ++k)
          visit(((p.z.first + i * w_.dilation[0]) * in_[1] + p.y.first + j * w_.dilation[1]) * in_[2] + p.x.first +
                k * w_.dilation[2]);
  }

  template <typename T>
  [[gnu::cold]] void run_plain(const RunContext& context, int64_t plane, const Place& p, int64_t at, T flip) const {
    const int64_t size = in_[0] * in_[1] * in_[2];
    const T* in = context.in[0]->as<T>() + plane * size;
    if constexpr (std::is_floating_point_v<T>) {
      if (mean_) {
        double sum = 0;
        each_tap(p, [&](int64_t i) { sum += static_cast<double>(in[i]); });
        context.out[0]->as<T>()[at] = static_cast<T>(sum / static_cast<double>(p.divisor()));
        return;
      }
    }
    T best = kLeast<T>;
    int64_t index = -1;
    each_tap(p, [&](int64_t i) {
      const T v = flipped(in[i], flip);
      if (index >= 0 && !(v > best) && !(v != v && best == best)) return;
      best = v;
      index = i;
    });
    context.out[0]->as<T>()[at] = flipped(best, flip);
    if (context.out.size() > 1 && context.out[1] != nullptr) context.out[1]->as<int64_t>()[at] = plane * size + index;
  }

  // Where the maxima of a block of channels lie, in the plain layout.
  [[gnu::cold]] void find_indices(const RunContext& context, int64_t plane, const Place& p, int64_t at) const {
    const int64_t blocks = (channels_ + lanes_ - 1) / lanes_, size = in_[1] * in_[2], out_size = out_[1] * out_[2];
    const int64_t image = plane / blocks, first = plane % blocks * lanes_, pixel = at % out_size;
    const float* in = context.in[0]->as<float>() + plane * size * lanes_;
    for (int64_t l = 0; l < std::min<int64_t>(lanes_, channels_ - first); ++l) {
      const float best = context.out[0]->as<float>()[at * lanes_ + l];
      int64_t index = -1;
      each_tap(p, [&](int64_t i) {
        const float v = in[i * lanes_ + l];
        if (index < 0 && (v == best || (v != v && best != best))) index = i;
      });
      const int64_t channel = image * channels_ + first + l;
      context.out[1]->as<int64_t>()[channel * out_size + pixel] = channel * size + index;
    }
  }

  bool mean_, packed_ = false, include_pad_ = false, by_columns_ = false;
  bool half_ = false;  // where channels are last: bf16, not bytes
  Window w_;
  int64_t last_ = 0;           // numbers of a pixel whose channels are last, else 0
  int64_t from_ = 0, to_ = 0;  // from one such pixel to the next, of what is read and of what is made
  std::array<int64_t, 3> in_{}, out_{};
  std::array<std::vector<PoolPlace>, 3> places_;  // of each output position along an axis; empty for long ones
  KeptMemory tables_;
  int64_t lanes_ = 1, images_ = 1, channels_ = 0, planes_ = 0, taps_ = 1;
};

template <bool kMean>
std::unique_ptr<Kernel> create_pool(const NodeContext&) {
  return std::make_unique<Pool>(kMean);
}

Status infer_global(InferContext& c, bool mean) {
  MINNOW_RETURN_IF_ERROR(check_pool(c, mean));
  const Shape& x = c.shape(0);
  if (x.rank() < 2) return fail(Code::kFormat, "the input needs channels, but has the shape %s", x.str().c_str());
  Shape out{x[0], x[1]};
  out.resize(x.rank(), 1);
  c.set(0, c.in(0).dtype, out);
  return ok();
}

Status infer_global_average(InferContext& c) { return infer_global(c, true); }
Status infer_global_max(InferContext& c) { return infer_global(c, false); }

LayoutRule layout_global(const std::vector<const TensorType*>& inputs) {
  return inputs[0]->dtype == DType::kF32 && inputs[0]->shape.rank() >= 3 ? LayoutRule::kFollow : LayoutRule::kPlain;
}

LayoutRule layout_half_global(const std::vector<const TensorType*>& inputs) {
  return is_packed(inputs) && takes_half(inputs[0]->shape) ? LayoutRule::kReadsLast : layout_global(inputs);
}

template <typename T>
[[gnu::cold]] void run_global_as(const RunContext& context, bool mean, T flip) {
  const Tensor& x = *context.in[0];
  const int64_t n = x.shape().count(2, x.rank());
  T* out = context.out[0]->as<T>();
  const int64_t grain = std::max<int64_t>(1, kSerialTaps / (n + 1));
  context.pool->parallel_for(x.shape().count(0, 2), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* in = x.as<T>() + plane * n;
      if constexpr (std::is_same_v<T, float>) {
        out[plane] = HWY_DYNAMIC_DISPATCH(pool_row)(in, n, mean);
        continue;
      }
      if constexpr (std::is_floating_point_v<T>) {
        if (mean) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(in[i]);
          out[plane] = static_cast<T>(sum / static_cast<double>(n));
          continue;
        }
      }
      T best = kLeast<T>;
      for (int64_t i = 0; i < n; ++i) {
        const T v = flipped(in[i], flip);
        if (v > best || v != v) best = v;
      }
      out[plane] = flipped(best, flip);
    }
  });
}

void run_global(const RunContext& context, bool mean) {
  const Tensor& x = *context.in[0];
  if constexpr (kHasLast) {
    if (x.type.layout == Layout::kLast) return mean_of_half_images(x, context.pool, context.out[0]->as<float>());
  }
  if (x.type.layout != Layout::kPacked)
    return as_compared(x.type.dtype, [&](auto flip) { run_global_as(context, mean, flip); });
  const int64_t lanes = pack_width(), n = x.shape().count(2, x.rank());
  const int64_t planes = x.dim(0) * ((x.dim(1) + lanes - 1) / lanes);
  const int64_t grain = std::max<int64_t>(1, kSerialVectors / (n + 1));
  context.pool->parallel_for(planes, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t plane = begin; plane < end; ++plane) HWY_DYNAMIC_DISPATCH(pool_all)
    (x.as<float>() + plane * n * lanes, n, mean, context.out[0]->as<float>() + plane * lanes);
  });
}

void run_global_max(const Attrs&, const RunContext& context) { run_global(context, false); }
void run_global_average(const Attrs&, const RunContext& context) { run_global(context, true); }

MINNOW_OP("MaxPool", infer_max_pool);
MINNOW_KERNEL("MaxPool", create_pool<false>, LayoutRule::kPacked, /*in_place=*/false, layout_max_pool, Pieces::kNone,
              layout_half_pool);
MINNOW_OP("AveragePool", infer_average_pool);
MINNOW_KERNEL("AveragePool", create_pool<true>, LayoutRule::kPacked, /*in_place=*/false, layout_pool, Pieces::kNone,
              layout_half_pool);
MINNOW_OP("GlobalMaxPool", infer_global_max);
MINNOW_KERNEL("GlobalMaxPool", create_simple<run_global_max>, LayoutRule::kPacked, /*in_place=*/false, layout_global);
MINNOW_OP("GlobalAveragePool", infer_global_average);
MINNOW_KERNEL("GlobalAveragePool", create_simple<run_global_average>, LayoutRule::kPacked, /*in_place=*/false,
              layout_global, Pieces::kNone, layout_half_global);

}  // namespace
}  // namespace minnow
#endif
