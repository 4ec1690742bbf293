#include "runtime/src/run/arena.h"

#include <algorithm>

namespace minnow {

Status Executor::grow_arena(const Stage& stage) {
  const auto depth = static_cast<size_t>(stage.depth);
  // Each by itself: a resize that finds no memory leaves the other done.
  if (arenas_.size() <= depth) arenas_.resize(depth + 1);
  if (least_.size() <= depth) least_.resize(depth + 1);
  least_[depth] = std::max(least_[depth], stage.least_bytes);
  arenas_[depth].resize(devices().size());
  for (size_t device = 0; device < devices().size(); ++device) {
    std::unique_ptr<Memory>& arena = arenas_[depth][device];
    const int64_t bytes = stage.arena_bytes[device];
    if (device == 0 && environment_.arena != nullptr) {
      MINNOW_RETURN_IF_ERROR(environment_.arena->grow(depth, bytes, backend(0), environment_.watch->memory));
      continue;
    }
    if (device != 0 && bytes == 0) continue;
    if (arena != nullptr && arena->bytes() >= bytes) continue;
    arena = nullptr;  // first give back, then take
    MINNOW_RETURN_IF_ERROR(devices()[device].backend->allocate(bytes, &environment_.watch->memory, &arena));
  }
  return ok();
}

void Executor::bind_arena(Stage& stage) {
  std::vector<const char*> bases;
  for (const auto& arena : arenas_[static_cast<size_t>(stage.depth)])
    bases.push_back(arena == nullptr ? nullptr : arena->data());
  if (environment_.arena != nullptr) bases[0] = environment_.arena->data(static_cast<size_t>(stage.depth));
  if (stage.bases == bases) return;
  stage.bases = bases;
  for (Storage& storage : stage.storages)
    if (storage.kind == Storage::kArena && storage.merged == nullptr)
      storage.data = const_cast<char*>(bases[static_cast<size_t>(storage.device)]) + storage.offset;
  for (Slot& slot : stage.slots) slot.tensor.data = slot.storage->place();
  for (Step& step : stage.steps) step.context.workspace = step.workspace == nullptr ? nullptr : step.workspace->place();
  forget_recordings(stage);
}

Status SharedArena::grow(size_t depth, int64_t bytes, Backend& host, const MemoryAccount& account) {
  if (memory_.size() <= depth) memory_.resize(depth + 1);
  std::unique_ptr<Memory>& memory = memory_[depth];
  if (memory != nullptr && memory->bytes() >= bytes) return ok();
  MINNOW_RETURN_IF_ERROR(account.fits(bytes));
  memory = nullptr;  // first give back, then take
  return host.allocate(bytes, nullptr, &memory);
}

int64_t SharedArena::bytes() const {
  int64_t bytes = 0;
  for (const auto& memory : memory_) bytes += memory == nullptr ? 0 : memory->bytes();
  return bytes;
}

}  // namespace minnow
