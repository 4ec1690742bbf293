// The weights of an integer convolution or product as terms (byte_terms.h).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"
#include "kernels/cpu/gemm/byte_terms.h"

namespace minnow {

struct TermWeights {
  int64_t groups = 1, rows = 0;  // of each group
  int64_t channels = 0, taps = 1;
  int64_t row_step = 0, channel_step = 1;  // from one number to the next; that of taps is 1

  int64_t blocks_of_group() const { return (rows + kTermRows - 1) / kTermRows; }
  // Where the terms of each block are, behind a table of these places, and their end, which is returned.
  int64_t find_places(const Tensor& w, ThreadPool* pool, std::vector<uint32_t>* places) const;
  // The table and the terms; and the sum of the weights of each row.
  void pack(const Tensor& w, const std::vector<uint32_t>& places, ThreadPool* pool, uint32_t* to, uint32_t* sums) const;

 private:
  int64_t steps() const;
  void lanes_of_block(const Tensor& w, int64_t block, uint32_t* lanes, uint32_t* sums) const;
};

}  // namespace minnow
