// Runs parts of a model: those nodes of its main graph that some of its values need.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class Parts {
 public:
  explicit Parts(const Model& model) : model_(model) {}

  // The executor whose outputs are the values of these names: of inputs, outputs or states of the model, or of values
  // between nodes. It is kept, for the sets of names that were asked for most recently, and takes all inputs and
  // states.
  Status find(const std::vector<std::string>& names, const Environment& environment, Executor** out);
  int64_t arena_bytes() const;

 private:
  struct Part {
    std::vector<int> values;
    Graph graph;
    std::unique_ptr<Executor> executor;
  };
  Status find_value(const std::string& name, int* value);

  const Model& model_;
  std::map<std::string, int> values_;  // by name; filled when it is first needed
  std::list<Part> parts_;              // most recently used first
};

}  // namespace minnow
