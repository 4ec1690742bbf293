// Shows an observer the nodes of a run.
#pragma once

#include <string>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

// One node, before and after it runs.
class ObservedNode {
 public:
  // Both strings outlive it.
  ObservedNode(Observation& observation, const std::string& name, const std::string& op)
      : observation_(observation), op_(op), outer_(observation.prefix), name_(observation.prefix + name) {}

  // Tensors of the host; null: missing. The inputs are copied, as the node may compute in their memory.
  Status begin(const std::vector<const Tensor*>& inputs);
  // Runs it; meanwhile its name is in front of those of the nodes that it runs.
  template <typename Function>
  Status inside(Function run) {
    observation_.prefix = name_ + "/";
    Status status = run();
    observation_.prefix = outer_;
    return status;
  }
  Status end(const std::vector<Tensor>& outputs);

 private:
  Status show(const std::vector<Tensor>* outputs);

  Observation& observation_;
  const std::string& op_;
  const std::string outer_, name_;
  std::vector<Buffer> copies_;
  std::vector<Tensor> inputs_;
};

}  // namespace minnow
