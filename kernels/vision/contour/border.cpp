// Topological analysis of pictures by following borders, as described by Suzuki and Abe (1985).
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/vision/contour/contour.h"

namespace minnow::contour {
namespace {

constexpr int kDx[8] = {1, 1, 0, -1, -1, -1, 0, 1};
constexpr int kDy[8] = {0, -1, -1, -1, 0, 1, 1, 1};

struct Found {
  bool hole = false;
  int32_t parent = -1;  // -1: the frame around the picture
  Chain chain;
};

// The numbers of pixels, with a border of zeros: 0, 1 for what no border has passed yet, else the border plus 2,
// negative where the pixel to the right of it is 0.
class Field {
 public:
  Field(const uint8_t* picture, int64_t width, int64_t height)
      : stride_(width + 2), cells_(new int32_t[static_cast<size_t>(stride_ * (height + 2))]) {
    for (int d = 0; d < 8; ++d) steps_[d] = kDx[d] + kDy[d] * stride_;
    for (int64_t y = -1; y <= height; ++y) {
      int32_t* cells = row(y);
      if (y < 0 || y == height) {
        std::fill(cells - 1, cells + width + 1, 0);
      } else {
        for (int64_t x = 0; x < width; ++x) cells[x] = picture[y * width + x] != 0 ? 1 : 0;
        cells[-1] = cells[width] = 0;
      }
    }
  }
  int32_t* row(int64_t y) { return cells_.get() + (y + 1) * stride_ + 1; }
  int64_t step(int direction) const { return steps_[direction]; }

 private:
  int64_t stride_;
  std::unique_ptr<int32_t[]> cells_;
  int64_t steps_[8];
};

// Whether eight cells have the number of the one before them.
bool are_same(const int32_t* cells) {
  uint64_t change = 0;
  for (int i = 0; i < 8; i += 2) {
    uint64_t two, before;
    std::memcpy(&two, cells + i, sizeof two);
    std::memcpy(&before, cells + i - 1, sizeof before);
    change |= two ^ before;
  }
  return change == 0;
}

// Follows the border through `start` once around. Marks its pixels with `mark`.
void follow(Field* field, int32_t* start, bool hole, int32_t mark, Chain* chain) {
  const int first = hole ? 0 : 4;
  int direction = first;
  do direction = (direction + 7) & 7;
  while (start[field->step(direction)] == 0 && direction != first);
  if (start[field->step(direction)] == 0) {  // a single pixel
    *start = -mark;
    return;
  }
  const int32_t* last = start + field->step(direction);
  for (int32_t* at = start;;) {
    const int from = direction;
    int32_t* to = nullptr;
    do {
      direction = (direction + 1) & 7;
      to = at + field->step(direction);
    } while (*to == 0);
    // The pixel to the right was seen as 0: the search passed direction 0 on its way.
    if (static_cast<unsigned>(direction - 1) < static_cast<unsigned>(from)) {
      *at = -mark;
    } else if (*at == 1) {
      *at = mark;
    }
    chain->steps.push_back(static_cast<uint8_t>(direction));
    if (to == start && at == last) return;
    at = to;
    direction = (direction + 4) & 7;
  }
}

std::vector<Found> follow_all(Field* field, int64_t width, int64_t height, Retrieval retrieval) {
  std::vector<Found> found;
  for (int64_t y = 0; y < height; ++y) {
    int32_t* row = field->row(y);
    int32_t latest = 0;  // the mark of the border met last in this row
    for (int64_t x = 0; x <= width; ++x) {
      while (x + 8 <= width && are_same(row + x)) x += 8;
      const int32_t before = row[x - 1], here = x < width ? row[x] : 0;
      if (before == here) {
        continue;
      }
      const bool outer = before == 0 && here == 1;
      const bool hole = here == 0 && before >= 1;
      if (hole && before > 1) latest = before;
      if ((outer || hole) && !(retrieval == Retrieval::kExternal && (hole || latest > 0))) {
        Found border;
        border.hole = hole;
        border.chain.start = {static_cast<int32_t>(x - (hole ? 1 : 0)), static_cast<int32_t>(y)};
        if (latest != 0) {
          const int32_t b = std::abs(latest) - 2;
          border.parent = found[static_cast<size_t>(b)].hole == hole ? found[static_cast<size_t>(b)].parent : b;
        }
        const auto mark = static_cast<int32_t>(found.size()) + 2;
        follow(field, row + border.chain.start.x, hole, mark, &border.chain);
        found.push_back(std::move(border));
      }
      const int32_t now = hole ? row[x - 1] : x < width ? row[x] : 0;
      if (now != 0 && now != 1) latest = now;
    }
  }
  return found;
}

std::vector<Pixel> points_of(const Chain& chain, Approximation approximation) {
  if (chain.steps.empty()) return {chain.start};
  if (approximation == Approximation::kTehChinL1 || approximation == Approximation::kTehChinCosine)
    return dominant_points(chain, approximation == Approximation::kTehChinCosine);
  std::vector<Pixel> points;
  Pixel p = chain.start;
  int before = chain.steps.back();
  for (const int step : chain.steps) {
    if (approximation == Approximation::kNone || step != before) points.push_back(p);
    before = step;
    p.x += kDx[step];
    p.y += kDy[step];
  }
  return points;
}

// Puts the borders in order: each above its children, the last found first.
std::vector<Contour> arrange(const std::vector<Found>& found, Retrieval retrieval, Approximation approximation,
                             Pixel offset) {
  const size_t n = found.size();
  std::vector<std::vector<int32_t>> children(n + 1);  // the last are those of the frame
  for (size_t i = 0; i < n; ++i) {
    int32_t parent = found[i].parent;
    if (retrieval <= Retrieval::kList || (retrieval == Retrieval::kComponents && !found[i].hole)) parent = -1;
    children[parent < 0 ? n : static_cast<size_t>(parent)].push_back(static_cast<int32_t>(i));
  }
  std::vector<Contour> contours(n);
  std::vector<int32_t> place(n);
  struct Visit {
    int32_t border, parent;
  };
  std::vector<Visit> stack;
  for (const int32_t c : children[n]) stack.push_back({c, -1});
  int32_t at = 0;
  while (!stack.empty()) {
    const Visit visit = stack.back();
    stack.pop_back();
    place[static_cast<size_t>(visit.border)] = at;
    Contour& contour = contours[static_cast<size_t>(at)];
    contour.parent = visit.parent;
    contour.points = points_of(found[static_cast<size_t>(visit.border)].chain, approximation);
    for (Pixel& p : contour.points) p = {p.x + offset.x, p.y + offset.y};
    for (const int32_t c : children[static_cast<size_t>(visit.border)]) stack.push_back({c, at});
    ++at;
  }
  for (size_t i = 0; i <= n; ++i) {
    const auto& list = children[i];
    for (size_t k = list.size(); k-- > 0;) {
      Contour& contour = contours[static_cast<size_t>(place[static_cast<size_t>(list[k])])];
      if (k > 0) contour.next = place[static_cast<size_t>(list[k - 1])];
      if (k + 1 < list.size()) contour.previous = place[static_cast<size_t>(list[k + 1])];
    }
    if (i < n && !list.empty()) contours[static_cast<size_t>(place[i])].child = place[static_cast<size_t>(list.back())];
  }
  return contours;
}

}  // namespace

std::vector<Contour> find_contours(const uint8_t* picture, int64_t width, int64_t height, Retrieval retrieval,
                                   Approximation approximation, Pixel offset) {
  Field field(picture, width, height);
  return arrange(follow_all(&field, width, height, retrieval), retrieval, approximation, offset);
}

}  // namespace minnow::contour
