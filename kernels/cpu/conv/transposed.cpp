// The op ConvTranspose, and its kernel for packed f32.
#include "kernels/cpu/conv/bf16_last.h"
#include "kernels/cpu/conv/transposed.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/conv/depthwise_micro_kernel.h"
#include "kernels/core/float_buffer.h"
#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/half_operands.h"
#include "kernels/cpu/conv/quantized_transposed.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/core/macs.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {

using LongLong = long long;

// Along an axis of the output: no tensor has more elements.
constexpr int64_t kMostPositions = int64_t{1} << 46;

Status read_deconv(const Attrs& attrs, const Shape& x, const Shape& w, Window* window, std::array<int64_t, 3>* out) {
  Attrs own = attrs;
  const std::string auto_pad = attrs.s("auto_pad");
  const bool same_upper = auto_pad == "SAME_UPPER", same_lower = auto_pad == "SAME_LOWER";
  if (same_upper || same_lower) own.set("auto_pad", std::string());
  MINNOW_RETURN_IF_ERROR(read_window(own, x, std::vector<int64_t>(w.begin() + 2, w.end()), window));
  std::vector<int64_t> more = attrs.ints("output_padding");
  if (more.empty()) more.assign(Window::at(window->rank), 0);
  if (more.size() != Window::at(window->rank))
    return fail(Code::kFormat, "output_padding has %zu numbers for %d spatial dims", more.size(), window->rank);
  *out = {1, 1, 1};
  for (int i = 0; i < window->rank; ++i) {
    const size_t k = Window::at(i);
    if (more[k] < 0 || more[k] > INT32_MAX)
      return fail(Code::kFormat, "output_padding %lld", static_cast<LongLong>(more[k]));
    const int64_t size = x[i + 2];
    if (size > kMostPositions / window->stride[k])
      return fail(Code::kUnsupported, "a stride of %lld makes too much of axis %d of %s",
                  static_cast<LongLong>(window->stride[k]), i + 2, x.str().c_str());
    const int64_t full = (size - 1) * window->stride[k] + window->dilated_kernel(i) + more[k];
    int64_t n = full - window->begin[k] - window->end[k];
    if (same_upper || same_lower) {
      n = size * window->stride[k];
      const int64_t total = std::max<int64_t>(0, full - n);
      window->begin[k] = same_upper ? total / 2 : total - total / 2;
    }
    if (size == 0) n = 0;
    if (n < 0)
      return fail(Code::kFormat, "axis %d of %s: padding %lld and %lld is more than the %lld that the kernel makes",
                  i + 2, x.str().c_str(), static_cast<LongLong>(window->begin[k]),
                  static_cast<LongLong>(window->end[k]), static_cast<LongLong>(full));
    (*out)[k] = n;
  }
  return ok();
}

namespace {

// The x in [0, m) with a * x = 1 modulo m, for an a in [0, m) that has no factor in common with m.
int64_t inverse(int64_t a, int64_t m) {
  int64_t x = 1, next = 0, rest = a, by = m;  // rest = a * x, and by = a * next, modulo m
  while (by > 0) {
    const int64_t times = rest / by;
    rest = std::exchange(by, rest - times * by);
    x = std::exchange(next, x - times * next);
  }
  return (x % m + m) % m;
}

}  // namespace

// Tap k reaches the phase where k * dilation = phase + begin modulo the stride. There may be millions of both.
DeconvPhase deconv_phase(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin, int64_t phase) {
  DeconvPhase p;
  p.count = phase < out ? (out - phase + stride - 1) / stride : 0;
  const int64_t common = std::gcd(stride, dilation);
  p.step = stride / common;
  p.dilation = dilation / common;
  p.taps = 0;
  p.last_tap = 0;
  p.start = 0;
  if ((phase + begin) % common != 0) return p;
  const int64_t first = (phase + begin) / common % p.step * inverse(p.dilation % p.step, p.step) % p.step;
  if (first >= kernel) return p;
  p.taps = (kernel - 1 - first) / p.step + 1;
  p.last_tap = first + (p.taps - 1) * p.step;
  p.start = (phase + begin - p.last_tap * dilation) / stride;
  return p;
}

namespace {

constexpr int64_t kMostPlaces = 1 << 20;

constexpr int64_t kSerialMacs = 20000;  // fewer are not worth waking a thread

Status infer_deconv(InferContext& c) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "the input and the weights are needed");
  const Shape &x = c.shape(0), &w = c.shape(1);
  const DType dtype = c.in(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64)
    return fail(Code::kUnsupported, "transposed convolution of %s", dtype_name(dtype));
  for (int i = 1; i < std::min(4, c.num_inputs()); ++i)
    if (c.has(i) && !(i < 3 ? matches_input(c, i) : c.in(i).dtype == dtype))
      return fail(Code::kFormat, "input %d is %s, but input 0 is %s", i, dtype_name(c.in(i).dtype), dtype_name(dtype));
  if (x.rank() < 3 || w.rank() != x.rank())
    return fail(Code::kFormat, "weights of shape %s for an input of shape %s: both need the same rank, 3 or more",
                w.str().c_str(), x.str().c_str());
  const int64_t group = c.attrs.i("group", 1);
  if (group < 1 || x[1] % group != 0)
    return fail(Code::kFormat, "%lld groups do not divide %lld channels", static_cast<LongLong>(group),
                static_cast<LongLong>(x[1]));
  if (w[0] != x[1])
    return fail(Code::kFormat, "weights of shape %s are for %lld input channels, but the input has %lld",
                w.str().c_str(), static_cast<LongLong>(w[0]), static_cast<LongLong>(x[1]));
  Window window;
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(read_deconv(c.attrs, x, w, &window, &size));
  Activation activation;
  MINNOW_RETURN_IF_ERROR(read_activation(c.attrs, &activation));
  int64_t channels = 0;
  if (__builtin_mul_overflow(w[1], group, &channels))
    return fail(Code::kFormat, "%lld groups of %lld output channels", static_cast<LongLong>(group),
                static_cast<LongLong>(w[1]));
  Shape out{x[0], channels};
  for (int i = 0; i < window.rank; ++i) out.push_back(size[Window::at(i)]);
  if (c.has(2) && !(c.shape(2) == Shape{out[1]}))
    return fail(Code::kFormat, "a bias of shape %s for %lld output channels", c.shape(2).str().c_str(),
                static_cast<LongLong>(out[1]));
  if (c.has(3) && !(c.shape(3) == out))
    return fail(Code::kFormat, "a residual of shape %s for an output of shape %s", c.shape(3).str().c_str(),
                out.str().c_str());
  c.set(0, dtype, out);
  return ok();
}

// Channels `first`.. of an image, `count` of them, to blocks of their own, or back.
void move_channels(float* image, float* own, int64_t first, int64_t count, int64_t pixels, bool back,
                   ThreadPool* pool) {
  const int64_t pack = pack_width();
  pool->parallel_for(count, std::max<int64_t>(1, 20000 / (pixels + 1)), [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      float* there = image + (first + c) / pack * pixels * pack + (first + c) % pack;
      float* here = own + c / pack * pixels * pack + c % pack;
      for (int64_t i = 0; i < pixels * pack; i += pack) (back ? there[i] : here[i]) = back ? here[i] : there[i];
    }
  });
}

class DeconvPacked final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    std::array<int64_t, 3> out;
    MINNOW_RETURN_IF_ERROR(read_deconv(node.attrs, x, w, &w_, &out));
    MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation_));
    w_ = as_3d(w_);
    in_ = spatial_3d(x);
    out_ = spatial_3d(y);
    lay_down(&w_, &in_, &out_);
    // Each place within a stride has weights and loops of its own.
    if (w_.stride[1] > kMostPlaces / w_.stride[2])
      return fail(Code::kUnsupported, "strides of %lld and %lld", static_cast<long long>(w_.stride[1]),
                  static_cast<long long>(w_.stride[2]));
    n_ = x[0];
    group_ = node.attrs.i("group", 1);
    ic_ = x[1];
    oc_ = y[1];
    icg_ = ic_ / group_;
    ocg_ = oc_ / group_;
    pack_ = pack_width();
    depthwise_ = group_ > 1 && icg_ == 1 && ocg_ == 1;
    own_blocks_ = !depthwise_ && group_ > 1 && (icg_ % pack_ != 0 || ocg_ % pack_ != 0);
    blocks_ = ceil_div(depthwise_ ? oc_ : ocg_, pack_);
    threads_ = std::max(1, node.threads);
    const Tensor* weights = node.constant[1];
    const QuantizedMatrix* quantized = node.quantized_input(1);
    const bool keeps = quantized != nullptr &&
                       keeps_quantized(*quantized, node.in[0]->count() + node.out[0]->count()) && icg_ % pack_ == 0 &&
                       ocg_ % pack_ == 0 && QuantizedColumns::takes(*quantized, ocg_ * taps(), taps());
    products_ = !keeps
                    ? QuantizedTransposed()
                    : QuantizedTransposed(*quantized, w_, in_, out_, icg_, ocg_, activation_, threads_, node.precision);
    for (size_t i = 0; i < 2; ++i) reached_[i] = reached(i + 1);
    MINNOW_RETURN_IF_ERROR(
        tables_.keep(static_cast<int64_t>((reached_[0].size() + reached_[1].size()) * sizeof(DeconvPhase))));
    if (weights == nullptr) {
      weights_.clear();
    } else if (keeps) {
      weights_.make(node, {1}, products_.columns().packing() + "," + std::to_string(group_), 4 * packed_floats(),
                    [&](void* to) {
                      for (int64_t g = 0; g < group_; ++g)
                        products_.columns().pack(*quantized, g * icg_ * ocg_ * taps(),
                                                 static_cast<float*>(to) + g * group_floats(), node.pool);
                    });
    } else {
      std::string packing = "phases";
      for (int64_t n : {group_, w_.stride[1], w_.stride[2], w_.dilation[1], w_.dilation[2], w_.begin[1], w_.begin[2]})
        packing += "," + std::to_string(n);
      weights_.make(node, {1}, packing, 4 * packed_floats(), [&](void* to) {
        FloatBuffer floats;
        if (quantized != nullptr) floats = quantized->floats();
        pack(quantized != nullptr ? floats.data() : weights->as<float>(), static_cast<float*>(to));
      });
    }
    image_floats_ = round_up(icg_, pack_) * in_[1] * in_[2];
    result_floats_ = round_up(ocg_, pack_) * out_[1] * out_[2];
    *workspace = 4 * (bias_floats() + (weights == nullptr ? packed_floats() : 0) +
                      (own_blocks_ ? round_up(image_floats_, 16) + result_floats_ : 0)) +
                 (keeps ? products_.workspace_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    float* space = static_cast<float*>(context.workspace);
    const float* w = weights_.data();
    Call call = {nullptr, nullptr, nullptr, nullptr, nullptr, context.pool};
    if (context.in.size() > 2 && context.in[2] != nullptr) {
      std::memcpy(space, context.in[2]->data, static_cast<size_t>(oc_) * sizeof(float));
      std::fill(space + oc_, space + bias_floats(), 0.0f);
      call.bias = space;
    }
    space += bias_floats();
    if (weights_.empty()) {
      pack(context.in[1]->as<float>(), space);
      w = space;
      space += packed_floats();
    }
    const bool residual = context.in.size() > 3 && context.in[3] != nullptr;
    const int64_t in_size = in_[1] * in_[2], out_size = out_[1] * out_[2];
    const int64_t groups = depthwise_ ? 1 : group_;
    LongLoop loop;
    for (int64_t i = 0; i < n_ * groups && loop.goes_on(); ++i) {
      const int64_t n = i / groups, g = i % groups;
      const float* image = context.in[0]->as<float>() + n * round_up(ic_, pack_) * in_size;
      float* result = context.out[0]->as<float>() + n * round_up(oc_, pack_) * out_size;
      float* old =
          residual ? const_cast<float*>(context.in[3]->as<float>()) + (result - context.out[0]->as<float>()) : nullptr;
      Call part = call;
      part.w = w + g * group_floats();
      if (call.bias != nullptr) part.bias = call.bias + g * ocg_;
      if (!own_blocks_) {
        part.in = image + g * icg_ * in_size;
        part.out = result + g * ocg_ * out_size;
        part.residual = residual ? old + g * ocg_ * out_size : nullptr;
        products_.empty() ? run_phases(part)
                          : products_.run({part.in, part.w, part.bias, part.residual, part.out, space, context.pool});
        continue;
      }
      // Groups that begin inside a block of channels are brought to blocks of their own, and back.
      float *from = space, *to = space + round_up(image_floats_, 16);
      move_channels(const_cast<float*>(image), from, g * icg_, icg_, in_size, false, context.pool);
      if (residual) move_channels(old, to, g * ocg_, ocg_, out_size, false, context.pool);
      part.in = from;
      part.out = to;
      part.residual = residual ? to : nullptr;
      run_phases(part);
      move_channels(result, to, g * ocg_, ocg_, out_size, true, context.pool);
    }
  }

  bool unpacks(int i) const override { return i == 1; }
  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override {
    return {depthwise_           ? "depthwise"
            : !products_.empty() ? products_.scheme()
            : own_blocks_        ? "phases_group"
                                 : "phases",
            n_ * ic_ * in_[1] * in_[2] * ocg_ * w_.kernel[1] * w_.kernel[2]};
  }

 private:
  struct Call {
    const float *in, *w, *bias, *residual;
    float* out;
    ThreadPool* pool;
  };
  // One of the convolutions that the output is made of.
  struct Part {
    DeconvPhase y, x;
    int64_t first_y, first_x;  // of the output
    int64_t panel;             // floats of the weights of a block
    const float* w;
    TilePlan plan;
  };
  // Output positions all of whose taps lie inside the input.
  struct Inside {
    int64_t begin, end;
  };

  int64_t bias_floats() const { return round_up(oc_ + 2 * pack_, 16); }
  int64_t taps() const { return w_.kernel[1] * w_.kernel[2]; }
  int64_t channels() const { return depthwise_ ? 1 : icg_; }      // that a sum goes over
  int64_t panels() const { return channels() * taps() * pack_; }  // of all phases
  int64_t group_floats() const { return products_.empty() ? blocks_ * panels() : products_.columns().packed_floats(); }
  int64_t packed_floats() const { return round_up((depthwise_ ? 1 : group_) * group_floats(), 16); }

  DeconvPhase phase(size_t axis, int64_t which) const {
    return deconv_phase(out_[axis], w_.kernel[axis], w_.stride[axis], w_.dilation[axis], w_.begin[axis], which);
  }

  // [group][phase][output block][input channel block][tap y][tap x][channel in block][output channel in block]
  void pack(const float* w, float* to) const {
    const int64_t groups = depthwise_ ? 1 : group_, ocg = depthwise_ ? oc_ : ocg_;
    LongLoop loop;
    for (int64_t g = 0; g < groups; ++g)
      for (const DeconvPhase& y : reached_[0])
        for (const DeconvPhase& x : reached_[1])
          for (int64_t b = 0; b < blocks_; ++b)
            for (int64_t first = 0; first < channels(); first += pack_)
              for (int64_t ty = 0; ty < y.taps; ++ty)
                for (int64_t tx = 0; tx < x.taps && loop.goes_on(pack_ * pack_); ++tx)
                  for (int64_t c = first; c < std::min(first + pack_, channels()); ++c, to += pack_)
                    for (int64_t l = 0; l < pack_; ++l) {
                      const int64_t o = b * pack_ + l,
                                    tap = (y.last_tap - ty * y.step) * w_.kernel[2] + x.last_tap - tx * x.step;
                      const int64_t row = depthwise_ ? o : (g * icg_ + c) * ocg + o;
                      to[l] = o < ocg ? w[row * taps() + tap] : 0.0f;
                    }
  }

  // The phases that some tap of the kernel reaches: no more than it has taps.
  std::vector<DeconvPhase> reached(size_t axis) const {
    const int64_t stride = w_.stride[axis], dilation = w_.dilation[axis];
    const int64_t count = packed_floats() == 0 ? 0 : std::min(w_.kernel[axis], stride / std::gcd(stride, dilation));
    std::vector<int64_t> places;
    for (int64_t k = 0; k < count; ++k) places.push_back(((k * dilation - w_.begin[axis]) % stride + stride) % stride);
    std::sort(places.begin(), places.end());
    std::vector<DeconvPhase> phases;
    for (int64_t place : places) phases.push_back(phase(axis, place));
    return phases;
  }

  static Inside inside(const DeconvPhase& p, int64_t in) {
    const int64_t begin = std::clamp<int64_t>(-p.start, 0, p.count);
    const int64_t end = in - p.start - (p.taps - 1) * p.dilation;
    return {begin, std::clamp(end, begin, p.count)};
  }

  void run_phases(const Call& call) const {
    // The weights of a phase lie behind those of the phases before it, of which most may have none.
    int64_t taps_above = 0;
    LongLoop loop;
    for (int64_t py = 0; py < std::min(w_.stride[1], out_[1]); ++py) {
      const DeconvPhase y = phase(1, py);
      int64_t taps_before = 0;
      for (int64_t px = 0; px < std::min(w_.stride[2], out_[2]) && loop.goes_on(64); ++px) {
        Part part = {y, phase(2, px), py, px, 0, nullptr, TilePlan()};
        part.panel = channels() * part.y.taps * part.x.taps * pack_;
        part.w = call.w + blocks_ * channels() * pack_ * (taps_above * w_.kernel[2] + y.taps * taps_before);
        taps_before += part.x.taps;
        const Inside columns = inside(part.x, in_[2]);
        part.plan = TilePlan(columns.end - columns.begin, blocks_, part.panel / pack_);
        const int64_t groups = depthwise_ ? blocks_ : part.plan.groups();
        const int64_t bands = std::clamp<int64_t>(ceil_div(4 * threads_, std::max<int64_t>(1, groups)), 1,
                                                  std::max<int64_t>(1, part.y.count));
        const bool small = part.y.count * part.x.count * blocks_ * part.panel < kSerialMacs;
        call.pool->parallel_for(groups * bands, small ? groups * bands : 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t band = i / groups;
            run_band(call, part, static_cast<int>(i % groups), band * part.y.count / bands,
                     (band + 1) * part.y.count / bands);
          }
        });
      }
      taps_above += y.taps;
    }
  }

  void run_band(const Call& call, const Part& part, int group, int64_t y_begin, int64_t y_end) const {
    const TilePlan::Blocks blocks = depthwise_ ? TilePlan::Blocks{group, 1} : part.plan.group(group);
    const Inside columns = inside(part.x, in_[2]), rows = inside(part.y, in_[1]);
    const int64_t begin = std::clamp(rows.begin, y_begin, y_end), end = std::clamp(rows.end, begin, y_end);
    for (int64_t y = y_begin; y < y_end; ++y) {
      run_line(call, part, blocks, y, columns.begin, columns.end - columns.begin, false);
      if (y >= begin && y < end) continue;
      for (int64_t x = 0; x < columns.begin; ++x) run_line(call, part, blocks, y, x, 1, false);
      for (int64_t x = columns.end; x < part.x.count; ++x) run_line(call, part, blocks, y, x, 1, false);
    }
    // Columns at the border, many rows at once.
    for (int64_t x = 0; x < columns.begin; ++x) run_line(call, part, blocks, begin, x, end - begin, true);
    for (int64_t x = columns.end; x < part.x.count; ++x) run_line(call, part, blocks, begin, x, end - begin, true);
  }

  // `count` positions of a phase from (y, x) on, to the right or down, all with the same taps inside the input.
  void run_line(const Call& call, const Part& part, TilePlan::Blocks blocks, int64_t y, int64_t x, int64_t count,
                bool down) const {
    if (count <= 0) return;
    const int64_t top = part.y.start + y, left = part.x.start + x;
    const Taps rows = taps_inside(top, in_[1], part.y.taps, part.y.dilation);
    const Taps columns = taps_inside(left, in_[2], part.x.taps, part.x.dilation);
    const bool any = rows.end > rows.begin && columns.end > columns.begin;
    const int64_t in_row = in_[2] * pack_, in_size = in_[1] * in_row, out_size = out_[1] * out_[2] * pack_;
    const float* in = call.in + (depthwise_ ? blocks.first * in_size : 0);
    if (any) in += (top + rows.begin * part.y.dilation) * in_row + (left + columns.begin * part.x.dilation) * pack_;
    const int64_t in_pixel = down ? in_row : pack_;
    const int64_t out_pixel = (down ? w_.stride[1] * out_[2] : w_.stride[2]) * pack_;
    const int64_t at = blocks.first * out_size +
                       ((part.first_y + y * w_.stride[1]) * out_[2] + part.first_x + x * w_.stride[2]) * pack_;
    const float* bias = call.bias == nullptr ? nullptr : call.bias + blocks.first * pack_;
    const float* w = part.w + blocks.first * part.panel;
    const int most = depthwise_ ? kDepthwisePixels : tile_pixels(blocks.count);
    const int64_t tiles = ceil_div(count, most);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = i * count / tiles, pixels = (i + 1) * count / tiles - first;
      const float* from = in + first * in_pixel;
      float* out = call.out + at + first * out_pixel;
      const float* start = call.residual == nullptr ? nullptr : call.residual + (out - call.out);
      if (depthwise_) {
        depthwise_function(static_cast<int>(pixels))({from, in_pixel, part.y.dilation * in_row, part.x.dilation * pack_,
                                                      w + (rows.begin * part.x.taps + columns.begin) * pack_,
                                                      part.x.taps * pack_, any ? rows.end - rows.begin : 0,
                                                      columns.end - columns.begin, bias, start, out, out_pixel,
                                                      activation_.low, activation_.high});
      } else {
        Tile t = {from,
                  in_pixel,
                  w,
                  part.panel,
                  bias,
                  start,
                  out,
                  out_pixel,
                  out_size,
                  static_cast<int>(pack_),
                  activation_.low,
                  activation_.high,
                  {}};
        set_steps(part, rows, columns, in_row, in_size, &t);
        tile_function(blocks.count, static_cast<int>(pixels))(t);
      }
      if (activation_.is_clamp()) continue;
      for (int b = 0; b < blocks.count; ++b)
        for (int64_t p = 0; p < pixels; ++p) activate(activation_, out + b * out_size + p * out_pixel, pack_);
    }
  }

  void set_steps(const Part& part, Taps rows, Taps columns, int64_t in_row, int64_t in_size, Tile* t) const {
    const int64_t full = icg_ / pack_, rest = icg_ % pack_;
    const int64_t tap_count = part.y.taps * part.x.taps;
    for (int i = 0; i < 2; ++i) {
      TileSteps& s = t->steps[i];
      const int64_t lanes = i == 0 ? pack_ : rest;
      s.outer = i == 0 ? full : std::min<int64_t>(1, rest);
      s.in_outer = in_size;
      s.w_outer = tap_count * lanes * pack_;
      s.middle = rows.end - rows.begin;
      s.in_middle = part.y.dilation * in_row;
      s.w_middle = part.x.taps * lanes * pack_;
      s.inner = columns.end - columns.begin;
      s.in_inner = part.x.dilation * pack_;
      s.length = lanes;
      s.in = i == 0 ? 0 : full * in_size;
      s.w =
          (rows.begin * part.x.taps + columns.begin) * lanes * pack_ + (i == 0 ? 0 : full * tap_count * pack_ * pack_);
    }
  }

  Window w_;
  Activation activation_;
  std::array<int64_t, 3> in_{}, out_{};
  int64_t n_ = 0, group_ = 1, ic_ = 0, oc_ = 0, icg_ = 0, ocg_ = 0, pack_ = 1, blocks_ = 0;
  int64_t image_floats_ = 0, result_floats_ = 0;
  int threads_ = 1;
  bool depthwise_ = false, own_blocks_ = false;
  std::array<std::vector<DeconvPhase>, 2> reached_;  // along both axes
  KeptMemory tables_;
  Packed weights_;
  QuantizedTransposed products_;  // empty unless the weights stay quantized
};

bool is_packed_deconv(const std::vector<const TensorType*>& inputs) {
  return inputs[0]->dtype == DType::kF32 && inputs[0]->shape.rank() <= 4;
}

LayoutRule layout_deconv(const std::vector<const TensorType*>& inputs) {
  return is_packed_deconv(inputs) ? LayoutRule::kPacked : LayoutRule::kPlain;
}

LayoutRule layout_half_deconv(const std::vector<const TensorType*>& inputs) {
  return layout_of_half_deconv(inputs, layout_deconv(inputs));
}

std::unique_ptr<Kernel> create_float_deconv(const NodeContext& node) {
  if (kHasLast && node.out[0]->layout == Layout::kLast) return create_conv_half(true);
  if (!is_packed_deconv(node.in)) return make_deconv_plain(node);
  return std::make_unique<DeconvPacked>();
}

std::unique_ptr<Kernel> create_deconv(const NodeContext& node) {
  return widen_half_operands(node, create_float_deconv);
}

MINNOW_OP("ConvTranspose", infer_deconv, kNoTrait, macs_per_input);
MINNOW_KERNEL("ConvTranspose", create_deconv, LayoutRule::kPacked, /*in_place=*/false, layout_deconv, Pieces::kNone,
              layout_half_deconv);

}  // namespace
}  // namespace minnow
