// The fastest schemes of the kernels of other devices: from the file with packed weights, or by trying them after the
// first run of a stage.
#include <cstring>

#include "runtime/src/run/executor.h"
#include "runtime/src/model/weight_store.h"

namespace minnow {
namespace {

void add(const TensorType* type, std::string* text) {
  if (type == nullptr) return text->append(" -"), void();
  *text += std::string(" ") + dtype_name(type->dtype) +
           (type->layout == Layout::kPlain    ? ""
            : type->layout == Layout::kPacked ? "p"
                                              : "l") +
           type->shape.str();
}

// What two steps of the same speed have in common: their kernels' op, types and work.
std::string description_of(const Step& step, Precision precision) {
  std::string text = step.op + " p" + std::to_string(static_cast<int>(precision));
  for (const Tensor* tensor : step.context.in) add(tensor == nullptr ? nullptr : &tensor->type, &text);
  text += " ->";
  for (const Tensor* tensor : step.context.out) add(tensor == nullptr ? nullptr : &tensor->type, &text);
  return text + " " + std::to_string(step.entry->kernel->profile().macs);
}

constexpr int64_t kLastPlace = int64_t{1} << 62;  // in the file, behind all weights

}  // namespace

Status Executor::tune(Stage& stage, bool* has_run) {
  stage.is_tuned = true;
  for (size_t device = 1; device < devices().size(); ++device) {
    if ((stage.devices >> device & 1) == 0) continue;
    std::vector<Tunable> tunables;
    std::vector<size_t> numbers;
    for (size_t i = 0; i < stage.steps.size(); ++i) {
      const Step& step = stage.steps[i];
      if (step.device != static_cast<int>(device) || step.is_transfer) continue;
      tunables.push_back({step.entry->kernel.get(), &step.context, description_of(step, environment_.precision), -1});
      numbers.push_back(i);
    }
    const std::string kind = "scheme/" + backend(static_cast<int>(device)).kind() + "/";
    std::vector<bool> known(tunables.size());
    for (size_t i = 0; i < tunables.size(); ++i) {
      int64_t scheme = -1;
      known[i] = model_.store->peek(kind + tunables[i].what, sizeof scheme, &scheme);
      if (known[i]) tunables[i].scheme = static_cast<int>(scheme);
    }
    MINNOW_RETURN_IF_ERROR(environment_.watch->go_on());
    MINNOW_RETURN_IF_ERROR(devices()[device].queue->tune(&tunables));
    for (size_t i = 0; i < tunables.size(); ++i) {
      Step& step = stage.steps[numbers[i]];
      step.scheme = tunables[i].scheme;
      if (step.scheme < 0) continue;
      *has_run = true;
      if (known[i]) continue;
      const int64_t scheme = step.scheme;
      model_.store->find(kind + tunables[i].what, kLastPlace, sizeof scheme,
                         [&](void* memory) { std::memcpy(memory, &scheme, sizeof scheme); });
    }
  }
  if (*has_run) forget_recordings(stage);
  return ok();
}

}  // namespace minnow
