// Loop: runs its body while a condition holds, at most a given number of times. The body takes (round, condition,
// states...) and gives (condition, states..., scans...); the node takes (limit?, condition?, states...) and gives the
// last states, and the scans of all rounds stacked on a new first axis. What the body only reads is a state, too, that
// it hands through.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "runtime/src/run/control.h"
#include "runtime/src/run/evaluate.h"

namespace minnow {
namespace {

int64_t as_int(const Tensor& tensor) {
  switch (tensor.type.dtype) {
    case DType::kI32:
      return *tensor.as<int32_t>();
    case DType::kI64:
      return *tensor.as<int64_t>();
    case DType::kF32: {
      const float number = *tensor.as<float>();  // NaN is no number of rounds
      return number > -1e9f ? static_cast<int64_t>(std::min(number, 1e9f)) : -1000000000;
    }
    default:
      return *tensor.as<uint8_t>();
  }
}

// May be a type that check_type() does not let through.
TensorType stacked(const TensorType& type, int64_t rounds) {
  TensorType result{type.dtype, Layout::kPlain, Shape{rounds}};
  for (int64_t d : type.shape) result.shape.push_back(d);
  return result;
}

class Loop final : public Control {
 public:
  Loop(Executor& parent, const Node& node)
      : Control(parent, node),
        body_(parent.model(), parent.model().graphs[static_cast<size_t>(node.calls[0].graph)],
              parent.environment().for_bodies()),
        num_states_(body_.graph().inputs.size() - 2),
        num_scans_(body_.graph().outputs.size() - 1 - num_states_),
        results_(output_sources(body_.graph())),
        buffers_{BufferSink(num_states_ + 1, &watch().memory), BufferSink(num_states_ + 1, &watch().memory)},
        scans_(num_scans_) {}

  Status types(const std::vector<TensorType>& inputs, const std::vector<std::shared_ptr<const Tensor>>& known,
               std::vector<TensorType>* outputs, bool* unknown) override {
    *unknown = true;
    const bool limited = node_.in[0] >= 0;
    if (limited && inputs[0].count() != 1) return fail(Code::kFormat, "the limit must have one element");
    if (node_.in[1] >= 0 && inputs[1].count() != 1) return fail(Code::kFormat, "the condition must have one element");
    if (!limited || known[0] == nullptr || (node_.in[1] >= 0 && (known[1] == nullptr || as_int(*known[1]) == 0)))
      return ok();
    const int64_t rounds = as_int(*known[0]);
    std::vector<TensorType> body = start_types(inputs), results;
    if (rounds <= 0 || rounds >= kEndless) return ok();
    MINNOW_RETURN_IF_ERROR(body_.prepare(body));
    if (!repeats(body)) return ok();
    body_.output_types(&results);
    for (size_t i = 0; i < num_states_; ++i) outputs->push_back(results[1 + i]);
    for (size_t i = 0; i < num_scans_; ++i) outputs->push_back(stacked(results[1 + num_states_ + i], rounds));
    *unknown = false;
    return ok();
  }

  Status run(const std::vector<const Tensor*>& inputs, OutputSink& sink) override;
  void executors(std::vector<Executor*>* all) override { all->push_back(&body_); }

 private:
  static constexpr int64_t kEndless = 1 << 30;  // what files write for a loop without limit

  // Where the body's outputs of one round go.
  class RoundSink;
  struct Scan {
    TensorType type;  // of one round
    Buffer memory;
    char* target = nullptr;  // where all rounds go, if their number is known
    int64_t rounds = 0;
  };

  std::vector<TensorType> start_types(const std::vector<TensorType>& inputs) const {
    std::vector<TensorType> types;
    for (size_t i : {size_t{0}, size_t{1}}) {
      types.push_back({body_.graph().input_types[i], Layout::kPlain, Shape()});
      types.back().shape.resize(body_.graph().input_ranks[i], 1);
    }
    types.insert(types.end(), inputs.begin() + 2, inputs.end());
    return types;
  }
  // The body never sets the condition to anything but true.
  bool goes_on() const {
    const Graph& graph = body_.graph();
    if (results_[0] == graph.inputs[1]) return true;
    const PlanValue& condition = body_.planned_output(0);
    std::shared_ptr<const Tensor> value;
    return condition.constant != nullptr && condition.type.count() == 1 && condition.constant->acquire(&value).ok() &&
           as_int(*value) != 0;
  }
  // Having been prepared for these types, the body is in every round as it is now: it goes on, and with the same types.
  bool repeats(const std::vector<TensorType>& body) const {
    std::vector<TensorType> results;
    if (!body_.output_types(&results) || !goes_on()) return false;
    for (size_t i = 0; i < num_states_; ++i)
      if (!same_type(results[1 + i], body[2 + i])) return false;
    return true;
  }
  bool is_invariant(size_t state) const { return results_[1 + state] == body_.graph().inputs[2 + state]; }
  void* scan_memory(size_t i, const TensorType& type, int64_t round, int64_t rounds, OutputSink& sink);

  Executor body_;
  size_t num_states_, num_scans_;
  std::vector<int> results_;           // the values that the body's outputs are
  std::array<BufferSink, 2> buffers_;  // states of one round and the next, by turns; then the condition
  std::vector<Scan> scans_;
  Status scan_error_;  // why there was no memory for what a round stacks
};

class Loop::RoundSink final : public OutputSink {
 public:
  RoundSink(Loop& loop, BufferSink& states, int64_t round, int64_t rounds, OutputSink& outputs)
      : loop_(loop), states_(states), round_(round), rounds_(rounds), outputs_(outputs) {}

  void* memory(int index, const TensorType& type) override {
    const auto n = static_cast<int>(loop_.num_states_);
    if (index == 0) return states_.memory(n, type);
    const auto i = static_cast<size_t>(index - 1);
    if (index <= n) return states_.memory(index - 1, type);
    return loop_.scan_memory(i - loop_.num_states_, type, round_, rounds_, outputs_);
  }
  // What the body only reads stays where it is, which may be a file that cannot be written to.
  bool wants(int index) const override {
    const auto i = static_cast<size_t>(index);
    return index == 0 || i > loop_.num_states_ || !loop_.is_invariant(i - 1);
  }

 private:
  Loop& loop_;
  BufferSink& states_;
  int64_t round_, rounds_;
  OutputSink& outputs_;
};

void* Loop::scan_memory(size_t i, const TensorType& type, int64_t round, int64_t rounds, OutputSink& sink) {
  Scan& scan = scans_[i];
  const int64_t bytes = type.bytes();
  scan_error_ = check_type(stacked(type, std::max(rounds, round + 1)));
  if (!scan_error_.ok()) return nullptr;
  if (round == 0) {
    scan.type = type;
    scan.target = nullptr;
    const auto output = static_cast<int>(num_states_ + i);
    if (rounds > 0 && sink.wants(output)) {
      scan.target = static_cast<char*>(sink.memory(output, stacked(type, rounds)));
      if (scan.target == nullptr) return nullptr;
    }
  } else if (!same_type(scan.type, type)) {
    return nullptr;
  }
  scan.rounds = round + 1;
  if (scan.target != nullptr) return scan.target + round * bytes;
  if (scan.memory.size() < (round + 1) * bytes || scan.memory.data() == nullptr) {
    Buffer larger;
    scan_error_ = Buffer::make(std::max(2 * scan.memory.size(), (round + 1) * bytes), &larger, &watch().memory);
    if (!scan_error_.ok()) return nullptr;
    if (round > 0) std::memcpy(larger.data(), scan.memory.data(), static_cast<size_t>(round * bytes));
    scan.memory = std::move(larger);
  }
  return scan.memory.data() + round * bytes;
}

Status Loop::run(const std::vector<const Tensor*>& inputs, OutputSink& sink) {
  std::vector<TensorType> given;
  for (const Tensor* t : inputs) given.push_back(t == nullptr ? TensorType() : t->type);
  std::vector<TensorType> types = start_types(given);
  const int64_t limit = inputs[0] == nullptr ? std::numeric_limits<int64_t>::max() : as_int(*inputs[0]);
  bool goes = inputs[1] == nullptr || as_int(*inputs[1]) != 0;
  std::vector<Tensor> states;
  for (size_t i = 0; i < num_states_; ++i) states.push_back(*inputs[2 + i]);
  alignas(8) int64_t round_value = 0;
  alignas(8) int64_t condition_value = 0;

  bool is_fixed = false;  // the number of rounds is, before the first one
  int64_t round = 0;
  for (; round < limit && goes; ++round) {
    for (size_t i = 0; i < num_states_; ++i) types[2 + i] = states[i].type;
    MINNOW_RETURN_IF_ERROR(watch().next_round());
    MINNOW_RETURN_IF_ERROR(body_.prepare(types));
    if (round == 0) is_fixed = repeats(types);
    if (is_fixed && limit > watch().most_rounds())
      return fail(Code::kUnsupported, "the loop runs %lld iterations, and max_rounds allows %lld in one run",
                  static_cast<long long>(limit), static_cast<long long>(watch().most_rounds()));
    const int64_t rounds = limit < kEndless && is_fixed ? limit : 0;
    std::memcpy(&round_value, &round, sizeof round);  // little endian: an int32 is its first half
    condition_value = 1;
    std::vector<const void*> data = {&round_value, &condition_value};
    for (const Tensor& state : states) data.push_back(state.data);
    BufferSink& target = buffers_[static_cast<size_t>(round % 2)];
    RoundSink results(*this, target, round, rounds, sink);
    scan_error_ = ok();
    const Status status = body_.run(data, results);
    if (!status.ok()) return (scan_error_.ok() ? status : scan_error_).at("round " + std::to_string(round));
    for (size_t i = 0; i < num_states_; ++i)
      if (!is_invariant(i)) states[i] = target.tensors()[i];
    const Tensor& condition = target.tensors()[num_states_];
    if (condition.type.count() != 1) return fail(Code::kFormat, "the condition must have one element");
    goes = as_int(condition) != 0;
  }

  for (size_t i = 0; i < num_states_; ++i) {
    if (!sink.wants(static_cast<int>(i))) continue;
    void* to = sink.memory(static_cast<int>(i), states[i].type);
    if (to == nullptr) return fail(Code::kUnsupported, "not enough memory for a result of the loop");
    if (states[i].type.bytes() > 0) std::memcpy(to, states[i].data, static_cast<size_t>(states[i].type.bytes()));
  }
  if (round == 0 && num_scans_ > 0) {
    const Status planned = body_.prepare(types);
    for (size_t i = 0; i < num_scans_; ++i) {
      const size_t output = 1 + num_states_ + i;
      const auto declared = body_.graph().scanned.find(body_.graph().outputs[output]);
      const PlanValue* value = planned.ok() ? &body_.planned_output(static_cast<int>(output)) : nullptr;
      if ((value == nullptr || !value->known) && declared == body_.graph().scanned.end())
        return planned.ok() ? fail(Code::kUnsupported, "no round is run, so the shapes of its results are unknown")
                            : planned;
      scans_[i].type = value != nullptr && value->known ? value->type : declared->second;
      scans_[i].target = nullptr;
    }
  }
  for (size_t i = 0; i < num_scans_; ++i) {
    const Scan& scan = scans_[i];
    if ((round > 0 && scan.target != nullptr) || !sink.wants(static_cast<int>(num_states_ + i))) continue;
    const TensorType type = stacked(scan.type, round);
    MINNOW_RETURN_IF_ERROR(check_type(type));
    void* to = sink.memory(static_cast<int>(num_states_ + i), type);
    if (to == nullptr) return fail(Code::kUnsupported, "not enough memory for a result of the loop");
    if (round > 0) std::memcpy(to, scan.memory.data(), static_cast<size_t>(type.bytes()));
  }
  return ok();
}

}  // namespace

std::unique_ptr<Control> make_loop(Executor& parent, const Node& node) { return std::make_unique<Loop>(parent, node); }

}  // namespace minnow
