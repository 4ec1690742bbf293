// The states of a model: inputs that get the values of outputs of the previous run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class States {
 public:
  // The model and the account must outlive it.
  States(const Model& model, MemoryAccount* account) : model_(model), account_(account) {}

  // What begin() calls, for states that are elsewhere: it brings them to the memory of current().
  void set_fetch(std::function<Status()> fetch) { fetch_ = std::move(fetch); }
  // Allocates the states and sets their initial values from the file; does nothing the second time.
  Status start();
  // The same, and the states are in the memory of current().
  Status begin();
  // Restores the initial values.
  Status reset();
  // Sets the values, in the order of Model::states; the sizes of those that grow may be others.
  Status set(const std::vector<Tensor>& tensors);
  // Sets the dynamic dimension of this name. What there is of each state stays as far as there is room for it; what is
  // added is 0. After an error all have the size that they had.
  Status resize(const std::string& dimension, int64_t size);
  // Copies what states with this dimension have at one place of it to another.
  Status copy(const std::string& dimension, int64_t from, int64_t to);
  // Gives state `i`, which grows and is empty, another type: one that the node which writes it takes as well.
  Status retype(size_t i, const TensorType& type);
  // Whether the type is that of state `i`, of any size if it grows.
  bool fits(size_t i, const TensorType& type) const;

  const std::vector<Tensor>& current() const { return current_; }
  int64_t bytes() const;
  // The memory for the next values of state `i`, where the present ones are if it is written in place; null if their
  // type differs.
  void* next(size_t i, const TensorType& type);
  // After a successful run: the next values become the current ones.
  void advance();

 private:
  Status make_room(size_t i, int64_t size);
  Status find(const std::string& dimension, std::vector<size_t>* found) const;

  const Model& model_;
  MemoryAccount* account_;
  std::function<Status()> fetch_;
  std::vector<Buffer> buffers_;  // two per state: for current_, and for the next values where these are not in place
  std::vector<Tensor> current_;
  std::vector<TensorType> types_;  // at the beginning
};

}  // namespace minnow
