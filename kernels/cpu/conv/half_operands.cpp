#include "kernels/cpu/conv/half_operands.h"

#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/float_buffer.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

class HalfOperands final : public Kernel {
 public:
  HalfOperands(const NodeContext& node, CreateFunction create) {
    own_.resize(node.in.size());
    NodeContext wide = widen(node);
    kernel_ = create(wide);
  }

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    NodeContext wide = widen(node);
    for (size_t i = 0; i < own_.size(); ++i) {
      Own& own = own_[i];
      if (!own.half || node.constant[i] == nullptr) continue;
      MINNOW_RETURN_IF_ERROR(own.memory.keep(stored_bytes(own.tensor.type)));
      own.constant.allocate(ceil_div(stored_bytes(own.tensor.type), 4));
      own.tensor.data = own.constant.data();
      convert(DType::kF16, node.constant[i]->data, own.tensor.type.dtype, own.tensor.data, own.tensor.count());
      wide.constant[i] = &own.tensor;
    }
    MINNOW_RETURN_IF_ERROR(kernel_->reshape(wide, &inner_bytes_));
    inner_bytes_ = round_up(inner_bytes_, 64);
    *workspace = inner_bytes_;
    for (size_t i = 0; i < own_.size(); ++i) {
      if (!own_[i].half) continue;
      if (node.constant[i] == nullptr) *workspace += round_up(stored_bytes(own_[i].tensor.type), 64);
      if (node.constant[i] == nullptr || kernel_->reads(static_cast<int>(i))) continue;
      own_[i].constant.clear();
      own_[i].memory.clear();
    }
    return ok();
  }

  void run(const RunContext& context) override {
    RunContext wide = context;
    char* space = static_cast<char*>(context.workspace) + inner_bytes_;
    for (size_t i = 0; i < own_.size(); ++i) {
      Own& own = own_[i];
      if (!own.half) continue;
      wide.in[i] = &own.tensor;
      if (own.is_constant) continue;
      own.tensor.data = space;
      convert(DType::kF16, context.in[i]->data, own.tensor.type.dtype, space, own.tensor.count());
      space += round_up(stored_bytes(own.tensor.type), 64);
    }
    kernel_->run(wide);
  }

  bool reads(int i) const override {
    const Own& own = own_[static_cast<size_t>(i)];
    return own.half ? !own.is_constant : kernel_->reads(i);
  }
  [[gnu::cold]] Profile profile() const override { return kernel_->profile(); }

 private:
  struct Own {
    bool half = false, is_constant = false;
    Tensor tensor;  // of the wide type
    FloatBuffer constant;
    KeptMemory memory;
  };

  NodeContext widen(const NodeContext& node) {
    NodeContext wide = node;
    for (size_t i = 1; i < node.in.size(); ++i) {
      Own& own = own_[i];
      own.half = node.in[i] != nullptr && node.in[i]->dtype != node.in[0]->dtype;
      if (!own.half) continue;
      own.is_constant = node.constant[i] != nullptr;
      own.tensor.type = *node.in[i];
      own.tensor.type.dtype = node.in[0]->dtype;
      wide.in[i] = &own.tensor.type;
      wide.constant[i] = own.is_constant ? &own.tensor : nullptr;
    }
    return wide;
  }

  std::vector<Own> own_;
  std::unique_ptr<Kernel> kernel_;
  int64_t inner_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> widen_half_operands(const NodeContext& node, CreateFunction create) {
  for (const TensorType* type : node.in)
    if (type != nullptr && type->dtype != node.in[0]->dtype) return std::make_unique<HalfOperands>(node, create);
  return create(node);
}

}  // namespace minnow
