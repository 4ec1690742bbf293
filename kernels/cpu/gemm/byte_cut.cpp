#include "kernels/cpu/gemm/byte_cut.h"

#include <limits>

#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/byte_product.h"

namespace minnow {
namespace {

constexpr int64_t kShareRows = 32;  // of two blocks of tiles: multiples of the rows of any unit
// Cycles for a step of a row whose weights come from a cache that all threads share, for a step of a vector that is
// copied into a panel, for a vector of results, for a row whose line another thread writes, too, and for a task.
constexpr double kWeightCycles = 0.4, kCopyCycles = 4, kResultCycles = 8, kLineCycles = 200, kTaskCycles = 500;
// Products by single vectors read as much of the left matrix as those by a full panel.
constexpr double kNarrowPanel = 1.3;
// Where a thread comes late, the others wait for a task.
constexpr double kLateTask = 1;
// Shorter products are not worth waking others.
constexpr double kSerialCycles = 6000;

double cycles_of_task(const ByteUnit& unit, const ByteWork& work, int64_t rows, int64_t vectors) {
  const double r = static_cast<double>(rows), v = static_cast<double>(vectors), s = static_cast<double>(work.steps);
  const double products = r * s * v / static_cast<double>(unit.rate) * (vectors % unit.vectors == 1 ? kNarrowPanel : 1);
  return products + kWeightCycles * r * s + kCopyCycles * v * s + kResultCycles * r * v + kTaskCycles;
}

}  // namespace

ByteCut cut_product(const ByteUnit& unit, const ByteWork& work) {
  ByteCut cut;
  cut.vectors = std::max<int64_t>(work.vectors, 1);
  const int64_t rows = std::max<int64_t>(work.rows, 1);
  // Parts of whole lines, where these are known; a part has as many panels as its vectors need.
  const auto cut_into = [&](int64_t parts, int64_t shares) {
    cut.part_vectors = std::min(cut.vectors, round_up(ceil_div(cut.vectors, parts), work.line));
    cut.parts = ceil_div(cut.vectors, cut.part_vectors);
    cut.at_once = ceil_div(cut.part_vectors, unit.vectors);
    const int64_t last = cut.vectors - (cut.parts - 1) * cut.part_vectors;
    cut.panels = (cut.parts - 1) * cut.at_once + ceil_div(last, unit.vectors);
    cut.rows = round_up(ceil_div(rows, shares), kShareRows);
    cut.shares = ceil_div(rows, cut.rows);
  };
  const int64_t fewest = ceil_div(ceil_div(cut.vectors, unit.vectors), work.most_panels);
  cut_into(fewest, 1);
  const double alone = cycles_of_task(unit, work, rows, cut.vectors) * static_cast<double>(work.products);
  if (work.threads == 1 || alone < kSerialCycles) return cut;
  const int64_t tasks = ceil_div(8 * work.threads, std::max<int64_t>(work.products, 1));
  double least = std::numeric_limits<double>::infinity();
  int64_t best_parts = fewest, best_shares = 1;
  for (int64_t parts = fewest; parts <= std::min(cut.vectors, std::max(fewest, tasks)); ++parts) {
    for (int64_t shares = 1; shares <= std::clamp<int64_t>(tasks / parts, 1, ceil_div(rows, kShareRows)); ++shares) {
      cut_into(parts, shares);
      if (cut.at_once > work.most_panels) continue;
      const int64_t own = std::min(cut.rows, rows);
      const bool splits_lines = cut.parts > 1 && work.line == 1;
      const double task = cycles_of_task(unit, work, own, cut.part_vectors) +
                          (splits_lines ? kLineCycles * static_cast<double>(own) : 0);
      const int64_t rounds = ceil_div(work.products * cut.parts * cut.shares, work.threads);
      const double all = task * (static_cast<double>(rounds) + kLateTask);
      if (all >= least) continue;
      least = all;
      best_parts = parts;
      best_shares = shares;
    }
  }
  cut_into(best_parts, best_shares);
  return cut;
}

}  // namespace minnow
