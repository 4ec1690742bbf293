// A stream of CUDA, with pinned memory for copies from and to memory that is not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/gpu/error_slots.h"

namespace minnow::cuda {

// A text of this build: its code, and the numbers that stand for its constants.
class TextProgram final : public gpu::Program {
 public:
  TextProgram(const gpu::TextInfo& text, const void* code, std::vector<int32_t> constants)
      : Program(text), code(code), constants(std::move(constants)) {}
  const void* const code;
  const std::vector<int32_t> constants;
};

// Memory of the host that the device reads and writes by itself. Given out piece by piece, until all is given back.
class PinnedMemory {
 public:
  ~PinnedMemory();
  // Null where the system has none left, or for more than is worth being copied twice.
  char* take(int64_t bytes);
  void give_back_all() { block_ = 0, used_ = 0; }

 private:
  struct Block {
    char* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Block> blocks_;
  size_t block_ = 0;  // from which is taken
  int64_t used_ = 0;  // of it
};

class CudaStream final : public gpu::Stream {
 public:
  // `index`: of the device. `overlap`: as Target has it.
  CudaStream(gpu::Device& device, int index, bool overlap);
  ~CudaStream() override;

  Status launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) override;
  bool owns(const void* address) const override;
  bool gives_addresses() const override { return true; }
  Status follow(uintptr_t stream) override;
  Status upload(const void* host, void* device, int64_t bytes) override;
  Status download(const void* device, void* host, int64_t bytes) override;
  Status copy(const void* from, void* to, int64_t bytes) override;
  Status finish() override;
  Status error_slot(const RunContext& context, gpu::ErrorFunction function, void** address) override;
  bool can_record() const override { return true; }
  Status begin_recording() override;
  Status end_recording(std::unique_ptr<Recording>* out) override;
  Status wait(gpu::Stream& other) override;
  bool can_time() const override { return true; }
  Status time(const std::function<Status()>& enqueue, int times, double* seconds) override;

  const Target& target() const { return target_; }
  int index() const { return index_; }
  // Enqueues what was recorded on it. `reports`: its kernels may have errors to report.
  Status replay(cudaGraphExec_t graph, bool reports);

 private:
  struct Arrival {  // of a download, at finish()
    const char* from;
    void* to;
    int64_t bytes;
  };

  gpu::Device& device_;
  const int index_;
  Target target_;
  cudaEvent_t event_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;  // of what is timed
  Status made_;
  gpu::ErrorSlots errors_;
  bool expected_before_ = false;  // errors, when a recording began
  PinnedMemory pinned_;
  std::vector<Arrival> arrivals_;
};

// Makes the device the one that this thread's calls are for.
Status use_device(int index);

}  // namespace minnow::cuda
