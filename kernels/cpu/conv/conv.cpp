// The op Conv: its output's shape, and which scheme computes it.
#include "kernels/cpu/conv/scheme.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/cpu/conv/bf16_last.h"
#include "kernels/cpu/conv/half_operands.h"
#include "kernels/cpu/conv/quantized_windows.h"
#include "kernels/cpu/norm/scale.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/macs.h"
#include "kernels/core/status_guard.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

using LongLong = long long;

Status infer_conv(InferContext& c) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "the input and the weights are needed");
  const Shape &x = c.shape(0), &w = c.shape(1);
  const DType dtype = c.in(0).dtype;
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      break;
    default:
      return fail(Code::kUnsupported, "convolution of %s", dtype_name(dtype));
  }
  for (int i = 1; i < std::min(4, c.num_inputs()); ++i)
    if (c.has(i) && !(i < 3 ? matches_input(c, i) : c.in(i).dtype == dtype))
      return fail(Code::kFormat, "input %d is %s, but input 0 is %s", i, dtype_name(c.in(i).dtype), dtype_name(dtype));
  if (x.rank() < 3 || w.rank() != x.rank())
    return fail(Code::kFormat, "weights of shape %s for an input of shape %s: both need the same rank, 3 or more",
                w.str().c_str(), x.str().c_str());
  const int64_t group = c.attrs.i("group", 1);
  if (group < 1 || x[1] % group != 0 || w[0] % group != 0)
    return fail(Code::kFormat, "%lld groups do not divide %lld input and %lld output channels",
                static_cast<LongLong>(group), static_cast<LongLong>(x[1]), static_cast<LongLong>(w[0]));
  if (w[1] != x[1] / group)
    return fail(Code::kFormat, "weights of shape %s are for %lld input channels in %lld groups, but the input has %lld",
                w.str().c_str(), static_cast<LongLong>(w[1] * group), static_cast<LongLong>(group),
                static_cast<LongLong>(x[1]));
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window));
  Activation activation;
  MINNOW_RETURN_IF_ERROR(read_activation(c.attrs, &activation));
  if (c.has(2) && !(c.shape(2) == Shape{w[0]}))
    return fail(Code::kFormat, "a bias of shape %s for %lld output channels", c.shape(2).str().c_str(),
                static_cast<LongLong>(w[0]));
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(slide_window(window, x, false, &size));
  Shape out{x[0], w[0]};
  for (int i = 0; i < window.rank; ++i) out.push_back(size[Window::at(i)]);
  if (c.has(3) && !(c.shape(3) == out))
    return fail(Code::kFormat, "a residual of shape %s for an output of shape %s", c.shape(3).str().c_str(),
                out.str().c_str());
  c.set(0, dtype, out);
  return ok();
}

// A scheme that is not as simple must be faster than the estimate's error: its weights are larger, too.
constexpr double kWorthIt = 0.95;
// The estimate is less accurate where inputs are read in the order of what is not 0.
constexpr double kWorthLeavingOut = 0.8;

// Many weights cost memory and the time to make them, beside what reading them takes: a small share of the time
// that making them takes once is added to each run. It decides between schemes that are about as fast.
constexpr double kFewBytes = 1 << 20, kSecondsPerByte = 0.07e-9;

double price(const ConvScheme& scheme) {
  const double bytes = 4.0 * static_cast<double>(scheme.packed_floats());
  return estimate_seconds(scheme.work()) + std::max(0.0, bytes - kFewBytes) * kSecondsPerByte;
}

std::string milliseconds(const ConvScheme& scheme, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %.3f", scheme.name(), 1e3 * seconds);
  return text;
}

// `considered`: the schemes between which there was a choice, with the milliseconds one thread would take.
std::unique_ptr<ConvScheme> choose_dense(const ConvShape& s, bool constant_weights, bool gated, std::string* considered,
                                         double* seconds) {
  const int64_t pack = pack_width();
  considered->clear();
  if (s.group > 1 && s.icg() >= 1 && s.icg() <= s.ocg() && s.ocg() < pack && pack % s.ocg() == 0 &&
      s.ocg() % s.icg() == 0)
    return make_conv_depthwise(s);
  if (constant_weights && !gated && conv_is_rows(s)) return make_conv_rows(s);
  const double gain = constant_weights && !gated ? conv_bf16_gain(s) : 1;
  std::unique_ptr<ConvScheme> best = make_conv_direct(s);
  double least = price(*best) / gain;
  *seconds = least;
  if (gain > 1) best = make_conv_bf16(s);
  const bool square3 = s.kh == 3 && s.kw == 3 && s.sh == 1 && s.sw == 1 && s.dh == 1 && s.dw == 1;
  if (!constant_weights || !square3 || s.group != 1 || s.plain_input) return best;
  *considered = milliseconds(*best, least);
  least *= kWorthIt;
  for (int tile : {4, 2}) {
    std::unique_ptr<ConvScheme> scheme = make_conv_winograd(s, tile);
    const double other = price(*scheme);
    *considered += ", " + milliseconds(*scheme, other);
    if (other >= least) continue;
    *seconds = least = other;
    best = std::move(scheme);
  }
  return best;
}

// `w`: constant weights that are numbers, or null.
std::unique_ptr<ConvScheme> choose_scheme(const ConvShape& s, bool constant_weights, bool gated, const float* w,
                                          std::string* considered) {
  double seconds = 0;  // nothing is faster where it stays so
  std::unique_ptr<ConvScheme> dense = choose_dense(s, constant_weights, gated, considered, &seconds);
  if (w == nullptr || gated || seconds == 0) return dense;
  std::unique_ptr<ConvScheme> sparse = make_conv_sparse(s, w, kWorthLeavingOut * seconds);
  if (sparse == nullptr) return dense;
  if (considered->empty()) *considered = milliseconds(*dense, seconds);
  *considered += ", " + milliseconds(*sparse, estimate_seconds(sparse->work()));
  return sparse;
}

// What takes no longer than threads need to agree is not divided, nor cut into parts for it. Channels fill whole
// blocks; those of a depthwise convolution wait for loads, and count twice. Reading a weight takes as long as some
// multiplications.
bool worth_dividing(const ConvShape& s) {
  constexpr int64_t kLeastMacs = 200000, kMacsPerWeight = 8;
  const int64_t channels = s.icg() == 1 ? 2 * s.oc : round_up(s.oc, pack_width());
  const int64_t pixels = std::min(Shape{s.n, s.oh, s.ow}.count(), kLeastMacs) + kMacsPerWeight;
  return Shape{pixels, channels, s.icg(), s.kh, s.kw}.count() >= kLeastMacs;
}

ThreadPool& caller_alone() {
  static ThreadPool pool(1);
  return pool;
}

// The input with a factor for each channel of input 0, which the planner gives to pointwise convolutions of one image.
constexpr size_t kGate = 4;

std::string packing_of(const ConvScheme& scheme, int64_t group) {
  return scheme.packing() + ("," + std::to_string(group));
}

// Whether quantized weights can stay as they are in the order of the scheme "direct": then the places of a block are
// those of a block still.
bool can_keep_quantized(const QuantizedMatrix& w, const ConvShape& s) {
  const bool whole_blocks = s.icg() % pack_width() == 0 && s.oc / s.group % pack_width() == 0;
  return (s.group == 1 || whole_blocks) && w.rows == s.oc && w.columns <= INT32_MAX && !s.plain_input &&
         (w.blocks() == 1 || w.block % (s.kh * s.kw * pack_width()) == 0);
}

// Images of one pixel: a row each.
bool is_one_pixel(const ConvShape& s) {
  return Shape{s.ih, s.iw, s.oh, s.ow, s.kh, s.kw}.count() == 1 && s.group == 1 && !s.plain_input && s.top == 0 &&
         s.left == 0;
}

// The column of the weights at each place of a row of the scheme "direct": [channel block][tap][channel in block]. Of
// one tap they are as they lie, and the list is empty.
std::vector<int32_t> direct_order(const ConvShape& s) {
  std::vector<int32_t> order;
  const int64_t taps = s.kh * s.kw, pack = pack_width();
  if (taps == 1) return order;
  for (int64_t first = 0; first < s.icg(); first += pack)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t c = first; c < std::min(first + pack, s.icg()); ++c)
        order.push_back(static_cast<int32_t>(c * taps + t));
  return order;
}

class ConvPacked final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    ConvShape s;
    MINNOW_RETURN_IF_ERROR(
        read_conv_shape(node.attrs, node.in[0]->shape, node.in[1]->shape, node.out[0]->shape, true, &s));
    divided_ = node.threads > 1 && worth_dividing(s);
    s.threads = divided_ ? node.threads : 1;
    s.precision = node.precision;
    s.plain_input = node.in[0]->layout == Layout::kPlain;
    macs_ = s.macs();
    out_channels_ = s.oc;
    const Tensor* w = node.constant[1];
    gated_ = node.in.size() > kGate && node.in[kGate] != nullptr;
    const QuantizedMatrix* quantized = node.quantized_input(1);
    const float* numbers = w == nullptr || quantized != nullptr ? nullptr : w->as<float>();
    scheme_ = choose_scheme(s, w != nullptr, gated_, numbers, &considered_);
    in_channels_ = s.ic;
    use_ = quantized == nullptr ? Use::kFloats : use_of(*quantized, s, node.in[0]->count() + node.out[0]->count());
    if (uses(Use::kUnpacked)) scheme_ = make_conv_direct(s);
    MINNOW_RETURN_IF_ERROR(tables_.keep(scheme_->table_bytes()));
    seconds_ = estimate_seconds(work_of(s));
    int64_t unpacked_bytes = w == nullptr || gated_ ? round_up(scheme_->packed_floats() * 4, 64) : 0;
    if (!uses(Use::kFloats)) {
      const bool has_residual = node.in.size() > 3 && node.in[3] != nullptr;
      const auto group = [&](int64_t g) {
        return QuantizedRows(*quantized, g * s.oc / s.group, s.oc / s.group, quantized->columns);
      };
      rows_ = QuantizedWindows(s, QuantizedForm(group(0)), is_one_pixel(s), has_residual);
      const QuantizedForm& form = rows_.form();
      const std::vector<int32_t> order = direct_order(s);
      const std::string taps = order.empty() ? "" : "," + std::to_string(s.kh * s.kw);
      weights_.make(node, {1}, form.packing() + taps + (s.group == 1 ? "" : "," + std::to_string(s.group)),
                    rows_.bytes(), [&](void* to) {
                      for (int64_t g = 0; g < s.group; ++g)
                        form.pack(group(g), order.empty() ? nullptr : order.data(),
                                  static_cast<char*>(to) + g * form.bytes(), node.pool);
                    });
      if (uses(Use::kUnpacked)) unpacked_bytes = round_up(scheme_->packed_floats() * 4, 64);
      if (uses(Use::kRows) && is_one_pixel(s)) seconds_ = 0;
    } else if (quantized != nullptr) {
      weights_.make(node, {1}, packing_of(*scheme_, s.group), 4 * scheme_->packed_floats(),
                    [&](void* to) { scheme_->pack(quantized->floats().data(), static_cast<float*>(to), node.pool); });
    } else if (w == nullptr) {
      weights_.clear();
    } else {
      pack_weights(node, 1, *scheme_, s.group, &weights_);
    }
    constant_bias_ = node.constant.size() > 2 && node.constant[2] != nullptr;
    if (constant_bias_) {
      bias_.make(node, {2}, "padded", 4 * bias_floats(),
                 [&](void* to) { copy_bias(*node.constant[2], static_cast<float*>(to)); });
    }
    own_bytes_ = round_up(uses(Use::kRows) ? rows_.workspace_bytes() : scheme_->workspace_bytes(), 64);
    *workspace = own_bytes_ + unpacked_bytes + (constant_bias_ ? 0 : round_up(bias_floats() * 4, 64));
    return ok();
  }

  void run(const RunContext& context) override {
    char* space = static_cast<char*>(context.workspace) + own_bytes_;
    ConvCall call = {context.in[0]->as<float>(),
                     weights_.data(),
                     nullptr,
                     nullptr,
                     context.out[0]->as<float>(),
                     context.workspace,
                     divided_ ? context.pool : &caller_alone()};
    if (weights_.empty()) {
      float* packed = reinterpret_cast<float*>(space);
      scheme_->pack(context.in[1]->as<float>(), packed, context.pool);
      call.w = packed;
      space += round_up(scheme_->packed_floats() * 4, 64);
    }
    if (uses(Use::kUnpacked)) {
      float* unpacked = reinterpret_cast<float*>(space);
      unpack_quantized(rows_.form(), weights_.as<void>(), unpacked, call.pool);
      call.w = unpacked;
      space += round_up(scheme_->packed_floats() * 4, 64);
    }
    if (gated_) {
      float* scaled = reinterpret_cast<float*>(space);
      scale_weights(*context.pool, context.in[kGate]->as<float>(), scaled);
      call.w = scaled;
      space += round_up(scheme_->packed_floats() * 4, 64);
    }
    if (constant_bias_) {
      call.bias = bias_.data();
    } else if (context.in.size() > 2 && context.in[2] != nullptr) {
      float* padded = reinterpret_cast<float*>(space);
      copy_bias(*context.in[2], padded);
      call.bias = padded;
    }
    if (context.in.size() > 3 && context.in[3] != nullptr) call.residual = context.in[3]->as<float>();
    if (uses(Use::kRows)) return rows_.run(call);
    scheme_->run(call);
  }

  bool unpacks(int i) const override { return i == 1; }
  bool reads(int i) const override { return !(i == 1 && !weights_.empty()) && !(i == 2 && constant_bias_); }
  double seconds() const override { return seconds_; }
  [[gnu::cold]] Profile profile() const override {
    if (uses(Use::kRows)) return {rows_.scheme(), macs_};
    if (uses(Use::kUnpacked)) return {std::string("unpacked_") + scheme_->name(), macs_, considered_};
    return {scheme_ == nullptr ? "" : scheme_->name(), macs_, considered_};
  }

 private:
  // What quantized weights are at run time: floats since they were packed, or in the workspace for each run, or never,
  // where windows are rows of a matrix.
  enum class Use : uint8_t { kFloats, kUnpacked, kRows };
  [[gnu::cold]] Use use_of(const QuantizedMatrix& w, const ConvShape& s, int64_t image_numbers) const {
    // A gate is there where images have more numbers than the layer has weights.
    if (gated_ || !can_keep_quantized(w, s)) return Use::kFloats;
    if (keeps_quantized(w, is_one_pixel(s) ? 0 : image_numbers)) return Use::kRows;
    if (w.rows * w.columns < kLeastQuantized || s.group > 1) return Use::kFloats;
    const bool few = scheme_->packed_floats() <= image_numbers && std::strcmp(scheme_->packing(), "direct") != 0;
    return few ? Use::kFloats : Use::kUnpacked;
  }
  bool uses(Use use) const { return use == (kHasPackedWeights ? use_ : Use::kFloats); }

  // Schemes among which there is no choice do not tell; mostly those are depthwise, and wait for loads.
  Work work_of(const ConvShape& s) const {
    const Work work = scheme_->work();
    if (work.products > 0) return work;
    const int64_t channels = round_up(s.oc, pack_width()) / pack_width();
    return {2.0 * static_cast<double>(Shape{s.n, s.oh, s.ow, channels, s.icg(), s.kh, s.kw}.count()), 0, 0};
  }
  // A factor for each channel that a pointwise convolution reads: [output block][input channel][lane], scaled.
  void scale_weights(ThreadPool& pool, const float* gate, float* to) const {
    const int64_t panel = in_channels_ * pack_width();
    pool.parallel_for(scheme_->packed_floats() / panel, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block)
        scale_vectors(weights_.data() + block * panel, gate, in_channels_, to + block * panel);
    });
  }
  // One block more than the channels need: a group that begins inside a block reads over the end of its own.
  int64_t bias_floats() const { return out_channels_ + 2 * pack_width(); }
  void copy_bias(const Tensor& bias, float* to) const {
    std::memcpy(to, bias.data, static_cast<size_t>(out_channels_) * sizeof(float));
    std::fill(to + out_channels_, to + bias_floats(), 0.0f);
  }

  std::unique_ptr<ConvScheme> scheme_;
  std::string considered_;
  QuantizedWindows rows_;
  Packed weights_, bias_;
  KeptMemory tables_;
  Use use_ = Use::kFloats;
  bool constant_bias_ = false, gated_ = false, divided_ = false;
  double seconds_ = 0;
  int64_t in_channels_ = 0, macs_ = 0, out_channels_ = 0, own_bytes_ = 0;
};

bool is_packed(const std::vector<const TensorType*>& inputs) {
  return inputs[0]->dtype == DType::kF32 && inputs[0]->shape.rank() <= 4;
}

// Images of up to 4 channels would be mostly padding when packed.
LayoutRule layout_conv(const std::vector<const TensorType*>& inputs) {
  if (!is_packed(inputs)) return LayoutRule::kPlain;
  const int64_t channels = inputs[0]->shape[1];
  const bool few = channels <= 4 && channels < pack_width() && inputs[1]->shape[1] == channels;
  return few ? LayoutRule::kPacks : LayoutRule::kPacked;
}

LayoutRule layout_half_conv(const std::vector<const TensorType*>& inputs) {
  return layout_of_half_images(inputs, layout_conv(inputs));
}

std::unique_ptr<Kernel> create_float_conv(const NodeContext& node) {
  if (kHasLast && node.out[0]->layout == Layout::kLast)
    return is_half_depthwise(*node.in[0], *node.in[1]) ? create_depthwise_half() : create_conv_half(false);
  if (!is_packed(node.in)) return make_conv_plain(node);
  return std::make_unique<ConvPacked>();
}

std::unique_ptr<Kernel> create_conv(const NodeContext& node) { return widen_half_operands(node, create_float_conv); }

MINNOW_OP("Conv", infer_conv, kNoTrait, macs_per_output);
MINNOW_KERNEL("Conv", create_conv, LayoutRule::kPacked, /*in_place=*/false, layout_conv, Pieces::kNone,
              layout_half_conv);

}  // namespace

void pack_weights(const NodeContext& node, size_t input, const ConvScheme& scheme, int64_t group, Packed* packed) {
  packed->make(node, {input}, packing_of(scheme, group), 4 * scheme.packed_floats(),
               [&](void* to) { scheme.pack(node.constant[input]->as<float>(), static_cast<float*>(to), node.pool); });
}

Status read_conv_shape(const Attrs& attrs, const Shape& x, const Shape& w, const Shape& y, bool as_row, ConvShape* s) {
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window));
  MINNOW_RETURN_IF_ERROR(read_activation(attrs, &s->activation));
  Window v = as_3d(window);
  std::array<int64_t, 3> in = spatial_3d(x), out = spatial_3d(y);
  if (as_row) lay_down(&v, &in, &out);
  s->n = x[0];
  s->ic = x[1];
  s->oc = y[1];
  s->ih = in[1];
  s->iw = in[2];
  s->oh = out[1];
  s->ow = out[2];
  s->group = attrs.i("group", 1);
  s->kh = v.kernel[1];
  s->kw = v.kernel[2];
  // Longer steps than the image leave one window: kernels compute with sizes of images, and with no larger numbers.
  s->sh = std::min(v.stride[1], std::max<int64_t>(1, in[1] + v.begin[1] + v.end[1]));
  s->sw = std::min(v.stride[2], std::max<int64_t>(1, in[2] + v.begin[2] + v.end[2]));
  s->dh = v.dilation[1];
  s->dw = v.dilation[2];
  s->top = v.begin[1];
  s->left = v.begin[2];
  return ok();
}

}  // namespace minnow
