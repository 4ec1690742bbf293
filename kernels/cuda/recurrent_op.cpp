// LSTM, GRU and RNN nodes with constant weights.
#include <algorithm>
#include <string>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/lstm.h"
#include "kernels/cuda/product/layer.h"
#include "kernels/cuda/recurrent.h"

namespace minnow::cuda {
namespace {

using Layer = Recurrent::Layer;
using Kind = RecurrentFunction::Kind;
enum Input { kX, kW, kR, kBias, kLens, kH0, kC0, kPeephole };

struct Named {
  char name[16];
  Kind kind;
  int parameters;
  float alpha, beta;  // where they are not given
};

// The names and the defaults are those of schema/ops/recurrent.py.
constexpr Named kFunctions[] = {
    {"sigmoid", Kind::kSigmoid, 0, 0, 0},
    {"tanh", Kind::kTanh, 0, 0, 0},
    {"relu", Kind::kRelu, 0, 0, 0},
    {"softsign", Kind::kSoftsign, 0, 0, 0},
    {"softplus", Kind::kSoftplus, 0, 0, 0},
    {"leakyrelu", Kind::kLeakyRelu, 1, 0.01f, 0},
    {"thresholdedrelu", Kind::kThresholdedRelu, 1, 1, 0},
    {"elu", Kind::kElu, 1, 1, 0},
    {"hardsigmoid", Kind::kHardSigmoid, 2, 0.2f, 0.5f},
    {"scaledtanh", Kind::kScaledTanh, 2, 1, 1},
    {"affine", Kind::kAffine, 2, 1, 0},
};

// Ways to compute the products with the input that are tried.
constexpr size_t kMostConfigs = 4;

constexpr int functions_of(Layer layer) { return layer == Layer::kLstm ? 3 : layer == Layer::kGru ? 2 : 1; }

Status read_functions(const Attrs& attrs, Recurrent* p) {
  std::vector<std::string> names = attrs.get("activations", std::vector<std::string>{});
  const int each = functions_of(p->layer);
  if (names.empty())
    for (int i = 0; i < each * p->directions; ++i)
      names.push_back(p->layer == Layer::kRnn || i % each > 0 ? "tanh" : "sigmoid");
  const std::vector<double> alpha = attrs.floats("activation_alpha"), beta = attrs.floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (int i = 0; i < each * p->directions; ++i) {
    const Named* found = nullptr;
    for (const Named& row : kFunctions)
      if (static_cast<size_t>(i) < names.size() && names[static_cast<size_t>(i)] == row.name) found = &row;
    if (found == nullptr) return fail(Code::kUnsupported, "activation %d of a recurrent layer is unknown", i);
    RecurrentFunction& f = p->functions[i / each][i % each];
    f = {found->kind, found->alpha, found->beta};
    if (found->parameters > 0 && next_alpha < alpha.size()) f.alpha = static_cast<float>(alpha[next_alpha++]);
    if (found->parameters > 1 && next_beta < beta.size()) f.beta = static_cast<float>(beta[next_beta++]);
  }
  return ok();
}

bool supports(const NodeContext& node, std::string* why) {
  if (!is_kernel_float(node.in[kX]->dtype)) {
    *why = std::string("computes recurrent layers of no ") + dtype_name(node.in[kX]->dtype);
    return false;
  }
  for (size_t i : {kW, kR, kBias, kPeephole}) {
    if (!has_input(node, i) || constant_of(node, i) != nullptr) continue;
    *why = "computes recurrent layers with constant weights";
    return false;
  }
  constexpr int64_t kMostHidden = 4096;
  if (node.in[kR]->shape[2] <= kMostHidden) return true;
  *why = "computes recurrent layers of " + std::to_string(kMostHidden) + " units or fewer";
  return false;
}

class RecurrentKernel final : public gpu::GpuKernel {
 public:
  explicit RecurrentKernel(Layer layer) : layer_(layer) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Attrs& attrs = node.attrs;
    const TensorType& x = *node.in[kX];
    p_ = Recurrent();
    p_.layer = layer_;
    p_.dtype = x.dtype;
    p_.steps = static_cast<int>(x.shape[0]);
    p_.batch = static_cast<int>(x.shape[1]);
    p_.features = static_cast<int>(x.shape[2]);
    p_.hidden = static_cast<int>(node.in[kR]->shape[2]);
    const std::string direction = attrs.s("direction", "forward");
    p_.directions = direction == "bidirectional" ? 2 : 1;
    p_.backward[0] = direction == "reverse";
    p_.clip = static_cast<float>(attrs.f("clip"));
    p_.cell_clip = static_cast<float>(attrs.f("cell_clip"));
    p_.input_forget = attrs.b("input_forget");
    p_.linear_before_reset = attrs.b("linear_before_reset");
    MINNOW_RETURN_IF_ERROR(read_functions(attrs, &p_));
    const Machine& machine = machine_of(node);
    Target target;
    target.capability = machine.compiled;
    target.overlap = machine.compiled >= 90;
    const std::string type = dtype_name(x.dtype);
    const auto size = static_cast<int64_t>(dtype_size(x.dtype));
    const int64_t d = p_.directions, rows = gates_of(layer_) * static_cast<int64_t>(p_.hidden), h = p_.hidden;
    w_.make(node, {kW}, "recurrent_w_" + type, d * rows * p_.features * size, [&](void* to) {
      store_floats(host_floats(*node.constant[kW]).data(), d * rows * p_.features, x.dtype, to);
    });
    const Tensor *bias = constant_of(node, kBias), *peephole = constant_of(node, kPeephole);
    p_.peepholes = layer_ == Layer::kLstm && peephole != nullptr;
    const int64_t count = packed_recurrent_count(p_, target);
    const std::string form = is_common_lstm(p_, target) ? "_cores" : p_.linear_before_reset ? "_linear" : "";
    r_.make(node, {kR}, "recurrent_r_" + type + form, count * size, [&](void* to) {
      std::vector<float> packed(static_cast<size_t>(count));
      pack_recurrent(p_, target, host_floats(*node.constant[kR]).data(), packed.data());
      store_floats(packed.data(), count, x.dtype, to);
    });
    // The reset gate of a GRU with linear_before_reset acts on the recurrent bias of the candidate.
    const bool apart = layer_ == Layer::kGru && p_.linear_before_reset;
    has_bias_ = bias != nullptr;
    has_extra_ = layer_ == Layer::kLstm ? peephole != nullptr : apart && has_bias_;
    if (has_bias_) {
      bias_.make(node, {kBias}, apart ? "recurrent_bias_linear" : "recurrent_bias", d * rows * 4, [&](void* to) {
        const std::vector<float> from = host_floats(*bias);
        for (int64_t i = 0; i < d; ++i)
          for (int64_t k = 0; k < rows; ++k)
            static_cast<float*>(to)[i * rows + k] =
                at(from, i * 2 * rows + k) + (apart && k >= 2 * h ? 0.0f : at(from, (i * 2 + 1) * rows + k));
      });
    }
    if (has_extra_) {
      const int64_t each = layer_ == Layer::kLstm ? 3 * h : h;
      extra_.make(node, {layer_ == Layer::kLstm ? size_t{kPeephole} : size_t{kBias}}, "recurrent_extra", d * each * 4,
                  [&](void* to) {
                    const std::vector<float> from = host_floats(layer_ == Layer::kLstm ? *peephole : *bias);
                    for (int64_t i = 0; i < d; ++i)
                      for (int64_t k = 0; k < each; ++k)
                        static_cast<float*>(to)[i * each + k] =
                            at(from, layer_ == Layer::kLstm ? i * each + k : (i * 2 + 1) * rows + 2 * h + k);
                  });
    }
    *workspace = recurrent_workspace(p_);
    describe_input(node);
    return ok();
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Recurrent p = p_;
    const auto out = [&](size_t i) {
      return i < context.out.size() && context.out[i] != nullptr ? context.out[i]->data : nullptr;
    };
    p.x = context.in[kX]->data;
    p.w = w_.as<void>();
    p.r = r_.as<void>();
    p.bias = has_bias_ ? bias_.data() : nullptr;
    p.extra = has_extra_ ? extra_.data() : nullptr;
    p.lengths = data_of(context, kLens);
    p.wide_lengths = p.lengths != nullptr && context.in[kLens]->type.dtype == DType::kI64;
    p.h0 = data_of(context, kH0);
    p.c0 = layer_ == Layer::kLstm ? data_of(context, kC0) : nullptr;
    p.y = out(0);
    p.y_h = out(1);
    p.y_c = layer_ == Layer::kLstm ? out(2) : nullptr;
    p.workspace = static_cast<float*>(context.workspace);
    if (!configs_.empty()) {
      ProductOperands operands;
      operands.x = p.x;
      operands.w = p.w;
      operands.bias = p.bias;
      operands.y = p.workspace;
      MINNOW_RETURN_IF_ERROR(launch(input_, configs_[scheme_], operands, target_of(stream).stream));
      p.x = nullptr;
    }
    return check(recurrent(p, target_of(stream)), "to compute a recurrent layer");
  }
  bool reads(int i) const override { return i != kW && i != kR && i != kBias && i != kPeephole; }
  int schemes() const override { return std::max(1, static_cast<int>(configs_.size())); }
  void choose(int scheme) override { scheme_ = static_cast<size_t>(scheme); }
  Profile profile() const override {
    const int64_t rows = gates_of(layer_) * static_cast<int64_t>(p_.hidden);
    const std::string input = configs_.empty() ? "" : " " + config_name(configs_[scheme_]);
    return {"cluster" + input,
            static_cast<int64_t>(p_.steps) * p_.batch * p_.directions * rows * (p_.features + p_.hidden)};
  }

 private:
  static float at(const std::vector<float>& v, int64_t i) { return v[static_cast<size_t>(i)]; }

  // The products with the input on tensor cores, where they can be made so: [steps * batch, gates * hidden] in f32.
  void describe_input(const NodeContext& node) {
    configs_.clear();
    scheme_ = 0;
    const int64_t rows = int64_t{p_.steps} * p_.batch, columns = gates_of(layer_) * int64_t{p_.hidden};
    const Element element = element_of(p_.dtype, node.precision);
    if (bytes_of(element) != 2 || p_.features % 8 != 0 || rows * columns >= int64_t{1} << 31 || rows == 0) return;
    input_ = matrix_product(element, static_cast<int>(rows), static_cast<int>(columns), p_.features, p_.features,
                            p_.features, columns);
    ProductArguments& s = input_.shape;
    input_.batch = p_.directions;
    input_.has_bias = has_bias_;
    s.w_batch = columns * p_.features;
    s.y_batch = rows * columns;
    s.bias_batch = static_cast<int>(columns);
    s.end.f32 = true;
    configs_ = product_configs(input_, kMostConfigs);
  }

  const Layer layer_;
  Recurrent p_;
  Packed w_, r_, bias_, extra_;
  bool has_bias_ = false, has_extra_ = false;
  Product input_;
  std::vector<ProductConfig> configs_;
  size_t scheme_ = 0;
};

template <Layer layer>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<RecurrentKernel>(layer);
}

}  // namespace

MINNOW_CUDA_KERNEL("LSTM", create<Layer::kLstm>, supports);
MINNOW_CUDA_KERNEL("GRU", create<Layer::kGru>, supports);
MINNOW_CUDA_KERNEL("RNN", create<Layer::kRnn>, supports);

}  // namespace minnow::cuda
