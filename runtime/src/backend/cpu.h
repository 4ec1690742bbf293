// The CPU as a backend: the one that is always there, and whose memory is the host's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/backend/backend.h"

namespace minnow {

class Cpu final : public Backend {
 public:
  // The only one.
  static Cpu& instance();

  // An error where the processor cannot run this build's kernels, or not with this precision. To be asked before the
  // first kernel is made.
  static Status can_run(Precision precision);

  std::string name() const override { return "cpu"; }
  const KernelRow* find(const OpSpec& op) const override;
  const KernelRow* row_for(const OpSpec& op, const NodeContext& node, std::string* why) const override;
  double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const override;
  double copy_seconds(int64_t) const override { return 0; }
  int64_t bytes(const TensorType& type) const override;
  int channel_block() const override;
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const override;
  Status allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) override;
  std::unique_ptr<Memory> wrap(const void* host, int64_t bytes) override;
  std::unique_ptr<Queue> create_queue(const QueueOptions& options) override;

 private:
  Cpu() = default;
};

// The instruction set in use: "avx512", "avx2", "sse4", "neon", "scalar".
const char* cpu_instruction_set();
// What it computes and reads at the most, with all threads of the pool: floating-point operations and bytes per second.
struct CpuPeak {
  double flops = 0, bytes = 0;
};
CpuPeak measure_cpu(ThreadPool& pool);
// Whether convolutions of precision "low" take images of bf16 with channels last, and leave such.
bool cpu_takes_half_images();
// Whether a product of m rows with weights [n, k] takes rows of bf16 in place of f32 that are so long, and leaves such.
bool cpu_takes_half_rows(int64_t m, int64_t n, int64_t k, int64_t length, Precision precision);
// What decides, beside the model, in which form weights are packed.
std::string cpu_packing();

}  // namespace minnow
