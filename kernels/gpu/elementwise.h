// Programs of steps on elements, which all elementwise ops are, alone or fused. One kernel text runs them, step by step
// on a few registers (text/elementwise_32.gpu; elementwise_64.gpu with 64-bit integers).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/op_spec.h"
#include "kernels/gpu/device.h"

namespace minnow::gpu {

// A step of a program, whose operands and result are values by number.
struct ElementStep {
  int code = 0;  // of text/elementwise_codes.inc
  std::vector<int> in;
  DType dtype = DType::kF32;          // of the result; integers are cut to it
  DType cut = DType::kBool;           // to this instead, where it is another
  bool all_bits = false;              // of operands without sign that use 64 bits
  std::array<uint32_t, 4> numbers{};  // parameters, in the form that the step takes
};

// The steps of an op, from operands 0, 1, ... of these types; what each makes has the next number, and the last is the
// result. False where it is not computed: `why` says what is missing.
bool element_steps(const std::string& op, const Attrs& attrs, const std::vector<DType>& in, DType out,
                   std::vector<ElementStep>* steps, std::string* why);

// Operands and steps, and the values that are results: see Program (kernels/core/program.h).
struct ElementProgram {
  std::vector<DType> operands;
  std::vector<ElementStep> steps;
  std::vector<int> results;

  DType dtype(int value) const {
    const auto v = static_cast<size_t>(value);
    return v < operands.size() ? operands[v] : steps[v - operands.size()].dtype;
  }
};

// How the elements of a result are counted in memory, innermost dim first, and with which strides an operand is read;
// neighbors that all operands pass alike are one dim.
class ElementIndex {
 public:
  static constexpr int kMostDims = 15;
  enum Mode : uint8_t { kSame, kSingle, kStrided };
  struct Operand {
    Mode mode = kSame;
    std::array<int64_t, kMostDims> stride{};
    int64_t last = 0;  // the greatest index that there is
  };

  // Types in their layouts, of operands that broadcast to `out`.
  Status make(const std::vector<const TensorType*>& in, const TensorType& out, const Device& device);
  int64_t total() const { return total_; }
  int rank() const { return rank_; }
  int64_t size(int d) const { return size_[static_cast<size_t>(d)]; }
  const Operand& operand(size_t k) const { return operands_[k]; }

 private:
  int64_t total_ = 0;
  int rank_ = 0;
  std::array<int64_t, kMostDims> size_{};
  std::vector<Operand> operands_;
};

// A number by which others below 2^31 are divided: n / size is the upper half of n * factor, shifted.
struct Divisor {
  explicit Divisor(int64_t size);
  uint32_t size, factor, shift;
};

// A program that a device has made code of its own of: see Device::compile().
class CompiledElements {
 public:
  virtual ~CompiledElements() = default;
  virtual Status enqueue(const RunContext& context, Stream& stream) = 0;
};

// Runs a program on tensors.
class ElementKernel : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override;
  Status enqueue(const RunContext& context, Stream& stream) override;
  Profile profile() const override { return {compiled_ == nullptr || names_.empty() ? names_ : names_ + " compiled"}; }

 protected:
  virtual Status program(const NodeContext& node, ElementProgram* out) = 0;
  std::string names_;  // of the ops, for the profile

 private:
  // What one launch computes. A program that has more operands, results or values at a time than there are registers
  // takes several, with values between them in the workspace.
  struct Place {
    enum Kind : uint8_t { kOperand, kResult, kWorkspace } kind = kOperand;
    int64_t at = 0;  // number of the operand or result, or bytes from the begin of the workspace
    TensorType type;
  };
  struct Launch {
    const Program* program = nullptr;
    std::unique_ptr<Memory> code;
    std::vector<Place> operands, results;
    int32_t rank = 0, steps = 0, modes = 0;
  };
  struct Piece;  // some of the steps
  Status add_launch(const NodeContext& node, const ElementProgram& program, const Piece& piece,
                    const std::vector<Place>& places);

  int64_t total_ = 0;
  std::unique_ptr<CompiledElements> compiled_;
  std::vector<Launch> launches_;
};

// The kernel of one elementwise op, and whether it computes a node.
std::unique_ptr<Kernel> create_element_kernel(const char* op);
bool supports_elements(const char* op, const NodeContext& node, std::string* why);

}  // namespace minnow::gpu
