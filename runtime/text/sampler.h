// Chooses the next token by its logits.
#pragma once

#include <cstdint>
#include <vector>

#include "minnow/minnow_text.h"

namespace minnow_language {

// The random number from 0 to 1 at a place: Philox, so that it is a function of the seed and the place alone.
double uniform(uint64_t seed, uint64_t place);

class Sampler {
 public:
  // Errors: an option is out of range.
  Sampler(const minnow_text_request& request, uint64_t seed);
  // `tokens`: those of the prompt and the answer so far; `place`: the number of the token in the answer. The logits are
  // changed.
  int32_t choose(std::vector<float>* logits, const std::vector<int32_t>& tokens, uint64_t place) const;

 private:
  void penalize(std::vector<float>* logits, const std::vector<int32_t>& tokens) const;
  minnow_text_request options_;
  uint64_t seed_;
};

}  // namespace minnow_language
