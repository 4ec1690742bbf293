#include "runtime/src/run/observe.h"

#include <algorithm>
#include <cstring>

#include "runtime/src/run/control.h"

namespace minnow {

Status ObservedNode::begin(const std::vector<const Tensor*>& inputs) {
  copies_.resize(inputs.size());
  inputs_.assign(inputs.size(), Tensor());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const int64_t bytes = inputs[i]->type.bytes();
    MINNOW_RETURN_IF_ERROR(Buffer::make(bytes, &copies_[i]));
    if (bytes > 0) std::memcpy(copies_[i].data(), inputs[i]->data, static_cast<size_t>(bytes));
    inputs_[i] = Tensor{inputs[i]->type, copies_[i].data()};
  }
  return show(nullptr);
}

Status ObservedNode::end(const std::vector<Tensor>& outputs) { return show(&outputs); }

Status ObservedNode::show(const std::vector<Tensor>* outputs) {
  observation_.thread = std::this_thread::get_id();
  Status status = observation_.observer->see({name_, op_, inputs_, outputs});
  observation_.thread = std::thread::id();
  return status;
}

// The tensor in plain layout in the host's memory: itself where it is that already, else a copy in `memory`.
Status Executor::on_host(const Tensor& tensor, int device, Buffer* memory, Tensor* out) {
  static char nothing;
  *out = tensor;
  if (out->data == nullptr) out->data = &nothing;  // of no bytes, and not missing
  if (device == 0 && tensor.type.layout == Layout::kPlain) return ok();
  out->type.layout = Layout::kPlain;
  MINNOW_RETURN_IF_ERROR(Buffer::make(out->type.bytes(), memory));
  out->data = memory->data();
  if (!is_other(device)) {
    convert_layout(host(), tensor, out, environment_.pool);
    return ok();
  }
  const Device& from = devices()[static_cast<size_t>(device)];
  Tensor plain = tensor;
  std::unique_ptr<Memory> converted;
  std::unique_ptr<Kernel> conversion;
  RunContext context;
  if (tensor.type.layout != Layout::kPlain) {
    plain.type.layout = Layout::kPlain;
    MINNOW_RETURN_IF_ERROR(from.backend->allocate(from.backend->bytes(plain.type), nullptr, &converted));
    plain.data = converted->data();
    context.in = {&tensor};
    context.out = {&plain};
    context.pool = environment_.pool;
    conversion = from.backend->create_conversion(tensor.type, plain.type);
    MINNOW_RETURN_IF_ERROR(from.queue->run(*conversion, context));
  }
  const Status copied = from.queue->copy(plain, out);
  const Status done = from.queue->finish();  // in any case: it still works on what ends here
  MINNOW_RETURN_IF_ERROR(copied);
  return done;
}

Status Executor::run_observed(Stage& stage) {
  for (size_t i = 0; i < stage.steps.size(); ++i) {
    Step& step = stage.steps[i];
    MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    ObservedNode observed(*environment_.observation, step.name, step.op);
    const size_t n = step.in.size();
    std::vector<Buffer> memory(n);
    std::vector<std::shared_ptr<const Tensor>> held(n);
    std::vector<Tensor> tensors(std::max(n, step.out.size()));
    std::vector<const Tensor*> inputs(n);
    for (size_t k = 0; k < n; ++k) {
      if (step.in[k] != nullptr) {
        MINNOW_RETURN_IF_ERROR(
            on_host(step.in[k]->tensor, step.in[k]->storage->root()->device, &memory[k], &tensors[k]).at(step.place()));
        inputs[k] = &tensors[k];
      } else if (step.constants[k] != nullptr) {
        MINNOW_RETURN_IF_ERROR(step.constants[k]->acquire(&held[k]).at(step.place()));
        MINNOW_RETURN_IF_ERROR(on_host(*held[k], 0, &memory[k], &tensors[k]).at(step.place()));
        inputs[k] = &tensors[k];
      }
    }
    MINNOW_RETURN_IF_ERROR(observed.begin(inputs).at(step.place()));
    MINNOW_RETURN_IF_ERROR(observed.inside([&] { return run_step(step) ? ok() : step.error; }).at(step.place()));
    if (step.is_long) MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    if (is_other(step.device)) MINNOW_RETURN_IF_ERROR(finish(stage, 1u << step.device, i + 1));
    std::vector<Tensor> outputs(step.out.size());
    std::vector<Buffer> results(step.out.size());
    for (size_t k = 0; k < step.out.size(); ++k)
      if (step.out[k] != nullptr)
        MINNOW_RETURN_IF_ERROR(
            on_host(step.out[k]->tensor, step.out[k]->storage->root()->device, &results[k], &outputs[k])
                .at(step.place()));
    MINNOW_RETURN_IF_ERROR(observed.end(outputs).at(step.place()));
  }
  return ok();
}

}  // namespace minnow
