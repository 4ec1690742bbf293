#include "kernels/cpu/gemm/byte_terms.h"

#include <algorithm>
#include <cstdlib>

namespace minnow {
namespace {

constexpr int kMost = 128;     // of two weights with the same sign
constexpr int64_t kNear = 64;  // steps among which pairs are looked for, which stay in the first cache

struct SplitStep {
  ByteTerm term;
  // Of the positive weights of each row's halves (two weights each), and of the negative ones, as bytes.
  uint64_t sums[2];
  uint32_t total;
};

int weight_at(uint32_t lane, int i) { return static_cast<int8_t>(lane >> (8 * i)); }

void sum_weights(SplitStep* s) {
  s->sums[0] = s->sums[1] = 0;
  for (size_t r = kTermRows; r-- > 0;) {
    for (int h = 1; h >= 0; --h) {
      const int a = weight_at(s->term.weight[r], 2 * h), b = weight_at(s->term.weight[r], 2 * h + 1);
      s->sums[0] = s->sums[0] << 8 | static_cast<uint64_t>(std::max(a, 0) + std::max(b, 0));
      s->sums[1] = s->sums[1] << 8 | static_cast<uint64_t>(std::min(-std::min(a, 0) - std::min(b, 0), 255));
    }
  }
  // Bytes are added in pairs, then all pairs.
  constexpr uint64_t kPairs = 0x00ff00ff00ff00ffu;
  uint64_t total = 0;
  for (const uint64_t x : s->sums) total += (x & kPairs) + (x >> 8 & kPairs);
  s->total = static_cast<uint32_t>(total * 0x0001000100010001u >> 48);
}

// Whether two steps may share sums of 16 bits: no byte of their sums is above 127.
bool fit_together(const SplitStep& a, const SplitStep& b) {
  return (((a.sums[0] + b.sums[0]) | (a.sums[1] + b.sums[1]) | a.sums[0] | a.sums[1] | b.sums[0] | b.sums[1]) &
          0x8080808080808080u) == 0;
}

// Whether some half has weights with the same sign that are too much together: a byte above 128.
bool is_too_much(const uint64_t (&sums)[2]) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7fu;
  uint64_t above = 0;
  for (const uint64_t x : sums) above |= ((x & kLow) + kLow) & x;
  return (above & ~kLow) != 0;
}

// Moves half of what is too much to `rest`, so that either is likely to fit to another step.
void split_step(ByteTerm* own, ByteTerm* rest) {
  for (int64_t r = 0; r < kTermRows; ++r) {
    const uint32_t lane = own->weight[r];
    rest->weight[r] = 0;
    for (int i = 0; i < 4; ++i) {
      const int w = weight_at(lane, i), other = weight_at(lane, i ^ 1), part = w / 2;
      if ((w < 0) != (other < 0) || std::abs(w + other) <= kMost) continue;
      own->weight[r] = (own->weight[r] & ~(0xffu << 8 * i)) | static_cast<uint32_t>(part & 0xff) << 8 * i;
      rest->weight[r] |= static_cast<uint32_t>((w - part) & 0xff) << 8 * i;
    }
  }
}

}  // namespace

int64_t byte_terms_words(const uint32_t* lanes, int64_t steps) {
  int64_t terms = steps;
  for (int64_t s = 0; s < steps; ++s) {
    SplitStep step;
    std::copy_n(lanes + s * kTermRows, kTermRows, step.term.weight);
    sum_weights(&step);
    terms += is_too_much(step.sums);
  }
  return static_cast<int64_t>(sizeof(ByteTerms) + static_cast<size_t>(terms) * sizeof(ByteTerm)) / 4;
}

void make_byte_terms(const uint32_t* lanes, int64_t steps, uint32_t* to, int64_t words) {
  ByteTerms& head = *reinterpret_cast<ByteTerms*>(to) = {};
  ByteTerm *next = reinterpret_cast<ByteTerm*>(&head + 1), *end = reinterpret_cast<ByteTerm*>(to + words);
  SplitStep open[2 * kNear];
  size_t order[2 * kNear];
  for (int64_t first = 0; first < steps; first += kNear) {
    size_t count = 0;
    // Great weights first, which fit to the fewest others; those get the greatest that they fit to.
    const auto place = [&] {
      size_t i = count;
      for (; i > 0 && open[order[i - 1]].total < open[count].total; --i) order[i] = order[i - 1];
      order[i] = count++;
    };
    for (int64_t s = first; s < std::min(first + kNear, steps); ++s) {
      SplitStep &own = open[count], &rest = open[count + 1];
      own.term.step = rest.term.step = static_cast<uint32_t>(s);
      std::copy_n(lanes + s * kTermRows, kTermRows, own.term.weight);
      sum_weights(&own);
      const bool is_split = is_too_much(own.sums);
      if (is_split) {
        split_step(&own.term, &rest.term);
        sum_weights(&own);
        sum_weights(&rest);
      }
      place();
      if (is_split) place();
    }
    for (size_t i = 0; i < count; ++i) {
      constexpr size_t kTaken = 2 * kNear;
      if (order[i] == kTaken) continue;
      const SplitStep& one = open[order[i]];
      size_t j = i + 1;
      while (j < count && (order[j] == kTaken || !fit_together(one, open[order[j]]))) ++j;
      if (j == count) {
        *--end = one.term;
        ++head.singles;
        continue;
      }
      *next++ = one.term;
      *next++ = open[order[j]].term;
      order[j] = kTaken;
      ++head.pairs;
    }
  }
}

}  // namespace minnow
