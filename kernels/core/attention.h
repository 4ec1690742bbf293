// Attention as models have it, in the terms of FusedAttention: where its operands lie.
#pragma once

#include <array>
#include <vector>

#include "kernels/core/kernel.h"

namespace minnow {

// What the operands say together. Batch, rows and keys are broadcast: an operand may have 1 of them.
struct AttentionSizes {
  int64_t batch = 0, rows = 0, keys = 0, past = 0, depth = 0, width = 0;
  int64_t heads = 1, kv = 1;
  std::array<int64_t, 3> q{}, k{}, v{};  // batch, length with that of the past, and size
  bool packed = false;

  Shape present(const std::array<int64_t, 3>& kept) const { return {kept[0], kv, kept[1], kept[2]}; }
};

constexpr size_t kAttentionOperands = 5;  // q, k, v and the past; then come masks

// `number`: the type of all operands that are no conditions.
Status read_attention_sizes(const Attrs& attrs, const std::vector<const TensorType*>& in, DType number,
                            AttentionSizes* out);

struct AttentionPlan {
  AttentionSizes sizes;
  Attrs attrs;                // of FusedAttention
  std::vector<size_t> masks;  // inputs that are masks
  // With a past, or with outputs for what becomes the next one, keys and values are first brought together.
  bool keeps = false;
  bool missing[2] = {false, false};           // the output for keys, or values, is unused
  std::vector<int64_t> fresh[2], present[2];  // where new keys and values lie, and all of them
  TensorType present_types[2];

  Status make(const NodeContext& node, DType number);
};

// Where an operand lies: element (row r, column c) of matrix i at at(i, sizes) + r * row + c * column.
struct OperandPlace {
  int64_t offset = 0, row = 0, column = 0;
  std::vector<int64_t> batch;

  OperandPlace() = default;
  explicit OperandPlace(const std::vector<int64_t>& numbers)
      : offset(numbers[0]), row(numbers[1]), column(numbers[2]), batch(numbers.begin() + 3, numbers.end()) {}
  // Offset of matrix i of the `sizes`.
  int64_t at(int64_t i, const std::vector<int64_t>& sizes) const {
    int64_t place = offset;
    for (size_t k = sizes.size(); k-- > 0; i /= sizes[k]) place += i % sizes[k] * batch[k];
    return place;
  }
};

}  // namespace minnow
