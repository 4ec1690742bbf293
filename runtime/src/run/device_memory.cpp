// Inputs and outputs that the caller has in the memory of a device. Where nothing but copies between that device and
// the host use them, these copies take them from there and put them there: they never come to the host. All others are
// copied to the host first, or from there at the end.
#include <algorithm>

#include "runtime/src/run/executor.h"

namespace minnow {
namespace {

bool is_in(const Storage& storage, const Slot* slot) {
  return slot != nullptr && (slot->storage == &storage || slot->storage->merged == &storage);
}

}  // namespace

bool Executor::is_taken_by(const Stage& stage, const Storage& input, int device) const {
  if (!stage.pending.empty() || environment_.observation->observer != nullptr) return false;
  for (const Step& step : stage.steps) {
    const bool reads = std::any_of(step.in.begin(), step.in.end(), [&](const Slot* s) { return is_in(input, s); });
    if (reads && !(step.is_transfer && step.device == device)) return false;
  }
  return std::none_of(stage.deliveries.begin(), stage.deliveries.end(),
                      [&](const Delivery& d) { return is_in(input, d.slot); });
}

bool Executor::is_given_by(const Stage& stage, const Storage& output, int device) const {
  if (!stage.pending.empty() || environment_.observation->observer != nullptr) return false;
  for (const Step& step : stage.steps) {
    const bool reads = std::any_of(step.in.begin(), step.in.end(), [&](const Slot* s) { return is_in(output, s); });
    const bool makes = std::any_of(step.out.begin(), step.out.end(), [&](const Slot* s) { return is_in(output, s); });
    if (reads || (makes && !(step.is_transfer && step.device == device))) return false;
  }
  return std::none_of(stage.deliveries.begin(), stage.deliveries.end(),
                      [&](const Delivery& d) { return is_in(output, d.slot); });
}

int Executor::device_between(int input, int output) const {
  const Stage& stage = *plans_.front().second;
  const auto is = [](const Storage& storage, Storage::Kind kind, int index) {
    return storage.kind == kind && storage.index == index;
  };
  for (int device = 1; device < static_cast<int>(devices().size()); ++device) {
    bool takes = false, gives = false;
    for (const Storage& storage : stage.storages)
      if (is(storage, Storage::kInput, input)) takes = is_taken_by(stage, storage, device);
    for (const Storage* storage : stage.outputs)
      if (storage->index == output) gives = is_given_by(stage, *storage, device);
    if (takes && gives) return device;
  }
  return 0;
}

Status Executor::take_input(const Stage& stage, Storage& input, const void* data, int place) {
  input.data = static_cast<char*>(const_cast<void*>(data));
  input.given_on = is_other(place) && is_taken_by(stage, input, place) ? place : 0;
  if (!is_other(place) || input.given_on == place) return ok();
  const int value = graph_.inputs[static_cast<size_t>(input.index)];
  const Tensor there{stage.values[static_cast<size_t>(value)].type, input.data};
  Buffer& copy = host_copies_.emplace_back();
  MINNOW_RETURN_IF_ERROR(Buffer::make(there.type.bytes(), &copy));
  Tensor host{there.type, copy.data()};
  input.data = copy.data();
  Queue& queue = *devices()[static_cast<size_t>(place)].queue;
  const Status copied = queue.copy(there, &host), done = queue.finish();
  MINNOW_RETURN_IF_ERROR(copied);
  return done;
}

Status Executor::place_output(const Stage& stage, Storage& output, OutputSink& sink) {
  const int value = graph_.outputs[static_cast<size_t>(output.index)];
  const TensorType& type = stage.values[static_cast<size_t>(value)].type;
  MINNOW_RETURN_IF_ERROR(environment_.watch->memory.fits(type.bytes()));
  output.data = static_cast<char*>(sink.memory(output.index, type));
  if (output.data == nullptr) return fail(Code::kUnsupported, "there is no memory for output %d", output.index);
  const int device = kHasOtherDevices ? sink.device(output.index) : 0;
  output.given_on = 0;
  if (device == 0) return ok();
  // New memory is there when the default stream has come to its allocation.
  if (sink.is_new(output.index)) MINNOW_RETURN_IF_ERROR(devices()[static_cast<size_t>(device)].queue->follow(0));
  if (is_given_by(stage, output, device)) {
    output.given_on = device;
    return ok();
  }
  Buffer& copy = host_copies_.emplace_back();
  MINNOW_RETURN_IF_ERROR(Buffer::make(type.bytes(), &copy));
  moved_.push_back({Tensor{type, copy.data()}, output.data, device});
  output.data = copy.data();
  return ok();
}

Status Executor::move_results() {
  if constexpr (!kHasOtherDevices) return ok();
  for (const Moved& moved : moved_) MINNOW_RETURN_IF_ERROR(give(moved.host, moved.to, moved.device));
  return ok();
}

Status Executor::give(const Tensor& from, void* to, int device) {
  Tensor target{from.type, to};
  Queue& queue = *devices()[static_cast<size_t>(device)].queue;
  const Status copied = queue.copy(from, &target), done = queue.finish();
  MINNOW_RETURN_IF_ERROR(copied);
  return done;
}

}  // namespace minnow
