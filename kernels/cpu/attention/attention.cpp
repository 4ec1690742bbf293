// Attention as models have it: where its operands lie is what FusedAttention (fused.cpp) is told. With a past, keys
// and values are first brought together in the outputs that hold them.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "kernels/core/attention.h"
#include "kernels/core/rounding.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

Status infer_attention_op(InferContext& c) {
  std::vector<const TensorType*> in;
  for (int i = 0; i < c.num_inputs(); ++i) in.push_back(c.has(i) ? &c.in(i) : nullptr);
  AttentionSizes s;
  MINNOW_RETURN_IF_ERROR(read_attention_sizes(c.attrs, in, DType::kF32, &s));
  const bool joined = in[0]->shape.rank() == 3 || c.attrs.b("merge_heads");
  const Shape y = joined ? Shape{s.batch, s.rows, s.heads * s.width} : Shape{s.batch, s.heads, s.rows, s.width};
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set(i, DType::kF32, i == 0 ? y : i == 1 ? s.present(s.k) : s.present(s.v));
  return ok();
}

class AttentionOp final : public Kernel {
 public:
  explicit AttentionOp(const NodeContext& node) : core_(cpu_kernels().find(*find_op("FusedAttention"))->create(node)) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(plan_.make(node, DType::kF32));
    const AttentionSizes& s = plan_.sizes;
    std::vector<const TensorType*> in = {node.in[0], node.in[s.packed ? 0 : 1], node.in[s.packed ? 0 : 2]};
    for (size_t i : plan_.masks) in.push_back(node.in[i]);
    inner_ = RunContext();
    inner_.in.resize(in.size());
    inner_.out.resize(1);
    *workspace = 0;
    empty_ = node.out[0]->count() == 0 || s.keys == 0;
    if (!empty_) {
      const NodeContext inside = {plan_.attrs,   in,           std::vector<const Tensor*>(in.size()),
                                  {node.out[0]}, node.threads, node.precision};
      MINNOW_RETURN_IF_ERROR(core_->reshape(inside, workspace));
    }
    inner_bytes_ = round_up(*workspace, 64);
    *workspace = inner_bytes_;
    for (int i : {0, 1})
      if (plan_.missing[i]) *workspace += round_up(plan_.present_types[i].bytes(), 64);
    return ok();
  }

  void run(const RunContext& context) override {
    char* space = static_cast<char*>(context.workspace) + inner_bytes_;
    for (size_t i = 0; i < 3; ++i) inner_.in[i] = context.in[plan_.sizes.packed ? 0 : i];
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (!plan_.keeps) break;
      kept_[i] = {plan_.present_types[i], plan_.missing[i] ? space : context.out[1 + i]->data};
      if (plan_.missing[i]) space += round_up(plan_.present_types[i].bytes(), 64);
      inner_.in[1 + i] = &kept_[i];
    }
    if (plan_.keeps) keep(context);
    if (empty_) {
      std::fill_n(context.out[0]->as<float>(), context.out[0]->count(), 0.0f);
      return;
    }
    for (size_t m = 0; m < plan_.masks.size(); ++m) inner_.in[3 + m] = context.in[plan_.masks[m]];
    inner_.out[0] = context.out[0];
    inner_.workspace = context.workspace;
    inner_.pool = context.pool;
    inner_.error = context.error;
    core_->run(inner_);
  }

  [[gnu::cold]] Profile profile() const override { return empty_ ? Profile() : core_->profile(); }

 private:
  // Past and new keys and values, one behind the other.
  void keep(const RunContext& context) const {
    const AttentionSizes& s = plan_.sizes;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const std::array<int64_t, 3>& kept = i == 0 ? s.k : s.v;
      const int64_t length = kept[1], size = kept[2];
      const std::vector<int64_t>& place = plan_.fresh[i];
      const size_t row_bytes = static_cast<size_t>(size) * sizeof(float);
      const auto* past = s.past == 0 ? nullptr : static_cast<const float*>(context.in[3 + i]->data);
      const auto* fresh = static_cast<const float*>(context.in[s.packed ? 0 : 1 + i]->data) + place[0];
      auto* to = static_cast<float*>(kept_[i].data);
      context.pool->parallel_for(kept[0] * s.kv, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t head = begin; head < end; ++head) {
          float* row = to + head * length * size;
          if (past != nullptr) std::memcpy(row, past + head * s.past * size, static_cast<size_t>(s.past) * row_bytes);
          row += s.past * size;
          const float* from = fresh + head / s.kv * place[3] + head % s.kv * place[4];
          for (int64_t r = s.past; r < length; ++r, row += size, from += place[1]) std::memcpy(row, from, row_bytes);
        }
      });
    }
  }

  std::unique_ptr<Kernel> core_;
  AttentionPlan plan_;
  Tensor kept_[2];
  bool empty_ = false;
  int64_t inner_bytes_ = 0;
  RunContext inner_;
};

std::unique_ptr<Kernel> create_attention_op(const NodeContext& node) { return std::make_unique<AttentionOp>(node); }

MINNOW_OP("Attention", infer_attention_op);
MINNOW_KERNEL("Attention", create_attention_op);

}  // namespace
}  // namespace minnow
