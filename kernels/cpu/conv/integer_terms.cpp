#include "kernels/cpu/conv/integer_terms.h"

#include <algorithm>

#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/integer.h"

namespace minnow {

int64_t IntegerConvTerms::steps() const { return integer_steps(channels) * taps; }

void IntegerConvTerms::lanes_of_block(const Tensor& w, int64_t block, uint32_t* lanes, uint32_t* sums) const {
  const int64_t own = integer_steps(channels), first = block % blocks_of_group() * kTermRows;
  const uint8_t* from = w.as<uint8_t>() + (block / blocks_of_group() * rows + first) * channels * taps;
  std::vector<uint32_t> row(static_cast<size_t>(own));
  std::fill(lanes, lanes + kTermRows * steps(), 0u);
  for (int64_t r = 0; r < std::min(kTermRows, rows - first); ++r, from += channels * taps) {
    uint32_t sum = 0;
    for (int64_t k = 0; k < taps; ++k) {
      sum += pack_left(from + k, channels, taps, flip_for(w.type.dtype, true), row.data());
      for (int64_t i = 0; i < own; ++i) lanes[(k * own + i) * kTermRows + r] = row[static_cast<size_t>(i)];
    }
    if (sums != nullptr) sums[block / blocks_of_group() * rows + first + r] = sum;
  }
}

int64_t IntegerConvTerms::find_places(const Tensor& w, std::vector<uint32_t>* places) const {
  std::vector<uint32_t> lanes(static_cast<size_t>(kTermRows * steps()));
  int64_t words = round_up(groups * blocks_of_group(), 2);
  LongLoop loop;
  for (int64_t i = 0; i < groups * blocks_of_group() && loop.goes_on(64 + 16 * steps()); ++i) {
    lanes_of_block(w, i, lanes.data(), nullptr);
    places->push_back(static_cast<uint32_t>(words));
    words += byte_terms_words(lanes.data(), steps());
  }
  places->push_back(static_cast<uint32_t>(words));
  return words;
}

void IntegerConvTerms::pack(const Tensor& w, const std::vector<uint32_t>& places, ThreadPool* pool, uint32_t* to,
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
