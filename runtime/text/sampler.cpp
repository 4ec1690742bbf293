#include "runtime/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runtime/text/error.h"

namespace minnow_language {
namespace {

struct Candidate {
  double logit;
  int32_t id;
};

std::vector<double> probabilities(const std::vector<Candidate>& found, double temperature = 1) {
  std::vector<double> made;
  double total = 0;
  for (const Candidate& c : found) total += made.emplace_back(std::exp((c.logit - found[0].logit) / temperature));
  for (double& p : made) p /= total;
  return made;
}

uint64_t high_product(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

}  // namespace

double uniform(uint64_t seed, uint64_t place) {
  constexpr uint64_t kFirst = 0xD2E7470EE14C6C93, kSecond = 0xCA5A826395121157;
  uint64_t counter[4] = {1, place, 0, 0}, key[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t high0 = high_product(kFirst, counter[0]), low0 = kFirst * counter[0];
    const uint64_t high1 = high_product(kSecond, counter[2]), low1 = kSecond * counter[2];
    const uint64_t next[4] = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0};
    std::copy(next, next + 4, counter);
    key[0] += 0x9E3779B97F4A7C15;
    key[1] += 0xBB67AE8584CAA73B;
  }
  return static_cast<double>(counter[0] >> 11) * 0x1p-53;
}

Sampler::Sampler(const minnow_text_request& request, uint64_t seed) : options_(request), seed_(seed) {
  const auto& o = options_;
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature)) wrong("temperature is below 0, or no number");
  if (o.top_k < 0) wrong("top_k is below 0");
  if (!(o.top_p > 0 && o.top_p <= 1)) wrong("top_p is not above 0 and at most 1");
  if (!(o.min_p >= 0 && o.min_p <= 1)) wrong("min_p is not from 0 to 1");
  if (!(o.repetition_penalty > 0) || !std::isfinite(o.repetition_penalty)) wrong("repetition_penalty is not above 0");
  if (!std::isfinite(o.presence_penalty) || !std::isfinite(o.frequency_penalty)) wrong("a penalty is no number");
  if (o.penalty_window < 0) wrong("penalty_window is below 0");
}

void Sampler::penalize(std::vector<float>* logits, const std::vector<int32_t>& tokens) const {
  const auto& o = options_;
  if (o.repetition_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0) return;
  const size_t window = o.penalty_window ? static_cast<size_t>(o.penalty_window) : tokens.size();
  std::map<int32_t, int> counts;
  for (size_t i = tokens.size() - std::min(window, tokens.size()); i < tokens.size(); ++i) ++counts[tokens[i]];
  for (const auto& [id, count] : counts) {
    if (static_cast<size_t>(id) >= logits->size()) continue;
    float& logit = (*logits)[static_cast<size_t>(id)];
    const auto factor = static_cast<float>(o.repetition_penalty);
    logit = logit > 0 ? logit / factor : logit * factor;
    logit = static_cast<float>(logit - count * o.frequency_penalty - o.presence_penalty);
  }
}

int32_t Sampler::choose(std::vector<float>* logits, const std::vector<int32_t>& tokens, uint64_t place) const {
  penalize(logits, tokens);
  for (float& logit : *logits) {
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
    logit = std::min(logit, std::numeric_limits<float>::max());
  }
  const auto top = std::max_element(logits->begin(), logits->end());
  if (top == logits->end() || std::isinf(*top)) damaged("no token can be chosen: all logits are -inf or no numbers");
  if (options_.temperature == 0) return static_cast<int32_t>(top - logits->begin());
  std::vector<Candidate> found;
  for (size_t id = 0; id < logits->size(); ++id)
    if (!std::isinf((*logits)[id])) found.push_back({(*logits)[id], static_cast<int32_t>(id)});
  const size_t kept = options_.top_k ? std::min(static_cast<size_t>(options_.top_k), found.size()) : found.size();
  std::partial_sort(
      found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
      [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  found.resize(kept);
  if (options_.top_p < 1) {
    double sum = 0;
    size_t count = 0;
    for (const double p : probabilities(found)) {
      ++count;
      if ((sum += p) >= options_.top_p) break;
    }
    found.resize(count);
  }
  if (options_.min_p > 0) {
    size_t count = 1;
    while (count < found.size() && std::exp(found[count].logit - found[0].logit) >= options_.min_p) ++count;
    found.resize(count);
  }
  double total = 0;
  std::vector<double> sums;
  for (const double p : probabilities(found, options_.temperature)) sums.push_back(total += p);
  const double drawn = uniform(seed_, place) * total;
  const auto at = std::upper_bound(sums.begin(), sums.end(), drawn) - sums.begin();
  return found[std::min(static_cast<size_t>(at), found.size() - 1)].id;
}

}  // namespace minnow_language
