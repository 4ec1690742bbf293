// The frame of elementwise ops: iteration, element types, threads. An op brings functions over contiguous rows of the
// compute types (convert/blocks.h) and a row in the op table; nothing else is written per op.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/kernel.h"
#include "kernels/core/op_spec.h"

namespace minnow {

// Attributes of an elementwise op, as numbers.
struct Params {
  double a = 0;
  double b = 0;
};

// ---- one input

using UnaryFunction = void (*)(const void* in, void* out, int64_t n, const Params& params);

// Functions by compute type; null where the op does not take such elements.
struct UnaryFunctions {
  static constexpr int64_t kGrain = 16384;

  UnaryFunction f32, f64, i32, i64, u64;
  int64_t grain;  // elements worth a thread of their own

  // Not inline: tables of pointers take more of the library than the calls (see OpRegistrar).
  UnaryFunctions(UnaryFunction f32, UnaryFunction f64, UnaryFunction i32 = nullptr, UnaryFunction i64 = nullptr,
                 UnaryFunction u64 = nullptr, int64_t grain = kGrain);

  UnaryFunction of(Compute type) const {
    const UnaryFunction functions[] = {f32, f64, i32, i64, u64};
    return functions[static_cast<size_t>(type)];
  }
};

std::unique_ptr<Kernel> create_unary(const UnaryFunctions& functions, const Params& params);
// The same for an op without attributes.
std::unique_ptr<Kernel> create_unary(UnaryFunction f32, UnaryFunction f64, UnaryFunction i32 = nullptr,
                                     UnaryFunction i64 = nullptr, UnaryFunction u64 = nullptr,
                                     int64_t grain = UnaryFunctions::kGrain);

// Type rules: as in[0], which must be a float (or a float or an integer).
Status infer_float(InferContext& c);
Status infer_numeric(InferContext& c);

// ---- several inputs, with numpy broadcasting

constexpr int kMaxOperands = 3;
constexpr int64_t kShortRow = 48;  // rows of fewer elements are not worth a call each

// Computes a row of n elements; `out` may be one of the inputs. Operand i is a single element where step[i] is 0, which
// only happens to functions that take it.
using RowFunction = void (*)(const void* const* in, const int* step, void* out, int64_t n);

// What a kernel computes its rows with.
struct RowKernel {
  RowFunction function = nullptr;
  Compute compute = Compute::kF32;  // the element type `function` takes
  bool native = false;              // `function` takes the operands as they are stored, without conversion
  bool native_out = false;          // ... and writes the output as it is stored
  bool takes_single = false;        // else single elements are stretched to rows
  bool swapped = false;             // in[0] of the function is input 1 of the node, and the other way round
  int64_t grain = 16384;            // elements worth a thread of their own
};

// The dims of a broadcast, merged where all operands step alike, innermost first.
class Broadcast {
 public:
  Status make(std::vector<const TensorType*> in, const TensorType& out, bool swapped);
  void run(const RowKernel& kernel, const RunContext& context) const;
  // The elements [begin, end) alone, of tensors that begin at these addresses.
  void run_piece(const RowKernel& kernel, const void* const* in, void* out, int64_t begin, int64_t end) const;
  int64_t total() const { return total_; }  // elements

 private:
  struct Worker;
  int operands_ = 0;
  std::array<size_t, kMaxOperands> source_{0, 1, 2};  // inputs of the node
  int rank_ = 0;
  int64_t total_ = 0;
  std::array<int64_t, kMaxRank + 1> dim_{};
  std::array<std::array<int64_t, kMaxRank + 1>, kMaxOperands> stride_{};
  std::array<DType, kMaxOperands> dtype_{};
  DType out_dtype_ = DType::kF32;
};

// Gives the RowKernel for the types of a node.
using ChooseRow = RowKernel (*)(const NodeContext& node);

class RowsKernel final : public Kernel {
 public:
  explicit RowsKernel(ChooseRow choose) : choose_(choose) {}
  Status reshape(const NodeContext& node, int64_t* workspace) override;
  void run(const RunContext& context) override { broadcast_.run(kernel_, context); }
  void run_piece(const void* const* in, void* out, int64_t begin, int64_t end) const {
    broadcast_.run_piece(kernel_, in, out, begin, end);
  }
  double seconds() const override;

 private:
  ChooseRow choose_;
  RowKernel kernel_;
  Broadcast broadcast_;
};

std::unique_ptr<Kernel> create_broadcast(ChooseRow choose);

template <ChooseRow Choose>
std::unique_ptr<Kernel> create_rows(const NodeContext&) {
  return create_broadcast(Choose);
}

}  // namespace minnow
