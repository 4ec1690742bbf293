// LayerNorm, RMSNorm, InstanceNorm and GroupNorm: rows with their own mean and variance. The four differ in what a row
// is, and in whether scale and bias are numbers per element or per channel.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/norm/packed.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

namespace minnow {
#ifndef MINNOW_NORM_MOMENTS
#define MINNOW_NORM_MOMENTS
// Mean and variance of a row. The mean is kept as a rounded number and what is missing from it, because the deviations
// from the rounded one alone would lose the variance of numbers that are close together and far from zero.
struct Moments {
  double mean = 0;  // a number of the row's type
  double rest = 0;
  double variance = 0;
};
#endif
}  // namespace minnow

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// Sums of x - shift, and of its square where `squares` is set, in doubles across short runs of vectors.
template <bool squares>
HWY_INLINE void SumRow(const float* x, int64_t n, float shift, double* sum, double* square_sum) {
  constexpr int64_t kTogether = 4096;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto minus = hn::Set(d, shift);
  *sum = *square_sum = 0;
  int64_t i = 0;
  while (i + lanes <= n) {
    auto s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
    const int64_t end = HWY_MIN(n, i + kTogether);
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto v0 = hn::Sub(hn::LoadU(d, x + i), minus);
      const auto v1 = hn::Sub(hn::LoadU(d, x + i + lanes), minus);
      s0 = hn::Add(s0, v0);
      s1 = hn::Add(s1, v1);
      if (squares) q0 = hn::MulAdd(v0, v0, q0);
      if (squares) q1 = hn::MulAdd(v1, v1, q1);
    }
    if (i + lanes <= end) {
      const auto v = hn::Sub(hn::LoadU(d, x + i), minus);
      s0 = hn::Add(s0, v);
      if (squares) q0 = hn::MulAdd(v, v, q0);
      i += lanes;
    }
    *sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
    if (squares) *square_sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(q0, q1)));
  }
  for (; i < n; ++i) {
    keep_scalar();
    const double v = x[i] - shift;
    *sum += v;
    *square_sum += v * v;
  }
}

// About zero instead of the mean where `centered` is not set.
Moments MomentsOf(const float* x, int64_t n, bool centered) {
  Moments m;
  double sum, squares;
  if (centered) {
    SumRow<false>(x, n, 0, &sum, &squares);
    m.mean = static_cast<float>(sum / static_cast<double>(n));
  }
  SumRow<true>(x, n, static_cast<float>(m.mean), &sum, &squares);
  if (centered) m.rest = sum / static_cast<double>(n);
  m.variance = squares / static_cast<double>(n) - m.rest * m.rest;
  return m;
}

// y = ((x - mean) * factor + shift) * scale[i] + bias[i]; scale and bias may be null. y may be x.
void NormalizeRow(const float* x, float* y, int64_t n, float mean, float factor, float shift, const float* scale,
                  const float* bias) {
  const hn::ScalableTag<float> d;
  const auto vm = hn::Set(d, mean);
  const auto vf = hn::Set(d, factor);
  const auto vs = hn::Set(d, shift);
  int64_t i = 0;
  const auto one = [&](auto v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, vm), vf, vs); };
  if (scale == nullptr && bias == nullptr) return MapFloats(x, y, n, [&](auto, auto v) HWY_ATTR { return one(v); });
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    auto v = one(hn::LoadU(d, x + i));
    if (scale != nullptr) v = hn::Mul(v, hn::LoadU(d, scale + i));
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    float v = (x[i] - mean) * factor + shift;
    if (scale != nullptr) v *= scale[i];
    if (bias != nullptr) v += bias[i];
    y[i] = v;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(MomentsOf);
HWY_EXPORT(NormalizeRow);

Moments moments_of(const float* x, int64_t n, bool centered) { return HWY_DYNAMIC_DISPATCH(MomentsOf)(x, n, centered); }
Moments moments_of(const double* x, int64_t n, bool centered) {
  Moments m;
  for (int64_t i = 0; centered && i < n; ++i) m.mean += x[i];
  m.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean);
  m.variance /= static_cast<double>(n);
  return m;
}

void normalize(const float* x, float* y, int64_t n, double mean, double factor, double shift, const float* scale,
               const float* bias) {
  HWY_DYNAMIC_DISPATCH(NormalizeRow)
  (x, y, n, static_cast<float>(mean), static_cast<float>(factor), static_cast<float>(shift), scale, bias);
}
void normalize(const double* x, double* y, int64_t n, double mean, double factor, double shift, const double* scale,
               const double* bias) {
  for (int64_t i = 0; i < n; ++i) {
    keep_scalar();
    const double v = ((x[i] - mean) * factor + shift) * (scale ? scale[i] : 1.0);
    y[i] = v + (bias ? bias[i] : 0.0);
  }
}

// `in`, stretched to the shape `to` by numpy's rules, as elements of a compute type.
void stretch(const Tensor& in, const Shape& to, Compute compute, void* out) {
  const size_t size = dtype_size(compute_dtype(compute));
  const Shape& from = in.shape();
  for (int64_t i = 0; i < to.count(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int k = 1; k <= to.rank(); ++k) {
      const int64_t index = rest % to.at(-k);
      rest /= to.at(-k);
      if (k > from.rank()) continue;
      at += from.at(-k) == 1 ? 0 : index * stride;
      stride *= from.at(-k);
    }
    convert(in.type.dtype, offset(in.data, at, dtype_size(in.type.dtype)), compute_dtype(compute), offset(out, i, size),
            1);
  }
}

enum class Norm : uint8_t { kLayer, kRms, kInstance, kGroup };

class Normalize final : public Kernel {
 public:
  Normalize(const NodeContext& node, Norm kind) : kind_(kind), attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    dtype_ = node.in[0]->dtype;
    compute_ = compute_type(dtype_);
    per_element_ = kind_ == Norm::kLayer || kind_ == Norm::kRms;
    if (per_element_) {
      int axis = 0;
      MINNOW_RETURN_IF_ERROR(normalize_axis(attrs_.i("axis", -1), shape.rank(), &axis));
      rows_ = shape.count(0, axis);
      length_ = shape.count(axis, shape.rank());
      parameters_ = Shape();
      for (int i = axis; i < shape.rank(); ++i) parameters_.push_back(shape[i]);
    } else {
      const int64_t groups = kind_ == Norm::kGroup ? attrs_.i("num_groups") : shape[1];
      row_channels_ = groups == 0 ? 0 : shape[1] / groups;
      rows_ = shape[0] * groups;
      length_ = row_channels_ * shape.count(2, shape.rank());
      parameters_ = Shape{shape[1]};
    }
    epsilon_ = attrs_.f("epsilon", 1e-5);
    is_packed_ = node.in[0]->layout == Layout::kPacked;
    if (is_packed_) {
      const int64_t groups = kind_ == Norm::kGroup ? attrs_.i("num_groups") : shape[1];
      packed_ = {shape[0], shape[1], groups, shape.count(2, shape.rank()), epsilon_};
    }
    const int64_t size = static_cast<int64_t>(dtype_size(compute_dtype(compute_)));
    bytes_ = 0;
    for (size_t i = 1; i < 3; ++i) {
      const TensorType* type = i < node.in.size() ? node.in[i] : nullptr;
      is_stretched_[i] =
          type != nullptr && (type->dtype != compute_dtype(compute_) || type->shape.count() != parameters_.count());
      at_[i] = bytes_;
      if (is_stretched_[i]) bytes_ += (parameters_.count() * size + 63) / 64 * 64;
    }
    // Rows of other types are converted first.
    row_bytes_ = compute_dtype(compute_) == dtype_ ? 0 : (length_ * size + 63) / 64 * 64;
    *workspace = bytes_ + (is_packed_ ? packed_.workspace_bytes() : row_bytes_ * node.threads);
    return ok();
  }

  void run(const RunContext& context) override {
    if (rows_ * length_ == 0) return;
    if (is_packed_) {
      packed_.run(context.in[0]->as<float>(), context.out[0]->as<float>(), parameter<float>(context, 1),
                  parameter<float>(context, 2), static_cast<char*>(context.workspace) + bytes_, context.pool);
      return;
    }
    compute_ == Compute::kF64 ? run_as<double>(context) : run_as<float>(context);
  }

 private:
  template <typename T>
  const T* parameter(const RunContext& context, size_t i) const {
    if (i >= context.in.size() || context.in[i] == nullptr) return nullptr;
    if (!is_stretched_[i]) return context.in[i]->as<T>();
    char* out = static_cast<char*>(context.workspace) + at_[i];
    stretch(*context.in[i], parameters_, compute_, out);
    return reinterpret_cast<T*>(out);
  }

  template <typename T>
  void run_as(const RunContext& context) const {
    const T* scale = parameter<T>(context, 1);
    const T* bias = parameter<T>(context, 2);
    const size_t size = dtype_size(dtype_);
    context.pool->parallel_for(
        rows_, std::max<int64_t>(1, 8192 / length_), [&](int64_t begin, int64_t end, int worker) {
          for (int64_t r = begin; r < end; ++r) {
            const void* in = offset(context.in[0]->data, r * length_, size);
            void* out = offset(context.out[0]->data, r * length_, size);
            if (row_bytes_ == 0) {
              one_row(static_cast<const T*>(in), static_cast<T*>(out), r, scale, bias);
            } else {
              T* row = reinterpret_cast<T*>(static_cast<char*>(context.workspace) + bytes_ + worker * row_bytes_);
              convert(dtype_, in, compute_dtype(compute_), row, length_);
              one_row(row, row, r, scale, bias);
              store_block(compute_, row, dtype_, out, length_);
            }
          }
        });
  }

  template <typename T>
  void one_row(const T* x, T* y, int64_t row, const T* scale, const T* bias) const {
    const Moments m = moments_of(x, length_, kind_ != Norm::kRms);
    const double factor = 1 / std::sqrt(m.variance + epsilon_);
    if (per_element_) return normalize(x, y, length_, m.mean, factor, -m.rest * factor, scale, bias);
    const int64_t each = length_ / row_channels_;
    for (int64_t c = 0; c < row_channels_; ++c) {
      const int64_t channel = (row * row_channels_ + c) % parameters_[0];
      const double own = factor * (scale != nullptr ? scale[channel] : 1);
      const double shift = (bias != nullptr ? bias[channel] : 0) - m.rest * own;
      normalize(x + c * each, y + c * each, each, m.mean, own, shift, static_cast<const T*>(nullptr), nullptr);
    }
  }

  const Norm kind_;
  const Attrs& attrs_;
  DType dtype_ = DType::kF32;
  Compute compute_ = Compute::kF32;
  int64_t rows_ = 0, length_ = 0;  // rows, and elements of each
  int64_t row_channels_ = 1;       // channels in a row, where scale and bias are per channel
  bool per_element_ = false;
  Shape parameters_;  // of scale and bias
  double epsilon_ = 0;
  bool is_packed_ = false;
  PackedNorm packed_{};
  bool is_stretched_[3] = {};  // scale, bias: converted into the workspace, at at_
  int64_t at_[3] = {};
  int64_t bytes_ = 0, row_bytes_ = 0;
};

template <Norm kind>
std::unique_ptr<Kernel> create(const NodeContext& node) {
  return std::make_unique<Normalize>(node, kind);
}

Status infer_floats(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  for (int i = 0; i < c.num_inputs(); ++i)
    if (c.has(i) && !is_float(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be a float, not %s", i, dtype_name(c.in(i).dtype));
  return ok();
}

Status infer_layer(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_floats(c));
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", -1), c.shape(0).rank(), &axis));
  Shape tail;
  for (int i = axis; i < c.shape(0).rank(); ++i) tail.push_back(c.shape(0)[i]);
  for (int i = 1; i < std::min(3, c.num_inputs()); ++i) {
    if (!c.has(i)) continue;
    Shape own;  // without leading ones, which change nothing
    for (int64_t dim : c.shape(i))
      if (own.rank() > 0 || dim != 1) own.push_back(dim);
    Shape joined;
    if (own.rank() > tail.rank() || !broadcast_shapes(own, tail, &joined).ok() || joined != tail)
      return fail(Code::kFormat, "input %d of shape %s does not broadcast to the normalized dimensions %s", i,
                  c.shape(i).str().c_str(), tail.str().c_str());
  }
  return ok();
}

Status infer_per_channel(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_floats(c));
  if (c.shape(0).rank() < 2) return fail(Code::kFormat, "needs rank 2 or more, not shape %s", c.shape(0).str().c_str());
  for (int i = 1; i < std::min(3, c.num_inputs()); ++i)
    if (c.has(i) && c.shape(i) != Shape{c.shape(0)[1]})
      return fail(Code::kFormat, "input %d has shape %s, not one number for each of %lld channels", i,
                  c.shape(i).str().c_str(), static_cast<long long>(c.shape(0)[1]));
  return ok();
}

Status infer_instance(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  MINNOW_RETURN_IF_ERROR(infer_per_channel(c));
  return c.shape(0).rank() < 3 ? fail(Code::kFormat, "needs rank 3 or more, not shape %s", c.shape(0).str().c_str())
                               : ok();
}

Status infer_group(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_per_channel(c));
  const int64_t groups = c.attrs.i("num_groups");
  if (groups < 1 || c.shape(0)[1] % groups != 0)
    return fail(Code::kFormat, "%lld channels cannot be split into %lld groups", static_cast<long long>(c.shape(0)[1]),
                static_cast<long long>(groups));
  return ok();
}

MINNOW_OP("LayerNorm", infer_layer);
MINNOW_KERNEL("LayerNorm", create<Norm::kLayer>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("RMSNorm", infer_layer);
MINNOW_KERNEL("RMSNorm", create<Norm::kRms>, LayoutRule::kPlain, /*in_place=*/true);
LayoutRule layout_of(const std::vector<const TensorType*>& in) {
  return in[0] != nullptr && in[0]->dtype == DType::kF32 ? LayoutRule::kFollow : LayoutRule::kPlain;
}
MINNOW_OP("InstanceNorm", infer_instance);
MINNOW_KERNEL("InstanceNorm", create<Norm::kInstance>, LayoutRule::kPlain, /*in_place=*/true, layout_of);
MINNOW_OP("GroupNorm", infer_group);
MINNOW_KERNEL("GroupNorm", create<Norm::kGroup>, LayoutRule::kPlain, /*in_place=*/true, layout_of);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
