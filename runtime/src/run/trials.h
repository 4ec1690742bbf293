// Which placement is the fastest, by trying: where a session has several devices to choose from, its first runs with
// inputs of some shapes each use one of several placements; then the fastest is kept. Estimates may be wrong. So may
// these measurements, a few runs one placement after the other: where other programs use the machine meanwhile, a
// placement over several devices may be kept that is slower than the best device alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"
#include "runtime/src/backend/backend.h"

namespace minnow {

struct BeforeTypes {
  bool operator()(const std::vector<TensorType>& a, const std::vector<TensorType>& b) const;
};

class Trials {
 public:
  // How nodes are placed. From 0 on: all that this device computes on it, the rest on the host.
  static constexpr int kShortest = -1;    // the least sum of the times of nodes and copies
  static constexpr int kSideBySide = -2;  // each node where it is done first

  // The names of the devices, the host's first; none: there is nothing to try, and all runs use kShortest.
  void begin(std::vector<std::string> devices) { devices_ = std::move(devices); }

  // Before a run, with inputs of these types.
  void choose(const std::vector<TensorType>& types);
  int placing() const { return is_on() ? current_->placing() : kShortest; }
  // What the chosen placement comes to, 0: not known. False: it is one that has been tried, and another is chosen now.
  bool accepts(uint64_t placement);
  // After the run.
  void add(double seconds);
  bool is_settled() const { return !is_on() || current_->settled; }
  // What was measured, once that is known; "" before.
  std::string summary() const { return is_on() ? current_->summary : ""; }

 private:
  static constexpr int kWarmUps = 2;  // plans, tunes and records
  static constexpr int kTimed = 3;
  static constexpr size_t kMostShapes = 64;
  static constexpr double kHopeless = 3;  // times as long as the best: tried no further

  struct Candidate {
    int placing = kShortest;
    int runs = 0;
    double seconds = 0;  // the best
    uint64_t placement = 0;
    bool is_same = false;  // as another one
  };
  struct Shapes {
    std::vector<Candidate> candidates;
    size_t at = 0;
    bool settled = false;
    std::string summary;
    int placing() const { return candidates[at].placing; }
  };

  bool is_on() const { return kHasOtherDevices && current_ != nullptr; }
  void next();

  std::vector<std::string> devices_;
  std::map<std::vector<TensorType>, Shapes, BeforeTypes> known_;
  Shapes* current_ = nullptr;
};

}  // namespace minnow
