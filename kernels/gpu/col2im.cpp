// Col2Im.
#include "kernels/core/int_view.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

class Col2Im final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const Shape& y = node.out[0]->shape;
    const IntView block(*node.constant[2]);
    count_ = block.size();
    const auto list = [&](const char* name, size_t size, int64_t otherwise) {
      std::vector<int64_t> all = node.attrs.ints(name);
      if (all.empty()) all.assign(size, otherwise);
      return all;
    };
    const size_t axes = static_cast<size_t>(count_);
    const std::vector<int64_t> strides = list("strides", axes, 1), dilations = list("dilations", axes, 1),
                               pads = list("pads", 2 * axes, 0);
    std::vector<int32_t> table;
    taps_ = blocks_ = 1;
    for (size_t k = 0; k < axes; ++k) {
      const int64_t size = y[2 + static_cast<int>(k)], of_block = block[static_cast<int64_t>(k)];
      const int64_t room = size + pads[k] + pads[axes + k] - ((of_block - 1) * dilations[k] + 1);
      const int64_t blocks = room < 0 ? 0 : room / strides[k] + 1;
      for (int64_t number : {size, of_block, blocks, strides[k], dilations[k], pads[k]})
        table.push_back(static_cast<int32_t>(number));
      taps_ *= of_block;
      blocks_ *= blocks;
    }
    return table_.make(*device_, table);
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const Shape& y = context.out[0]->shape();
    if (y.count() == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(
        device_->program("col2im", {{"TYPE", static_cast<int>(context.in[0]->type.dtype)}}, &program));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data).buffer(table_.data());
    for (int64_t number : {y.count(), count_, y.count(2, y.rank()), taps_, blocks_})
      arguments.add(static_cast<int32_t>(number));
    return stream.launch(*program, arguments, groups_of(*program, y.count()));
  }

 private:
  Device* device_ = nullptr;
  int64_t count_ = 0, taps_ = 1, blocks_ = 1;
  Uploaded table_;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<Col2Im>(); }

bool supports(const NodeContext& node, std::string* why) {
  if (node.constant[2] == nullptr) {
    *why = "needs a constant shape of the blocks";
    return false;
  }
  NodeContext one{node.attrs, {node.in[0]}, {}, {node.out[0]}};
  return has_types(one,
                   {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                    DType::kI32, DType::kU32},
                   why);
}

}  // namespace

MINNOW_GPU_KERNEL("Col2Im", create, supports);

}  // namespace minnow::gpu
