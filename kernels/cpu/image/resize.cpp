// Resize: nearest by index maps, linear and cubic by one resampling pass per axis.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/image/double_bytes.h"
#include "kernels/cpu/image/resample.h"
#include "kernels/cpu/pool/half.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/sort.h"
#include "kernels/core/region.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kResizeBytesPerTask = 64 << 10;
using Mode = ResizeSettings::Mode;

// An operand that is empty counts as missing.
template <typename Context>
const Tensor* operand(const Context& tensors, size_t i) {
  return i < tensors.size() && tensors[i] != nullptr && tensors[i]->count() > 0 ? tensors[i] : nullptr;
}

Status infer_resize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  ResizeSettings settings;
  MINNOW_RETURN_IF_ERROR(read_resize_settings(c.attrs, &settings));
  const auto given = [&](int i) { return c.has(i) && c.in(i).count() > 0; };
  if (given(2) == given(3)) return fail(Code::kFormat, "one of scales and sizes must be given, and not both");
  const bool crop = settings.coordinate == ResizeSettings::Coordinate::kCrop;
  if (crop && !given(1)) return fail(Code::kFormat, "tf_crop_and_resize needs roi");
  for (int i = 1; i < 3; ++i)
    if (given(i) && !is_float(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be floats, not %s", i, dtype_name(c.in(i).dtype));
  if (given(3)) MINNOW_RETURN_IF_ERROR(require_int(c, 3));

  const int asked = given(3) ? 3 : 2;
  const Tensor* value = c.value(asked);
  if (value == nullptr) return c.needs_value(asked);
  std::array<ResizeAxis, kMaxRank> axes;
  ResizeOperands operands{number_at<float>};
  (asked == 3 ? operands.sizes : operands.scales) = value;
  MINNOW_RETURN_IF_ERROR(resolve_resize(c.attrs, settings, c.shape(0), operands, &axes));
  if (crop) {
    // Only the number of elements matters here.
    const size_t n = c.attrs.has("axes") ? c.attrs.ints("axes").size() : static_cast<size_t>(c.shape(0).rank());
    if (c.in(1).count() != static_cast<int64_t>(2 * n))
      return fail(Code::kFormat, "roi has %lld numbers, %zu are needed", static_cast<long long>(c.in(1).count()),
                  2 * n);
  }
  Shape y;
  for (int k = 0; k < c.shape(0).rank(); ++k) y.push_back(axes[static_cast<size_t>(k)].out);
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

// dst[i] = src[offset[i]] for blocks of kSize bytes; 0: of `size` bytes.
template <size_t kSize>
void gather_blocks(const char* src, const int64_t* offset, int64_t n, char* dst, size_t size) {
  const size_t block = kSize > 0 ? kSize : size;
  for (int64_t i = 0; i < n; ++i, dst += block) std::memcpy(dst, src + offset[i], kSize > 0 ? kSize : size);
}

// By far the most frequent: each element of four bytes twice.
void double_elements(const char* src, const int64_t*, int64_t n, char* dst, size_t) {
  for (int64_t i = 0; i < n / 2; ++i) {
    uint32_t element;
    std::memcpy(&element, src + 4 * i, 4);
    const uint64_t two = element * uint64_t{0x100000001};
    std::memcpy(dst + 8 * i, &two, 8);
  }
  if (n % 2 != 0) std::memcpy(dst + 4 * (n - 1), src + n / 2 * 4, 4);
}

using GatherBlocks = void (*)(const char*, const int64_t*, int64_t, char*, size_t);

GatherBlocks gather_of(int64_t block, const int64_t* offset, int64_t n) {
  bool doubles = block == 4;
  for (int64_t i = 0; i < n && doubles; ++i) doubles = offset[i] == i / 2 * 4;
  if (doubles) return double_elements;
  switch (block) {
    case 1:
      return gather_blocks<1>;
    case 2:
      return gather_blocks<2>;
    case 4:
      return gather_blocks<4>;
    case 8:
      return gather_blocks<8>;
    case 16:
      return gather_blocks<16>;
    case 32:
      return gather_blocks<32>;
    case 64:
      return gather_blocks<64>;
    default:
      return gather_blocks<0>;
  }
}

// A tensor as a row-major array: channel blocks and lanes are axes of their own.
struct Grid {
  int rank = 0;
  std::array<ResizeAxis, kMaxRank + 1> axis;

  int64_t in(int begin, int end) const {
    int64_t n = 1;
    for (int k = begin; k < end; ++k) n *= axis[static_cast<size_t>(k)].in;
    return n;
  }
  int64_t out(int begin, int end) const {
    int64_t n = 1;
    for (int k = begin; k < end; ++k) n *= axis[static_cast<size_t>(k)].out;
    return n;
  }
};

// One pass: axis `at` of the grid, with the axes of earlier passes at their new sizes.
struct Pass {
  int at = 0;
  int64_t outer = 1, inner = 1;
  ResizeTable table;
};

class ResizeKernel final : public Kernel {
 public:
  explicit ResizeKernel(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    MINNOW_RETURN_IF_ERROR(read_resize_settings(attrs_, &settings_));
    x_ = *node.in[0];
    y_ = *node.out[0];
    if (y_.count() == 0) return ok();
    // The operands, unless constant, are read in each run; until then every axis may be one that changes.
    const bool crop = settings_.coordinate == ResizeSettings::Coordinate::kCrop;
    const bool by_scale = node.in.size() > 2 && node.in[2] != nullptr && node.in[2]->count() > 0;
    const bool by_types = !by_scale && !crop && settings_.aspect == ResizeSettings::Aspect::kStretch;
    constant_ = by_types || (operand(node.constant, by_scale ? 2 : 3) != nullptr &&
                             (!crop || operand(node.constant, 1) != nullptr));
    for (int k = 0; k < x_.shape.rank(); ++k) {
      const int64_t in = x_.shape[k], out = y_.shape[k];
      axes_[static_cast<size_t>(k)] = {in, out, static_cast<float>(out) / static_cast<float>(in), 0, 1};
    }
    if (constant_) MINNOW_RETURN_IF_ERROR(read_operands(node.constant));

    half_ = x_.layout == Layout::kLast;
    if (half_ && (settings_.mode == Mode::kNearest || crop || changes(0) || changes(1) || !constant_))
      return fail(Code::kUnsupported, "a Resize of this kind of such an image");
    packed_ = x_.layout == Layout::kPacked && x_.shape.rank() >= 2;
    repack_ = packed_ && (changes(0) || changes(1));
    make_grid();
    int64_t need = 0;
    if (repack_) need += plain_bytes(x_) + plain_bytes(y_);
    first_ = 0;
    while (first_ < grid_.rank && !grid_changes(first_)) ++first_;
    if (settings_.mode == Mode::kNearest) {
      for (int k = 0; k < grid_.rank; ++k) need += grid_.axis[static_cast<size_t>(k)].out * 8;
      if (constant_) plan_nearest();
    } else {
      MINNOW_RETURN_IF_ERROR(plan_passes());
      threads_ = std::max(1, node.threads);
      if (!half_) need += threads_ * 2 * buffer_ * static_cast<int64_t>(sizeof(float));
    }
    *workspace = need;
    return ok();
  }

  void run(const RunContext& c) override {
    if (y_.count() == 0) return;
    if (!constant_) {
      const Status status = read_operands(c.in);
      if (!status.ok()) return c.report(status);
      make_grid();
      for (Pass& pass : passes_) pass.table.build(settings_, grid_.axis[static_cast<size_t>(pass.at)]);
      if (settings_.mode == Mode::kNearest) plan_nearest();
    }
    char* work = static_cast<char*>(c.workspace);
    const Tensor& x = *c.in[0];
    Tensor& y = *c.out[0];
    if (!repack_) return compute(c, x.as<char>(), y.as<char>(), work);
    Tensor plain_x{{x_.dtype, Layout::kPlain, x_.shape}, work};
    Tensor plain_y{{y_.dtype, Layout::kPlain, y_.shape}, work + plain_bytes(x_)};
    unpack_channels(x, &plain_x, c.pool);
    compute(c, plain_x.as<char>(), plain_y.as<char>(), work + plain_bytes(x_) + plain_bytes(y_));
    pack_channels(plain_y, &y, c.pool);
  }

  [[gnu::cold]] Profile profile() const override {
    const std::string name = settings_.mode == Mode::kNearest ? "nearest" : "passes";
    return {name + (repack_ ? "_repacked" : packed_ ? "_packed" : "")};
  }

 private:
  static int64_t plain_bytes(const TensorType& t) {
    return (t.count() * static_cast<int64_t>(dtype_size(t.dtype)) + 63) / 64 * 64;
  }
  bool may_change(const ResizeAxis& axis) const { return !constant_ || !axis.identity(); }
  bool changes(int k) const { return may_change(axes_[static_cast<size_t>(k)]); }
  bool grid_changes(int k) const {
    return may_change(grid_.axis[static_cast<size_t>(k)]) && !fixed_[static_cast<size_t>(k)];
  }

  template <typename Tensors>
  Status read_operands(const Tensors& in) {
    ResizeOperands operands{number_at<float>, operand(in, 1), operand(in, 2), operand(in, 3)};
    std::array<ResizeAxis, kMaxRank> axes;
    if (operands.scales == nullptr && operands.sizes == nullptr) return ok();  // the sizes in the types are enough
    MINNOW_RETURN_IF_ERROR(resolve_resize(attrs_, settings_, x_.shape, operands, &axes));
    for (int k = 0; k < x_.shape.rank(); ++k)
      if (axes[static_cast<size_t>(k)].out != y_.shape[k])
        return fail(Code::kInternal, "the operands changed after the shapes were inferred");
    axes_ = axes;
    return ok();
  }

  void make_grid() {
    grid_.rank = x_.shape.rank();
    fixed_.fill(false);
    for (int k = 0; k < grid_.rank; ++k) grid_.axis[static_cast<size_t>(k)] = axes_[static_cast<size_t>(k)];
    if (kHasLast && half_) {
      const int64_t own = half_channels(x_.shape[1]);
      grid_.axis[1] = axes_[2];
      grid_.axis[2] = axes_[3];
      grid_.axis[3] = {own, own, 1, 0, 1};
    }
    if (!packed_ || repack_) return;
    const int64_t lanes = pack_width(), blocks = (x_.shape[1] + lanes - 1) / lanes;
    grid_.axis[1] = ResizeAxis{blocks, blocks, 1, 0, 1};
    grid_.axis[static_cast<size_t>(grid_.rank)] = ResizeAxis{lanes, lanes, 1, 0, 1};
    fixed_[1] = fixed_[static_cast<size_t>(grid_.rank++)] = true;
  }

  // ---- nearest: row by row along the last axis that changes, blocks of what lies behind it

  void plan_nearest() {
    last_ = -1;
    for (int k = 0; k < grid_.rank; ++k)
      if (!grid_.axis[static_cast<size_t>(k)].identity()) last_ = k;
  }

  // Whether an axis has each of its elements twice; `map` is where its outputs come from, in bytes.
  bool doubles(int k, const int64_t* map) const {
    const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
    const int64_t stride = grid_.in(k + 1, grid_.rank) * static_cast<int64_t>(dtype_size(x_.dtype));
    if (axis.out != 2 * axis.in) return false;
    for (int64_t i = 0; i < axis.out; ++i)
      if (map[i] != i / 2 * stride) return false;
    return true;
  }

  void compute(const RunContext& c, const char* src, char* dst, char* work) {
    settings_.mode == Mode::kNearest ? nearest(c, src, dst, work) : interpolate(c, src, dst, work);
    if (settings_.coordinate == ResizeSettings::Coordinate::kCrop) extrapolate(c, dst);
  }

  void nearest(const RunContext& c, const char* src, char* dst, char* work) {
    const int64_t size = static_cast<int64_t>(dtype_size(x_.dtype));
    if (last_ < 0) return copy_bytes(src, dst, grid_.in(0, grid_.rank) * size, c.pool);
    // For each axis the offset of the source of each output, in bytes.
    std::array<const int64_t*, kMaxRank + 1> map{};
    int64_t* next = reinterpret_cast<int64_t*>(work);
    for (int k = 0; k <= last_; ++k) {
      const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
      const int64_t stride = grid_.in(k + 1, grid_.rank) * size;
      map[static_cast<size_t>(k)] = next;
      for (int64_t i = 0; i < axis.out; ++i) *next++ = resize_nearest(settings_, axis, i) * stride;
    }
    const int64_t block = grid_.out(last_ + 1, grid_.rank) * size, n = grid_.axis[static_cast<size_t>(last_)].out;
    const int64_t* along = map[static_cast<size_t>(last_)];
    if (block == 1 && doubles(last_, along)) {
      int before = last_ - 1;  // the axis whose rows are repeated as well, if that is so
      const bool twice = before >= 0 && doubles(before, map[static_cast<size_t>(before)]);
      if (!twice) ++before;
      bool same = true;
      for (int k = 0; k < before; ++k) same = same && grid_.axis[static_cast<size_t>(k)].identity();
      if (same) {
        const int64_t row = n / 2, size_of_task = kResizeBytesPerTask / (n * (twice ? 2 : 1)) + 1;
        return c.pool->parallel_for(grid_.in(0, last_), size_of_task, [&](int64_t begin, int64_t end, int) {
          double_bytes(src + begin * row, end - begin, row, twice, dst + begin * n * (twice ? 2 : 1));
        });
      }
    }
    const GatherBlocks gather = gather_of(block, along, n);
    auto rows = [&](int64_t begin, int64_t end, int) {
      int64_t previous = -1;
      for (int64_t row = begin; row < end; ++row) {
        int64_t from = 0, rest = row;
        for (int k = last_ - 1; k >= 0; --k) {
          const int64_t dim = grid_.axis[static_cast<size_t>(k)].out;
          from += map[static_cast<size_t>(k)][rest % dim];
          rest /= dim;
        }
        char* to = dst + row * n * block;
        if (from == previous) {
          std::memcpy(to, to - n * block, static_cast<size_t>(n * block));
        } else {
          gather(src + from, along, n, to, static_cast<size_t>(block));
        }
        previous = from;
      }
    };
    c.pool->parallel_for(grid_.out(0, last_), kResizeBytesPerTask / (n * block) + 1, rows);
  }

  // ---- linear and cubic: passes over float, plane by plane, so that what is between two passes stays in the cache

  [[gnu::cold]] Status plan_passes() {
    passes_.clear();
    int64_t table_bytes = 0;
    // Shrinking first makes the others cheaper.
    const auto growth = [this](int64_t k) {
      const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
      return static_cast<double>(axis.out) / static_cast<double>(std::max<int64_t>(1, axis.in));
    };
    const auto order = order_of(grid_.rank, [&](int64_t a, int64_t b) { return growth(a) < growth(b); });
    std::array<bool, kMaxRank + 1> done{};
    const auto count = [&](int begin, int end) {
      int64_t n = 1;
      for (int k = begin; k < end; ++k) n *= done[static_cast<size_t>(k)] ? grid_.out(k, k + 1) : grid_.in(k, k + 1);
      return n;
    };
    // Planes of other types are converted, the first on its way in and the last on its way out.
    buffer_ = x_.dtype == DType::kF32 ? 0 : count(first_, grid_.rank);
    for (int64_t i : order) {
      const int k = static_cast<int>(i);
      if (k < first_ || !grid_changes(k)) continue;
      Pass pass;
      pass.at = k;
      pass.outer = count(first_, k);
      pass.inner = count(k + 1, grid_.rank);
      const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
      const size_t room = static_cast<size_t>(ResizeTable::most_taps(settings_, axis) * axis.out);
      table_bytes += static_cast<int64_t>(room * (sizeof(int32_t) + sizeof(float)));
      MINNOW_RETURN_IF_ERROR(tables_.keep(table_bytes));
      pass.table.index.reserve(room);
      pass.table.weight.reserve(room);
      if (constant_) pass.table.build(settings_, axis);
      done[static_cast<size_t>(k)] = true;
      const bool last = passes_.size() + 1 == order.size();
      if (!last || x_.dtype != DType::kF32) buffer_ = std::max(buffer_, count(first_, grid_.rank));
      passes_.push_back(std::move(pass));
    }
    buffer_ = (buffer_ + 15) / 16 * 16;
    return ok();
  }

  void interpolate(const RunContext& c, const char* src, char* dst, char* work) {
    if constexpr (kHasLast)
      if (half_) return blend(c, reinterpret_cast<const uint16_t*>(src), reinterpret_cast<uint16_t*>(dst));
    const int64_t size = static_cast<int64_t>(dtype_size(x_.dtype)), planes = grid_.in(0, first_);
    const int64_t in = grid_.in(first_, grid_.rank), out = grid_.out(first_, grid_.rank);
    if (passes_.empty()) return copy_bytes(src, dst, planes * in * size, c.pool);
    const bool convert_elements = x_.dtype != DType::kF32;
    auto range = [&](int64_t begin, int64_t end, int worker) {
      float* buffers[2];
      buffers[0] = reinterpret_cast<float*>(work) + 2 * worker * buffer_;
      buffers[1] = buffers[0] + buffer_;
      for (int64_t plane = begin; plane < end; ++plane) {
        const float* from = reinterpret_cast<const float*>(src + plane * in * size);
        int turn = 0;
        if (convert_elements) {
          convert(x_.dtype, src + plane * in * size, DType::kF32, buffers[0], in);
          from = buffers[0];
          turn = 1;
        }
        for (size_t k = 0; k < passes_.size(); ++k, turn ^= 1) {
          const Pass& pass = passes_[k];
          const bool last = k + 1 == passes_.size() && !convert_elements;
          float* to = last ? reinterpret_cast<float*>(dst + plane * out * size) : buffers[turn];
          const int64_t items = resample_items(pass.table, pass.outer, pass.inner);
          const int64_t cost = pass.table.taps * (pass.inner == 1 ? pass.table.out : pass.inner);
          c.pool->parallel_for(items, 16384 / cost + 1, [&](int64_t first, int64_t stop, int) {
            resample(pass.table, from, to, pass.inner, first, stop);
          });
          from = to;
        }
        if (convert_elements) convert(DType::kF32, from, y_.dtype, dst + plane * out * size, out);
      }
    };
    // Few planes are split inside, many among the threads; the nested loops above then run in one thread each.
    if (planes < 2 * threads_ || c.pool->threads() > threads_) return range(0, planes, 0);
    c.pool->parallel_for(planes, kResizeBytesPerTask / (4 * (in + out)) + 1, range);
  }

  // The same of images of bf16 whose channels are last, both axes at once.
  void blend(const RunContext& c, const uint16_t* src, uint16_t* dst) {
    const int64_t height = grid_.axis[1].out, width = grid_.axis[2].out, own = grid_.axis[3].out;
    const int64_t from = half_pixel(x_), to = half_pixel(y_);  // from one pixel to the next
    const int64_t line = grid_.axis[2].in * from, image = grid_.axis[1].in * line;
    const auto taps = [&](int k, int64_t i, int32_t* same) {
      static constexpr float kWhole = 1;
      for (const Pass& pass : passes_)
        if (pass.at == k) return HalfTaps{&pass.table.index[i], &pass.table.weight[i], pass.table.taps, pass.table.out};
      *same = static_cast<int32_t>(i);
      return HalfTaps{same, &kWhole, 1, 1};
    };
    c.pool->parallel_for(
        grid_.axis[0].out * height, kResizeBytesPerTask / (8 * width * own) + 1, [&](int64_t begin, int64_t end, int) {
          LongLoop loop;
          for (int64_t i = begin; i < end; ++i) {
            int32_t row, column;
            const HalfTaps y = taps(1, i % height, &row);
            for (int64_t at = 0; at < width && loop.goes_on(y.n * own / 8); ++at) {
              const HalfTaps x = taps(2, at, &column);
              for (int64_t k = 0; k < own; k += kHalvesAtOnce)
                blend_halves(src + i / height * image + k, y, line, x, from, dst + (i * width + at) * to + k);
            }
          }
        });
  }

  // ---- tf_crop_and_resize: what lies outside the input has a value of its own

  [[gnu::cold]] void extrapolate(const RunContext& c, char* dst) {
    uint64_t value = 0;
    convert(DType::kF32, &settings_.extrapolation, y_.dtype, &value, 1);
    const size_t size = dtype_size(y_.dtype);
    const auto outside = [this](int k, int64_t i) {
      const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
      return !axis.identity() && resize_outside(settings_, axis, resize_coordinate(settings_, axis, i));
    };
    for (int k = 0; k < grid_.rank; ++k) {
      const ResizeAxis& axis = grid_.axis[static_cast<size_t>(k)];
      const int64_t inner = grid_.out(k + 1, grid_.rank);
      for (int64_t i = 0; i < axis.out; ++i) {
        if (!outside(k, i)) continue;
        Region r;
        r.dst_offset = i * inner;
        r.add(grid_.out(0, k), 0, axis.out * inner);
        r.add(inner, 0, 1);
        copy_region(r, &value, dst, size, c.pool);
      }
    }
  }

  const Attrs& attrs_;
  ResizeSettings settings_;
  TensorType x_, y_;
  std::array<ResizeAxis, kMaxRank> axes_;
  Grid grid_;
  std::array<bool, kMaxRank + 1> fixed_{};  // axes of the grid that are not of the op: channel blocks, lanes
  std::vector<Pass> passes_;
  KeptMemory tables_;  // of all passes
  bool constant_ = false;
  bool packed_ = false;
  bool half_ = false;    // bf16 with channels last
  bool repack_ = false;  // N or C changes: the packed input is computed plain
  int first_ = 0;        // the axes before are planes
  int last_ = -1;
  int threads_ = 1;
  int64_t buffer_ = 0;
};

std::unique_ptr<Kernel> create_resize(const NodeContext& node) { return std::make_unique<ResizeKernel>(node.attrs); }

LayoutRule layout_half_resize(const std::vector<const TensorType*>& in) {
  const bool fits = kHasLast && in[0]->dtype == DType::kF32 && in[0]->shape.rank() == 4 && bf16_unit() != nullptr;
  return fits ? LayoutRule::kLast : LayoutRule::kFollow;
}

MINNOW_OP("Resize", infer_resize);
MINNOW_KERNEL("Resize", create_resize, LayoutRule::kFollow, /*in_place=*/false, nullptr, Pieces::kNone,
              layout_half_resize);

}  // namespace
}  // namespace minnow
