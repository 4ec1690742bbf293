// Reading indices that come from data: negative ones count from the end, wrong ones are reported and never used.
#pragma once

#include <atomic>
#include <cstring>

#include "kernels/cpu/convert/operand.h"
#include "kernels/core/kernel.h"
#include "kernels/core/region.h"

namespace minnow {

class IndexReader {
 public:
  explicit IndexReader(const Tensor& indices) : view_(indices) {}

  // Index i in [0, dim), or -1 when it lies outside [-dim, dim). May be called from any thread.
  int64_t at(int64_t i, int64_t dim) {
    int64_t k = view_[i];
    if (k < 0) k += dim;
    if (k >= 0 && k < dim) return k;
    int64_t none = -1;
    if (wrong_.compare_exchange_strong(none, i, std::memory_order_relaxed)) dim_ = dim;
    return -1;
  }

  // The same for n neighboring indices. Says whether all of them are inside.
  bool at(int64_t first, int64_t n, int64_t dim, int64_t* out) {
    const IntView view = view_;  // known not to change meanwhile
    for (int64_t i = 0; i < n; ++i) out[i] = view[first + i];
    bool inside = true;
    for (int64_t i = 0; i < n; ++i) {
      out[i] += out[i] < 0 ? dim : 0;
      inside &= (out[i] >= 0) & (out[i] < dim);
    }
    if (inside) return true;
    for (int64_t i = 0; i < n; ++i) out[i] = at(first + i, dim);
    return false;
  }

  // Called after the work. True when there was a wrong index, which is then the run's error.
  bool report(const RunContext& c) const {
    const int64_t wrong = wrong_.load();
    if (wrong < 0) return false;
    c.report(fail(Code::kUsage, "index %lld, element %lld of the indices, is outside [%lld, %lld)",
                  static_cast<long long>(view_[wrong]), static_cast<long long>(wrong), static_cast<long long>(-dim_),
                  static_cast<long long>(dim_)));
    return true;
  }

 private:
  IntView view_;
  std::atomic<int64_t> wrong_{-1};
  int64_t dim_ = 0;
};

// Calls body(size) with the size of an element as a constant, which lets memcpy become one load and one store.
template <typename Body>
void with_size(int64_t size, Body body) {
  switch (size) {
    case 1:
      return body(std::integral_constant<int64_t, 1>());
    case 2:
      return body(std::integral_constant<int64_t, 2>());
    case 4:
      return body(std::integral_constant<int64_t, 4>());
    default:
      return body(std::integral_constant<int64_t, 8>());
  }
}

// memcpy without a call for the sizes of single elements.
inline void copy_block(char* dst, const char* src, int64_t bytes) {
  switch (bytes) {
    case 1:
      *dst = *src;
      break;
    case 2:
      std::memcpy(dst, src, 2);
      break;
    case 4:
      std::memcpy(dst, src, 4);
      break;
    case 8:
      std::memcpy(dst, src, 8);
      break;
    default:
      std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
}

// The elements of an index tensor of GatherElements and ScatterElements, line by line along its last axis: element j
// of line r, with index k along `axis`, belongs to element base(r) + j * step() + k * along() of the data.
class ElementLines {
 public:
  ElementLines(const Shape& indices, const Shape& data, int axis)
      : indices_(indices), stride_(strides_of(data)), axis_(axis) {}

  int64_t length() const { return indices_.at(-1); }
  int64_t lines() const { return indices_.count(0, indices_.rank() - 1); }
  // Lines with the same leading dims, those before `axis`; different blocks never meet in the data.
  int64_t block() const { return indices_.count(axis_, indices_.rank() - 1); }
  int64_t step() const { return axis_ == indices_.rank() - 1 ? 0 : 1; }
  int64_t along() const { return stride_[static_cast<size_t>(axis_)]; }
  int64_t base(int64_t line) const {
    int64_t offset = 0;
    for (int k = indices_.rank() - 2; k >= 0; --k) {
      if (k != axis_) offset += line % indices_[k] * stride_[static_cast<size_t>(k)];
      line /= indices_[k];
    }
    return offset;
  }

 private:
  Shape indices_;
  std::array<int64_t, kMaxRank> stride_;
  int axis_;
};

// What the two ops ask of the shapes: indices no larger than the data, but along the axis.
inline Status check_elements(const InferContext& c, int* axis) {
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  const Shape &data = c.shape(0), &indices = c.shape(1);
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 1, kMaxRank));
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", 0), data.rank(), axis));
  bool fits = indices.rank() == data.rank();
  for (int k = 0; fits && k < data.rank(); ++k) fits = k == *axis || indices[k] <= data[k];
  if (fits) return ok();
  return fail(Code::kFormat, "indices of shape %s for data of shape %s along axis %d", indices.str().c_str(),
              data.str().c_str(), *axis);
}

}  // namespace minnow
