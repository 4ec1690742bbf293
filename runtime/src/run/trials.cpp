#include "runtime/src/run/trials.h"

#include <algorithm>
#include <cstdio>

namespace minnow {

bool BeforeTypes::operator()(const std::vector<TensorType>& a, const std::vector<TensorType>& b) const {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](const TensorType& x, const TensorType& y) {
        if (x.dtype != y.dtype) return x.dtype < y.dtype;
        return std::lexicographical_compare(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end());
      });
}

void Trials::choose(const std::vector<TensorType>& types) {
  if (!kHasOtherDevices || devices_.empty()) return;
  if (known_.size() >= kMostShapes && known_.find(types) == known_.end()) known_.clear();
  current_ = &known_[types];
  if (!current_->candidates.empty()) return;
  std::vector<int> placings = {kShortest, kSideBySide};
  for (size_t device = 0; device < devices_.size(); ++device) placings.push_back(static_cast<int>(device));
  for (int placing : placings) {
    Candidate& candidate = current_->candidates.emplace_back();
    candidate.placing = placing;
  }
}

bool Trials::accepts(uint64_t placement) {
  if (is_settled()) return true;
  Candidate& candidate = current_->candidates[current_->at];
  candidate.placement = placement;
  for (size_t i = 0; i < current_->at; ++i)
    if (placement != 0 && current_->candidates[i].placement == placement) candidate.is_same = true;
  if (!candidate.is_same) return true;
  next();
  return false;
}

void Trials::add(double seconds) {
  if (is_settled()) return;
  Candidate& candidate = current_->candidates[current_->at];
  ++candidate.runs;
  if (candidate.runs == 1) return;  // it has planned
  candidate.seconds = candidate.runs == 2 ? seconds : std::min(candidate.seconds, seconds);
  double best = candidate.seconds;
  for (size_t i = 0; i < current_->at; ++i)
    if (!current_->candidates[i].is_same) best = std::min(best, current_->candidates[i].seconds);
  if (candidate.runs == kWarmUps + kTimed || candidate.seconds > kHopeless * best) next();
}

// The next candidate, or after the last one the best of them.
void Trials::next() {
  Shapes& shapes = *current_;
  if (++shapes.at < shapes.candidates.size()) return;
  shapes.settled = true;
  shapes.at = 0;
  for (size_t i = 0; i < shapes.candidates.size(); ++i) {
    const Candidate& candidate = shapes.candidates[i];
    if (candidate.is_same) continue;
    if (candidate.seconds < shapes.candidates[shapes.at].seconds) shapes.at = i;
    char time[32];
    std::snprintf(time, sizeof time, "%.3g ms ", candidate.seconds * 1e3);
    const std::string what = candidate.placing == kShortest ? "with the least sum of estimates"
                             : candidate.placing == kSideBySide
                                 ? "side by side"
                                 : "on " + devices_[static_cast<size_t>(candidate.placing)];
    shapes.summary += (shapes.summary.empty() ? "measured: " : ", ") + (time + what);
  }
}

}  // namespace minnow
