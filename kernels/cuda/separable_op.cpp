#include "kernels/cuda/separable_op.h"

#include "kernels/cuda/constants.h"
#include "kernels/cuda/depthwise_op.h"
#include "kernels/cuda/product/layer.h"
#include "kernels/cuda/separable.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

// Inputs beside those of the pointwise convolution.
constexpr size_t kTaps = 6, kTapsBias = 7;

// The image between.
TensorType between(const NodeContext& node) {
  TensorType type = *node.out[0];
  type.shape[1] = node.in[kX]->shape[1];
  return type;
}

// The depthwise convolution, as a node of its own; `result` is the type of its result.
NodeContext depthwise_node(const NodeContext& node, const TensorType& result) {
  NodeContext one{node.attrs, {node.in[kX], node.in[kTaps], node.in[kTapsBias]}, {}, {&result}};
  for (const size_t i : {size_t{kX}, kTaps, kTapsBias}) {
    one.constant.push_back(i < node.constant.size() ? node.constant[i] : nullptr);
    one.constant_ids.push_back(i < node.constant_ids.size() ? node.constant_ids[i] : -1);
  }
  one.threads = node.threads, one.precision = node.precision;
  one.store = node.store, one.pool = node.pool, one.accelerator = node.accelerator;
  return one;
}

// The function that follows the pointwise convolution, as attributes of a layer.
Attrs last_function(const Attrs& both) {
  Attrs attrs;
  attrs.set("activation", both.s("last_activation"));
  for (const char* name : {"alpha", "beta"})
    if (const std::string last = std::string("last_") + name; both.has(last.c_str()))
      attrs.set(name, both.f(last.c_str()));
  return attrs;
}

Product pointwise_product(const NodeContext& node) {
  const TensorType& y = *node.out[0];
  const int64_t rows = y.shape[0] * y.shape.count(2, y.shape.rank()), channels = node.in[kX]->shape[1];
  const int64_t row = round_channels(y.shape[1]), padded = round_channels(channels);
  Product p = matrix_product(element_of(node.in[kX]->dtype, node.precision), number(rows), number(y.shape[1]),
                             number(channels), number(padded), number(padded), row);
  p.shape.end.columns = number(row);
  p.shape.end.wide = true;
  return p;
}

class SeparableKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType middle = between(node);
    MINNOW_RETURN_IF_ERROR(depthwise_.reshape(depthwise_node(node, middle)));
    product_ = pointwise_product(node);
    const ProductArguments& s = product_.shape;
    const int64_t channels = s.C;
    packs_weights_ = true;
    pack_weights(
        node, kW, {s.N, 1, channels, ""}, [&](int64_t row, int64_t, int64_t c) { return row * channels + c; },
        &weights_);
    const Attrs attrs = last_function(node.attrs);
    NodeContext last{attrs, node.in, node.constant, node.out};
    last.threads = node.threads, last.precision = node.precision, last.constant_ids = node.constant_ids;
    last.store = node.store, last.pool = node.pool, last.accelerator = node.accelerator;
    MINNOW_RETURN_IF_ERROR(prepare(last, workspace));
    problem_.depthwise = depthwise_.problem();
    problem_.pointwise = product_;
    target_.capability = current_chip().capability;
    target_.multiprocessors = current_chip().processors;
    own_schemes_ = separable_schemes(problem_, target_);
    scheme_ = own_schemes_ > 0 ? 0 : -1;
    middle_bytes_ = (int64_t{s.M} * s.pixel * bytes_of(product_.element) + 255) / 256 * 256;
    *workspace += middle_bytes_;
    macs_ = int64_t{s.M} * s.C * (s.N + problem_.depthwise.kernel_height * problem_.depthwise.kernel_width);
    return ok();
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Separable problem = problem_;
    Depthwise& d = problem.depthwise;
    d.x = context.in[kX]->data;
    if (scheme_ >= 0) {
      Target target = target_;
      target.stream = target_of(stream).stream;
      target.overlap = target_of(stream).overlap;
      return check(separable(problem, scheme_, operands_of(context, weights_.as<void>()), target), "to convolve");
    }
    char* space = static_cast<char*>(context.workspace);
    d.y = space;
    MINNOW_RETURN_IF_ERROR(check(depthwise(d, target_of(stream)), "to convolve"));
    return multiply(context, stream, space, weights_.as<void>(), space + middle_bytes_);
  }

  bool reads(int i) const override {
    return i != static_cast<int>(kTaps) && i != static_cast<int>(kTapsBias) && LayerKernel::reads(i);
  }
  int schemes() const override { return own_schemes_ + LayerKernel::schemes(); }
  void choose(int scheme) override {
    scheme_ = scheme < own_schemes_ ? scheme : -1;
    if (scheme_ < 0) LayerKernel::choose(scheme - own_schemes_);
  }
  Profile profile() const override {
    if (scheme_ >= 0) return {separable_name(problem_, scheme_, target_), macs_};
    return {"depthwise, " + LayerKernel::profile().scheme, macs_};
  }

 private:
  DepthwiseLayer depthwise_;
  Separable problem_;
  Target target_;
  int own_schemes_ = 0, scheme_ = -1;  // of separable(); below 0: one after the other
  int64_t middle_bytes_ = 0;
};

}  // namespace

bool is_separable(const NodeContext& node) { return has_input(node, kTaps); }

bool supports_separable(const NodeContext& node, std::string* why) {
  const TensorType middle = between(node);
  if (!supports_depthwise(depthwise_node(node, middle), why) || !supports_layer(node, why)) return false;
  if (constant_of(node, kW) == nullptr) {
    *why = "takes constant weights of convolutions";
  } else if (product_configs(pointwise_product(node), 1).empty()) {
    *why = "has no kernel for a convolution of this shape";
  } else {
    return true;
  }
  return false;
}

std::unique_ptr<Kernel> create_separable(const NodeContext&) { return std::make_unique<SeparableKernel>(); }

}  // namespace minnow::cuda
