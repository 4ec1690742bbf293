// Scale and BatchNorm: y = x * factor + offset with numbers per channel (axis 1), on plain and on packed tensors.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// n elements of one channel.
void ScaleRow(const float* x, float* y, int64_t n, float factor, float offset) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  const auto o = hn::Set(d, offset);
  MapFloats(x, y, n, [&](auto, auto v) HWY_ATTR { return hn::MulAdd(v, f, o); });
}

// n vectors of pack_width() channels.
void ScaleBlock(const float* x, float* y, int64_t n, const float* factor, const float* offset) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::LoadU(d, factor);
  const auto o = hn::LoadU(d, offset);
  for (int64_t i = 0; i < n * lanes; i += lanes) hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), f, o), d, y + i);
}

// A factor for each vector of pack_width() numbers.
void ScaleVectors(const float* x, const float* factor, int64_t n, float* y) {
  constexpr int64_t kAhead = 1024;  // floats: they come from memory
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; ++i, x += lanes, y += lanes) {
    __builtin_prefetch(x + kAhead, 0, 3);
    hn::StoreU(hn::Mul(hn::LoadU(d, x), hn::Set(d, factor[i])), d, y);
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/cpu/norm/scale.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

HWY_EXPORT(ScaleRow);
HWY_EXPORT(ScaleBlock);
HWY_EXPORT(ScaleVectors);

void scale_row(const float* x, float* y, int64_t n, const float* factor, const float* offset) {
  HWY_DYNAMIC_DISPATCH(ScaleRow)(x, y, n, *factor, *offset);
}
void scale_row(const double* x, double* y, int64_t n, const double* factor, const double* offset) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * *factor + *offset;
}
void scale_block(const float* x, float* y, int64_t n, const float* factor, const float* offset) {
  HWY_DYNAMIC_DISPATCH(ScaleBlock)(x, y, n, factor, offset);
}
void scale_block(const double* x, double* y, int64_t n, const double* factor, const double* offset) {
  const int64_t pack = pack_width();
  for (int64_t i = 0; i < n * pack; ++i) y[i] = x[i] * factor[i % pack] + offset[i % pack];
}

class Scale final : public Kernel {
 public:
  Scale(const NodeContext& node, bool batch_norm) : attrs_(node.attrs), batch_norm_(batch_norm) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType& type = *node.in[0];
    const int rank = type.shape.rank();
    dtype_ = type.dtype;
    compute_ = compute_type(dtype_);
    channels_ = rank > 1 ? type.shape[1] : 1;
    lanes_ = type.layout == Layout::kPacked && rank > 1 ? pack_width() : 1;
    blocks_ = (channels_ + lanes_ - 1) / lanes_;
    batch_ = rank > 0 ? type.shape[0] : 1;
    spatial_ = rank > 1 ? type.shape.count(2, rank) : 1;
    *workspace = 2 * blocks_ * lanes_ * 8;
    return ok();
  }

  void run(const RunContext& context) override {
    compute_ == Compute::kF64 ? run_as<double>(context) : run_as<float>(context);
  }

 private:
  double number(const RunContext& context, size_t i, int64_t channel) const {
    const Tensor& t = *context.in[i];
    double value;
    convert(t.type.dtype, minnow::offset(t.data, channel, dtype_size(t.type.dtype)), DType::kF64, &value, 1);
    return value;
  }

  template <typename T>
  void run_as(const RunContext& context) const {
    T* factor = static_cast<T*>(context.workspace);
    T* offset = factor + blocks_ * lanes_;
    for (int64_t c = 0; c < blocks_ * lanes_; ++c) {
      double f = 0, o = 0;  // zeros in the lanes behind the last channel
      if (c < channels_) {
        f = number(context, 1, c);
        o = number(context, 2, c);
        if (batch_norm_) {
          f /= std::sqrt(number(context, 4, c) + attrs_.f("epsilon", 1e-5));
          o -= number(context, 3, c) * f;
        }
      }
      factor[c] = static_cast<T>(f);
      offset[c] = static_cast<T>(o);
    }
    const int64_t length = spatial_ * lanes_;
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, length));
    context.pool->parallel_for(batch_ * blocks_, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i % blocks_ * lanes_;
        one(minnow::offset(context.in[0]->data, i * length, dtype_size(dtype_)),
            minnow::offset(context.out[0]->data, i * length, dtype_size(dtype_)), factor + channel, offset + channel);
      }
    });
  }

  // The elements of one block of channels.
  template <typename T>
  void one(const void* in, void* out, const T* factor, const T* offset) const {
    const auto apply = [&](const void* x, void* y, int64_t n) {
      lanes_ == 1 ? scale_row(static_cast<const T*>(x), static_cast<T*>(y), n, factor, offset)
                  : scale_block(static_cast<const T*>(x), static_cast<T*>(y), n, factor, offset);
    };
    if (compute_dtype(compute_) == dtype_) return apply(in, out, spatial_);
    const size_t size = dtype_size(dtype_);
    const int64_t step = kBlock / lanes_;
    for (int64_t i = 0; i < spatial_; i += step) {
      const int64_t n = std::min(step, spatial_ - i);
      Block block;
      load_block(dtype_, minnow::offset(in, i * lanes_, size), n * lanes_, block.bytes);
      apply(block.bytes, block.bytes, n);
      store_block(compute_, block.bytes, dtype_, minnow::offset(out, i * lanes_, size), n * lanes_);
    }
  }

  const Attrs& attrs_;
  const bool batch_norm_;
  DType dtype_ = DType::kF32;
  Compute compute_ = Compute::kF32;
  int64_t batch_ = 1, channels_ = 1, spatial_ = 1;
  int64_t blocks_ = 1, lanes_ = 1;  // of channels
};

template <bool batch_norm>
std::unique_ptr<Kernel> create_scale(const NodeContext& node) {
  return std::make_unique<Scale>(node, batch_norm);
}

Status infer_channels(InferContext& c, int inputs) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, inputs));
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  const int64_t channels = c.shape(0).rank() > 1 ? c.shape(0)[1] : 1;
  for (int i = 0; i < inputs; ++i) {
    if (!is_float(c.in(i).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(i).dtype));
    if (i > 0 && c.shape(i) != Shape{channels})
      return fail(Code::kFormat, "input %d has shape %s, not one number for each of %lld channels", i,
                  c.shape(i).str().c_str(), static_cast<long long>(channels));
  }
  return ok();
}

Status infer_scale(InferContext& c) { return infer_channels(c, 3); }
Status infer_batch_norm(InferContext& c) { return infer_channels(c, 5); }

MINNOW_OP("Scale", infer_scale);
MINNOW_KERNEL("Scale", create_scale<false>, LayoutRule::kFollow, /*in_place=*/true);
MINNOW_OP("BatchNorm", infer_batch_norm);
MINNOW_KERNEL("BatchNorm", create_scale<true>, LayoutRule::kFollow, /*in_place=*/true);

}  // namespace

void scale_vectors(const float* from, const float* factor, int64_t rows, float* to) {
  HWY_DYNAMIC_DISPATCH(ScaleVectors)(from, factor, rows, to);
}

}  // namespace minnow
#endif  // HWY_ONCE
