// LSTM, GRU and RNN.
#include <algorithm>
#include <cstring>

#include "kernels/core/gate_function.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

using Layer = RecurrentLayer;
enum Input : size_t { kX, kW, kR, kBias, kLens, kH0, kC0, kPeephole, kInputs };
constexpr int64_t kMostHidden = 1280;  // their states fit into shared memory

template <typename Tensors>
auto operand(const Tensors& in, size_t i) {
  return i < in.size() ? in[i] : nullptr;
}

class Recurrent final : public GpuKernel {
 public:
  explicit Recurrent(Layer layer) : layer_(layer) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    const Attrs& a = node.attrs;
    const Shape &x = node.in[kX]->shape, &r = node.in[kR]->shape;
    steps_ = x[0];
    batch_ = x[1];
    features_ = x[2];
    directions_ = r[0];
    hidden_ = r[2];
    reverse_ = a.s("direction", "forward") == "reverse";
    flag_ = a.b(layer_ == Layer::kLstm ? "input_forget" : "linear_before_reset");
    std::vector<GateFunction> functions;
    MINNOW_RETURN_IF_ERROR(read_gate_functions(a, layer_, static_cast<int>(directions_), &functions));
    std::vector<float> table(static_cast<size_t>(16 * directions_));
    const size_t count = static_cast<size_t>(functions_of(layer_));
    for (size_t i = 0; i < functions.size(); ++i) {
      float* to = table.data() + i / count * 16;
      to[i % count * 3] = static_cast<float>(functions[i].kind);
      to[i % count * 3 + 1] = static_cast<float>(functions[i].alpha);
      to[i % count * 3 + 2] = static_cast<float>(functions[i].beta);
      to[9] = static_cast<float>(a.f("clip"));
      to[10] = static_cast<float>(a.f("cell_clip"));
    }
    MINNOW_RETURN_IF_ERROR(functions_.make(*device_, table));
    // Neighboring items take neighboring units: constant weights are transposed once.
    const int64_t gates = gates_of(layer_) * hidden_;
    w_ = {gates * features_, features_, 1};
    r_ = {gates * hidden_, hidden_, 1};
    if (transpose(node, kW, features_, &packed_w_)) w_ = {gates * features_, 1, gates};
    if (transpose(node, kR, hidden_, &packed_r_)) r_ = {gates * hidden_, 1, gates};
    // Outputs that the node has not are written all the same.
    *workspace = 2 * directions_ * batch_ * hidden_ * 4 + steps_ * directions_ * batch_ * hidden_ * 4;
    return ok();
  }

  bool reads(int i) const override { return !((i == kW && !packed_w_.empty()) || (i == kR && !packed_r_.empty())); }

  Status enqueue(const RunContext& context, Stream& stream) override {
    if (batch_ == 0) return ok();
    const auto in = [&](size_t i) { return operand(context.in, i); };
    const auto has = [&](size_t i) { return in(i) != nullptr ? 1 : 0; };
    const Program* program = nullptr;
    const int type = static_cast<int>(context.in[kX]->type.dtype);
    MINNOW_RETURN_IF_ERROR(
        device_->program("recurrent",
                         {{"LAYER", static_cast<int>(layer_)},
                          {"TYPE", type},
                          {"TYPE_LENGTH", has(kLens) != 0 ? static_cast<int>(in(kLens)->type.dtype) : -1},
                          {"HAS_BIAS", has(kBias)},
                          {"HAS_H0", has(kH0)},
                          {"HAS_C0", has(kC0)},
                          {"HAS_PEEPHOLE", has(kPeephole)},
                          {"FLAG", flag_ ? 1 : 0},
                          {"REVERSE", reverse_ ? 1 : 0}},
                         &program));
    const void* x = context.in[kX]->data;
    const auto address = [&](size_t i) { return has(i) != 0 ? in(i)->data : x; };
    Arguments arguments;
    arguments.buffer(x).buffer(packed_w_.empty() ? address(kW) : packed_w_.as<void>());
    arguments.buffer(packed_r_.empty() ? address(kR) : packed_r_.as<void>());
    for (size_t i : {kBias, kLens, kH0, kC0, kPeephole}) arguments.buffer(address(i));
    arguments.buffer(functions_.data());
    char* space = static_cast<char*>(context.workspace);
    const int64_t states = directions_ * batch_ * hidden_ * 4;
    for (size_t i = 0; i < 3; ++i) {
      const bool there = i < context.out.size() && context.out[i] != nullptr;
      arguments.buffer(there ? context.out[i]->data
                             : space + (i == 0 ? 2 * states : (2 - static_cast<int64_t>(i)) * states));
    }
    for (int64_t n : {steps_, batch_, directions_, features_, hidden_, w_[0], w_[1], w_[2], r_[0], r_[1], r_[2]})
      arguments.add(static_cast<int32_t>(n));
    return stream.launch(*program, arguments, {batch_, directions_});
  }

 private:
  // Weights [directions, units, k] as [directions, k, units].
  bool transpose(const NodeContext& node, size_t input, int64_t k, Packed* to) {
    const Tensor* weights = operand(node.constant, input);
    if (weights == nullptr || k == 0) {
      to->clear();
      return false;
    }
    // As they lie in the device's memory.
    const DType stored = node.in[input]->dtype;
    if (stored != weights->type.dtype || stored != DType::kF32) {
      to->clear();
      return false;
    }
    const int64_t units = gates_of(layer_) * hidden_;
    to->make(node, {input}, "recurrent_transposed", weights->type.bytes(), [&](void* made) {
      const float* from = weights->as<float>();
      float* target = static_cast<float*>(made);
      for (int64_t d = 0; d < directions_; ++d, from += units * k, target += units * k)
        for (int64_t u = 0; u < units; ++u)
          for (int64_t i = 0; i < k; ++i) target[i * units + u] = from[u * k + i];
    });
    return true;
  }

  const Layer layer_;
  Device* device_ = nullptr;
  int64_t steps_ = 0, batch_ = 0, features_ = 0, directions_ = 1, hidden_ = 0;
  bool reverse_ = false, flag_ = false;
  std::array<int64_t, 3> w_{}, r_{};  // strides
  Packed packed_w_, packed_r_;
  Uploaded functions_;
};

template <Layer layer>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Recurrent>(layer);
}

bool supports(const NodeContext& node, std::string* why) {
  for (size_t i = 0; i < node.in.size(); ++i) {
    if (i == kLens || node.in[i] == nullptr) continue;
    NodeContext one{node.attrs, {node.in[i]}, {}, {}};
    if (!has_types(one, kFloats, why)) return false;
  }
  const int64_t hidden = node.in[kR]->shape[2];
  if (hidden > kMostHidden) *why = "computes at most " + std::to_string(kMostHidden) + " hidden units";
  if (node.in[kX]->shape[1] > 65535) {
    *why = "computes at most 65535 sequences";
    return false;
  }
  return hidden <= kMostHidden;
}

}  // namespace

MINNOW_GPU_KERNEL("LSTM", create<Layer::kLstm>, supports);
MINNOW_GPU_KERNEL("GRU", create<Layer::kGru>, supports);
MINNOW_GPU_KERNEL("RNN", create<Layer::kRnn>, supports);

}  // namespace minnow::gpu
