#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::gpu {

Status WindowArguments::read(const NodeContext& node, const std::vector<int64_t>& kernel) {
  const Shape& x = node.in[0]->shape;
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, kernel, &window));
  window_ = as_3d(window);
  in_ = spatial_3d(x);
  out_ = spatial_3d(node.out[0]->shape);
  return ok();
}

Status WindowArguments::read_conv(const NodeContext& node) {
  const Shape& w = node.in[1]->shape;
  return read(node, {w.begin() + 2, w.end()});
}

Status WindowArguments::read_pool(const NodeContext& node) {
  MINNOW_RETURN_IF_ERROR(read(node, node.attrs.ints("kernel")));
  cut_kernel(&window_, in_);
  return ok();
}

bool WindowArguments::is_pointwise() const {
  for (size_t i = 0; i < 3; ++i)
    if (window_.kernel[i] != 1 || window_.stride[i] != 1 || window_.begin[i] != 0 || in_[i] != out_[i]) return false;
  return true;
}

void WindowArguments::add_to(Arguments* arguments) const {
  const auto add = [&](int64_t v) { arguments->add(static_cast<int32_t>(v)); };
  for (int64_t v : in_) add(v);
  add(out_[1]);
  add(out_[2]);
  for (const auto* values : {&window_.stride, &window_.dilation, &window_.begin})
    for (int64_t v : *values) add(v);
  add(pixels());
}

}  // namespace minnow::gpu
