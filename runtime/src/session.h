// A model ready to run: inputs are checked, then the executor does the rest.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/src/executor.h"
#include "runtime/src/state.h"

namespace minnow {

struct SessionStats {
  int64_t arena_bytes = 0;        // for intermediate tensors
  int64_t least_arena_bytes = 0;  // that any placement of them needs
  int64_t weight_bytes = 0;       // of the model's constants, as tensors
  int64_t packed_bytes = 0;       // of weights packed in memory, for all sessions of the model
  int64_t mapped_bytes = 0;       // of weights that the file beside the model has packed
  int threads = 0;
};

class Session {
 public:
  // threads 0: as many as this process may use.
  static Status create(std::shared_ptr<const Model> model, int threads, Precision precision,
                       std::unique_ptr<Session>* out);

  const Model& model() const { return *model_; }
  const std::vector<TensorInfo>& inputs() const { return model_->inputs; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }

  // One plain, contiguous tensor per input, in the order of inputs(). One run at a time; others wait.
  Status run(const std::vector<Tensor>& inputs, OutputSink& sink);
  // What the model remembers: the numbers of Model::states, in their order, to look at while nothing runs.
  Status states(const std::vector<Tensor>** tensors);
  // Forgets what runs have changed: back to the numbers of the file, or to others.
  Status reset(const std::vector<Tensor>* states = nullptr);
  // Mean times of each node over some runs, in order of execution. They leave the states as they are.
  Status profile(const std::vector<Tensor>& inputs, int runs, std::vector<ProfileRow>* rows);
  SessionStats stats();
  // Writes all weights packed so far to the file that is looked for beside the model, or to another.
  Status write_packed(const std::string& path);

 private:
  Session(std::shared_ptr<const Model> model, int threads, Precision precision);

  Status check(const std::vector<Tensor>& inputs);
  Status run_unlocked(const std::vector<Tensor>& inputs, OutputSink& sink);
  void learn_output_types();

  std::shared_ptr<const Model> model_;
  std::vector<TensorInfo> outputs_;
  ThreadPool pool_;
  Executor executor_;
  States states_;
  std::mutex mutex_;
  // Of the latest run; kept, so that the next one allocates nothing.
  std::vector<TensorType> types_;
  std::vector<const void*> data_;
  std::vector<std::pair<const std::string*, int64_t>> symbols_;  // sizes by name
};

}  // namespace minnow
