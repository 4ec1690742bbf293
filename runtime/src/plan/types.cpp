// What is known before the run: types, and contents that do not depend on the inputs' contents.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/src/run/control.h"
#include "runtime/src/run/evaluate.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

// Contents that are worth a place in a key, and results that are always worth keeping.
constexpr int64_t kEvaluatedBytes = 4096;
constexpr int64_t kFoldBytes = 64 * 1024;
// What is copied to plan with, and to know the plan by: sizes, axes and the like.
constexpr int64_t kMostContents = 1 << 20;

// Of a tensor with one element along the axes that have none: kernels make tables of the sizes of all axes, also where
// there is nothing to compute.
int64_t bytes_without_zeros(TensorType type) {
  for (int i = 0; i < type.shape.rank(); ++i) type.shape[i] = std::max<int64_t>(type.shape[i], 1);
  return type.bytes();
}

}  // namespace

std::string PlanNode::place() const {
  const std::string kind = op != nullptr ? op->name : source->op;
  return source->name.empty() ? kind : kind + " '" + source->name + "'";
}

void Planner::wait(const PlanNode& node, Question::Kind kind, std::vector<int> values) {
  stage_.questions.push_back({kind, static_cast<int>(stage_.pending.size()), std::move(values)});
  stage_.pending.push_back(node);
}

Status Planner::contents(int value, std::shared_ptr<const Tensor>* out) {
  const InterruptScope scope(x_.environment_.watch);
  return stage_.values[static_cast<size_t>(value)].constant->acquire(out);
}

Status Planner::add_input(int i, const TensorType& type) {
  const int v = x_.graph_.inputs[static_cast<size_t>(i)];
  PlanValue& value = stage_.values[static_cast<size_t>(v)];
  if (value.known) return ok();  // a weight of the model that is handed to a body of control flow
  MINNOW_RETURN_IF_ERROR(check_type(type).at("input " + std::to_string(i)));
  value.known = true;
  value.type = type;
  Storage* storage = new_storage(Storage::kInput, type.bytes());
  storage->index = i;
  new_slot(v, type, 0, storage);
  return ok();
}

Status Planner::plan_after(Stage& before, const std::vector<Answer>& answers) {
  Watch& watch = *x_.environment_.watch;
  if (stage_.depth > kMostStages)
    return fail(Code::kUnsupported, "more than %d of its results have sizes that are known one after the other",
                kMostStages);
  MINNOW_RETURN_IF_ERROR(stage_.charge.take(
      &watch.memory, static_cast<int64_t>(before.values.size() * sizeof(PlanValue) +
                                          before.pending.size() * (sizeof(PlanNode) + sizeof(Step)))));
  stage_.values = before.values;
  stage_.replacements = before.replacements;
  stage_.delivered = before.delivered;
  std::vector<PlanNode> work = before.pending;
  std::vector<bool> done(work.size());
  for (size_t q = 0; q < answers.size(); ++q) {
    const Question& question = before.questions[q];
    PlanNode& node = work[static_cast<size_t>(question.pending)];
    if (question.kind == Question::kContents) {
      for (int v : question.values) {
        const Tensor& tensor = before.find(v, Form())->tensor;
        Buffer copy;
        MINNOW_RETURN_IF_ERROR(Buffer::make(tensor.type.bytes(), &copy, &watch.memory));
        std::memcpy(copy.data(), tensor.data, static_cast<size_t>(tensor.type.bytes()));
        stage_.values[static_cast<size_t>(v)].constant = Constant::owned(tensor.type, std::move(copy));
      }
      continue;
    }
    node.types = answers[q].types;
    if (question.kind != Question::kControl) continue;
    MINNOW_RETURN_IF_ERROR(set_types(node, node.types).at(node.place()));
    done[static_cast<size_t>(question.pending)] = true;
    for (size_t i = 0; i < node.types.size(); ++i) {
      Storage* storage = new_storage(Storage::kDynamic, node.types[i].bytes());
      if (node.out[i] >= 0) new_slot(node.out[i], node.types[i], 0, storage);
      stage_.answers.push_back(storage);
    }
  }
  std::vector<PlanNode> left;
  for (size_t i = 0; i < work.size(); ++i)
    if (!done[i]) left.push_back(std::move(work[i]));
  return plan(left);
}

Status Planner::place(PlanNode node) {
  MINNOW_RETURN_IF_ERROR(x_.environment_.watch->go_on());
  for (int v : node.in) {
    if (v >= 0 && !stage_.values[static_cast<size_t>(v)].known) {
      stage_.pending.push_back(node);  // no question: it waits for another node
      return ok();
    }
  }
  if (node.lowering != nullptr) return expand(node);
  bool waits = false;
  if (node.op == nullptr) {
    MINNOW_RETURN_IF_ERROR(type_control(node, &waits).at(node.place()));
    if (waits) {
      wait(node, Question::kControl);
    } else {
      nodes_.push_back(node);
    }
    return ok();
  }
  if (node.types.empty()) {
    MINNOW_RETURN_IF_ERROR(unify(&node).at(node.place()));
    MINNOW_RETURN_IF_ERROR(infer_wide(&node, &waits).at(node.place()));
    if (waits) return ok();
    bool folded = false;
    MINNOW_RETURN_IF_ERROR(fold(node, &folded).at(node.place()));
    if (folded) return ok();
    std::vector<const TensorType*> types;
    for (int v : node.in) types.push_back(v < 0 ? nullptr : &stage_.values[static_cast<size_t>(v)].type);
    const int out = node.out.size() == 1 ? node.out[0] : -1;
    if (out >= 0)
      node.lowering = other_form_of(*node.op, *node.attrs, types, stage_.values[static_cast<size_t>(out)].type.shape,
                                    x_.host().channel_block());
    if (node.lowering != nullptr) return expand(node);
  } else {
    MINNOW_RETURN_IF_ERROR(set_types(node, node.types).at(node.place()));
  }
  nodes_.push_back(node);
  return ok();
}

// An If whose branch, or a Loop whose number of rounds is known now is a node like others; else it waits for the run.
Status Planner::type_control(const PlanNode& node, bool* waits) {
  std::vector<TensorType> inputs, outputs;
  std::vector<std::shared_ptr<const Tensor>> known(node.in.size());
  for (size_t i = 0; i < node.in.size(); ++i) {
    inputs.push_back(node.in[i] < 0 ? TensorType() : stage_.values[static_cast<size_t>(node.in[i])].type);
    if (node.in[i] >= 0 && stage_.values[static_cast<size_t>(node.in[i])].constant != nullptr && inputs[i].count() == 1)
      MINNOW_RETURN_IF_ERROR(contents(node.in[i], &known[i]));
  }
  Control* control = nullptr;
  MINNOW_RETURN_IF_ERROR(x_.control(*node.source, &control));
  MINNOW_RETURN_IF_ERROR(control->types(inputs, known, &outputs, waits));
  if (*waits) return ok();
  return set_types(node, outputs);
}

// Whether anything of the graph reads a value of it.
bool Planner::is_read(int value) const {
  const auto has = [&](const std::vector<int>& list) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  return has(x_.graph_.outputs) ||
         std::any_of(x_.nodes_.begin(), x_.nodes_.end(), [&](const PlanNode& node) { return has(node.in); });
}

// All types that values get, but for those of inputs and constants, pass here.
Status Planner::set_types(const PlanNode& node, const std::vector<TensorType>& types) {
  if (types.size() != node.out.size())
    return fail(Code::kInternal, "has %zu outputs, not %zu", types.size(), node.out.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.out[i] < 0) continue;
    // Other converters may leave one that nothing reads.
    const TensorType type = is_unset(types[i]) && !is_read(node.out[i]) ? TensorType() : types[i];
    Status status = check_type(type);
    // Kernels make tables of as many rows as a result has, before there is memory for the result.
    if (status.ok()) status = x_.environment_.watch->memory.fits(bytes_without_zeros(type));
    MINNOW_RETURN_IF_ERROR(status.at("output " + std::to_string(i)));
    PlanValue& value = stage_.values[static_cast<size_t>(node.out[i])];
    value.known = true;
    value.type = type;
  }
  return ok();
}

Status Planner::expand(const PlanNode& node) {
  Expansion expansion(node, stage_, *x_.environment_.watch);
  Status status = node.lowering->expand(expansion);
  if (status.code() == Code::kNeedsValue) {
    std::vector<int> asked;
    for (int v : expansion.asked()) {
      const PlanValue& value = stage_.values[static_cast<size_t>(v)];
      if (value.constant == nullptr) asked.push_back(v);
      if (value.type.bytes() > kMostContents)
        return fail(Code::kUnsupported, "a list of the shape %s says how it is computed",
                    value.type.shape.str().c_str())
            .at(node.place());
    }
    wait(node, Question::kContents, std::move(asked));
    return ok();
  }
  if (status.ok()) status = expansion.status;
  MINNOW_RETURN_IF_ERROR(status.at(node.place()));
  const std::vector<PlanNode> nodes = std::move(expansion.nodes());
  const int64_t most = most_replacements(x_.model().declared);
  stage_.replacements += static_cast<int64_t>(nodes.size());
  if (stage_.replacements > most)
    return fail(Code::kUnsupported, "its ops are computed by more than %lld others", static_cast<long long>(most))
        .at(node.place());
  for (const PlanNode& part : nodes) MINNOW_RETURN_IF_ERROR(place(part));
  return ok();
}

Status Planner::infer(const PlanNode& node, bool* waits) {
  std::vector<TensorType> types(node.out.size());
  std::vector<std::shared_ptr<const Tensor>> held(node.in.size());
  for (bool with_lazy : {false, true}) {
    std::vector<const TensorType*> inputs;
    std::vector<const Tensor*> values;
    for (size_t i = 0; i < node.in.size(); ++i) {
      const PlanValue* value = node.in[i] < 0 ? nullptr : &stage_.values[static_cast<size_t>(node.in[i])];
      inputs.push_back(value == nullptr ? nullptr : &value->type);
      // Big weights in a compressed form are not unpacked for an infer that does not ask for them.
      if (value != nullptr && value->constant != nullptr && (with_lazy || !value->constant->is_lazy()))
        MINNOW_RETURN_IF_ERROR(contents(node.in[i], &held[i]));
      values.push_back(held[i].get());
    }
    types.assign(node.out.size(), unset_type());
    InferContext context(*node.attrs, std::move(inputs), std::move(values), &types);
    const Status status = [&] {
      const InterruptScope scope(x_.environment_.watch);
      return node.op->infer(context);
    }();
    if (status.code() != Code::kNeedsValue) {
      MINNOW_RETURN_IF_ERROR(x_.environment_.watch->go_on());  // else the types may be of half the work
      MINNOW_RETURN_IF_ERROR(status);
      return set_types(node, types);
    }
    std::vector<int> unknown;
    int64_t bytes = 0;
    for (size_t i = 0; i < node.in.size() && i < 32; ++i) {
      if (node.in[i] < 0 || (context.asked() >> i & 1) == 0) continue;
      const PlanValue& value = stage_.values[static_cast<size_t>(node.in[i])];
      if (value.constant != nullptr) continue;
      unknown.push_back(node.in[i]);
      bytes += value.type.bytes();
      // Those of a sequence are whole tensors, which hardly ever come again.
      if (value.type.dtype == DType::kU8) bytes += kEvaluatedBytes;
    }
    if (unknown.empty()) continue;  // it wants a lazy constant
    *waits = true;
    const bool small = bytes <= kEvaluatedBytes;
    wait(node, small ? Question::kContents : Question::kTypes, std::move(unknown));
    return ok();
  }
  return fail(Code::kInternal, "asks for contents that it was given");
}

Status Planner::fold(const PlanNode& node, bool* folded) {
  *folded = false;
  if (node.op->has(kRandom)) return ok();
  bool all_static = true, all_known = true;
  int64_t bytes_in = 0, bytes_out = 0;
  for (int v : node.in) {
    if (v < 0) continue;
    const PlanValue& value = stage_.values[static_cast<size_t>(v)];
    all_static = all_static && value.is_static;
    all_known = all_known && value.constant != nullptr;
    bytes_in += value.type.bytes();
  }
  for (int v : node.out) bytes_out += stage_.values[static_cast<size_t>(v)].type.bytes();
  const bool by_type = node.op->has(kTypeOnly);
  if (!all_known && !by_type) return ok();
  if (bytes_out > (all_static ? kFoldBytes + 4 * bytes_in : kFoldBytes)) return ok();

  std::vector<std::shared_ptr<Constant>>* cached = all_static ? &x_.folded_[{node.source, node.part}] : nullptr;
  std::vector<std::shared_ptr<Constant>> made;
  if (cached == nullptr || cached->empty()) {
    std::vector<std::shared_ptr<const Tensor>> held(node.in.size());
    std::vector<Tensor> by_types(node.in.size());
    std::vector<const Tensor*> inputs(node.in.size());
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i] < 0) continue;
      const PlanValue& value = stage_.values[static_cast<size_t>(node.in[i])];
      if (by_type) {
        by_types[i] = Tensor{value.type, nullptr};
        inputs[i] = &by_types[i];
      } else {
        MINNOW_RETURN_IF_ERROR(contents(node.in[i], &held[i]));
        inputs[i] = held[i].get();
      }
    }
    std::vector<TensorType> types;
    for (int v : node.out) types.push_back(stage_.values[static_cast<size_t>(v)].type);
    std::vector<Buffer> outputs;
    Evaluation how;
    how.account = &x_.environment_.watch->memory;
    {
      const InterruptScope scope(x_.environment_.watch);
      MINNOW_RETURN_IF_ERROR(evaluate(x_.backend(0), *node.op, *node.attrs, inputs, types, x_.environment_.pool,
                                      x_.environment_.precision, how, &outputs));
    }
    MINNOW_RETURN_IF_ERROR(x_.environment_.watch->go_on());  // else the results may be of half the work
    for (size_t i = 0; i < outputs.size(); ++i) made.push_back(Constant::owned(types[i], std::move(outputs[i])));
    if (cached != nullptr) *cached = made;
  } else {
    made = *cached;
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    PlanValue& value = stage_.values[static_cast<size_t>(node.out[i])];
    value.constant = made[i];
    value.is_static = all_static;
  }
  *folded = true;
  return ok();
}

}  // namespace minnow
