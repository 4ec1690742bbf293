// From nodes to steps: which layout each runs in, on which tensors, by which kernel.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/run/control.h"
#include "runtime/src/plan/layout.h"
#include "runtime/src/plan/planner.h"
#include "kernels/core/status_guard.h"

namespace minnow {
namespace {

constexpr size_t kMostKernels = 64;          // of one node
constexpr int64_t kSharedBytes = 256 << 10;  // of weights; fewer are not worth waking a thread

// A copy between a device and the host, of which the queue needs no kernel.
class Transfer final : public Kernel {
 public:
  explicit Transfer(const char* direction) : direction_(direction) {}
  void run(const RunContext&) override {}
  Profile profile() const override { return {direction_}; }

 private:
  const char* direction_;
};

// What a kernel may have chosen its code by when it was made; sizes alone may change under it.
std::string signature_of(const Step& step) {
  std::string text;
  const auto add = [&](const TensorType* type) {
    text.push_back(type == nullptr ? '-' : static_cast<char>('a' + static_cast<int>(type->dtype)));
    if (type == nullptr) return;
    text.push_back("pPL"[static_cast<int>(type->layout)]);
    text.push_back(static_cast<char>('0' + type->shape.rank()));
  };
  for (size_t i = 0; i < step.in.size(); ++i) {
    const Slot* slot = step.in[i];
    TensorType constant;
    if (step.constants[i] != nullptr) {
      constant = step.constants[i]->type();
      constant.layout = step.layouts[i];
    }
    add(slot != nullptr ? &slot->tensor.type : step.constants[i] != nullptr ? &constant : nullptr);
  }
  for (const Slot* slot : step.out) add(slot == nullptr ? nullptr : &slot->tensor.type);
  return text;
}

// Whether a tensor is the same memory in both layouts: one pixel of whole channels.
bool lies_alike(const Backend& backend, const TensorType& a, const TensorType& b) {
  return backend.channel_block() == kChannelsLast && a.shape.rank() >= 2 && a.shape.count(2, a.shape.rank()) == 1 &&
         backend.bytes(a) == backend.bytes(b);
}

}  // namespace

bool is_view(const PlanNode& node, const std::vector<PlanValue>& values) {
  if (node.op == nullptr || !node.op->has(kView) || node.in.empty() || node.in[0] < 0 || node.out.size() != 1)
    return false;
  const TensorType& from = values[static_cast<size_t>(node.in[0])].type;
  const TensorType& to = values[static_cast<size_t>(node.out[0])].type;
  return from.dtype == to.dtype && from.count() == to.count();
}

// Fewer nodes: first what holds on every device; then each device fuses what it runs.
Status Planner::fuse_nodes() {
  std::vector<int> read_outside = x_.graph_.outputs;
  for (const PlanNode& node : stage_.pending) read_outside.insert(read_outside.end(), node.in.begin(), node.in.end());
  PlanGraph graph(std::move(nodes_), stage_.values, read_outside, x_.environment_.precision, x_.environment_.watch);
  fuse_for_all(graph);
  MINNOW_RETURN_IF_ERROR(assign_devices(graph));
  for (size_t device = 0; device < x_.devices().size(); ++device) {
    graph.look_at(static_cast<int>(device));
    fuse_for_device(*x_.devices()[device].backend, graph);
  }
  nodes_ = graph.take();
  return ok();
}

Status Planner::plan(const std::vector<PlanNode>& work) {
  Watch& watch = *x_.environment_.watch;
  for (const PlanNode& node : work) MINNOW_RETURN_IF_ERROR(place(node));
  MINNOW_RETURN_IF_ERROR(fuse_nodes());
  for (const PlanNode& node : nodes_) {
    MINNOW_RETURN_IF_ERROR(watch.go_on());
    MINNOW_RETURN_IF_ERROR(emit(node).at(node.place()));
  }
  // What later stages ask about must be there for the host, in the plain layout.
  for (const Question& question : stage_.questions) {
    std::vector<int> values = question.values;
    if (question.kind != Question::kContents) values = stage_.pending[static_cast<size_t>(question.pending)].in;
    for (int v : values) {
      Slot* slot = nullptr;
      if (v >= 0 && stage_.values[static_cast<size_t>(v)].constant == nullptr)
        MINNOW_RETURN_IF_ERROR(emit_copy(v, Form(), &slot));
    }
  }
  if (!stage_.pending.empty() && stage_.questions.empty())
    return fail(Code::kInternal, "%s waits for something that nothing makes", stage_.pending[0].place().c_str());
  MINNOW_RETURN_IF_ERROR(deliver_outputs());
  MINNOW_RETURN_IF_ERROR(shape_kernels());
  // Each of these looks at all steps.
  for (void (Planner::*pass)() :
       {&Planner::begin_devices_early, &Planner::group_steps, &Planner::order_queues, &Planner::find_lifetimes,
        &Planner::place_parts, &Planner::share_memory, &Planner::gather_chains, &Planner::assign_memory}) {
    const InterruptScope scope(&watch);
    (this->*pass)();
    MINNOW_RETURN_IF_ERROR(watch.go_on());  // else what was placed may be half of it
  }
  find_recordables();
  return ok();
}

Storage* Planner::new_storage(Storage::Kind kind, int64_t bytes, int device) {
  Storage& storage = stage_.storages.emplace_back();
  storage.kind = kind;
  storage.stage = &stage_;
  storage.device = device;
  storage.bytes = bytes;
  storage.first = storage.last = static_cast<int>(stage_.steps.size());
  return &storage;
}

Slot* Planner::new_slot(int value, TensorType type, int device, Storage* storage) {
  type.dtype = x_.stored(type.dtype, device);
  if (storage == nullptr) storage = new_storage(Storage::kArena, x_.backend(device).bytes(type), device);
  Slot& slot = stage_.slots.emplace_back();
  slot.tensor.type = type;
  slot.storage = storage;
  stage_.placed[{value, {type.layout, static_cast<uint8_t>(device)}}] = &slot;
  return &slot;
}

// The value in this form, converted or copied from another one if need be. Between devices it goes by way of the host,
// and always in the plain layout: blocks of channels are each device's own.
Status Planner::emit_copy(int value, Form form, Slot** out, bool is_passed_on) {
  *out = stage_.find(value, form);
  if (*out != nullptr) {
    (*out)->is_passed_on = (*out)->is_passed_on && is_passed_on;
    return ok();
  }
  // Layouts are made of the plain one, and that of any.
  const Form plain{Layout::kPlain, form.device};
  Slot* from =
      form.layout == Layout::kPlain ? stage_.find(value, {Layout::kPacked, form.device}) : stage_.find(value, plain);
  if (from == nullptr && form.layout == Layout::kPlain) from = stage_.find(value, {Layout::kLast, form.device});
  const bool converts = from != nullptr || form.layout != Layout::kPlain;
  if (from == nullptr && form.layout != Layout::kPlain) {
    MINNOW_RETURN_IF_ERROR(emit_copy(value, plain, &from, true));
  } else if (from == nullptr && is_other(form.device)) {
    MINNOW_RETURN_IF_ERROR(emit_copy(value, Form(), &from, true));
  } else if (from == nullptr) {
    Form there;
    for (there.device = 1; there.device < x_.devices().size(); ++there.device) {
      const Form packed{Layout::kPacked, there.device}, last{Layout::kLast, there.device};
      if (stage_.find(value, there) == nullptr && stage_.find(value, packed) == nullptr &&
          stage_.find(value, last) == nullptr)
        continue;
      MINNOW_RETURN_IF_ERROR(emit_copy(value, there, &from, true));
      break;
    }
  }
  if (from == nullptr) return fail(Code::kInternal, "value %d is nowhere", value);
  TensorType type = stage_.values[static_cast<size_t>(value)].type;
  type.dtype = x_.stored(type.dtype, form.device);
  type.layout = form.layout;
  if (converts && from->storage->kind == Storage::kArena &&
      lies_alike(x_.backend(form.device), from->tensor.type, type)) {
    *out = new_slot(value, type, form.device, from->storage);
    (*out)->is_passed_on = is_passed_on;
    return ok();
  }
  Step step;
  step.entry = std::make_shared<KernelEntry>();
  if (converts) {
    step.op = form.layout != Layout::kPlain ? "Pack" : "Unpack";
    step.device = form.device;
    step.entry->kernel = x_.backend(form.device).create_conversion(from->tensor.type, type);
  } else if constexpr (kHasOtherDevices) {
    step.is_transfer = true;
    step.op = form.device != 0 ? "Upload" : "Download";
    step.device = form.device != 0 ? form.device : from->storage->root()->device;
    step.entry->kernel = std::make_unique<Transfer>(form.device != 0 ? "upload" : "download");
  }
  step.name =
      value < static_cast<int>(x_.graph_.values.size()) ? x_.graph_.values[static_cast<size_t>(value)].name : "";
  step.entry->device = step.device;
  step.entry->attrs = std::make_shared<const Attrs>();
  step.in = {from};
  step.constants.resize(1);
  step.is_static = {false};
  *out = new_slot(value, type, form.device, nullptr);
  (*out)->is_passed_on = is_passed_on;
  step.out = {*out};
  finish_step(std::move(step));
  return ok();
}

// Gives the step its next input. A constant stays what it is; reshape() brings to the device what its kernel reads.
Status Planner::operand(int value, Layout layout, Step* step) {
  Slot* slot = nullptr;
  std::shared_ptr<Constant> constant;
  bool is_static = false;
  if (value >= 0) {
    const PlanValue& known = stage_.values[static_cast<size_t>(value)];
    constant = known.constant;
    is_static = known.is_static;
    if (constant == nullptr) {
      MINNOW_RETURN_IF_ERROR(emit_copy(value, {layout, static_cast<uint8_t>(step->device)}, &slot));
    } else if (layout != Layout::kPlain && step->device == 0) {
      std::shared_ptr<Constant> packed = is_static ? x_.packed_[{constant.get(), layout}] : nullptr;
      if (packed == nullptr) {
        std::shared_ptr<const Tensor> plain;
        MINNOW_RETURN_IF_ERROR(contents(value, &plain));
        TensorType type = plain->type;
        type.layout = layout;
        Buffer buffer;
        MINNOW_RETURN_IF_ERROR(Buffer::make(x_.host().bytes(type), &buffer, &x_.environment_.watch->memory));
        Tensor target{type, buffer.data()};
        convert_layout(x_.host(), *plain, &target, x_.environment_.pool);
        packed = Constant::owned(type, std::move(buffer));
        if (is_static) x_.packed_[{constant.get(), layout}] = packed;
      }
      constant = packed;
    }
  }
  step->in.push_back(slot);
  step->constants.push_back(std::move(constant));
  step->is_static.push_back(is_static);
  step->layouts.push_back(layout);
  return ok();
}

// Whether some step makes or reads the value in this layout, on whichever device. By this, and not by what is there for
// one device, layouts are chosen: so a node is computed in the same one wherever it runs, with the same result.
bool Planner::is_read_in(int value, Layout layout) const {
  Form form{layout, 0};
  for (; form.device < x_.devices().size(); ++form.device) {
    const Slot* slot = stage_.find(value, form);
    if (slot != nullptr && !slot->is_passed_on) return true;
  }
  return false;
}

Status Planner::emit_view(const PlanNode& node) {
  const int from = node.in[0], to = node.out[0];
  TensorType type = stage_.values[static_cast<size_t>(to)].type;
  const bool same_shape = stage_.values[static_cast<size_t>(from)].type.shape == type.shape;
  const Layout other = is_read_in(from, Layout::kLast) ? Layout::kLast : Layout::kPacked;
  type.layout = same_shape && !is_read_in(from, Layout::kPlain) ? other : Layout::kPlain;
  Slot* source = nullptr;
  MINNOW_RETURN_IF_ERROR(emit_copy(from, {type.layout, static_cast<uint8_t>(node.device)}, &source));
  type.pixel = source->tensor.type.pixel;
  new_slot(to, type, node.device, source->storage);
  return ok();
}

// A vector of channels without the axis of the batch, [C, 1, 1...], as [1, C, 1, 1...]: so an elementwise node can run
// on packed tensors. Other operands stay what they are.
Status Planner::widen_channels(PlanNode* node) {
  std::string why;
  std::vector<Tensor> constants;
  const KernelRow* row =
      node->op == nullptr ? nullptr : x_.backend(node->device).row_for(*node->op, types_of(*node, &constants), &why);
  if (row == nullptr || row->layout != LayoutRule::kElementwise || node->out.empty()) return ok();
  const auto device = static_cast<uint8_t>(node->device);
  const Shape out = stage_.values[static_cast<size_t>(node->out[0])].type.shape;
  const auto is_packed = [&](int v) { return v >= 0 && is_read_in(v, Layout::kPacked); };
  if (std::none_of(node->in.begin(), node->in.end(), is_packed)) return ok();
  for (int& v : node->in) {
    const PlanValue known = v < 0 ? PlanValue() : stage_.values[static_cast<size_t>(v)];
    const Shape& shape = known.type.shape;
    if (v < 0 || shape.rank() != out.rank() - 1 || shape[0] != out[1] || shape.count() != shape[0]) continue;
    PlanValue wide = known;
    wide.type.shape = Shape{1};
    for (int64_t d : shape) wide.type.shape.push_back(d);
    if (known.constant != nullptr) {
      std::shared_ptr<const Tensor> numbers;
      Buffer copy;
      MINNOW_RETURN_IF_ERROR(contents(v, &numbers));
      MINNOW_RETURN_IF_ERROR(Buffer::make(wide.type.bytes(), &copy, &x_.environment_.watch->memory));
      std::memcpy(copy.data(), numbers->data, static_cast<size_t>(wide.type.bytes()));
      wide.constant = Constant::owned(wide.type, std::move(copy));
      wide.is_static = false;  // made anew with each plan
    }
    stage_.values.push_back(wide);
    const int same = static_cast<int>(stage_.values.size()) - 1;
    if (known.constant == nullptr) {
      Slot* slot = nullptr;
      MINNOW_RETURN_IF_ERROR(emit_copy(v, {Layout::kPlain, device}, &slot));
      new_slot(same, wide.type, device, slot->storage);
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
  for (int v : node.in) types.push_back(v < 0 ? nullptr : &value(v).type);
  const Backend& backend = x_.backend(node.device);
  std::string why;
  std::vector<Tensor> constants;
  const KernelRow* row = node.op == nullptr ? nullptr : backend.row_for(*node.op, types_of(node, &constants), &why);
  if (node.op != nullptr && row == nullptr && node.device == 0)
    return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for it");
  if (node.op != nullptr && row == nullptr) return Status(Code::kUnsupported, backend.name() + " " + why);
  const LayoutRule rule = row == nullptr ? LayoutRule::kPlain : row->layout_of(types, *node.attrs);
  std::vector<bool> there;
  for (int v : node.in) there.push_back(v >= 0 && value(v).constant == nullptr && is_read_in(v, layout_by(rule)));
  const bool packed = row != nullptr && !node.out.empty() &&
                      (rule != LayoutRule::kFollowLast || node.out.size() == 1) &&
                      can_be_packed(*row, *node.attrs, types, there, value(node.out[0]).type, backend.channel_block());
  Step step;
  step.device = node.device;
  step.why = node.why;
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
    type.layout = packed && (i == 0 || rule == LayoutRule::kElementwise) ? layout_of_result(rule) : Layout::kPlain;
    if (type.layout == Layout::kLast) type.pixel = node.attrs->i(kHalfPixel, 0);
    step.out.push_back(new_slot(node.out[i], type, node.device, nullptr));
  }
  MINNOW_RETURN_IF_ERROR(find_kernel(node, row, &step));
  finish_step(std::move(step));
  return ok();
}

// The kernel this node had in an earlier plan, or a new one.
Status Planner::find_kernel(const PlanNode& node, const KernelRow* row, Step* step) {
  auto& known = x_.kernels_[{node.source, node.part}];
  std::string signature = signature_of(*step);
  for (const std::shared_ptr<KernelEntry>& entry : known) {
    // Other shapes may be for another of the device's kernels of the op.
    if (entry->op == node.op && entry->row == row && entry->device == node.device && entry->signature == signature &&
        *entry->attrs == *node.attrs) {
      step->entry = entry;
      return ok();
    }
  }
  step->entry = std::make_shared<KernelEntry>();
  step->entry->op = node.op;
  step->entry->row = row;
  step->entry->device = node.device;
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

// Whether its loops ask for the limits of the run: where that costs nothing beside the work. No op does more than some
// operations for each pair of an element that it reads and one that it makes.
static bool may_be_long(const Step& step) {
  constexpr double kElements = 1 << 17, kPairs = 1 << 30;
  if (step.device != 0 || step.is_transfer || step.entry->op == nullptr) return false;
  // But for these attributes, which multiply it.
  for (const char* name : {"sampling_ratio", "most_skipped"})
    if (step.entry->attrs->i(name, 0) > 1) return true;
  double in = 1, out = 1;
  for (const Tensor* tensor : step.context.in)
    if (tensor != nullptr) in += static_cast<double>(tensor->count());
  for (const Tensor* tensor : step.context.out)
    if (tensor != nullptr) out += static_cast<double>(tensor->count());
  return in + out > kElements || in * out > kPairs;
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
      step.types[i]->type.layout = step.layouts[i];
      step.types[i]->type.dtype = x_.stored(step.types[i]->type.dtype, step.device);
      step.context.in[i] = step.types[i].get();
    }
  }
  for (Slot* slot : step.out) step.context.out.push_back(slot == nullptr ? nullptr : &slot->tensor);
  step.is_long = may_be_long(step);
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
  // What other devices read is copied to them, on queues that serve one thread at a time.
  for (size_t i = 0; i < n; ++i) bytes[i] >= large || stage_.steps[i].device != 0 ? shape(i) : others.push_back(i);
  std::atomic<size_t> next{0};
  const auto take = [&](int64_t, int64_t, int) {
    for (size_t k = next++; k < others.size(); k = next++) shape(others[k]);
  };
  if (!others.empty()) pool.parallel_for(pool.threads(), 1, take);
  MINNOW_RETURN_IF_ERROR(x_.environment_.watch->go_on());
  for (size_t i = 0; i < n; ++i) {
    Step& step = stage_.steps[i];
    MINNOW_RETURN_IF_ERROR(results[i]);
    if (step.entry->workspace > 0) step.workspace = new_storage(Storage::kArena, step.entry->workspace, step.device);
  }
  return ok();
}

}  // namespace minnow
