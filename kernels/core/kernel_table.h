// How one device computes ops: a table with a row for each op it has a kernel for. The CPU's is in kernels/cpu/table.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/op_spec.h"

namespace minnow {

// Which layout a node wants for its inputs and gives to its outputs.
enum class LayoutRule : uint8_t {
  kPlain,        // everything plain
  kPacked,       // in[0] and out[0] packed, a convolution's residual in[3] too, other inputs plain (pooling, ...)
  kPacks,        // out[0] packed, and in[3]; other inputs plain (the first convolution, of an image of 3 channels)
  kFollow,       // in[0] either, out[0] the same, other inputs plain (unary elementwise, Resize)
  kElementwise,  // n-ary elementwise: packed if some input is packed and all inputs that are not scalars can be
                 // (rank >= 2 and equal shape, or [1,C,1,1...] with equal rank), else plain
  kConcat,       // packed if all inputs are packed, axis is 1 (or -rank+1) and every C but the last is a multiple of
                 // the channels of a block, or axis is 0 or >= 2; else plain
  // For tensors of bytes with channels last, and convolutions of rounded images:
  kLast,        // in[0] and out[0], other inputs plain
  kMakesLast,   // out[0]; all inputs plain (the first convolution)
  kFollowLast,  // images of bytes, if one of them is there so; the axis, if there is one, is that of the channels
  kReadsLast,   // in[0]; the results plain (the mean of an image)
  kConcatLast,  // all inputs and the result, if axis is 1 and all inputs are there so; else plain
};

// The attribute of a node whose images may be rounded to bf16 between it and others.
constexpr const char* kHalfImage = "half_image";
// Of such a node: numbers from one pixel of its result to the next, where it is to be a part of a larger image.
constexpr const char* kHalfPixel = "half_pixel";

// The layout that a rule is about, where it is not the plain one.
inline Layout layout_by(LayoutRule rule) { return rule < LayoutRule::kLast ? Layout::kPacked : Layout::kLast; }
inline Layout layout_of_result(LayoutRule rule) {
  return rule == LayoutRule::kReadsLast ? Layout::kPlain : layout_by(rule);
}

// For an op whose rule depends on the types of its inputs (null where an optional one is missing), such as packed for
// 2-D f32 convolution and plain for all others: takes the place of `layout` when set.
using LayoutFunction = LayoutRule (*)(const std::vector<const TensorType*>& inputs);

// How an op's kernel computes some of the elements alone, where the op is elementwise, and as many pieces at a time as
// there are threads.
enum class Pieces : uint8_t {
  kNone,     // not at all
  kVectors,  // the piece is a plain vector, which run() takes by the types of its context
  kRows,     // it is a kernel of create_rows(), see RowsKernel
};

struct KernelRow {
  CreateFunction create = nullptr;
  LayoutRule layout = LayoutRule::kPlain;
  LayoutFunction layout_for = nullptr;
  // The output may share the memory of in[0] when in[0] dies here and has the same bytes and layout.
  bool in_place = false;
  Pieces pieces = Pieces::kNone;
  SupportsFunction supports = nullptr;  // null: all

  LayoutFunction layout_half = nullptr;  // likewise, for nodes with kHalfImage

  LayoutRule layout_of(const std::vector<const TensorType*>& inputs, const Attrs& attrs) const {
    if (layout_half != nullptr && attrs.b(kHalfImage)) return layout_half(inputs);
    return layout_for == nullptr ? layout : layout_for(inputs);
  }
};

class KernelTable {
 public:
  // A second row for an op is a defect: the process ends.
  void add(const char* op, const KernelRow& row);
  // Null where there is none.
  const KernelRow* find(const OpSpec& op) const { return find(op.name); }
  const KernelRow* find(const std::string& op) const;
  std::vector<std::string> ops() const;  // sorted

 private:
  std::map<std::string, KernelRow> rows_;
};

}  // namespace minnow
