// Where the tensors of a stage lie.
#include <algorithm>
#include <string_view>

#include "kernels/core/rounding.h"
#include "runtime/src/plan/arena.h"
#include "runtime/src/plan/planner.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

// Outputs are computed where the caller wants them, unless something else already lies there.
Status Planner::deliver_outputs() {
  const std::vector<int>& outputs = x_.graph_.outputs;
  stage_.delivered.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const PlanValue& value = stage_.values[static_cast<size_t>(outputs[i])];
    if (stage_.delivered[i] || !value.known) continue;
    stage_.delivered[i] = true;
    Delivery delivery;
    delivery.output = static_cast<int>(i);
    if (value.constant != nullptr) {
      MINNOW_RETURN_IF_ERROR(contents(outputs[i], &delivery.constant));
    } else {
      Slot* slot = nullptr;
      MINNOW_RETURN_IF_ERROR(emit_copy(outputs[i], Form(), &slot));
      if (slot->storage->stage == &stage_ && slot->storage->kind == Storage::kArena) {
        slot->storage->kind = Storage::kOutput;
        slot->storage->index = static_cast<int>(i);
        continue;
      }
      delivery.slot = slot;
    }
    stage_.deliveries.push_back(std::move(delivery));
  }
  return ok();
}

void Planner::find_lifetimes() {
  const int end = static_cast<int>(stage_.steps.size());
  for (int i = 0; i < end; ++i) {
    const Step& step = stage_.steps[static_cast<size_t>(i)];
    for (const Slot* slot : step.out)
      if (slot != nullptr) slot->storage->first = slot->storage->last = i;
    for (const Slot* slot : step.in)
      if (slot != nullptr) slot->storage->last = i;
    if (step.workspace != nullptr) step.workspace->first = step.workspace->last = i;
  }
  // What a later stage reads lives on.
  for (const PlanNode& node : stage_.pending) {
    for (int v : node.in) {
      if (v < 0 || !stage_.values[static_cast<size_t>(v)].known) continue;  // nothing has made it yet
      for (const Form& form : x_.forms()) {
        const Slot* slot = stage_.find(v, form);
        if (slot != nullptr) slot->storage->last = end;
      }
    }
  }
  for (const Delivery& delivery : stage_.deliveries)
    if (delivery.slot != nullptr) delivery.slot->storage->last = end;
  keep_for_queues();
  // While a group runs, the progress of its chains is unknown: what a chain does not have for itself is there from
  // the beginning of the group to its end.
  for (const Group& group : stage_.groups) {
    const int first = static_cast<int>(group.ends.front()), last = static_cast<int>(group.ends.back()) - 1;
    for (size_t chain = 1; chain < group.ends.size(); ++chain) {
      const int begin = static_cast<int>(group.ends[chain - 1]), stop = static_cast<int>(group.ends[chain]);
      for (int i = begin; i < stop; ++i) {
        const Step& step = stage_.steps[static_cast<size_t>(i)];
        for (const auto* slots : {&step.in, &step.out})
          for (const Slot* slot : *slots) {
            if (slot == nullptr) continue;
            Storage& storage = *slot->storage;
            if (storage.first >= begin && storage.first < storage.last && storage.last < stop) continue;
            storage.first = std::min(storage.first, first);
            storage.last = std::max(storage.last, last);
          }
      }
    }
  }
}

namespace {

// Bytes from the beginning of a part to that of the next: without what a device allocates behind a tensor.
int64_t extent(const Backend& backend, TensorType type) {
  if (type.layout == Layout::kLast || (type.layout == Layout::kPacked && backend.channel_block() == kChannelsLast))
    return backend.bytes(type);
  if (type.layout == Layout::kPacked) type.shape[1] = round_up(type.shape[1], backend.channel_block());
  return type.bytes();
}

}  // namespace

// What is concatenated is computed where the result has it, if it lies there in one piece: then nothing is to be
// copied. What lies elsewhere already (in another result, an input, a constant) is copied there.
void Planner::place_parts() {
  for (size_t i = 0; i < stage_.steps.size(); ++i) {
    Step& step = stage_.steps[i];
    if (step.entry->op == nullptr || std::string_view(step.entry->op->name) != "Concat") continue;
    Storage* to = step.out[0]->storage;
    const Backend& backend = x_.backend(step.device);
    if (to->merged != nullptr || to->bytes != backend.bytes(step.out[0]->tensor.type)) continue;
    const Shape& y = step.out[0]->tensor.type.shape;
    int64_t axis = step.entry->attrs->i("axis"), outer = 1;
    if (axis < 0) axis += y.rank();
    for (int k = 0; k < axis; ++k) outer *= y[k];
    const Layout layout = step.out[0]->tensor.type.layout;
    const bool strided =
        layout == Layout::kLast || (layout == Layout::kPacked && backend.channel_block() == kChannelsLast);
    // Parts whose pixels are as far apart as those of the result have been planned to lie there.
    const bool by_pixels = layout == Layout::kLast && axis == 1 && step.out[0]->tensor.type.dtype == DType::kF32;
    if (!by_pixels && (outer != 1 || (strided && axis > 0))) continue;
    const int64_t end = extent(backend, step.out[0]->tensor.type);
    int64_t shift = 0;
    for (Slot* in : step.in) {
      if (in == nullptr) break;  // a constant, of which only the kernel knows the size
      Storage* from = in->storage;
      const int64_t bytes = backend.bytes(in->tensor.type), own = extent(backend, in->tensor.type), at = shift;
      shift += by_pixels ? 2 * in->tensor.type.shape[1] : own;
      if (by_pixels && (in->tensor.type.pixel == 0 || bytes != to->bytes)) continue;
      if (from->merged != nullptr || from == to || from->stage != &stage_ || from->kind != Storage::kArena ||
          from->device != to->device || from->bytes != bytes || bytes == 0 || at % kAlignment != 0 || shift > end ||
          at + (by_pixels ? 0 : bytes) > to->bytes || (!by_pixels && own % kAlignment != 0 && shift != end))
        continue;
      from->merged = to;
      from->shift = at;
      to->first = std::min(to->first, from->first);
      to->last = std::max(to->last, from->last);
    }
  }
}

// An op that may work in place does, when its first input dies with it.
void Planner::share_memory() {
  for (size_t i = 0; i < stage_.steps.size(); ++i) {
    Step& step = stage_.steps[i];
    if (step.entry->row == nullptr || !step.entry->row->in_place || step.in.empty() || step.in[0] == nullptr) continue;
    const Backend& backend = x_.backend(step.device);
    const Slot* in = step.in[0];
    const Slot* out = step.out[0];
    Storage* from = in->storage->root();
    Storage* to = out->storage->root();
    const auto shares = [&](const Slot* s) { return s != nullptr && s != in && s->storage->root() == from; };
    if (from == to || from->stage != &stage_ || from->kind != Storage::kArena || from->last != static_cast<int>(i) ||
        to->first != static_cast<int>(i) || from->bytes != to->bytes ||
        in->tensor.type.layout != out->tensor.type.layout ||
        backend.bytes(in->tensor.type) != backend.bytes(out->tensor.type) ||
        in->tensor.count() != out->tensor.count() || from->bytes != backend.bytes(out->tensor.type) ||
        std::any_of(step.in.begin(), step.in.end(), shares))
      continue;
    from->merged = to;
    to->first = std::min(to->first, from->first);
  }
}

// What only one chain of a group needs lies in memory of that chain, where it follows each other as in a plan of its
// own: what is over makes room for what begins.
void Planner::gather_chains() {
  std::vector<std::vector<Storage*>> begun(stage_.steps.size() + 1);  // with each step
  for (Storage& storage : stage_.storages)
    if (storage.kind == Storage::kArena && storage.merged == nullptr && storage.device == 0)
      begun[static_cast<size_t>(storage.first)].push_back(&storage);
  for (const Group& group : stage_.groups) {
    for (size_t chain = 1; chain < group.ends.size(); ++chain) {
      const size_t begin = group.ends[chain - 1], stop = group.ends[chain];
      std::vector<Lifetime> pieces;
      std::vector<Storage*> owners;
      for (size_t i = begin; i < stop; ++i) {
        for (Storage* s : begun[i]) {
          if (s->last >= static_cast<int>(stop)) continue;
          pieces.push_back({s->first, s->last, s->bytes});
          owners.push_back(s);
        }
      }
      std::vector<int64_t> offsets;
      Storage* whole = new_storage(Storage::kArena, plan_memory(pieces, &offsets));
      whole->first = static_cast<int>(group.ends.front());
      whole->last = static_cast<int>(group.ends.back()) - 1;
      for (size_t i = 0; i < owners.size(); ++i) {
        owners[i]->merged = whole;
        owners[i]->shift = offsets[i];
      }
    }
  }
  // Chains can be as long as the model; what a storage merged into is younger, so from the end each is one step.
  for (auto storage = stage_.storages.rbegin(); storage != stage_.storages.rend(); ++storage) {
    if (storage->merged == nullptr || storage->merged->merged == nullptr) continue;
    storage->shift += storage->merged->shift;
    storage->merged = storage->merged->merged;
  }
}

void Planner::assign_memory() {
  stage_.arena_bytes.assign(x_.devices().size(), 0);
  for (size_t device = 0; device < stage_.arena_bytes.size(); ++device) {
    std::vector<Lifetime> pieces;
    std::vector<Storage*> owners;
    for (Storage& storage : stage_.storages) {
      if (storage.kind != Storage::kArena || storage.merged != nullptr || storage.device != static_cast<int>(device))
        continue;
      pieces.push_back({storage.first, storage.last, storage.bytes});
      owners.push_back(&storage);
    }
    std::vector<int64_t> offsets;
    stage_.arena_bytes[device] = plan_memory(pieces, &offsets);
    stage_.least_bytes += least_memory(pieces);
    for (size_t i = 0; i < owners.size(); ++i) owners[i]->offset = offsets[i];
  }
  for (Storage& storage : stage_.storages)
    if (storage.kind == Storage::kOutput && storage.merged == nullptr) stage_.outputs.push_back(&storage);
  for (Slot& slot : stage_.slots)
    if (slot.storage->root()->kind != Storage::kArena || slot.storage->stage != &stage_) stage_.bound.push_back(&slot);
}

}  // namespace minnow
