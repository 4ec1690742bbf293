// RotaryEmbedding.
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

class RotaryEmbedding final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    length_ = x.at(-1);
    const int64_t size = node.attrs.i("size");
    pairs_ = (size == 0 ? length_ : size) / 2;
    rows_ = x.count(0, x.rank() - 1);
    interleaved_ = node.attrs.b("interleaved");
    std::vector<int32_t> table = {x.rank() - 1};
    for (int k = 0; k + 1 < x.rank(); ++k) table.push_back(static_cast<int32_t>(x[k]));
    for (size_t t : {0, 1}) {
      const Shape& shape = node.in[t + 1]->shape;
      full_[t] = shape.at(-1) == 2 * pairs_;
      std::vector<int32_t> strides(static_cast<size_t>(x.rank() - 1));
      int64_t stride = shape.at(-1);
      for (int k = 2; k <= shape.rank(); stride *= shape.at(-k), ++k)
        if (shape.at(-k) != 1) strides[static_cast<size_t>(x.rank() - k)] = static_cast<int32_t>(stride);
      table.insert(table.end(), strides.begin(), strides.end());
    }
    return table_.make(*device_, table);
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = rows_ * (length_ - pairs_);
    if (n == 0) return ok();
    const auto type = [&](size_t i) { return static_cast<int>(context.in[i]->type.dtype); };
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program(
        "rotary",
        {{"TYPE", type(0)}, {"TYPE_COS", type(1)}, {"TYPE_SIN", type(2)}, {"INTERLEAVED", interleaved_ ? 1 : 0}},
        &program));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.buffer(context.in[1]->data).buffer(context.in[2]->data).buffer(table_.data());
    for (int64_t number : {n, length_, pairs_, int64_t{full_[0]}, int64_t{full_[1]}})
      arguments.add(static_cast<int32_t>(number));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Device* device_ = nullptr;
  int64_t rows_ = 0, length_ = 0, pairs_ = 0;
  bool interleaved_ = false, full_[2] = {false, false};
  Uploaded table_;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<RotaryEmbedding>(); }

bool supports(const NodeContext& node, std::string* why) { return has_types(node, kFloats, why); }

}  // namespace

MINNOW_GPU_KERNEL("RotaryEmbedding", create, supports, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace minnow::gpu
