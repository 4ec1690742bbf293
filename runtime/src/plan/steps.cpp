// From nodes to steps: which layout each runs in, on which tensors, by which kernel.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "kernels/cpu/machine/cost.h"
#include "kernels/core/region.h"
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/run/control.h"
#include "runtime/src/plan/layout.h"
#include "runtime/src/plan/planner.h"
#include "kernels/core/status_guard.h"

namespace minnow {
namespace {

constexpr size_t kMostKernels = 64;          // of one node
constexpr int64_t kSharedBytes = 256 << 10;  // of weights; fewer are not worth waking a thread

// Copies between the layouts.
class ConvertKernel final : public Kernel {
 public:
  ConvertKernel(bool pack, int64_t elements) : pack_(pack), elements_(elements) {}
  void run(const RunContext& c) override { convert_layout(*c.in[0], c.out[0], c.pool); }
  Profile profile() const override { return {pack_ ? "pack" : "unpack"}; }
  double seconds() const override { return estimate_seconds(elements_, 16384); }

 private:
  bool pack_;
  int64_t elements_;
};

// What a kernel may have chosen its code by when it was made; sizes alone may change under it.
std::string signature_of(const Step& step) {
  std::string text;
  const auto add = [&](const TensorType* type) {
    text.push_back(type == nullptr ? '-' : static_cast<char>('a' + static_cast<int>(type->dtype)));
    if (type == nullptr) return;
    text.push_back(type->layout == Layout::kPacked ? 'P' : 'p');
    text.push_back(static_cast<char>('0' + type->shape.rank()));
  };
  for (size_t i = 0; i < step.in.size(); ++i) {
    const Slot* slot = step.in[i];
    add(slot != nullptr ? &slot->tensor.type : step.constants[i] != nullptr ? &step.constants[i]->type() : nullptr);
  }
  for (const Slot* slot : step.out) add(slot == nullptr ? nullptr : &slot->tensor.type);
  return text;
}

}  // namespace

bool is_view(const PlanNode& node, const std::vector<PlanValue>& values) {
  static const std::array<std::string_view, 7> kViews = {"Reshape",    "Flatten",  "Squeeze",      "Unsqueeze",
                                                         "ExpandDims", "Identity", "ConvertLayout"};
  if (node.op == nullptr || node.in.empty() || node.in[0] < 0 || node.out.size() != 1) return false;
  const TensorType& from = values[static_cast<size_t>(node.in[0])].type;
  const TensorType& to = values[static_cast<size_t>(node.out[0])].type;
  if (from.dtype != to.dtype || from.count() != to.count()) return false;
  const std::string_view name = node.op->name;
  return name == "Cast" || std::find(kViews.begin(), kViews.end(), name) != kViews.end();
}

void Planner::fuse_nodes() {
  std::vector<int> read_outside = x_.graph_.outputs;
  for (const PlanNode& node : stage_.pending) read_outside.insert(read_outside.end(), node.in.begin(), node.in.end());
  PlanGraph graph(std::move(nodes_), stage_.values, read_outside, x_.environment_.precision);
  fuse(common_fusions(), graph);
  fuse(cpu_fusions(), graph);
  nodes_ = graph.take();
}

Status Planner::plan(const std::vector<PlanNode>& work) {
  for (const PlanNode& node : work) MINNOW_RETURN_IF_ERROR(place(node));
  fuse_nodes();
  for (const PlanNode& node : nodes_) MINNOW_RETURN_IF_ERROR(emit(node).at(node.place()));
  // What later stages ask about must be there in the plain layout.
  for (const Question& question : stage_.questions) {
    std::vector<int> values = question.values;
    if (question.kind != Question::kContents) values = stage_.pending[static_cast<size_t>(question.pending)].in;
    for (int v : values) {
      Slot* slot = nullptr;
      if (v >= 0 && stage_.values[static_cast<size_t>(v)].constant == nullptr)
        MINNOW_RETURN_IF_ERROR(emit_copy(v, Layout::kPlain, &slot));
    }
  }
  if (!stage_.pending.empty() && stage_.questions.empty())
    return fail(Code::kInternal, "%s waits for something that nothing makes", stage_.pending[0].place().c_str());
  MINNOW_RETURN_IF_ERROR(deliver_outputs());
  MINNOW_RETURN_IF_ERROR(shape_kernels());
  group_steps();
  find_lifetimes();
  place_parts();
  share_memory();
  gather_chains();
  assign_memory();
  return ok();
}

Storage* Planner::new_storage(Storage::Kind kind, int64_t bytes) {
  Storage& storage = stage_.storages.emplace_back();
  storage.kind = kind;
  storage.stage = &stage_;
  storage.bytes = bytes;
  storage.first = storage.last = static_cast<int>(stage_.steps.size());
  return &storage;
}

Slot* Planner::new_slot(int value, const TensorType& type, Storage* storage) {
  if (storage == nullptr) storage = new_storage(Storage::kArena, type.bytes());
  Slot& slot = stage_.slots.emplace_back();
  slot.tensor.type = type;
  slot.storage = storage;
  stage_.placed[{value, type.layout}] = &slot;
  return &slot;
}

// The value in this layout, converted from the other one if need be.
Status Planner::emit_copy(int value, Layout layout, Slot** out) {
  *out = stage_.find(value, layout);
  if (*out != nullptr) return ok();
  TensorType type = stage_.values[static_cast<size_t>(value)].type;
  Slot* from = stage_.find(value, layout == Layout::kPlain ? Layout::kPacked : Layout::kPlain);
  if (from == nullptr) return fail(Code::kInternal, "value %d is nowhere", value);
  type.layout = layout;
  Step step;
  step.op = layout == Layout::kPacked ? "Pack" : "Unpack";
  step.name =
      value < static_cast<int>(x_.graph_.values.size()) ? x_.graph_.values[static_cast<size_t>(value)].name : "";
  step.entry = std::make_shared<KernelEntry>();
  step.entry->kernel = std::make_unique<ConvertKernel>(layout == Layout::kPacked, type.count());
  step.entry->attrs = std::make_shared<const Attrs>();
  step.in = {from};
  step.constants.resize(1);
  step.is_static = {false};
  *out = new_slot(value, type, nullptr);
  step.out = {*out};
  finish_step(std::move(step));
  return ok();
}

// Gives the step its next input.
Status Planner::operand(int value, Layout layout, Step* step) {
  Slot* slot = nullptr;
  std::shared_ptr<Constant> constant;
  bool is_static = false;
  if (value >= 0) {
    const PlanValue& known = stage_.values[static_cast<size_t>(value)];
    constant = known.constant;
    is_static = known.is_static;
    if (constant == nullptr) {
      MINNOW_RETURN_IF_ERROR(emit_copy(value, layout, &slot));
    } else if (layout == Layout::kPacked) {
      std::shared_ptr<Constant> packed = is_static ? x_.packed_[constant.get()] : nullptr;
      if (packed == nullptr) {
        std::shared_ptr<const Tensor> plain;
        MINNOW_RETURN_IF_ERROR(constant->acquire(&plain));
        TensorType type = plain->type;
        type.layout = Layout::kPacked;
        Buffer buffer;
        MINNOW_RETURN_IF_ERROR(Buffer::make(type.bytes(), &buffer));
        Tensor target{type, buffer.data()};
        convert_layout(*plain, &target, x_.environment_.pool);
        packed = Constant::owned(type, std::move(buffer));
        if (is_static) x_.packed_[constant.get()] = packed;
      }
      constant = packed;
    }
  }
  step->in.push_back(slot);
  step->constants.push_back(std::move(constant));
  step->is_static.push_back(is_static);
  return ok();
}

Status Planner::emit_view(const PlanNode& node) {
  const int from = node.in[0], to = node.out[0];
  TensorType type = stage_.values[static_cast<size_t>(to)].type;
  const bool same_shape = stage_.values[static_cast<size_t>(from)].type.shape == type.shape;
  const bool keeps_packed = same_shape && stage_.find(from, Layout::kPlain) == nullptr;
  type.layout = keeps_packed ? Layout::kPacked : Layout::kPlain;
  Slot* source = nullptr;
  MINNOW_RETURN_IF_ERROR(emit_copy(from, type.layout, &source));
  new_slot(to, type, source->storage);
  return ok();
}

// A vector of channels without the axis of the batch, [C, 1, 1...], as [1, C, 1, 1...]: so an elementwise node can run
// on packed tensors. Other operands stay what they are.
Status Planner::widen_channels(PlanNode* node) {
  if (node->op == nullptr || node->op->layout != LayoutRule::kElementwise || node->out.empty()) return ok();
  const Shape out = stage_.values[static_cast<size_t>(node->out[0])].type.shape;
  const auto is_packed = [&](int v) { return v >= 0 && stage_.find(v, Layout::kPacked) != nullptr; };
  if (std::none_of(node->in.begin(), node->in.end(), is_packed)) return ok();
  for (int& v : node->in) {
    const PlanValue known = v < 0 ? PlanValue() : stage_.values[static_cast<size_t>(v)];
    const Shape& shape = known.type.shape;
    if (v < 0 || shape.rank() != out.rank() - 1 || shape[0] != out[1] || shape.count() != shape[0]) continue;
    PlanValue wide = known;
    wide.type.shape = Shape{1};
    for (int64_t d : shape) wide.type.shape.push_back(d);
    if (known.constant != nullptr) {
      std::shared_ptr<const Tensor> contents;
      Buffer copy;
      MINNOW_RETURN_IF_ERROR(known.constant->acquire(&contents));
      MINNOW_RETURN_IF_ERROR(Buffer::make(wide.type.bytes(), &copy));
      std::memcpy(copy.data(), contents->data, static_cast<size_t>(wide.type.bytes()));
      wide.constant = Constant::owned(wide.type, std::move(copy));
      wide.is_static = false;  // made anew with each plan
    }
    stage_.values.push_back(wide);
    const int same = static_cast<int>(stage_.values.size()) - 1;
    if (known.constant == nullptr) {
      Slot* slot = nullptr;
      MINNOW_RETURN_IF_ERROR(emit_copy(v, Layout::kPlain, &slot));
      new_slot(same, wide.type, slot->storage);
    }
    v = same;
  }
  return ok();
}

Status Planner::emit(PlanNode node) {
  MINNOW_RETURN_IF_ERROR(widen_channels(&node));
  const auto value = [&](int v) -> const PlanValue& { return stage_.values[static_cast<size_t>(v)]; };
  if (is_view(node, stage_.values) && value(node.in[0]).constant == nullptr) return emit_view(node);

  std::vector<const TensorType*> types;
  std::vector<bool> there;
  for (int v : node.in) {
    types.push_back(v < 0 ? nullptr : &value(v).type);
    there.push_back(v >= 0 && value(v).constant == nullptr && stage_.find(v, Layout::kPacked) != nullptr);
  }
  const bool packed = node.op != nullptr && !node.out.empty() &&
                      can_be_packed(*node.op, *node.attrs, types, there, value(node.out[0]).type.shape);
  const LayoutRule rule = node.op == nullptr ? LayoutRule::kPlain : layout_rule(*node.op, types);
  Step step;
  step.name = node.source->name;
  step.op = node.op != nullptr ? node.op->name : node.source->op;
  for (size_t i = 0; i < node.in.size(); ++i) {
    const Layout layout = node.in[i] < 0 ? Layout::kPlain : operand_layout(rule, i, *types[i], packed);
    MINNOW_RETURN_IF_ERROR(operand(node.in[i], layout, &step));
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    if (node.out[i] < 0) {
      step.out.push_back(nullptr);
      continue;
    }
    TensorType type = value(node.out[i]).type;
    type.layout = packed && (i == 0 || rule == LayoutRule::kElementwise) ? Layout::kPacked : Layout::kPlain;
    step.out.push_back(new_slot(node.out[i], type, nullptr));
  }
  MINNOW_RETURN_IF_ERROR(find_kernel(node, &step));
  finish_step(std::move(step));
  return ok();
}

// The kernel this node had in an earlier plan, or a new one.
Status Planner::find_kernel(const PlanNode& node, Step* step) {
  auto& known = x_.kernels_[{node.source, node.part}];
  std::string signature = signature_of(*step);
  for (const std::shared_ptr<KernelEntry>& entry : known) {
    if (entry->op == node.op && entry->signature == signature && *entry->attrs == *node.attrs) {
      step->entry = entry;
      return ok();
    }
  }
  step->entry = std::make_shared<KernelEntry>();
  step->entry->op = node.op;
  step->entry->attrs = node.attrs;
  step->entry->signature = std::move(signature);
  if (node.op == nullptr) {
    Control* control = nullptr;
    MINNOW_RETURN_IF_ERROR(x_.control(*node.source, &control));
    step->entry->kernel = std::make_unique<ControlKernel>(*control);
  }
  if (known.size() >= kMostKernels) known.erase(known.begin());  // its attributes depend on what the run computes
  known.push_back(step->entry);
  return ok();
}

void Planner::finish_step(Step step) {
  step.contents.resize(step.in.size());
  step.types.resize(step.in.size());
  step.context.in.resize(step.in.size());
  step.context.pool = x_.environment_.pool;
  for (size_t i = 0; i < step.in.size(); ++i) {
    if (step.in[i] != nullptr) step.context.in[i] = &step.in[i]->tensor;
    if (step.constants[i] != nullptr) {
      step.types[i] = std::make_unique<Tensor>(Tensor{step.constants[i]->type(), nullptr});
      step.context.in[i] = step.types[i].get();
    }
  }
  for (Slot* slot : step.out) step.context.out.push_back(slot == nullptr ? nullptr : &slot->tensor);
  stage_.steps.push_back(std::move(step));
}

// Mostly that is packing weights. Kernels whose weights are a large part of all pack them with all threads, one after
// the other; then each thread takes the next of the others.
Status Planner::shape_kernels() {
  const size_t n = stage_.steps.size();
  ThreadPool& pool = *x_.environment_.pool;
  std::vector<int64_t> bytes(n);
  int64_t all = 0;
  for (size_t i = 0; i < n; ++i) {
    const Step& step = stage_.steps[i];
    for (const auto& constant : step.constants)
      if (constant != nullptr) bytes[i] += constant->type().bytes();
    all += bytes[i];
  }
  const int64_t large = pool.threads() > 1 && all >= kSharedBytes ? all / (2 * pool.threads()) : 0;
  std::vector<Status> results(n);
  const auto shape = [&](size_t i) {
    results[i] = x_.environment_.watch->go_on();
    if (!results[i].ok()) return;
    results[i] = guarded([&] { return x_.reshape(stage_.steps[i]).at(stage_.steps[i].place()); });
  };
  std::vector<size_t> others;
  for (size_t i = 0; i < n; ++i) bytes[i] >= large ? shape(i) : others.push_back(i);
  std::atomic<size_t> next{0};
  const auto take = [&](int64_t, int64_t, int) {
    for (size_t k = next++; k < others.size(); k = next++) shape(others[k]);
  };
  if (!others.empty()) pool.parallel_for(pool.threads(), 1, take);
  for (size_t i = 0; i < n; ++i) {
    Step& step = stage_.steps[i];
    MINNOW_RETURN_IF_ERROR(results[i]);
    if (step.entry->workspace > 0) step.workspace = new_storage(Storage::kArena, step.entry->workspace);
  }
  return ok();
}

}  // namespace minnow
