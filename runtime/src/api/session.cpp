#include "runtime/src/api/session.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/core/elements.h"
#include "runtime/src/backend/cpu.h"
#include "runtime/src/run/control.h"
#include "kernels/core/status_guard.h"

namespace minnow {
namespace {

constexpr int kMaxThreads = 256;

// The processors this process may run on: less than the machine has, in a container or under taskset.
int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::string shape_text(const TensorInfo& info) {
  std::string text = "[";
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const Dim& dim = info.dims[i];
    text += (i == 0 ? "" : ",") + (dim.size >= 0 ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  }
  return text + "]";
}

// The first number that has no place in 32 bits; null if there is none.
const int64_t* first_wide(const Tensor& tensor) {
  const int64_t* numbers = tensor.as<int64_t>();
  if (fit_i32(numbers, tensor.count())) return nullptr;
  const int64_t* end = numbers + tensor.count();
  const int64_t* found = std::find_if(numbers, end, [](int64_t x) { return x != static_cast<int32_t>(x); });
  return found == end ? nullptr : found;
}

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.type.bytes();  // which lie in memory, and so do not overflow
  return bytes;
}

// Outputs of the model go to the caller's sink, those behind them to the states.
class StatefulSink final : public OutputSink {
 public:
  StatefulSink(OutputSink& outputs, size_t num_outputs, States& states, const DeviceStates* device_states)
      : outputs_(outputs), num_outputs_(num_outputs), states_(states), device_states_(device_states) {}
  void* memory(int index, const TensorType& type) override {
    const auto i = static_cast<size_t>(index);
    if (i < num_outputs_) return outputs_.memory(index, type);
    void* next = states_.next(i - num_outputs_, type);
    if (next == nullptr) misfit_ = static_cast<int>(i - num_outputs_);
    return next != nullptr && is_other(device(index)) ? device_states_->next(i - num_outputs_) : next;
  }
  int device(int index) const override {
    const auto i = static_cast<size_t>(index);
    if (i < num_outputs_) return outputs_.device(index);
    return device_states_ == nullptr ? 0 : device_states_->device(i - num_outputs_);
  }
  bool is_new(int index) const override { return static_cast<size_t>(index) < num_outputs_ && outputs_.is_new(index); }
  bool wants(int index) const override { return static_cast<size_t>(index) >= num_outputs_ || outputs_.wants(index); }
  // A state whose next numbers were of another type; -1: none.
  int misfit() const { return misfit_; }

 private:
  OutputSink& outputs_;
  size_t num_outputs_;
  States& states_;
  const DeviceStates* device_states_;
  int misfit_ = -1;
};

}  // namespace

Session::Session(std::shared_ptr<const Model> model, int threads, const SessionOptions& options)
    : model_(std::move(model)),
      outputs_(model_->outputs),
      limits_(options.limits),
      seconds_(options.limits.seconds),
      arena_(options.arena),
      turn_(arena_ == nullptr ? own_turn_ : arena_->turn),
      pool_(threads),
      executor_(*model_, model_->main,
                Environment{&devices_, &pool_, options.precision, &watch_, &known_types_, &turn_.observation, &trials_,
                            arena_.get()}),
      parts_(*model_),
      states_(*model_, &watch_.memory) {
  watch_.memory.set_shared(model_->memory.get());
}

Status Session::create(std::shared_ptr<const Model> model, const SessionOptions& options, std::unique_ptr<Session>* out,
                       Watch::Poll poll) {
  const int threads = options.threads;
  const Limits& limits = options.limits;
  MINNOW_RETURN_IF_ERROR(Cpu::can_run(options.precision));
  if (threads < 0 || threads > kMaxThreads)
    return fail(Code::kUsage, "%d threads; 1 to %d are possible, 0 means all there are", threads, kMaxThreads);
  if (!(limits.seconds >= 0) || limits.memory < 0 || limits.rounds < 0)
    return fail(Code::kUsage, "a limit is below 0, which stands for none");
  return guarded([&]() -> Status {
    // More threads than processors would wait for each other, and cut the work into smaller parts for nothing.
    const int most = std::min(available_threads(), kMaxThreads), count = threads == 0 ? most : std::min(threads, most);
    std::unique_ptr<Session> session(new Session(std::move(model), count, options));
    MINNOW_RETURN_IF_ERROR(session->may_use());
    std::lock_guard<std::mutex> lock(session->turn_.mutex);
    session->begin(0, {});
    MINNOW_RETURN_IF_ERROR(session->open_devices(options));
    MINNOW_RETURN_IF_ERROR(session->learn_output_types(poll));
    *out = std::move(session);
    return ok();
  });
}

Status Session::open_devices(const SessionOptions& options) {
  MINNOW_RETURN_IF_ERROR(Devices::open(options.device, *model_, {&pool_, options.precision}, &devices_));
  if (kHasOtherDevices && devices_.size() > 1 && !model_->states.empty()) {
    device_states_ = std::make_unique<DeviceStates>(*model_, devices_, &watch_.memory);
    states_.set_fetch([this] { return device_states_->fetch(states_.current()); });
  }
  if (!devices_.has_choice()) return ok();
  std::vector<std::string> names;
  for (size_t i = 0; i < devices_.size(); ++i) names.push_back(devices_[i].backend->name());
  trials_.begin(std::move(names));
  return ok();
}

// Where all input shapes are given, the plan is made now: it tells the types of outputs that the file does not, and
// what would go wrong.
Status Session::learn_output_types(Watch::Poll poll) {
  std::vector<TensorType> types;
  for (const TensorInfo& info : inputs()) {
    if (!info.container.empty()) return ok();
    TensorType type{info.dtype, Layout::kPlain, Shape()};
    if (!info.has_rank) return ok();
    for (const Dim& dim : info.dims) {
      if (dim.size < 0) return ok();
      type.shape.push_back(dim.size);
    }
    types.push_back(type);
  }
  for (const State& state : model_->states) types.push_back(state.type());
  std::vector<TensorType> results;
  // The file only declares the sizes of its inputs: no such bytes have been given yet.
  constexpr int64_t kBelieved = 16 << 20;
  int64_t bytes = 0;
  for (const TensorType& type : types) bytes = std::min(kBelieved, bytes + std::min(kBelieved, type.bytes()));
  begin(bytes, {-1, poll});
  const Status status = executor_.prepare(types);
  if (status.code() == Code::kStopped || status.code() == Code::kCancelled) return status;
  if (!status.ok() || !executor_.output_types(&results)) return ok();  // run() will tell
  for (size_t i = 0; i < outputs_.size(); ++i) {
    TensorInfo& info = outputs_[i];
    if (!info.container.empty()) continue;
    info.dtype = results[i].dtype;
    if (info.has_rank) continue;
    info.has_rank = true;
    for (int64_t d : results[i].shape) info.dims.push_back({d, ""});
  }
  return ok();
}

void Session::begin(int64_t input_bytes, const RunOptions& options) {
  const int64_t given = model_->file_bytes + input_bytes;
  if (limits_.memory > 0)
    watch_.memory.set_most(limits_.memory, limits_.memory);
  else
    watch_.memory.set_most(default_own_memory(given), default_memory(given));
  const double seconds = options.seconds < 0 ? seconds_.load(std::memory_order_relaxed) : options.seconds;
  watch_.begin(seconds, limits_.rounds, options.poll);
  turn_.observation.observer = options.observer;
  turn_.observation.prefix.clear();
}

Status Session::check(const std::vector<Tensor>& given) {
  if (given.size() != inputs().size())
    return fail(Code::kUsage, "the model has %zu inputs, not %zu", inputs().size(), given.size());
  symbols_.clear();
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorInfo& info = inputs()[i];
    const Tensor& tensor = given[i];
    const auto complain = [&](const std::string& why) {
      return Status(Code::kUsage, "input '" + info.name + "' has the shape " + tensor.shape().str() +
                                      ", the model wants " + shape_text(info) + (why.empty() ? "" : ": " + why));
    };
    if (!info.container.empty()) {
      if (tensor.type.dtype == DType::kU8 && tensor.rank() == 1) continue;
      return fail(Code::kUsage, "input '%s' is a %s: its bytes are a vector of u8, not %s%s", info.name.c_str(),
                  info.container.c_str(), dtype_name(tensor.type.dtype), tensor.shape().str().c_str());
    }
    if (tensor.type.dtype != info.dtype)
      return fail(Code::kUsage, "input '%s' is %s, the model wants %s", info.name.c_str(),
                  dtype_name(tensor.type.dtype), dtype_name(info.dtype));
    const int64_t* wide = info.is_narrowed && tensor.data != nullptr && places_[i] == 0 ? first_wide(tensor) : nullptr;
    if (wide != nullptr)
      return fail(
          Code::kUsage,
          "input '%s' holds %lld, and the file was written with 32 bits for its numbers; with `--int64 keep` it "
          "is converted with all 64",
          info.name.c_str(), static_cast<long long>(*wide));
    if (!info.has_rank) continue;
    if (tensor.rank() != static_cast<int>(info.dims.size())) return complain("");
    for (int k = 0; k < tensor.rank(); ++k) {
      const Dim& dim = info.dims[static_cast<size_t>(k)];
      const int64_t size = tensor.dim(k);
      if (dim.size >= 0 && dim.symbol == "?") continue;  // the usual size, no more
      if (dim.size >= 0 && size != dim.size) return complain("axis " + std::to_string(k) + " is fixed");
      // "?" stands for a dynamic dimension without a name: two of them may differ.
      if (dim.size >= 0 || dim.symbol.empty() || dim.symbol == "?") continue;
      const auto it =
          std::find_if(symbols_.begin(), symbols_.end(), [&](const auto& s) { return *s.first == dim.symbol; });
      if (it == symbols_.end()) {
        symbols_.emplace_back(&dim.symbol, size);
      } else if (it->second != size) {
        return complain(dim.symbol + " is " + std::to_string(it->second) + " elsewhere");
      }
    }
  }
  return ok();
}

// In whose memory they lie. What others have enqueued for a device comes before what reads there, or writes to memory
// that they may have used.
Status Session::locate(const std::vector<Tensor>& inputs, bool gives) {
  places_.assign(inputs.size(), 0);
  for (size_t device = 1; device < devices_.size(); ++device) {
    Queue& queue = *devices_[device].queue;
    bool some = gives && device == 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].data == nullptr || places_[i] != 0 || !queue.owns(inputs[i].data)) continue;
      places_[i] = static_cast<int>(device);
      some = true;
    }
    if (some) MINNOW_RETURN_IF_ERROR(queue.follow(0));
  }
  return ok();
}

void Session::gather(const std::vector<Tensor>& inputs) {
  types_.clear();
  data_.clear();
  for (const std::vector<Tensor>* tensors : {&inputs, &states_.current()}) {
    for (const Tensor& tensor : *tensors) {
      types_.push_back(tensor.type);
      data_.push_back(tensor.data);
    }
  }
  places_.resize(data_.size());  // the states lie on the host
}

Status Session::run_unlocked(const std::vector<Tensor>& inputs, OutputSink& sink) {
  return guarded([&]() -> Status {
    MINNOW_RETURN_IF_ERROR(states_.start());
    gather(inputs);
    trials_.choose(types_);
    do {
      MINNOW_RETURN_IF_ERROR(executor_.prepare(types_));
    } while (!trials_.is_settled() && !trials_.accepts(executor_.placement_hash()));
    if (kHasOtherDevices && device_states_ != nullptr)
      MINNOW_RETURN_IF_ERROR(device_states_->place(executor_, states_.current(), &data_, &places_));
    StatefulSink all(sink, outputs_.size(), states_, device_states_.get());
    const auto start = std::chrono::steady_clock::now();
    const Status status = executor_.run(data_, all, &places_);
    if (status.ok() && turn_.observation.observer == nullptr)
      trials_.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (all.misfit() < 0) return status;
    const State& state = model_->states[static_cast<size_t>(all.misfit())];
    return fail(Code::kFormat, "the state '%s' gets another type or shape than it has", state.info.name.c_str());
  });
}

// Its lock is held by the run that calls the observer.
Status Session::may_use() const {
  if (turn_.observation.thread != std::this_thread::get_id()) return ok();
  return fail(Code::kUsage, "a callback cannot use the session whose run has called it%s",
              arena_ == nullptr ? "" : ", nor others with its arena");
}

Status Session::run(const std::vector<Tensor>& inputs, OutputSink& sink, const RunOptions& options) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  MINNOW_RETURN_IF_ERROR(locate(inputs, options.gives_on_device));
  MINNOW_RETURN_IF_ERROR(check(inputs));
  begin(bytes_of(inputs), options);
  MINNOW_RETURN_IF_ERROR(run_unlocked(inputs, sink));
  states_.advance();
  if (kHasOtherDevices && device_states_ != nullptr) device_states_->advance();
  return ok();
}

Status Session::run_part(const std::vector<Tensor>& inputs, const std::vector<std::string>& names, OutputSink& sink,
                         const RunOptions& options) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  MINNOW_RETURN_IF_ERROR(locate(inputs, options.gives_on_device));
  MINNOW_RETURN_IF_ERROR(check(inputs));
  begin(bytes_of(inputs), options);
  return guarded([&]() -> Status {
    Executor* part = nullptr;
    MINNOW_RETURN_IF_ERROR(parts_.find(names, executor_.environment(), &part));
    MINNOW_RETURN_IF_ERROR(states_.begin());
    gather(inputs);
    MINNOW_RETURN_IF_ERROR(part->prepare(types_));
    return part->run(data_, sink, &places_);
  });
}

Status Session::to_device(const std::vector<Tensor>& tensors, OutputSink& sink) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  Queue& queue = *devices_[1].queue;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor to{tensors[i].type, sink.memory(static_cast<int>(i), tensors[i].type)};
    if (to.data == nullptr) return fail(Code::kDevice, "there is no memory on %s", devices_[1].backend->name().c_str());
    MINNOW_RETURN_IF_ERROR(queue.follow(0));
    const Status copied = queue.copy(tensors[i], &to), done = queue.finish();
    MINNOW_RETURN_IF_ERROR(copied);
    MINNOW_RETURN_IF_ERROR(done);
  }
  return ok();
}

Status Session::to_host(const Tensor& tensor, Tensor* host) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  MINNOW_RETURN_IF_ERROR(locate({tensor}));
  if (places_[0] == 0) return fail(Code::kUsage, "the array does not lie on a device of this session");
  Queue& queue = *devices_[static_cast<size_t>(places_[0])].queue;
  const Status copied = queue.copy(tensor, host), done = queue.finish();
  MINNOW_RETURN_IF_ERROR(copied);
  return done;
}

Status Session::placement(const std::vector<Tensor>* inputs, std::vector<Placement>* rows, const RunOptions& options) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  return guarded([&]() -> Status {
    if (inputs != nullptr) {
      places_.assign(inputs->size(), 0);
      MINNOW_RETURN_IF_ERROR(check(*inputs));
      begin(bytes_of(*inputs), options);
      MINNOW_RETURN_IF_ERROR(states_.begin());
      gather(*inputs);
      trials_.choose(types_);
      MINNOW_RETURN_IF_ERROR(executor_.prepare(types_));
    } else if (!executor_.is_prepared()) {
      return fail(Code::kUsage, "nothing is placed before the shapes of the inputs are known: run the model first");
    }
    executor_.placement("", rows);
    return ok();
  });
}

Status Session::states(std::vector<Tensor>* tensors) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  return guarded([&]() -> Status {
    MINNOW_RETURN_IF_ERROR(states_.begin());
    *tensors = states_.current();
    return ok();
  });
}

Status Session::copy_states(std::vector<Tensor>* tensors, std::vector<Buffer>* memory) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  return guarded([&]() -> Status {
    MINNOW_RETURN_IF_ERROR(states_.begin());
    *tensors = states_.current();
    memory->resize(tensors->size());
    for (size_t i = 0; i < tensors->size(); ++i) {
      Tensor& copy = (*tensors)[i];
      const void* state = copy.data;
      MINNOW_RETURN_IF_ERROR(Buffer::make(copy.type.bytes(), &(*memory)[i]));
      copy.data = (*memory)[i].data();
      if (copy.type.bytes() > 0) std::memcpy(copy.data, state, static_cast<size_t>(copy.type.bytes()));
    }
    return ok();
  });
}

Status Session::resize_states(const std::string& dimension, int64_t size) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  return guarded([&] { return states_.resize(dimension, size); });
}

Status Session::copy_in_states(const std::string& dimension, int64_t from, int64_t to) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  return guarded([&] { return states_.copy(dimension, from, to); });
}

Status Session::retype_state(size_t index, const TensorType& type) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  if (index >= model_->states.size()) return fail(Code::kUsage, "the model has no state %zu", index);
  return guarded([&] { return states_.retype(index, type); });
}

Status Session::reset(const std::vector<Tensor>* states) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  if (kHasOtherDevices && device_states_ != nullptr && states == nullptr) device_states_->forget();
  return guarded([&] { return states == nullptr ? states_.reset() : states_.set(*states); });
}

Status Session::profile(const std::vector<Tensor>& inputs, int runs, std::vector<ProfileRow>* rows,
                        const RunOptions& options) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  MINNOW_RETURN_IF_ERROR(locate(inputs));
  MINNOW_RETURN_IF_ERROR(check(inputs));
  if (runs < 1) return fail(Code::kUsage, "%d runs; at least one is needed", runs);
  BufferSink sink(outputs_.size(), &watch_.memory);
  begin(bytes_of(inputs), options);
  MINNOW_RETURN_IF_ERROR(run_unlocked(inputs, sink));  // plans, and warms up
  while (!trials_.is_settled()) MINNOW_RETURN_IF_ERROR(run_unlocked(inputs, sink));
  executor_.start_profile();
  Status status;
  for (int i = 0; i < runs && status.ok(); ++i) {
    begin(bytes_of(inputs), options);
    status = run_unlocked(inputs, sink);
  }
  executor_.end_profile(runs, "", rows);
  return status;
}

Status Session::stats(SessionStats* out) {
  MINNOW_RETURN_IF_ERROR(may_use());
  std::lock_guard<std::mutex> lock(turn_.mutex);
  *out = {executor_.arena_bytes() + parts_.arena_bytes() + (arena_ == nullptr ? 0 : arena_->bytes()),
          executor_.least_bytes(),
          model_->weight_bytes,
          model_->store->packed_bytes(),
          model_->store->mapped_bytes(),
          pool_.threads()};
  return ok();
}

Status Session::write_packed(const std::string& path) {
  if (model_->path.empty())
    return fail(Code::kUsage, "the model was loaded from memory: packed weights belong to a model in a file");
  return guarded([&] {
    const std::string target = path.empty() ? model_->packed_path : path;
    std::vector<PackedFile::Row> rows = model_->store->rows();
    std::vector<DeviceStore::Copy> copies;
    MINNOW_RETURN_IF_ERROR(model_->stores->copy_all(&copies));
    for (const DeviceStore::Copy& copy : copies)
      rows.push_back({copy.key, copy.bytes.data(), static_cast<int64_t>(copy.bytes.size())});
    return PackedFile::write(target, model_->files, rows);
  });
}

}  // namespace minnow
