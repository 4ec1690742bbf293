#include "kernels/cpu/gemm/term_weights.h"

#include <algorithm>

#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/integer.h"

namespace minnow {

int64_t TermWeights::steps() const { return integer_steps(channels) * taps; }

void TermWeights::lanes_of_block(const Tensor& w, int64_t block, uint32_t* lanes, uint32_t* sums) const {
  const int64_t own = integer_steps(channels), first = block % blocks_of_group() * kTermRows;
  const uint8_t* from = w.as<uint8_t>() + (block / blocks_of_group() * rows + first) * row_step;
  std::vector<uint32_t> row(static_cast<size_t>(own));
  std::fill(lanes, lanes + kTermRows * steps(), 0u);
  for (int64_t r = 0; r < std::min(kTermRows, rows - first); ++r, from += row_step) {
    uint32_t sum = 0;
    for (int64_t k = 0; k < taps; ++k) {
      sum += pack_left(from + k, channels, channel_step, flip_for(w.type.dtype, true), row.data());
      for (int64_t i = 0; i < own; ++i) lanes[(k * own + i) * kTermRows + r] = row[static_cast<size_t>(i)];
    }
    if (sums != nullptr) sums[block / blocks_of_group() * rows + first + r] = sum;
  }
}

int64_t TermWeights::find_places(const Tensor& w, ThreadPool* pool, std::vector<uint32_t>* places) const {
  const int64_t blocks = groups * blocks_of_group();
  places->assign(static_cast<size_t>(blocks) + 1, 0);
  const auto range = [&](int64_t begin, int64_t end, int) {
    std::vector<uint32_t> lanes(static_cast<size_t>(kTermRows * steps()));
    LongLoop loop;
    for (int64_t i = begin; i < end && loop.goes_on(64 + 16 * steps()); ++i) {
      lanes_of_block(w, i, lanes.data(), nullptr);
      (*places)[static_cast<size_t>(i)] = static_cast<uint32_t>(byte_terms_words(lanes.data(), steps()));
    }
  };
  pool == nullptr ? range(0, blocks, 0) : pool->parallel_for(blocks, 1 + 8000 / (steps() + 1), range);
  int64_t words = round_up(blocks, 2);
  for (uint32_t& place : *places) {
    const uint32_t own = place;
    place = static_cast<uint32_t>(words);
    words += own;
  }
  return words;
}

void TermWeights::pack(const Tensor& w, const std::vector<uint32_t>& places, ThreadPool* pool, uint32_t* to,
                       uint32_t* sums) const {
  const int64_t blocks = static_cast<int64_t>(places.size()) - 1;
  std::copy_n(places.begin(), blocks, to);
  const auto range = [&](int64_t begin, int64_t end, int) {
    std::vector<uint32_t> lanes(static_cast<size_t>(kTermRows * steps()));
    LongLoop loop;
    for (int64_t i = begin; i < end && loop.goes_on(64 + 100 * steps()); ++i) {
      lanes_of_block(w, i, lanes.data(), sums);
      const uint32_t* place = places.data() + i;
      make_byte_terms(lanes.data(), steps(), to + place[0], place[1] - place[0]);
    }
  };
  pool == nullptr ? range(0, blocks, 0) : pool->parallel_for(blocks, 1 + 2000 / (steps() + 1), range);
}

}  // namespace minnow
