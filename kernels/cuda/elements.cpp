#include "kernels/cuda/elements.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "kernels/cuda/compiler.h"
#include "kernels/cuda/device.h"

namespace minnow::cuda {
namespace {

using gpu::ElementIndex;

constexpr size_t kMostOperands = 16, kMostResults = 8, kMostSteps = 128;
constexpr int64_t kThreads = 256;
constexpr int64_t kLeastElements = 4096;  // fewer take no longer step by step

// As the variable MINNOW_COMPILE says it.
bool is_wanted(int64_t elements) {
  const char* value = std::getenv("MINNOW_COMPILE");
  const std::string wanted = value == nullptr ? "" : value;
  return wanted == "all" || (wanted != "off" && elements >= kLeastElements);
}

class Compiled final : public gpu::CompiledElements {
 public:
  Compiled(cudaKernel_t kernel, std::vector<int32_t> index, int64_t threads)
      : kernel_(kernel), index_(std::move(index)), threads_(threads) {}

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    std::vector<void*> addresses, arguments;
    for (const Tensor* t : context.in) addresses.push_back(t == nullptr ? nullptr : t->data);
    for (const Tensor* t : context.out) addresses.push_back(t == nullptr ? nullptr : t->data);
    for (void*& address : addresses) arguments.push_back(&address);
    arguments.push_back(index_.data());
    const Target target = target_of(stream);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>((threads_ + kThreads - 1) / kThreads));
    config.blockDim = dim3(static_cast<unsigned>(kThreads));
    config.stream = target.stream;
    cudaLaunchAttribute overlap;
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = target.overlap ? 1 : 0;
    return check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel_), arguments.data()),
                 "to compute elements");
  }

 private:
  cudaKernel_t kernel_;
  std::vector<int32_t> index_;  // the argument Index of the text
  int64_t threads_;
};

// How many elements a thread makes: 16 bytes of the smallest ones.
int together_of(const gpu::ElementProgram& program, const NodeContext& node) {
  size_t least = 4;
  for (DType t : program.operands) least = std::min(least, dtype_size(t));
  for (const TensorType* type : node.out) least = std::min(least, dtype_size(type->dtype));
  return least >= 4 ? 4 : 8;
}

}  // namespace

std::unique_ptr<gpu::CompiledElements> compile_elements(const gpu::ElementProgram& program, const NodeContext& node,
                                                        int capability) {
  if (program.operands.size() > kMostOperands || program.results.size() > kMostResults ||
      program.steps.size() > kMostSteps || node.in.size() != program.operands.size() ||
      node.out.size() != program.results.size())
    return nullptr;
  ElementIndex index;
  if (!index.make(node.in, *node.out[0], gpu::device_of(node)).ok() || index.total() == 0 || !is_wanted(index.total()))
    return nullptr;
  ElementForm form;
  form.together = together_of(program, node);
  for (const TensorType* type : node.out) form.results.push_back(type->dtype);
  form.rank = index.rank();
  form.rows = form.rank > 0 && index.size(0) % form.together == 0;
  for (size_t k = 0; k < program.operands.size(); ++k) {
    const ElementIndex::Operand& from = index.operand(k);
    ElementForm::Operand to;
    to.dtype = program.operands[k];
    to.mode = from.mode;
    if (from.mode == ElementIndex::kStrided) {
      int64_t most = 0;
      bool even = true;
      for (int d = 0; d < form.rank; ++d) {
        const int64_t stride = from.stride[static_cast<size_t>(d)];
        most += (index.size(d) - 1) * stride;
        even = even && (d == 0 || stride % form.together == 0);
      }
      to.step = from.stride[0] == 0 ? 0 : from.stride[0] == 1 ? 1 : 2;
      to.is_bounded = most > from.last;
      to.whole = to.step == 1 && even && !to.is_bounded;
    }
    form.operands.push_back(to);
  }
  const std::string source = element_source(program, form);
  if (source.empty()) return nullptr;
  const cudaKernel_t kernel = compile_kernel(source, "elements", capability);
  if (kernel == nullptr) return nullptr;
  // As the text declares it.
  const auto rank = static_cast<size_t>(std::max(1, form.rank));
  const size_t operands = std::max<size_t>(1, program.operands.size());
  std::vector<int32_t> words(1 + 3 * rank + operands * rank + operands);
  words[0] = static_cast<int32_t>(index.total());
  for (int d = 0; d < form.rank; ++d) {
    const gpu::Divisor divisor(index.size(d));
    const auto at = static_cast<size_t>(1 + d);
    words[at] = static_cast<int32_t>(divisor.size);
    words[at + rank] = static_cast<int32_t>(divisor.factor);
    words[at + 2 * rank] = static_cast<int32_t>(divisor.shift);
    for (size_t k = 0; k < program.operands.size(); ++k)
      words[at + 3 * rank + k * rank] = static_cast<int32_t>(index.operand(k).stride[static_cast<size_t>(d)]);
  }
  for (size_t k = 0; k < program.operands.size(); ++k)
    words[1 + 3 * rank + operands * rank + k] = static_cast<int32_t>(index.operand(k).last);
  return std::make_unique<Compiled>(kernel, std::move(words), (index.total() + form.together - 1) / form.together);
}

}  // namespace minnow::cuda
