#include "kernels/gpu/error_slots.h"

#include <algorithm>

namespace minnow::gpu {

Status ErrorSlots::find(const RunContext& context, ErrorFunction function, void** address) {
  const auto [known, is_new] = numbers_.emplace(&context, slots_.size());
  const size_t number = known->second;
  if (is_new) {
    if (number % kSlotsOfPiece == 0) {
      const std::vector<int32_t> zeros(kWords * kSlotsOfPiece);
      const Status status =
          device_.upload(zeros.data(), static_cast<int64_t>(zeros.size()) * 4, &pieces_.emplace_back());
      if (!status.ok()) {
        pieces_.pop_back();
        numbers_.erase(known);
        return status;
      }
    }
    slots_.emplace_back();
  }
  slots_[number] = {&context, function};
  *address = pieces_[number / kSlotsOfPiece]->data() + number % kSlotsOfPiece * kWords * 4;
  expected_ = true;
  return ok();
}

Status ErrorSlots::collect(Stream& stream) {
  MINNOW_RETURN_IF_ERROR(request(stream));
  MINNOW_RETURN_IF_ERROR(stream.finish());
  return report(stream);
}

Status ErrorSlots::request(Stream& stream) {
  expected_ = false;
  const int64_t bytes = kWords * kSlotsOfPiece * 4;
  words_.resize(pieces_.size() * kWords * kSlotsOfPiece);
  for (size_t i = 0; i < pieces_.size(); ++i)
    MINNOW_RETURN_IF_ERROR(stream.download(pieces_[i]->data(), words_.data() + i * kWords * kSlotsOfPiece, bytes));
  return ok();
}

Status ErrorSlots::report(Stream& stream) {
  const int64_t bytes = kWords * kSlotsOfPiece * 4;
  if (std::all_of(words_.begin(), words_.end(), [](int32_t w) { return w == 0; })) return ok();
  for (size_t i = 0; i < slots_.size(); ++i)
    if (words_[i * kWords] != 0) slots_[i].context->report(slots_[i].function(&words_[i * kWords]));
  std::fill(words_.begin(), words_.end(), 0);
  for (size_t i = 0; i < pieces_.size(); ++i)
    MINNOW_RETURN_IF_ERROR(stream.upload(words_.data(), pieces_[i]->data(), bytes));
  return stream.finish();
}

}  // namespace minnow::gpu
