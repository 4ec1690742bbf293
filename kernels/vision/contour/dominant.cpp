// The dominant points of closed curves: C.-H. Teh and R. T. Chin, On the detection of dominant points on digital curves
// (1989). A point has a region of support, as far as the curve goes on bending away from a chord; points of greatest
// curvature in their regions are kept.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/vision/contour/contour.h"

namespace minnow::contour {
namespace {

constexpr int kStepX[8] = {1, 1, 0, -1, -1, -1, 0, 1};
constexpr int kStepY[8] = {0, -1, -1, -1, 0, 1, 1, 1};

struct CurvePoint {
  Pixel at;
  int support = 0;
  float curvature = 0;  // 0: not dominant
  bool kept = false;
};

class Curve {
 public:
  explicit Curve(const Chain& chain);
  std::vector<Pixel> dominant(bool cosine);

 private:
  size_t back(size_t i, size_t k) const { return i >= k ? i - k : i + points_.size() - k; }
  size_t on(size_t i, size_t k) const { return i + k < points_.size() ? i + k : i + k - points_.size(); }
  int support_of(size_t i) const;
  float cosine_of(size_t i, int support) const;
  void drop(size_t i) {
    points_[i].kept = false;
    points_[i].curvature = 0;
  }
  void keep_greatest();
  void thin_neighbors();
  void thin_run(const std::vector<size_t>& run);

  std::vector<CurvePoint> points_;
  bool repeats_start_ = false;
};

Curve::Curve(const Chain& chain) {
  Pixel p = chain.start;
  int before = chain.steps.back();
  for (const int step : chain.steps) {
    CurvePoint point;
    point.at = p;
    const int turn = std::abs(step - before);
    point.curvature = static_cast<float>(std::min(turn, 8 - turn));
    point.kept = turn != 0;
    points_.push_back(point);
    before = step;
    p.x += kStepX[step];
    p.y += kStepY[step];
  }
}

int Curve::support_of(size_t i) const {
  int64_t chord = 0, height = 0;  // squared length, and distance of the point times length
  for (size_t k = 1;; ++k) {
    const size_t wrapped = k % points_.size();
    const Pixel& a = points_[back(i, wrapped)].at;
    const Pixel& b = points_[on(i, wrapped)].at;
    const Pixel& p = points_[i].at;
    const int64_t dx = b.x - a.x, dy = b.y - a.y;
    const int64_t next_chord = dx * dx + dy * dy, next_height = (p.x - a.x) * dy - (p.y - a.y) * dx;
    if (k > 1) {
      const auto change = static_cast<float>(static_cast<double>(height) * static_cast<double>(next_chord) -
                                             static_cast<double>(next_height) * static_cast<double>(chord));
      if (chord >= next_chord || (height > 0 && change <= 0) || (height < 0 && change >= 0))
        return static_cast<int>(k) - 1;
    }
    chord = next_chord;
    height = next_height;
  }
}

float Curve::cosine_of(size_t i, int support) const {
  float best = 0;
  const Pixel& p = points_[i].at;
  for (int k = support; k > 0; --k) {
    const Pixel& a = points_[back(i, static_cast<size_t>(k) % points_.size())].at;
    const Pixel& b = points_[on(i, static_cast<size_t>(k) % points_.size())].at;
    const double ax = a.x - p.x, ay = a.y - p.y, bx = b.x - p.x, by = b.y - p.y;
    if ((ax == 0 && ay == 0) || (bx == 0 && by == 0)) break;
    const auto cosine = static_cast<float>((ax * bx + ay * by) / std::sqrt((ax * ax + ay * ay) * (bx * bx + by * by)));
    const auto curvature = static_cast<float>(cosine + 1.1);
    if (k < support && curvature <= best) break;
    best = curvature;
  }
  return best;
}

void Curve::keep_greatest() {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (!points_[i].kept) continue;
    for (int k = 1; k <= points_[i].support / 2; ++k) {
      const size_t wrapped = static_cast<size_t>(k) % points_.size();
      if (points_[back(i, wrapped)].curvature > points_[i].curvature ||
          points_[on(i, wrapped)].curvature > points_[i].curvature) {
        drop(i);
        break;
      }
    }
  }
  for (size_t i = 0; i < points_.size(); ++i) {
    const CurvePoint& p = points_[i];
    if (p.kept && p.support == 1 &&
        (p.curvature <= points_[back(i, 1)].curvature || p.curvature <= points_[on(i, 1)].curvature))
      drop(i);
  }
}

// Of neighbors that are all dominant, the ends are kept; of two, the better one.
void Curve::thin_run(const std::vector<size_t>& run) {
  if (run.size() == 2) {
    const CurvePoint &a = points_[run[0]], &b = points_[run[1]];
    const bool first = a.curvature > b.curvature || (a.curvature == b.curvature && a.support <= b.support);
    points_[first ? run[1] : run[0]].kept = false;
  }
  for (size_t i = 1; i + 1 < run.size(); ++i) points_[run[i]].kept = false;
}

// Around the first point of the curve more are kept, as OpenCV does.
void Curve::thin_neighbors() {
  const size_t n = points_.size();
  std::vector<std::vector<size_t>> runs;
  for (size_t i = 0; i < n; ++i) {
    if (!points_[i].kept) continue;
    if (runs.empty() || runs.back().back() + 1 != i) runs.emplace_back();
    runs.back().push_back(i);
  }
  if (runs.empty() || runs[0].size() == n) return;
  size_t next = 0;
  bool more = runs[0].front() == 0;
  if (runs.size() > 1 && runs[0].front() == 0 && runs.back().back() == n - 1) {  // one run, in which the curve begins
    std::vector<size_t> joined = runs.back();
    joined.insert(joined.end(), runs[0].begin(), runs[0].end());
    thin_run(joined);
    repeats_start_ = joined.size() == 2 && points_[0].kept;
    points_[0].kept = true;
    runs.pop_back();
    more = joined.size() == 2;
    next = 1;
  }
  for (size_t k = next; k < runs.size(); ++k) {
    thin_run(runs[k]);
    if (more && k == next && runs[k].size() > 2) points_[runs[k][1]].kept = true;
  }
}

std::vector<Pixel> Curve::dominant(bool cosine) {
  for (size_t i = 0; i < points_.size(); ++i) {
    CurvePoint& p = points_[i];
    if (!p.kept) continue;
    p.support = support_of(i);
    if (cosine) p.curvature = cosine_of(i, p.support);
  }
  keep_greatest();
  if (!cosine) thin_neighbors();
  std::vector<Pixel> kept;
  for (const CurvePoint& p : points_)
    if (p.kept) kept.push_back(p.at);
  if (repeats_start_) kept.push_back(points_[0].at);
  return kept;
}

}  // namespace

std::vector<Pixel> dominant_points(const Chain& chain, bool cosine) { return Curve(chain).dominant(cosine); }

}  // namespace minnow::contour
