// Tensors made from shapes, from few numbers, and from parts of others.
#include <algorithm>

#include "kernels/gpu/movement/moves.h"

namespace minnow::gpu {
namespace {

const Tensor* given(const RunContext& context, size_t i) { return context.in.size() > i ? context.in[i] : nullptr; }

class MakeKernel : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    device_ = &device_of(node);
    return plan(node);
  }

 protected:
  virtual Status plan(const NodeContext&) { return ok(); }
  Device* device_ = nullptr;
};

class Pad final : public MakeKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor &x = *context.in[0], &pads = *context.in[1], *value = given(context, 2);
    Tensor& y = *context.out[0];
    const int64_t n = y.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program(
        "movement_pad",
        {{"SIZE", size_of(x)}, {"MODE", mode_}, {"TYPE", type_of(pads)}, {"HAS_VALUE", value != nullptr ? 1 : 0}},
        &program));
    Arguments arguments;
    // Without elements in x there is nothing to read, but an argument needs an address.
    arguments.buffer(x.data).buffer(pads.data).buffer((value != nullptr ? *value : pads).data).buffer(y.data);
    arguments.buffer(code_.data()).add(as_int(n)).add(x.rank());
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Status plan(const NodeContext& node) override {
    const std::string mode = node.attrs.s("mode", "constant");
    const char* const names[] = {"constant", "reflect", "edge", "wrap"};
    for (int i = 0; i < 4; ++i)
      if (mode == names[i]) mode_ = i;
    const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
    const auto stride = strides_of(x);
    DimRows dims;
    for (int k = x.rank() - 1; k >= 0; --k) dims.add(y[k], x[k], stride[static_cast<size_t>(k)]);
    return code_.make(*device_, dims.words());
  }
  int mode_ = 0;
  Uploaded code_;
};

// What is known from types.
class Known : public GpuKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t bytes = context.out[0]->type.bytes();
    return bytes == 0 ? ok() : stream.copy(numbers_.data(), context.out[0]->data, bytes);
  }
  bool reads(int) const override { return false; }

 protected:
  Uploaded numbers_;
};

class ShapeKernel final : public Known {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + x.rank() : at, 0, x.rank()); };
    std::vector<int64_t> dims;
    for (int64_t k = place(node.attrs.i("start", 0)); k < place(node.attrs.i("end", x.rank())); ++k)
      dims.push_back(x[static_cast<int>(k)]);
    return numbers_.make(device_of(node), dims);
  }
};

class SizeKernel final : public Known {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    return numbers_.make(device_of(node), std::vector<int64_t>{node.in[0]->count()});
  }
};

class Range final : public MakeKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    Tensor& y = *context.out[0];
    const int64_t n = y.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("movement_range", {{"SIZE", size_of(y)}, {"TYPE", type_of(y)}}, &program));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[2]->data).buffer(y.data).add(as_int(n));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }
};

bool supports_range(const NodeContext& node, std::string* why) {
  if (node.out[0]->dtype == DType::kF64) *why = "computes no f64";
  return node.out[0]->dtype != DType::kF64 && can_move(node, why);
}

class OneHot final : public MakeKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor& index = *context.in[0];
    Tensor& y = *context.out[0];
    const int64_t n = y.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(
        device_->program("movement_one_hot", {{"SIZE", size_of(y)}, {"TYPE", type_of(index)}}, &program));
    Arguments arguments;
    arguments.buffer(index.data).buffer(context.in[2]->data).buffer(y.data).add(as_int(n));
    arguments.add(as_int(y.shape().count(axis_ + 1, y.rank()))).add(as_int(y.dim(axis_)));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Status plan(const NodeContext& node) override {
    return normalize_axis(node.attrs.i("axis", -1), node.out[0]->shape.rank(), &axis_);
  }
  int axis_ = 0;
};

bool supports_one_hot(const NodeContext& node, std::string* why) {
  if (node.in[0]->dtype == DType::kF64) *why = "computes no f64";
  return node.in[0]->dtype != DType::kF64 && can_move(node, why);
}

class EyeLike final : public MakeKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    Tensor& y = *context.out[0];
    const int64_t n = y.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("movement_eye", {{"SIZE", size_of(y)}}, &program));
    Arguments arguments;
    arguments.buffer(y.data).add(as_int(n));
    add_divisor(&arguments, y.dim(1));
    const int64_t k = std::clamp<int64_t>(k_, -y.dim(0), y.dim(1));
    arguments.add(as_int(k)).add(static_cast<uint32_t>(one_)).add(static_cast<uint32_t>(one_ >> 32));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }
  bool reads(int) const override { return false; }

 private:
  Status plan(const NodeContext& node) override {
    k_ = node.attrs.i("k", 0);
    switch (node.out[0]->dtype) {
      case DType::kF32:
        one_ = 0x3f800000;
        break;
      case DType::kF64:
        one_ = uint64_t{0x3ff00000} << 32;
        break;
      case DType::kF16:
        one_ = 0x3c00;
        break;
      case DType::kBF16:
        one_ = 0x3f80;
        break;
      default:
        one_ = 1;
    }
    return ok();
  }
  int64_t k_ = 0;
  uint64_t one_ = 1;
};

bool supports_eye(const NodeContext& node, std::string* why) {
  const DType type = node.out[0]->dtype;
  if (is_storage(type)) *why = std::string("computes no ") + dtype_name(type);
  return !is_storage(type) && can_move(node, why);
}

class Trilu final : public MakeKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor &x = *context.in[0], *k = given(context, 1);
    const int64_t n = x.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("movement_triangle",
                                            {{"SIZE", size_of(x)},
                                             {"UPPER", upper_ ? 1 : 0},
                                             {"HAS_K", k != nullptr ? 1 : 0},
                                             {"TYPE", k != nullptr ? type_of(*k) : static_cast<int>(DType::kI64)}},
                                            &program));
    Arguments arguments;
    arguments.buffer(x.data).buffer((k != nullptr ? *k : x).data).buffer(context.out[0]->data);
    arguments.add(as_int(n)).add(as_int(x.dim(-2)));
    add_divisor(&arguments, x.dim(-1));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Status plan(const NodeContext& node) override {
    upper_ = node.attrs.b("upper", true);
    return ok();
  }
  bool upper_ = true;
};

template <typename T>
std::unique_ptr<Kernel> create_made(const NodeContext&) {
  return std::make_unique<T>();
}

}  // namespace

MINNOW_GPU_KERNEL("Pad", create_made<Pad>, can_move);
MINNOW_GPU_KERNEL("Shape", create_made<ShapeKernel>, can_move);
MINNOW_GPU_KERNEL("Size", create_made<SizeKernel>, can_move);
MINNOW_GPU_KERNEL("Range", create_made<Range>, supports_range);
MINNOW_GPU_KERNEL("OneHot", create_made<OneHot>, supports_one_hot);
MINNOW_GPU_KERNEL("EyeLike", create_made<EyeLike>, supports_eye);
MINNOW_GPU_KERNEL("Trilu", create_made<Trilu>, can_move, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace minnow::gpu
