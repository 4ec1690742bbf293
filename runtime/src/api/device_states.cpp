#include "runtime/src/api/device_states.h"

#include <utility>

namespace minnow {

Status DeviceStates::place(const Executor& executor, const std::vector<Tensor>& host, std::vector<const void*>* data,
                           std::vector<int>* places) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const size_t input = model_.inputs.size() + i, output = model_.outputs.size() + i;
    const int device =
        host[i].type.bytes() == 0 ? 0 : executor.device_between(static_cast<int>(input), static_cast<int>(output));
    if (device != entry.device) {
      MINNOW_RETURN_IF_ERROR(fetch(&entry, host[i]));
      entry = Entry();
    }
    if (device == 0) continue;
    if (!entry.valid) MINNOW_RETURN_IF_ERROR(upload(&entry, device, host[i], model_.states[i].in_place));
    if (entry.stays_on_host) continue;
    (*data)[input] = entry.memory[0]->data();
    (*places)[input] = device;
  }
  return ok();
}

Status DeviceStates::upload(Entry* entry, int device, const Tensor& host, bool in_place) {
  const Device& to = devices_[static_cast<size_t>(device)];
  const int64_t bytes = host.type.bytes();
  for (std::unique_ptr<Memory>& memory : entry->memory) {
    if (in_place && &memory != &entry->memory[0]) continue;
    if (memory != nullptr && memory->bytes() >= bytes) continue;
    memory = nullptr;  // first give back, then take
    const Status status = to.backend->allocate(bytes, account_, &memory);
    if (status.ok()) continue;
    *entry = Entry();
    return status;
  }
  if (!to.queue->owns(entry->memory[0]->data())) {
    *entry = Entry();
    entry->stays_on_host = true;
    return ok();
  }
  entry->device = device;
  entry->type = host.type;
  Tensor there{host.type, entry->memory[0]->data()};
  const Status copied = to.queue->copy(host, &there), done = to.queue->finish();
  MINNOW_RETURN_IF_ERROR(copied);
  MINNOW_RETURN_IF_ERROR(done);
  entry->valid = true;
  return ok();
}

void DeviceStates::advance() {
  for (Entry& entry : entries_) {
    if (entry.device == 0) continue;
    if (entry.memory[1] != nullptr) std::swap(entry.memory[0], entry.memory[1]);
    entry.newer = true;
  }
}

Status DeviceStates::fetch(Entry* entry, const Tensor& host) {
  if (entry->newer) {
    Queue& queue = *devices_[static_cast<size_t>(entry->device)].queue;
    const Tensor from{entry->type, entry->memory[0]->data()};
    Tensor to = host;
    const Status copied = queue.copy(from, &to), done = queue.finish();
    MINNOW_RETURN_IF_ERROR(copied);
    MINNOW_RETURN_IF_ERROR(done);
  }
  entry->valid = entry->newer = false;
  return ok();
}

Status DeviceStates::fetch(const std::vector<Tensor>& host) {
  for (size_t i = 0; i < entries_.size(); ++i) MINNOW_RETURN_IF_ERROR(fetch(&entries_[i], host[i]));
  return ok();
}

void DeviceStates::forget() {
  for (Entry& entry : entries_) entry.valid = entry.newer = false;
}

}  // namespace minnow
