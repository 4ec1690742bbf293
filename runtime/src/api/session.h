// A model ready to run: inputs are checked, then the executor does the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/api/part.h"
#include "runtime/src/run/executor.h"
#include "runtime/src/run/arena.h"
#include "runtime/src/api/device_states.h"
#include "runtime/src/run/state.h"

namespace minnow {

struct SessionStats {
  int64_t arena_bytes = 0;        // for intermediate tensors; of a shared arena, for those of all its sessions
  int64_t least_arena_bytes = 0;  // that any placement of them needs
  int64_t weight_bytes = 0;       // of the model's constants, as tensors
  int64_t packed_bytes = 0;       // of weights packed in memory, for all sessions of the model
  int64_t mapped_bytes = 0;       // of weights that the file beside the model has packed
  int threads = 0;
};

struct SessionOptions {
  int threads = 0;  // 0: as many as this process may use
  Precision precision = Precision::kHigh;
  Limits limits;
  std::string device = "cpu";          // or another, or "auto": see Devices
  std::shared_ptr<SharedArena> arena;  // null: the session has its own
};

// What one run may be given beside its tensors.
struct RunOptions {
  double seconds = -1;           // 0: any time; below that: as the session's limits say
  Watch::Poll poll = nullptr;    // see Watch
  Observer* observer = nullptr;  // of its nodes
  bool gives_on_device = false;  // the sink gives memory of the first device
};

class Session {
 public:
  static Status create(std::shared_ptr<const Model> model, const SessionOptions& options, std::unique_ptr<Session>* out,
                       Watch::Poll poll = nullptr);

  const Model& model() const { return *model_; }
  const std::vector<TensorInfo>& inputs() const { return model_->inputs; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  const Devices& devices() const { return devices_; }

  // One plain, contiguous tensor per input, in the order of inputs(), in the memory of the host or of one of its
  // devices. One run at a time; others wait, as do those of the sessions with the same arena.
  Status run(const std::vector<Tensor>& inputs, OutputSink& sink, const RunOptions& options = {});
  // Computes the values of these names, in their order, and nothing that they do not need; see Parts. States stay as
  // they are.
  Status run_part(const std::vector<Tensor>& inputs, const std::vector<std::string>& names, OutputSink& sink,
                  const RunOptions& options = {});
  // Copies, where the session runs on a device beside the CPU: to memory of it that the sink gives, and from there.
  Status to_device(const std::vector<Tensor>& tensors, OutputSink& sink);
  Status to_host(const Tensor& tensor, Tensor* host);
  // Where each node runs: for inputs of these types, whose data may be null, or if there are none as in the latest run.
  Status placement(const std::vector<Tensor>* inputs, std::vector<Placement>* rows, const RunOptions& options = {});
  // Ends the run that is under way, from another thread or from the handler of a signal.
  void cancel() { watch_.cancel(); }
  // For each run from now on; 0: any time.
  void set_seconds(double seconds) { seconds_.store(seconds, std::memory_order_relaxed); }
  MemoryAccount* memory() { return &watch_.memory; }
  // The states, in the order of Model::states. Their memory is that of the session, until its next run or reset: where
  // another thread may do that meanwhile, take copies.
  Status states(std::vector<Tensor>* tensors);
  // Copies of them.
  Status copy_states(std::vector<Tensor>* tensors, std::vector<Buffer>* memory);
  // Sets a dynamic dimension of the states, which keep what they have: see States::resize.
  Status resize_states(const std::string& dimension, int64_t size);
  Status copy_in_states(const std::string& dimension, int64_t from, int64_t to);
  // Gives an empty state that grows another type: see States::retype.
  Status retype_state(size_t index, const TensorType& type);
  // Forgets what runs have changed: back to the numbers of the file, or to others.
  Status reset(const std::vector<Tensor>* states = nullptr);
  // Mean times of each node over some runs, in order of execution. They leave the states as they are.
  Status profile(const std::vector<Tensor>& inputs, int runs, std::vector<ProfileRow>* rows,
                 const RunOptions& options = {});
  Status stats(SessionStats* out);
  // An error in a callback of a run.
  Status may_use() const;
  // Writes all weights packed so far to the file that is looked for beside the model, or to another.
  Status write_packed(const std::string& path);

 private:
  Session(std::shared_ptr<const Model> model, int threads, const SessionOptions& options);

  Status open_devices(const SessionOptions& options);
  Status locate(const std::vector<Tensor>& inputs, bool gives = false);
  Status check(const std::vector<Tensor>& inputs);
  void begin(int64_t input_bytes, const RunOptions& options);
  // Of the model: `inputs` and the states.
  void gather(const std::vector<Tensor>& inputs);
  Status run_unlocked(const std::vector<Tensor>& inputs, OutputSink& sink);
  Status learn_output_types(Watch::Poll poll);

  std::shared_ptr<const Model> model_;
  std::vector<TensorInfo> outputs_;
  const Limits limits_;
  std::atomic<double> seconds_;
  const std::shared_ptr<SharedArena> arena_;  // null: none
  Turn own_turn_;
  Turn& turn_;  // of this session alone, or with those of the arena
  Watch watch_;
  KnownTypes known_types_;
  ThreadPool pool_;
  Devices devices_;
  Trials trials_;
  Executor executor_;
  Parts parts_;
  States states_;
  std::unique_ptr<DeviceStates> device_states_;  // null: all states lie on the host
  // Of the latest run; kept, so that the next one allocates nothing.
  std::vector<TensorType> types_;
  std::vector<const void*> data_;
  std::vector<int> places_;                                      // the devices in whose memory it is
  std::vector<std::pair<const std::string*, int64_t>> symbols_;  // sizes by name
};

}  // namespace minnow
