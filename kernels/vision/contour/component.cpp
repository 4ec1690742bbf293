// Connected components: runs of pixels, joined from row to row.
#include <algorithm>
#include <cstdint>

#include "kernels/vision/contour/contour.h"

namespace minnow::contour {
namespace {

struct PixelRun {
  int64_t begin, end;  // columns
  int32_t set;
};

// Sets that are joined; the root of each is its oldest member.
class Sets {
 public:
  int32_t make() {
    parents_.push_back(static_cast<int32_t>(parents_.size()));
    return parents_.back();
  }
  int32_t root(int32_t i) {
    while (parents_[static_cast<size_t>(i)] != i) {
      int32_t& up = parents_[static_cast<size_t>(i)];
      up = parents_[static_cast<size_t>(up)];
      i = up;
    }
    return i;
  }
  void join(int32_t a, int32_t b) {
    a = root(a);
    b = root(b);
    parents_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  size_t size() const { return parents_.size(); }

 private:
  std::vector<int32_t> parents_;
};

struct Runs {
  std::vector<PixelRun> all;
  std::vector<size_t> rows;  // where the runs of each row begin
  Sets sets;

  Runs(const uint8_t* picture, int64_t width, int64_t height, bool eight);
};

Runs::Runs(const uint8_t* picture, int64_t width, int64_t height, bool eight) {
  const int64_t reach = eight ? 1 : 0;
  rows.push_back(0);
  size_t above = 0, above_end = 0;
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* row = picture + y * width;
    const size_t begin = all.size();
    for (int64_t x = 0; x < width;) {
      if (row[x] == 0) {
        ++x;
        continue;
      }
      PixelRun run{x, x, -1};
      while (x < width && row[x] != 0) ++x;
      run.end = x;
      while (above < above_end && all[above].end + reach <= run.begin) ++above;
      for (size_t k = above; k < above_end && all[k].begin < run.end + reach; ++k) {
        if (run.set < 0) {
          run.set = all[k].set;
        } else {
          sets.join(run.set, all[k].set);
        }
      }
      if (run.set < 0) run.set = sets.make();
      all.push_back(run);
    }
    above = begin;
    above_end = all.size();
    rows.push_back(above_end);
  }
}

// The label of each set, from 1 on, in the order of their first pixels, or first blocks of 2x2 pixels.
std::vector<int32_t> number_sets(Runs* runs, int64_t width, bool blocks, int32_t* count) {
  const int64_t side = blocks ? 2 : 1;
  std::vector<int64_t> first(runs->sets.size(), INT64_MAX);
  std::vector<int32_t> roots;
  for (size_t y = 0; y + 1 < runs->rows.size(); ++y) {
    for (size_t k = runs->rows[y]; k < runs->rows[y + 1]; ++k) {
      const int32_t root = runs->sets.root(runs->all[k].set);
      int64_t& place = first[static_cast<size_t>(root)];
      if (place == INT64_MAX) roots.push_back(root);
      place = std::min(place, static_cast<int64_t>(y) / side * width + runs->all[k].begin / side);
    }
  }
  if (blocks)
    std::sort(roots.begin(), roots.end(),
              [&](int32_t a, int32_t b) { return first[static_cast<size_t>(a)] < first[static_cast<size_t>(b)]; });
  std::vector<int32_t> labels(runs->sets.size(), 0);
  int32_t label = 0;
  for (const int32_t root : roots) labels[static_cast<size_t>(root)] = ++label;
  *count = label + 1;
  return labels;
}

void add_run(Component* component, int64_t y, int64_t begin, int64_t end) {
  if (begin == end) return;
  const int64_t n = end - begin;
  const auto left = static_cast<int32_t>(begin), right = static_cast<int32_t>(end - 1), row = static_cast<int32_t>(y);
  if (component->area == 0) {
    *component = {left, row, right, row, 0, 0, 0};
  } else {
    component->left = std::min(component->left, left);
    component->right = std::max(component->right, right);
    component->bottom = row;
  }
  component->area += n;
  component->sum_x += (begin + end - 1) * n / 2;
  component->sum_y += y * n;
}

}  // namespace

std::vector<Component> label_components(const uint8_t* picture, int64_t width, int64_t height, bool eight,
                                        int32_t* labels) {
  Runs runs(picture, width, height, eight);
  int32_t count = 0;
  const std::vector<int32_t> numbers = number_sets(&runs, width, eight, &count);
  std::vector<Component> components(static_cast<size_t>(count));
  for (int64_t y = 0; y < height; ++y) {
    int32_t* row = labels + y * width;
    int64_t x = 0;
    for (size_t k = runs.rows[static_cast<size_t>(y)]; k < runs.rows[static_cast<size_t>(y) + 1]; ++k) {
      const PixelRun& run = runs.all[k];
      const int32_t label = numbers[static_cast<size_t>(runs.sets.root(run.set))];
      std::fill(row + x, row + run.begin, 0);
      std::fill(row + run.begin, row + run.end, label);
      add_run(&components[0], y, x, run.begin);
      add_run(&components[static_cast<size_t>(label)], y, run.begin, run.end);
      x = run.end;
    }
    std::fill(row + x, row + width, 0);
    add_run(&components[0], y, x, width);
  }
  return components;
}

}  // namespace minnow::contour
