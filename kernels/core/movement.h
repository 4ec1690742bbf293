// Ops whose outputs are strided copies of their inputs, known from types and attributes alone.
#pragma once

#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/region.h"

namespace minnow {

struct Copy {
  Region region;
  int input = 0;
  int output = 0;

  // Whether it was computed where it belongs, so that there is nothing to copy.
  bool lies_there(const Tensor& from, const Tensor& to) const;
};

// Of Transpose: the numbers of its attribute, or the axes in reverse.
std::vector<int64_t> permutation(const Attrs& attrs, int rank);

void plan_transpose(const NodeContext& node, std::vector<Copy>* copies);
void plan_depth_to_space(const NodeContext& node, std::vector<Copy>* copies);
void plan_space_to_depth(const NodeContext& node, std::vector<Copy>* copies);
void plan_split(const NodeContext& node, std::vector<Copy>* copies);
void plan_expand(const NodeContext& node, std::vector<Copy>* copies);
void plan_tile(const NodeContext& node, std::vector<Copy>* copies);
void plan_reverse(const NodeContext& node, std::vector<Copy>* copies);

// Elements from one index of `axis` to the next, times the indices there are, as the tensor lies in memory.
using RunLength = int64_t (*)(const TensorType&, int axis);
void plan_concat(const NodeContext& node, RunLength run_length, std::vector<Copy>* copies);

}  // namespace minnow
