// Where the kernels of a stream say that the contents of their inputs are wrong.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kernels/gpu/device.h"

namespace minnow::gpu {

class ErrorSlots {
 public:
  explicit ErrorSlots(Device& device) : device_(device) {}

  // See Stream::error_slot(). The same context has the same slot each time, also in a recording.
  Status find(const RunContext& context, ErrorFunction function, void** address);
  // To be called when something with a slot is enqueued again without find(): a recording.
  void expect() { expected_ = !slots_.empty(); }
  bool expected() const { return expected_; }
  void forget() { expected_ = false; }
  // Reports what kernels have set, and sets it to 0. The stream is finished before, and after.
  Status collect(Stream& stream);
  // The same in two steps, which need not wait twice: before the stream is finished, and after.
  Status request(Stream& stream);
  Status report(Stream& stream);

 private:
  struct Slot {
    const RunContext* context = nullptr;
    ErrorFunction function = nullptr;
  };
  static constexpr int64_t kWords = 4, kSlotsOfPiece = 256;

  Device& device_;
  std::map<const RunContext*, size_t> numbers_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Memory>> pieces_;
  std::vector<int32_t> words_;
  bool expected_ = false;
};

}  // namespace minnow::gpu
