// Convolution of any dtype and rank in the plain layout, as the definition says it.
#include <type_traits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/scheme.h"

namespace minnow {
namespace {

// Sums are kept wide: f32 in f64, and integers in unsigned 64 bits, where overflow is defined and wraps.
template <typename T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

class ConvPlain final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    const Shape& w = node.in[1]->shape;
    group_ = node.attrs.i("group", 1);
    std::vector<int64_t> kernel(w.begin() + 2, w.end());
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, kernel, &window_));
    window_ = as_3d(window_);
    MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation_));
    const bool number = is_float(node.in[0]->dtype);
    if (!number && !(activation_.is_clamp() && node.attrs.s("activation").empty()))
      return fail(Code::kUnsupported, "an activation on a convolution of %s", dtype_name(node.in[0]->dtype));
    macs_ = node.out[0]->count() * w.count(1, w.rank());
    return ok();
  }

  void run(const RunContext& context) override {
    switch (context.in[0]->type.dtype) {
      case DType::kF32:
        return run_as<float>(context);
      case DType::kF64:
        return run_as<double>(context);
      case DType::kI32:
        return run_as<int32_t>(context);
      case DType::kU32:
        return run_as<uint32_t>(context);
      case DType::kI64:
        return run_as<int64_t>(context);
      default:
        return run_as<uint64_t>(context);
    }
  }

  [[gnu::cold]] Profile profile() const override { return {"plain", macs_}; }

 private:
  template <typename T>
  void run_as(const RunContext& context) const {
    const Tensor& x = *context.in[0];
    const T* weights = context.in[1]->as<T>();
    const T* bias = context.in.size() > 2 && context.in[2] != nullptr ? context.in[2]->as<T>() : nullptr;
    const T* residual = context.in.size() > 3 && context.in[3] != nullptr ? context.in[3]->as<T>() : nullptr;
    const std::array<int64_t, 3> in = spatial_3d(x.shape()), out = spatial_3d(context.out[0]->shape());
    const auto &kernel = window_.kernel, &stride = window_.stride, &dilation = window_.dilation, &begin = window_.begin;
    const int64_t channels = x.dim(1), icg = channels / group_, oc = context.out[0]->dim(1), ocg = oc / group_;
    const int64_t in_size = in[0] * in[1] * in[2], out_size = out[0] * out[1] * out[2];
    const int64_t taps = kernel[0] * kernel[1] * kernel[2];
    const T* data = x.as<T>();
    T* result = context.out[0]->as<T>();
    context.pool->parallel_for(x.dim(0) * oc, 1, [&](int64_t first, int64_t last, int) {
      LongLoop loop;
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t o = plane % oc;
        const T* image = data + (plane / oc * channels + o / ocg * icg) * in_size;
        const T* w = weights + o * icg * taps;
        for (int64_t p = 0; p < out_size && loop.goes_on(taps * (2 + icg)); ++p) {
          const int64_t origin[3] = {p / (out[1] * out[2]) * stride[0] - begin[0],
                                     p / out[2] % out[1] * stride[1] - begin[1], p % out[2] * stride[2] - begin[2]};
          Sum<T> sum = bias == nullptr ? Sum<T>(0) : static_cast<Sum<T>>(bias[o]);
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t z = origin[0] + k / (kernel[1] * kernel[2]) * dilation[0];
            const int64_t y = origin[1] + k / kernel[2] % kernel[1] * dilation[1];
            const int64_t c = origin[2] + k % kernel[2] * dilation[2];
            if (z < 0 || z >= in[0] || y < 0 || y >= in[1] || c < 0 || c >= in[2]) continue;
            const T* from = image + (z * in[1] + y) * in[2] + c;
            for (int64_t i = 0; i < icg; ++i)
              sum += static_cast<Sum<T>>(from[i * in_size]) * static_cast<Sum<T>>(w[i * taps + k]);
          }
          const int64_t at = plane * out_size + p;
          if (residual != nullptr) sum += static_cast<Sum<T>>(residual[at]);
          if constexpr (std::is_floating_point_v<T>) sum = activate_scalar(activation_, sum);
          result[at] = static_cast<T>(sum);
        }
      }
    });
  }

  Window window_;
  Activation activation_;
  int64_t group_ = 1, macs_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_plain(const NodeContext&) { return std::make_unique<ConvPlain>(); }

}  // namespace minnow
