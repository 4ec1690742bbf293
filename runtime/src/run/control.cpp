#include "runtime/src/run/control.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace minnow {
namespace {

bool is_true(const Tensor& tensor) {
  const char* p = static_cast<const char*>(tensor.data);
  switch (tensor.type.dtype) {
    case DType::kF32:
      return *tensor.as<float>() > 0;
    case DType::kI32:
      return *tensor.as<int32_t>() > 0;
    case DType::kI64:
      return *tensor.as<int64_t>() > 0;
    default:
      return std::any_of(p, p + dtype_size(tensor.type.dtype), [](char c) { return c != 0; });
  }
}

Status check_condition(const TensorType& type) {
  if (type.count() == 1) return ok();
  return fail(Code::kFormat, "the condition must have one element, not the shape %s", type.shape.str().c_str());
}

// The outputs of a graph, some of which are wanted: by one or more outputs of the node.
class CallSink final : public OutputSink {
 public:
  CallSink(const Call& call, size_t graph_outputs, OutputSink& node_sink, MemoryAccount* account)
      : call_(call),
        node_sink_(node_sink),
        unwanted_(graph_outputs, account),
        data_(graph_outputs),
        types_(graph_outputs) {}

  void* memory(int index, const TensorType& type) override {
    const auto i = static_cast<size_t>(index);
    const int output = first_wanting(index);
    data_[i] = output < 0 ? unwanted_.memory(index, type) : node_sink_.memory(output, type);
    types_[i] = type;
    return data_[i];
  }
  // What more than one output wants.
  Status copy_repeated() {
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      const int output = static_cast<int>(i);
      if (!node_sink_.wants(output) || first_wanting(call_.outputs[i]) == output) continue;
      const auto from = static_cast<size_t>(call_.outputs[i]);
      void* to = node_sink_.memory(static_cast<int>(i), types_[from]);
      if (to == nullptr) return fail(Code::kUnsupported, "not enough memory for a result of a branch");
      std::memcpy(to, data_[from], static_cast<size_t>(types_[from].bytes()));
    }
    return ok();
  }

 private:
  // The first output of the node that is this output of the graph.
  int first_wanting(int index) const {
    for (size_t i = 0; i < call_.outputs.size(); ++i)
      if (call_.outputs[i] == index && node_sink_.wants(static_cast<int>(i))) return static_cast<int>(i);
    return -1;
  }

  const Call& call_;
  OutputSink& node_sink_;
  BufferSink unwanted_;
  std::vector<void*> data_;
  std::vector<TensorType> types_;
};

// Few enough nodes and weights that to plan a branch which is never taken costs less than to plan in stages.
bool is_small(const Graph& graph) {
  constexpr size_t kNodes = 32;
  constexpr int64_t kWeightBytes = 64 << 10;
  int64_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant != nullptr) bytes += value.constant->type().bytes();
  return graph.nodes.size() <= kNodes && bytes <= kWeightBytes;
}

class If final : public Control {
 public:
  If(Executor& parent, const Node& node) : Control(parent, node) {}

  Status types(const std::vector<TensorType>& inputs, const std::vector<std::shared_ptr<const Tensor>>& known,
               std::vector<TensorType>* outputs, bool* unknown) override {
    MINNOW_RETURN_IF_ERROR(check_condition(inputs[0]));
    if (known[0] != nullptr) return branch_types(is_true(*known[0]) ? 0 : 1, inputs, outputs, unknown);
    // Whichever branch is taken, the types may be the same.
    *unknown = true;
    for (size_t branch : {size_t{0}, size_t{1}})
      if (!is_small(graph(branch))) return ok();
    std::vector<TensorType> others;
    bool open = false;
    for (size_t branch : {size_t{0}, size_t{1}}) {
      std::vector<TensorType>* types = branch == 0 ? outputs : &others;
      // A branch that cannot run on these inputs is not at fault before it is taken.
      if (!branch_types(branch, inputs, types, &open).ok() || open) break;
    }
    MINNOW_RETURN_IF_ERROR(watch().go_on());  // that may have been why
    *unknown = open || others.empty() || !same_types(*outputs, others);
    if (*unknown) outputs->clear();
    return ok();
  }

  Status run(const std::vector<const Tensor*>& inputs, OutputSink& sink) override {
    const size_t branch = is_true(*inputs[0]) ? 0 : 1;
    const Call& call = node_.calls[branch];
    std::vector<TensorType> types;
    std::vector<const void*> data;
    for (int i : call.inputs) {
      types.push_back(inputs[static_cast<size_t>(i)]->type);
      data.push_back(inputs[static_cast<size_t>(i)]->data);
    }
    MINNOW_RETURN_IF_ERROR(watch().next_round());
    Executor* executor = nullptr;
    MINNOW_RETURN_IF_ERROR(make(branch, &executor));
    MINNOW_RETURN_IF_ERROR(executor->prepare(types));
    CallSink results(call, executor->graph().outputs.size(), sink, &watch().memory);
    MINNOW_RETURN_IF_ERROR(executor->run(data, results));
    return results.copy_repeated();
  }

  void executors(std::vector<Executor*>* all) override {
    for (const auto& executor : branches_)
      if (executor != nullptr) all->push_back(executor.get());
  }

 private:
  const Graph& graph(size_t branch) const {
    return parent_.model().graphs[static_cast<size_t>(node_.calls[branch].graph)];
  }
  // What runs the branch; made when it is first needed.
  Status make(size_t branch, Executor** out) {
    std::unique_ptr<Executor>& executor = branches_[branch];
    if (executor == nullptr) {
      MINNOW_RETURN_IF_ERROR(Executor::may_make(parent_.model(), graph(branch), parent_.environment()));
      executor = std::make_unique<Executor>(parent_.model(), graph(branch), parent_.environment().for_bodies());
    }
    *out = executor.get();
    return ok();
  }

  // A graph that many nodes call with the same types, as those of nested branches do, is planned for one of them only,
  // until it runs.
  Status branch_types(size_t branch, const std::vector<TensorType>& inputs, std::vector<TensorType>* outputs,
                      bool* unknown) {
    constexpr size_t kMost = 64;  // of one graph
    const Call& call = node_.calls[branch];
    std::vector<TensorType> types;
    for (int i : call.inputs) types.push_back(inputs[static_cast<size_t>(i)]);
    auto& known = (*parent_.environment().types)[&graph(branch)];
    auto it = known.find(types);
    if (it == known.end()) {
      Executor* executor = nullptr;
      GraphTypes found;
      MINNOW_RETURN_IF_ERROR(make(branch, &executor));
      MINNOW_RETURN_IF_ERROR(executor->prepare(types));
      found.known = executor->output_types(&found.types);
      if (known.size() >= kMost) known.clear();
      it = known.emplace(std::move(types), std::move(found)).first;
    }
    *unknown = !it->second.known;
    if (*unknown) return ok();
    for (int i : call.outputs) outputs->push_back(it->second.types[static_cast<size_t>(i)]);
    return ok();
  }

  std::array<std::unique_ptr<Executor>, 2> branches_;  // null before they are needed
};

}  // namespace

std::unique_ptr<Control> make_loop(Executor& parent, const Node& node);

Status make_control(Executor& parent, const Node& node, std::unique_ptr<Control>* out) {
  if constexpr (is_kept("If")) {
    if (node.op == "If") {
      *out = std::make_unique<If>(parent, node);
      return ok();
    }
  }
  if constexpr (is_kept("Loop")) {
    const Graph& body = parent.model().graphs[static_cast<size_t>(node.calls[0].graph)];
    MINNOW_RETURN_IF_ERROR(Executor::may_make(parent.model(), body, parent.environment()));
    *out = make_loop(parent, node);
    return ok();
  }
  return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for it");
}

void* BufferSink::memory(int index, const TensorType& type) {
  const auto i = static_cast<size_t>(index);
  const int64_t bytes = std::max<int64_t>(type.bytes(), 1);
  if (buffers_[i].size() < bytes) {
    buffers_[i] = Buffer();
    if (!Buffer::make(bytes, &buffers_[i], account_).ok()) return nullptr;
  }
  tensors_[i] = Tensor{type, buffers_[i].data()};
  return tensors_[i].data;
}

Status Control::run_anywhere(const std::vector<const Tensor*>& inputs, std::vector<Tensor>* outputs) {
  MINNOW_RETURN_IF_ERROR(run(inputs, results_));
  *outputs = results_.tensors();
  return ok();
}

void ControlKernel::run(const RunContext& context) {
  class Sink final : public OutputSink {
   public:
    explicit Sink(const RunContext& context) : context_(context) {}
    void* memory(int index, const TensorType& type) override {
      Tensor* out = context_.out[static_cast<size_t>(index)];
      return out != nullptr && same_type(out->type, type) ? out->data : nullptr;
    }
    bool wants(int index) const override { return context_.out[static_cast<size_t>(index)] != nullptr; }

   private:
    const RunContext& context_;
  };
  Sink sink(context);
  const Status status = control_.run(context.in, sink);
  if (!status.ok()) context.report(status);
}

}  // namespace minnow
