#include "runtime/src/backend/cpu.h"

#include <algorithm>
#include <string_view>

#include "kernels/core/region.h"
#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/machine/peak.h"
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/table.h"
#include "runtime/src/backend/calibration.h"

namespace minnow {
namespace {

class CpuMemory final : public Memory {
 public:
  static Status make(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) {
    auto memory = std::make_unique<CpuMemory>();
    MINNOW_RETURN_IF_ERROR(Buffer::make_paged(bytes, &memory->buffer_, account));
    memory->data_ = memory->buffer_.data();
    memory->bytes_ = bytes;
    *out = std::move(memory);
    return ok();
  }
  CpuMemory() = default;
  CpuMemory(const void* host, int64_t bytes) {
    data_ = static_cast<char*>(const_cast<void*>(host));  // read only, as the caller of wrap knows
    bytes_ = bytes;
  }

 private:
  Buffer buffer_;
};

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(ThreadPool* pool) : pool_(pool) {}
  Status run(Kernel& kernel, const RunContext& context) override {
    kernel.run(context);
    return ok();
  }
  Status copy(const Tensor& from, Tensor* to) override {
    copy_bytes(from.data, to->data, from.type.bytes(), pool_);
    return ok();
  }
  Status finish() override { return ok(); }

 private:
  ThreadPool* pool_;
};

class LayoutConversion final : public Kernel {
 public:
  LayoutConversion(bool packs, int64_t elements) : packs_(packs), elements_(elements) {}
  void run(const RunContext& c) override { convert_layout(*c.in[0], c.out[0], c.pool); }
  Profile profile() const override { return {packs_ ? "pack" : "unpack"}; }
  double seconds() const override { return estimate_seconds(elements_, 16384); }

 private:
  bool packs_;
  int64_t elements_;
};

}  // namespace

Cpu& Cpu::instance() {
  static Cpu cpu;
  return cpu;
}

Status Cpu::can_run(Precision precision) {
  MINNOW_RETURN_IF_ERROR(isa_status());
  MINNOW_RETURN_IF_ERROR(byte_status());
  if (precision == Precision::kLow) MINNOW_RETURN_IF_ERROR(bf16_status());
  calibrate_once();
  return ok();
}

const KernelRow* Cpu::find(const OpSpec& op) const { return cpu_kernels().find(op); }

const KernelRow* Cpu::row_for(const OpSpec& op, const NodeContext& node, std::string*) const {
  const KernelRow* added = added_row(op, &node);
  return added == nullptr ? find(op) : added;
}

// Of what it reads, writes and multiplies; one thread's share, as all threads work on a node.
double Cpu::seconds(const OpSpec& op, const NodeContext& node, std::string* why) const {
  if (find(op) == nullptr) {
    *why = "has no kernel for it";
    return -1;
  }
  int64_t elements = 0;
  for (const auto* types : {&node.in, &node.out})
    for (const TensorType* type : *types) elements += type == nullptr ? 0 : type->count();
  const int64_t macs = op.macs == nullptr ? 0 : op.macs(node);
  return (estimate_seconds(elements, 16384) + estimate_product(macs, 0)) / std::max(node.threads, 1);
}

int64_t Cpu::bytes(const TensorType& type) const { return stored_bytes(type); }

int Cpu::channel_block() const { return pack_width(); }

std::unique_ptr<Kernel> Cpu::create_conversion(const TensorType& from, const TensorType& to) const {
  (void)from;
  return std::make_unique<LayoutConversion>(to.layout != Layout::kPlain, to.count());
}

Status Cpu::allocate(int64_t bytes, MemoryAccount* account, std::unique_ptr<Memory>* out) {
  return CpuMemory::make(bytes, account, out);
}

std::unique_ptr<Memory> Cpu::wrap(const void* host, int64_t bytes) { return std::make_unique<CpuMemory>(host, bytes); }

std::unique_ptr<Queue> Cpu::create_queue(const QueueOptions& options) {
  return std::make_unique<CpuQueue>(options.pool);
}

const char* cpu_instruction_set() { return isa_name(); }

CpuPeak measure_cpu(ThreadPool& pool) {
  const Peak peak = measure_peak(pool);
  return {peak.flops, peak.bytes};
}

bool cpu_takes_half_images() { return kHasLast && bf16_unit() != nullptr; }

bool cpu_takes_half_rows(int64_t m, int64_t n, int64_t k, int64_t length, Precision precision) {
  return length % kBf16Depth == 0 && Bf16Gemm::takes_half(m, n, k, precision);
}

std::string cpu_packing() { return std::string(isa_name()) + "/" + std::to_string(pack_width()); }

}  // namespace minnow
