// DFT and STFT. Transforms are sums over all elements, with a table of angles that the host
// has made: as exact as a fast transform, and fast enough for the lengths of frames.
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/core/int_view.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

constexpr int64_t kLongest = 4096;

template <typename Tensors>
auto operand(const Tensors& in, size_t i) {
  return i < in.size() ? in[i] : nullptr;
}

bool supports_lengths(const NodeContext& node, std::initializer_list<size_t> numbers, std::string* why) {
  for (size_t i : numbers)
    if (operand(node.in, i) != nullptr && operand(node.constant, i) == nullptr) {
      *why = "needs constant lengths and axes";
      return false;
    }
  for (const TensorType* type : {node.in[0], node.out[0]}) {
    NodeContext one{node.attrs, {type}, {}, {}};
    if (!has_types(one, kFloats, why)) return false;
  }
  return true;
}

bool supports_dft(const NodeContext& node, std::string* why) {
  if (!supports_lengths(node, {1, 2}, why)) return false;
  int64_t longest = 0;
  for (int k = 0; k + 1 < node.out[0]->shape.rank(); ++k) longest = std::max(longest, node.out[0]->shape[k]);
  if (longest > kLongest) *why = "transforms no more than " + std::to_string(kLongest) + " numbers";
  return longest <= kLongest;
}

bool supports_stft(const NodeContext& node, std::string* why) {
  if (!supports_lengths(node, {1, 3}, why)) return false;
  if (const TensorType* window = operand(node.in, 2)) {
    NodeContext one{node.attrs, {window}, {}, {}};
    if (!has_types(one, kFloats, why)) return false;
  }
  if (node.out[0]->shape[2] > kLongest) *why = "transforms no more than " + std::to_string(kLongest) + " numbers";
  return node.out[0]->shape[2] <= kLongest;
}

// Many transforms of length n, as the text describes them.
class Spectrum : public GpuKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = lines_ * out_count_;
    if (n == 0) return ok();
    const Tensor* window = has_window_ ? context.in[2] : nullptr;
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(
        device_->program("spectrum",
                         {{"TYPE", static_cast<int>(context.in[0]->type.dtype)},
                          {"TYPE_WINDOW", window == nullptr ? -1 : static_cast<int>(window->type.dtype)},
                          {"PARTS_IN", parts_in_},
                          {"PARTS_OUT", parts_out_},
                          {"INVERSE", inverse_ ? 1 : 0},
                          {"MIRRORED", mirrored_ ? 1 : 0}},
                         &program));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.buffer(window == nullptr ? context.in[0]->data : window->data).buffer(angles_.data());
    for (int64_t number :
         {n, n_, inner_, in_outer_, in_inner_, in_step_, in_count_, out_outer_, out_inner_, out_step_, out_count_})
      arguments.add(static_cast<int32_t>(number));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 protected:
  Status make_angles() {
    std::vector<float> angles(static_cast<size_t>(2 * n_));
    for (int64_t k = 0; k < n_; ++k) {
      const double angle = 8 * std::atan(1.0) * (static_cast<double>(k) / static_cast<double>(n_));
      angles[static_cast<size_t>(2 * k)] = static_cast<float>(std::cos(angle));
      angles[static_cast<size_t>(2 * k + 1)] = static_cast<float>(std::sin(angle));
    }
    return angles_.make(*device_, angles);
  }
  static int64_t number(const Tensor* t, int64_t otherwise) { return t == nullptr ? otherwise : IntView(*t)[0]; }

  Device* device_ = nullptr;
  int64_t n_ = 1, lines_ = 0, inner_ = 1;
  int64_t in_outer_ = 0, in_inner_ = 0, in_step_ = 0, in_count_ = 0;
  int64_t out_outer_ = 0, out_inner_ = 0, out_step_ = 0, out_count_ = 0;
  int parts_in_ = 1, parts_out_ = 2;
  bool inverse_ = false, mirrored_ = false, has_window_ = false;
  Uploaded angles_;
};

class Dft final : public Spectrum {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    const bool onesided = node.attrs.b("onesided");
    inverse_ = node.attrs.b("inverse");
    mirrored_ = inverse_ && onesided;
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(number(operand(node.constant, 2), -2), x.rank(), &axis));
    n_ = number(operand(node.constant, 1), mirrored_ ? 2 * (x[axis] - 1) : x[axis]);
    if (n_ < 1 || n_ > 2 * kLongest)
      return fail(Code::kUnsupported, "a transform of length %lld", static_cast<long long>(n_));
    inner_ = x.count(axis + 1, x.rank() - 1);
    lines_ = x.count(0, axis) * inner_;
    parts_in_ = static_cast<int>(x.at(-1));
    parts_out_ = static_cast<int>(y.at(-1));
    in_outer_ = x[axis] * inner_ * parts_in_;
    in_inner_ = parts_in_;
    in_step_ = inner_ * parts_in_;
    in_count_ = std::min(x[axis], mirrored_ ? n_ / 2 + 1 : n_);
    out_outer_ = y[axis] * inner_ * parts_out_;
    out_inner_ = parts_out_;
    out_step_ = inner_ * parts_out_;
    out_count_ = y[axis];
    return make_angles();
  }
};

class Stft final : public Spectrum {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    has_window_ = operand(node.in, 2) != nullptr;
    const int64_t hop = number(operand(node.constant, 1), 1);
    n_ = number(operand(node.constant, 3), has_window_ ? node.in[2]->shape[0] : x[1]);
    if (n_ < 1 || n_ > 2 * kLongest)
      return fail(Code::kUnsupported, "frames of %lld samples", static_cast<long long>(n_));
    inner_ = std::max<int64_t>(y[1], 1);
    lines_ = y[0] * y[1];
    parts_in_ = static_cast<int>(x[2]);
    in_outer_ = x[1] * x[2];
    in_inner_ = hop * x[2];
    in_step_ = x[2];
    in_count_ = n_;
    out_outer_ = y[1] * y[2] * 2;
    out_inner_ = y[2] * 2;
    out_step_ = 2;
    out_count_ = y[2];
    return make_angles();
  }
};

template <typename Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

}  // namespace

MINNOW_GPU_KERNEL("DFT", create<Dft>, supports_dft);
MINNOW_GPU_KERNEL("STFT", create<Stft>, supports_stft);

}  // namespace minnow::gpu
