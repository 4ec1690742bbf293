#include "runtime/src/run/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/core/region.h"
#include "kernels/core/status_guard.h"
#include "runtime/src/run/control.h"
#include "runtime/src/run/evaluate.h"
#include "runtime/src/run/observe.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

constexpr size_t kMaxPlans = 8;
constexpr int64_t kMaxRecorded = 8;  // of one part, and the first run
constexpr size_t kMaxNext = 16, kMaxStages = 512;
constexpr int64_t kExecutorCost = 16;  // in nodes, as which it counts beside its own

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void append(const void* data, size_t bytes, std::string* key) { key->append(static_cast<const char*>(data), bytes); }

void append(const TensorType& type, std::string* key) {
  const int64_t head[2] = {static_cast<int64_t>(type.dtype), type.shape.rank()};
  append(head, sizeof head, key);
  append(type.shape.begin(), sizeof(int64_t) * static_cast<size_t>(type.shape.rank()), key);
}

}  // namespace

bool same_type(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.layout == b.layout && a.shape == b.shape;
}

bool same_types(const std::vector<TensorType>& a, const std::vector<TensorType>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_type(a[i], b[i])) return false;
  return true;
}

Executor::Executor(const Model& model, const Graph& graph, const Environment& environment)
    : model_(model), graph_(graph), environment_(environment) {
  for (const Node& node : graph.nodes) {
    PlanNode& planned = nodes_.emplace_back();
    planned.op = find_op(node.op);
    planned.lowering = planned.op == nullptr ? find_lowering(node.op) : nullptr;
    planned.attrs = std::shared_ptr<const Attrs>(std::shared_ptr<void>(), &node.attrs);  // the model outlives us
    planned.source = &node;
    planned.in = node.in;
    planned.out = node.out;
  }
  environment_.watch->copies += kExecutorCost + static_cast<int64_t>(graph.nodes.size());
}

Executor::~Executor() { environment_.watch->copies -= kExecutorCost + static_cast<int64_t>(graph_.nodes.size()); }

Status Executor::may_make(const Model& model, const Graph& graph, const Environment& environment) {
  const int64_t most = most_copies(model.declared);
  if (environment.watch->copies + kExecutorCost + static_cast<int64_t>(graph.nodes.size()) <= most) return ok();
  return fail(Code::kUnsupported, "the subgraphs that its control flow calls come to more than %lld nodes",
              static_cast<long long>(most));
}

Status Executor::control(const Node& node, Control** out) {
  auto found = controls_.find(&node);
  if (found == controls_.end()) {
    std::unique_ptr<Control> made;
    MINNOW_RETURN_IF_ERROR(make_control(*this, node, &made));
    found = controls_.emplace(&node, std::move(made)).first;
  }
  *out = found->second.get();
  return ok();
}

Status Executor::prepare(const std::vector<TensorType>& inputs) {
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!same_types(it->first, inputs) || it->second->placing != placing()) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return activate(*plans_.front().second);
  }
  active_.clear();
  auto root = std::make_unique<Stage>();
  root->placing = placing();
  root->values.resize(graph_.values.size());
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    PlanValue& value = root->values[i];
    value.constant = graph_.values[i].constant;
    value.known = value.is_static = value.constant != nullptr;
    if (value.known) value.type = value.constant->type();
  }
  Planner planner(*this, *root);
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    MINNOW_RETURN_IF_ERROR(planner.add_input(static_cast<int>(i), inputs[i]));
  MINNOW_RETURN_IF_ERROR(planner.plan(nodes_));
  for (const auto& file : model_.files) file->release_rest();
  MINNOW_RETURN_IF_ERROR(grow_arena(*root));
  bind_arena(*root);
  plans_.emplace_front(inputs, std::move(root));
  if (plans_.size() > kMaxPlans) plans_.pop_back();
  active_ = {plans_.front().second.get()};
  return ok();
}

bool Executor::output_types(std::vector<TensorType>* types) const {
  const Stage& root = *plans_.front().second;
  types->clear();
  if (!root.pending.empty()) return false;
  for (int v : graph_.outputs) types->push_back(root.values[static_cast<size_t>(v)].type);
  return true;
}

const PlanValue& Executor::planned_output(int i) const {
  return plans_.front().second->values[static_cast<size_t>(graph_.outputs[static_cast<size_t>(i)])];
}

// Puts the kernels of the stage in shape, where another plan has used them since.
Status Executor::activate(Stage& stage) {
  const auto depth = static_cast<size_t>(stage.depth);
  if (active_.size() > depth && active_[depth] == &stage) {
    if (environment_.arena == nullptr) return ok();
    MINNOW_RETURN_IF_ERROR(grow_arena(stage));  // another session may have moved it
    bind_arena(stage);
    return ok();
  }
  active_.resize(depth);
  for (Step& step : stage.steps) {
    MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    MINNOW_RETURN_IF_ERROR(reshape(step).at(step.place()));
  }
  forget_recordings(stage);
  MINNOW_RETURN_IF_ERROR(grow_arena(stage));
  bind_arena(stage);
  active_.push_back(&stage);
  return ok();
}

Status Executor::reshape(Step& step) {
  const InterruptScope scope(environment_.watch);
  KernelEntry& entry = *step.entry;
  const size_t n = step.in.size();
  std::vector<TensorType> types;
  NodeContext node{*entry.attrs,
                   {},
                   std::vector<const Tensor*>(n),
                   {},
                   environment_.pool->threads(),
                   environment_.precision,
                   devices()[static_cast<size_t>(step.device)].store,
                   std::vector<int64_t>(n, -1),
                   environment_.pool,
                   backend(step.device).accelerator()};
  for (size_t i = 0; i < n; ++i) {
    node.in.push_back(step.context.in[i] == nullptr ? nullptr : &step.context.in[i]->type);
    types.push_back(node.in[i] == nullptr ? TensorType() : *node.in[i]);
  }
  for (const Slot* slot : step.out) {
    node.out.push_back(slot == nullptr ? nullptr : &slot->tensor.type);
    types.push_back(slot == nullptr ? TensorType() : slot->tensor.type);
  }
  if (step.ready && same_types(entry.types, types)) return ok();

  std::vector<std::shared_ptr<const Tensor>> held(n);
  const auto is_quantized = [&](size_t i) {
    return step.constants[i] != nullptr && step.constants[i]->quantized() != nullptr && step.is_static[i] &&
           step.layouts[i] == Layout::kPlain;
  };
  const auto take_constant = [&](size_t i) -> Status {
    MINNOW_RETURN_IF_ERROR(step.constants[i]->acquire(&held[i]));
    if (!step.is_static[i] || held[i]->type.layout != step.layouts[i]) return ok();
    node.constant[i] = held[i].get();
    node.constant_ids[i] = step.constants[i]->id();
    return ok();
  };
  for (size_t i = 0; i < n; ++i) {
    if (is_quantized(i)) {
      node.constant[i] = step.types[i].get();
      node.constant_ids[i] = step.constants[i]->id();
    } else if (step.constants[i] != nullptr) {
      MINNOW_RETURN_IF_ERROR(take_constant(i));
    }
  }
  if (entry.kernel == nullptr) {
    entry.kernel = entry.row->create(node);
    if (entry.kernel == nullptr) return fail(Code::kUnsupported, "there is no kernel for these types");
  }
  for (size_t i = 0; i < n; ++i) {
    if (!is_quantized(i)) continue;
    if (kHasPackedWeights && entry.kernel->unpacks(static_cast<int>(i))) {
      node.quantized.resize(n);
      node.quantized[i] = step.constants[i]->quantized();
    } else {
      MINNOW_RETURN_IF_ERROR(take_constant(i));
    }
  }
  if (!same_types(entry.types, types)) {
    entry.types.clear();  // not in shape, should the next line fail
    const Status shaped = guarded([&] { return entry.kernel->reshape(node, &entry.workspace); });
    const Status whole = is_whole();
    if (!whole.ok()) entry.kernel = nullptr;  // it may keep half of something
    MINNOW_RETURN_IF_ERROR(whole);
    MINNOW_RETURN_IF_ERROR(shaped);
    entry.types = std::move(types);
    if (step.scheme >= 0) devices()[static_cast<size_t>(step.device)].queue->choose(*entry.kernel, step.scheme);
  }
  for (size_t i = 0; i < n; ++i) {
    if (step.constants[i] == nullptr) continue;
    if (entry.kernel->reads(static_cast<int>(i))) {
      if (step.device == 0) {
        if (held[i] == nullptr) MINNOW_RETURN_IF_ERROR(step.constants[i]->acquire(&held[i]));
        step.contents[i] = std::move(held[i]);
      } else {
        const Form form{step.layouts[i], static_cast<uint8_t>(step.device)};
        MINNOW_RETURN_IF_ERROR(on_device(*step.constants[i], form, step.is_static[i], &step.contents[i]));
      }
      step.context.in[i] = step.contents[i].get();
    } else {
      step.contents[i].reset();
      step.context.in[i] = step.types[i].get();
      step.constants[i]->release();
    }
  }
  step.ready = true;
  return ok();
}

Status Executor::on_device(const Constant& constant, Form form, bool keep, std::shared_ptr<const Tensor>* out) {
  const std::pair<const Constant*, Form> key{&constant, form};
  const auto known = on_devices_.find(key);
  if (known != on_devices_.end()) {
    *out = known->second;
    return ok();
  }
  struct Held {
    std::unique_ptr<Memory> memory;
    std::shared_ptr<const Tensor> host;  // which `memory` wraps
    Tensor tensor;
  };
  const Device& device = devices()[form.device];
  MemoryAccount* account = &environment_.watch->memory;
  const auto allocate = [&](const TensorType& type, Held* held) {
    held->tensor.type = type;
    const Status status = device.backend->allocate(device.backend->bytes(type), account, &held->memory);
    if (status.ok()) held->tensor.data = held->memory->data();
    return status;
  };
  auto plain = std::make_shared<Held>();
  std::shared_ptr<const Tensor> host;
  MINNOW_RETURN_IF_ERROR(constant.acquire(&host));
  TensorType type = host->type;
  type.dtype = stored(type.dtype, form.device);
  if (!constant.is_lazy() && type.dtype == host->type.dtype)
    plain->memory = device.backend->wrap(host->data, host->type.bytes());
  if (plain->memory != nullptr) {
    plain->tensor = Tensor{host->type, plain->memory->data()};
    plain->host = host;
  } else {
    MINNOW_RETURN_IF_ERROR(allocate(type, plain.get()));
    // A queue keeps the memory that it converts in: that of a large constant goes with a queue of its own.
    constexpr int64_t kLarge = 1 << 20;
    std::unique_ptr<Queue> own;
    if (type.dtype != host->type.dtype && host->type.bytes() > kLarge)
      own = device.backend->create_queue({environment_.pool, environment_.precision});
    Queue& queue = own == nullptr ? *device.queue : *own;
    const Status copied = queue.copy(*host, &plain->tensor), done = queue.finish();
    MINNOW_RETURN_IF_ERROR(copied);
    MINNOW_RETURN_IF_ERROR(done);
  }
  std::shared_ptr<Held> held = plain;
  if (form.layout != Layout::kPlain) {
    held = std::make_shared<Held>();
    type.layout = form.layout;
    MINNOW_RETURN_IF_ERROR(allocate(type, held.get()));
    RunContext context;
    context.in = {&plain->tensor};
    context.out = {&held->tensor};
    context.pool = environment_.pool;
    const std::unique_ptr<Kernel> conversion = device.backend->create_conversion(plain->tensor.type, type);
    MINNOW_RETURN_IF_ERROR(device.queue->run(*conversion, context));
    MINNOW_RETURN_IF_ERROR(device.queue->finish());
  }
  *out = std::shared_ptr<const Tensor>(held, &held->tensor);
  if (keep) on_devices_[key] = *out;
  return ok();
}

// They hold for the memory and the shapes that they were made with.
void Executor::forget_recordings(Stage& stage) {
  if constexpr (!kHasOtherDevices) return;
  for (auto* parts : {&stage.recordables, &stage.with_copies})
    for (Recordable& part : *parts) {
      part.runs = 0;
      part.recorded.clear();
    }
}

std::vector<Form> Executor::forms() const {
  std::vector<Form> all;
  for (size_t device = 0; device < devices().size(); ++device)
    for (Layout layout : {Layout::kPlain, Layout::kPacked, Layout::kLast})
      all.push_back({layout, static_cast<uint8_t>(device)});
  return all;
}

// Each answer of a run may lead to another stage, and each of these to others. Only between runs is none in use.
void Executor::forget_stages() {
  for (auto& [types, root] : plans_) root->next.clear();
  active_.resize(1);
  stages_ = 0;
}

Status Executor::run(const std::vector<const void*>& inputs, OutputSink& sink, const std::vector<int>* places) {
  if (stages_ > kMaxStages) forget_stages();
  Stage* stage = plans_.front().second.get();
  host_copies_.clear();
  for (Storage& storage : stage->storages) {
    if (storage.kind != Storage::kInput) continue;
    const auto i = static_cast<size_t>(storage.index);
    MINNOW_RETURN_IF_ERROR(take_input(*stage, storage, inputs[i], places == nullptr ? 0 : (*places)[i]));
  }
  for (;;) {
    MINNOW_RETURN_IF_ERROR(run_stage(*stage, sink));
    if (stage->pending.empty()) return ok();
    MINNOW_RETURN_IF_ERROR(cross(*stage, &stage));
  }
}

bool Executor::run_step(Step& step) {
  step.error = ok();
  step.context.error = &step.error;
  const InterruptScope scope(step.is_long ? environment_.watch : nullptr);
  Queue& queue = *devices()[static_cast<size_t>(step.device)].queue;
  const auto run = [&] {
    return step.is_transfer ? queue.copy(*step.context.in[0], step.context.out[0])
                            : queue.run(*step.entry->kernel, step.context);
  };
  Status status;
  if (profiling_ && is_other(step.device)) {
    double seconds = 0;
    status = queue.time(run, &seconds);
    step.ms += 1e3 * seconds;
  } else {
    const auto start = profiling_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    status = run();
    if (profiling_) step.ms += milliseconds_since(start);
  }
  if (profiling_) ++step.runs;
  if (!status.ok()) {
    step.error = std::move(status);
    return false;
  }
  return is_other(step.device) || step.error.ok();  // others write theirs until their queue is finished
}

// Each chain is one thread's work: the loops of its kernels stay on it.
void Executor::run_group(Stage& stage, const Group& group) {
  const auto sum = [&] {
    double ms = 0;
    for (size_t i = group.ends.front(); i < group.ends.back(); ++i) ms += stage.steps[i].ms;
    return ms;
  };
  const auto run = [&](int64_t begin, int64_t end, int) {
    for (auto chain = static_cast<size_t>(begin); chain < static_cast<size_t>(end); ++chain)
      for (size_t i = group.ends[chain]; i < group.ends[chain + 1] && run_step(stage.steps[i]); ++i) {
      }
  };
  const auto chains = static_cast<int64_t>(group.ends.size()) - 1;
  if (!profiling_) return environment_.pool->parallel_for(chains, 1, run);
  // Of steps that run at the same time each gets a share of it: all steps together take as long as the run.
  const double before = sum();
  const auto start = std::chrono::steady_clock::now();
  environment_.pool->parallel_for(chains, 1, run);
  const double wall = milliseconds_since(start), now = sum();
  for (size_t i = group.ends.front(); i < group.ends.back(); ++i)
    if (now > 0) stage.steps[i].ms *= (before + wall) / now;
}

Status Executor::run_stage(Stage& stage, OutputSink& sink) {
  moved_.clear();
  for (Storage* storage : stage.outputs) MINNOW_RETURN_IF_ERROR(place_output(stage, *storage, sink));
  for (Slot* slot : stage.bound) slot->tensor.data = slot->storage->place();

  // Whatever has happened, no queue may still be at work on this memory.
  const auto run = [&]() -> Status {
    const Status ran = run_steps(stage), done = finish(stage, stage.devices, stage.steps.size());
    MINNOW_RETURN_IF_ERROR(ran);
    return done;
  };
  MINNOW_RETURN_IF_ERROR(run());
  if (kHasOtherDevices && stage.devices != 0 && !stage.is_tuned && environment_.observation->observer == nullptr) {
    bool has_run = false;
    MINNOW_RETURN_IF_ERROR(tune(stage, &has_run));
    if (has_run) MINNOW_RETURN_IF_ERROR(run());
  }
  for (const Delivery& delivery : stage.deliveries) {
    if (!sink.wants(delivery.output)) continue;
    const Tensor& from = delivery.constant != nullptr ? *delivery.constant : delivery.slot->tensor;
    void* to = sink.memory(delivery.output, from.type);
    if (to == nullptr) return fail(Code::kUnsupported, "there is no memory for output %d", delivery.output);
    if (const int device = kHasOtherDevices ? sink.device(delivery.output) : 0; device != 0) {
      MINNOW_RETURN_IF_ERROR(give(from, to, device));
    } else if (to != from.data) {
      copy_bytes(from.data, to, from.type.bytes(), environment_.pool);
    }
  }
  return move_results();
}

Status Executor::run_steps(Stage& stage) {
  unfinished_.assign(devices().size(), 0);
  if (environment_.observation->observer != nullptr) return run_observed(stage);
  auto group = stage.groups.begin();
  auto part = stage.recordables.begin(), whole = stage.with_copies.begin();
  for (size_t i = 0; i < stage.steps.size();) {
    const size_t begin = i;
    MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    Step& first = stage.steps[i];
    if (first.finishes != 0) MINNOW_RETURN_IF_ERROR(finish(stage, first.finishes, i));
    for (size_t device = 0; kHasOtherDevices && first.follows >> device != 0; ++device)
      if (first.follows >> device & 1)
        MINNOW_RETURN_IF_ERROR(
            devices()[static_cast<size_t>(first.device)].queue->wait(*devices()[device].queue).at(first.place()));
    while (whole != stage.with_copies.end() && whole->begin < i) ++whole;
    while (part != stage.recordables.end() && part->begin < i) ++part;
    if (group != stage.groups.end() && group->ends.front() == i) {
      run_group(stage, *group);
      i = group++->ends.back();
    } else if (kHasOtherDevices && whole != stage.with_copies.end() && whole->begin == i && !profiling_ &&
               can_record_copies(*whole)) {
      MINNOW_RETURN_IF_ERROR(run_recorded(stage, *whole).at(first.place()));
      i = whole->end;
      continue;
    } else if (kHasOtherDevices && part != stage.recordables.end() && part->begin == i && !profiling_) {
      MINNOW_RETURN_IF_ERROR(run_recorded(stage, *part).at(first.place()));
      i = part->end;
      continue;
    } else {
      run_step(stage.steps[i++]);
    }
    for (size_t k = begin; k < i; ++k) {
      const Step& step = stage.steps[k];
      if (step.is_long) MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());  // it may have ended before it was done
      if (step.device == 0 && !step.error.ok()) return step.error.at(step.place());
    }
  }
  return ok();
}

// A caller who gives other memory in each run would have each of them recorded, which takes longer than to run it.
bool Executor::can_record_copies(const Recordable& part) const {
  return part.runs < kMaxRecorded && std::all_of(part.given.begin(), part.given.end(), [&](const Slot* slot) {
           return slot->storage->root()->given_on == part.device;
         });
}

// The second time, since the first may choose how to compute: then it is recorded, and from then on replayed.
Status Executor::run_recorded(Stage& stage, Recordable& part) {
  Queue& queue = *devices()[static_cast<size_t>(part.device)].queue;
  for (size_t i = part.begin; i < part.end; ++i) stage.steps[i].error = ok();
  Recordable::Recorded made;
  for (const Slot* slot : part.given) made.addresses.push_back(slot->tensor.data);
  for (const Recordable::Recorded& known : part.recorded)
    if (known.addresses == made.addresses) return known.recording->replay();
  const bool records = part.runs++ > 0;
  if (records) MINNOW_RETURN_IF_ERROR(queue.begin_recording());
  Status status;
  for (size_t i = part.begin; i < part.end && status.ok(); ++i) {
    Step& step = stage.steps[i];
    step.context.error = &step.error;
    status = step.is_transfer ? queue.copy(*step.context.in[0], step.context.out[0])
                              : queue.run(*step.entry->kernel, step.context);
  }
  if (!records) return status;
  const Status ended = queue.end_recording(&made.recording);
  MINNOW_RETURN_IF_ERROR(status);
  MINNOW_RETURN_IF_ERROR(ended);
  return part.recorded.emplace_back(std::move(made)).recording->replay();
}

Status Executor::finish(Stage& stage, uint32_t devices, size_t end) {
  if constexpr (!kHasOtherDevices) return ok();
  Status first;
  for (size_t device = 0; devices >> device != 0; ++device) {
    if ((devices >> device & 1) == 0) continue;
    Status status = this->devices()[device].queue->finish();
    for (size_t i = unfinished_[device]; i < end; ++i) {
      const Step& step = stage.steps[i];
      if (step.device != static_cast<int>(device) || step.error.ok()) continue;
      status = step.error.at(step.place());
      break;
    }
    unfinished_[device] = end;
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status Executor::operand(const Stage& stage, int value, std::shared_ptr<const Tensor>* held,
                         const Tensor** tensor) const {
  if (value < 0) return ok();
  const PlanValue& known = stage.values[static_cast<size_t>(value)];
  if (known.constant == nullptr) {
    *tensor = &stage.find(value, Form())->tensor;
    return ok();
  }
  const InterruptScope scope(environment_.watch);
  MINNOW_RETURN_IF_ERROR(known.constant->acquire(held));
  *tensor = held->get();
  return ok();
}

Status Executor::cross(Stage& stage, Stage** next) {
  std::string key;
  std::vector<Answer> answers(stage.questions.size());
  for (size_t q = 0; q < answers.size(); ++q) {
    const Question& question = stage.questions[q];
    const PlanNode& node = stage.pending[static_cast<size_t>(question.pending)];
    if (question.kind == Question::kContents) {
      for (int v : question.values) {
        const Tensor& tensor = stage.find(v, Form())->tensor;
        append(tensor.data, static_cast<size_t>(tensor.type.bytes()), &key);
      }
      continue;
    }
    std::vector<const Tensor*> inputs;
    std::vector<std::shared_ptr<const Tensor>> held(node.in.size());
    for (size_t i = 0; i < node.in.size(); ++i) {
      const Tensor* tensor = nullptr;
      MINNOW_RETURN_IF_ERROR(operand(stage, node.in[i], &held[i], &tensor).at(node.place()));
      inputs.push_back(tensor);
    }
    Status status;
    if (question.kind == Question::kTypes) {
      const InterruptScope scope(environment_.watch);
      status = infer_types(*node.op, *node.attrs, inputs, static_cast<int>(node.out.size()), &answers[q].types);
      MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    } else {
      Control* body = nullptr;
      status = control(*node.source, &body);
      if (status.ok() && environment_.observation->observer != nullptr) {
        ObservedNode observed(*environment_.observation, node.source->name, node.source->op);
        status = observed.begin(inputs);
        if (status.ok()) status = observed.inside([&] { return body->run_anywhere(inputs, &answers[q].outputs); });
        if (status.ok()) status = observed.end(answers[q].outputs);
      } else if (status.ok()) {
        status = body->run_anywhere(inputs, &answers[q].outputs);
      }
      for (const Tensor& tensor : answers[q].outputs) answers[q].types.push_back(tensor.type);
    }
    MINNOW_RETURN_IF_ERROR(status.at(node.place()));
    for (const TensorType& type : answers[q].types) {
      if (!is_unset(type)) MINNOW_RETURN_IF_ERROR(check_type(type).at(node.place()));
      append(type, &key);
    }
  }

  auto it = stage.next.find(key);
  if (it == stage.next.end()) {
    auto made = std::make_unique<Stage>();
    made->parent = &stage;
    made->depth = stage.depth + 1;
    active_.resize(static_cast<size_t>(made->depth));
    Planner planner(*this, *made);
    MINNOW_RETURN_IF_ERROR(planner.plan_after(stage, answers));
    MINNOW_RETURN_IF_ERROR(grow_arena(*made));
    bind_arena(*made);
    if (stage.next.size() >= kMaxNext) stage.next.clear();
    it = stage.next.emplace(std::move(key), std::move(made)).first;
    ++stages_;
    active_.push_back(it->second.get());
  } else {
    MINNOW_RETURN_IF_ERROR(activate(*it->second));
  }
  *next = it->second.get();
  size_t at = 0;
  for (const Answer& answer : answers)
    for (const Tensor& tensor : answer.outputs) (*next)->answers[at++]->data = static_cast<char*>(tensor.data);
  return ok();
}

}  // namespace minnow
