// The states of a model: inputs that get the values of outputs of the previous run.
#pragma once

#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class States {
 public:
  // The model and the account must outlive it.
  States(const Model& model, MemoryAccount* account) : model_(model), account_(account) {}

  // Allocates the states and sets their initial values from the file; does nothing the second time.
  Status begin();
  // Restores the initial values.
  Status reset();
  // Sets the values, in the order of Model::states.
  Status set(const std::vector<Tensor>& tensors);

  const std::vector<Tensor>& current() const { return current_; }
  // The buffer for the next values of state `i`; null if their type differs.
  void* next(size_t i, const TensorType& type);
  // After a successful run: the next values become the current ones.
  void advance();

 private:
  const Model& model_;
  MemoryAccount* account_;
  std::vector<Buffer> buffers_;  // two per state: for current_, and for the next values
  std::vector<Tensor> current_;
};

}  // namespace minnow
