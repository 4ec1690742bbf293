// A value as a strided view of another one, times a number.
#pragma once

#include <numeric>
#include <optional>
#include <vector>

#include "kernels/core/attrs.h"
#include "kernels/core/tensor.h"

namespace minnow {

struct Factor {
  int64_t size, stride;
};
// A dimension that is the product of several strided ones, the outermost first; none where the size is 1.
using Factors = std::vector<Factor>;

inline int64_t size_of(const Factors& dim) {
  int64_t size = 1;
  for (const Factor& f : dim) size *= f.size;
  return size;
}

inline void append(Factors* dim, Factor f) {
  if (f.size == 1) return;
  if (!dim->empty() && dim->back().stride == f.size * f.stride) {
    dim->back() = {dim->back().size * f.size, f.stride};
  } else {
    dim->push_back(f);
  }
}

// Splits a sequence of strided dimensions into dimensions of these sizes; nothing where that is no strided view.
inline std::optional<std::vector<Factors>> cut(Factors walk, const std::vector<int64_t>& sizes) {
  std::vector<Factors> dims(sizes.size());
  for (size_t k = sizes.size(); k-- > 0;) {
    Factors parts;  // the innermost first
    for (int64_t left = sizes[k]; left > 1;) {
      if (walk.empty()) return std::nullopt;
      Factor& f = walk.back();
      const int64_t n = std::gcd(left, f.size);
      if (n != left && n != f.size) return std::nullopt;
      parts.push_back({n, f.stride});
      f = {f.size / n, f.stride * n};
      if (f.size == 1) walk.pop_back();
      left /= n;
    }
    for (size_t i = parts.size(); i-- > 0;) append(&dims[k], parts[i]);
  }
  return dims;
}

// How a value lies inside of another, times a number.
struct View {
  int value = -1;
  int64_t offset = 0;
  std::vector<Factors> dims;
  double scale = 1;

  Factors walk() const {
    Factors all;
    for (const Factors& dim : dims)
      for (const Factor& f : dim) append(&all, f);
    return all;
  }
  bool reshape(const Shape& shape) {
    std::optional<std::vector<Factors>> cuts = cut(walk(), std::vector<int64_t>(shape.begin(), shape.end()));
    if (cuts) dims = std::move(*cuts);
    return cuts.has_value();
  }
  void transpose(const Attrs& attrs) {
    const int64_t rank = static_cast<int64_t>(dims.size());
    const std::vector<int64_t> perm = attrs.ints("perm");
    const std::vector<Factors> from = dims;
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t axis = attrs.has("perm") ? perm[static_cast<size_t>(i)] : rank - 1 - i;
      dims[static_cast<size_t>(i)] = from[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    }
  }
  // Keeps `size` of dim `axis`, from `first` on.
  bool narrow(int64_t axis, int64_t first, int64_t size) {
    Factors& dim = dims[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)];
    if (dim.empty()) return first == 0;
    // Of a dimension of several strides, only whole multiples of the inner ones.
    const int64_t inner = size_of(dim) / dim[0].size;
    if (first % inner != 0 || size % inner != 0) return false;
    offset += first / inner * dim[0].stride;
    dim[0].size = size / inner;
    if (dim[0].size == 1) dim.erase(dim.begin());
    return true;
  }
  // Repeats it to a shape that it broadcasts to.
  bool expand(const Shape& shape) {
    dims.insert(dims.begin(), static_cast<size_t>(shape.rank()) - dims.size(), Factors());
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t n = shape[static_cast<int>(k)];
      if (size_of(dims[k]) == n) continue;
      if (!dims[k].empty()) return false;
      dims[k] = {{n, 0}};
    }
    return true;
  }
};

// Several views of the same number of elements, split alike: the sizes, and the strides of each.
inline bool align(std::vector<Factors> walks, std::vector<int64_t>* sizes, std::vector<std::vector<int64_t>>* strides) {
  sizes->clear();
  strides->assign(walks.size(), {});
  while (true) {
    int64_t n = 0;
    for (const Factors& walk : walks)
      if (!walk.empty()) n = std::gcd(n, walk.back().size);
    if (n == 0) break;
    for (size_t i = 0; i < walks.size(); ++i) {
      if (walks[i].empty() || n == 1) return false;
      Factor& f = walks[i].back();
      (*strides)[i].insert((*strides)[i].begin(), f.stride);
      f = {f.size / n, f.stride * n};
      if (f.size == 1) walks[i].pop_back();
    }
    sizes->insert(sizes->begin(), n);
  }
  return true;
}

}  // namespace minnow
