// If and Loop: nodes that run other graphs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

// Outputs in memory of our own, which grows and is used again.
class BufferSink final : public OutputSink {
 public:
  // The account outlives it.
  BufferSink(size_t n, MemoryAccount* account) : account_(account), buffers_(n), tensors_(n) {}
  void* memory(int index, const TensorType& type) override;
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  MemoryAccount* account_;
  std::vector<Buffer> buffers_;
  std::vector<Tensor> tensors_;
};

class Control {
 public:
  virtual ~Control() = default;
  // The types of the outputs, where they are known before the run; else `unknown` is set. `known[i]` is the value of
  // input i where it is known and has one element, else null.
  virtual Status types(const std::vector<TensorType>& inputs, const std::vector<std::shared_ptr<const Tensor>>& known,
                       std::vector<TensorType>* outputs, bool* unknown) = 0;
  virtual Status run(const std::vector<const Tensor*>& inputs, OutputSink& sink) = 0;
  virtual void executors(std::vector<Executor*>* all) = 0;

  // Into memory of its own, which the next call uses again.
  Status run_anywhere(const std::vector<const Tensor*>& inputs, std::vector<Tensor>* outputs);

 protected:
  Control(Executor& parent, const Node& node)
      : parent_(parent), node_(node), results_(node.out.size(), &parent.environment().watch->memory) {}

  Watch& watch() const { return *parent_.environment().watch; }

  Executor& parent_;
  const Node& node_;

 private:
  BufferSink results_;
};

Status make_control(Executor& parent, const Node& node, std::unique_ptr<Control>* out);

// A node of control flow among the steps of a plan.
class ControlKernel final : public Kernel {
 public:
  explicit ControlKernel(Control& control) : control_(control) {}
  void run(const RunContext& context) override;

 private:
  Control& control_;
};

}  // namespace minnow
