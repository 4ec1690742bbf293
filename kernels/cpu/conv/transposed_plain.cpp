// Transposed convolution of any rank in the plain layout: each output gathers what reaches it.
#include "kernels/core/interrupt.h"
#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/conv/transposed.h"

namespace minnow {
namespace {

class DeconvPlain final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
    std::array<int64_t, 3> size;
    MINNOW_RETURN_IF_ERROR(read_deconv(node.attrs, x, w, &w_, &size));
    MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation_));
    w_ = as_3d(w_);
    in_ = spatial_3d(x);
    out_ = spatial_3d(node.out[0]->shape);
    group_ = node.attrs.i("group", 1);
    macs_ = x.count() * w.count(1, w.rank());
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.in[0]->type.dtype == DType::kF64) {
      run_as<double>(context);
    } else {
      run_as<float>(context);
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
    T* result = context.out[0]->as<T>();
    const int64_t ic = x.dim(1), oc = context.out[0]->dim(1), icg = ic / group_, ocg = oc / group_;
    const int64_t in_size = in_[0] * in_[1] * in_[2], out_size = out_[0] * out_[1] * out_[2];
    const int64_t kernel_size = w_.kernel[0] * w_.kernel[1] * w_.kernel[2];
    context.pool->parallel_for(x.dim(0) * oc, 1, [&](int64_t first, int64_t last, int) {
      LongLoop loop;
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t o = plane % oc, g = o / ocg;
        const T* image = x.as<T>() + (plane / oc * ic + g * icg) * in_size;
        const T* w = weights + (g * icg * ocg + o % ocg) * kernel_size;
        for (int64_t p = 0; p < out_size && loop.goes_on(kernel_size * (8 + icg)); ++p) {
          const int64_t at[3] = {p / (out_[1] * out_[2]), p / out_[2] % out_[1], p % out_[2]};
          double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[o]);
          for (int64_t k = 0; k < kernel_size; ++k) {
            const int64_t tap[3] = {k / (w_.kernel[1] * w_.kernel[2]), k / w_.kernel[2] % w_.kernel[1],
                                    k % w_.kernel[2]};
            int64_t index = 0;
            bool reaches = true;
            for (size_t i = 0; i < 3; ++i) {
              const int64_t from = at[i] + w_.begin[i] - tap[i] * w_.dilation[i];
              reaches = reaches && from >= 0 && from % w_.stride[i] == 0 && from / w_.stride[i] < in_[i];
              index = index * in_[i] + from / w_.stride[i];
            }
            if (!reaches) continue;
            for (int64_t c = 0; c < icg; ++c)
              sum +=
                  static_cast<double>(image[c * in_size + index]) * static_cast<double>(w[c * ocg * kernel_size + k]);
          }
          const int64_t to = plane * out_size + p;
          if (residual != nullptr) sum += static_cast<double>(residual[to]);
          result[to] = static_cast<T>(activate_scalar(activation_, sum));
        }
      }
    });
  }

  Window w_;
  Activation activation_;
  std::array<int64_t, 3> in_{}, out_{};
  int64_t group_ = 1, macs_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_deconv_plain(const NodeContext&) { return std::make_unique<DeconvPlain>(); }

}  // namespace minnow
