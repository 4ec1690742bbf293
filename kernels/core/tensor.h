// Tensors as kernels see them: a view of memory with a type, a shape and a layout. Nothing here owns memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/core/dtype.h"

namespace minnow {

constexpr int kMaxRank = 12;

// A shape of up to kMaxRank dims; rank 0 is a scalar with one element. Never allocates. Given more dims than
// that, it keeps the first ones, and fits() is false: check it for shapes from files, as check_type() does.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t d : dims) push_back(d);
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dim_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dim_[static_cast<size_t>(i)]; }
  // Dim counted from the end with negative numbers: at(-1) is the last one.
  int64_t at(int i) const { return dim_[static_cast<size_t>(i < 0 ? i + rank_ : i)]; }
  void push_back(int64_t d) {
    if (rank_ < kMaxRank) {
      dim_[static_cast<size_t>(rank_++)] = d;
    } else {
      fits_ = false;
    }
  }
  void resize(int rank, int64_t fill = 1) {
    while (rank_ < rank && fits_) push_back(fill);
    if (rank < rank_) rank_ = rank < 0 ? 0 : rank;
  }
  // False when it was given more than kMaxRank dims.
  bool fits() const { return fits_; }
  // Product of the dims [begin, end); 1 for an empty range. The largest number there is where the product is larger.
  int64_t count(int begin, int end) const;
  int64_t count() const { return count(0, rank_); }
  const int64_t* begin() const { return dim_.data(); }
  const int64_t* end() const { return dim_.data() + rank_; }
  bool operator==(const Shape& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (dim_[static_cast<size_t>(i)] != o.dim_[static_cast<size_t>(i)]) return false;
    return true;
  }
  bool operator!=(const Shape& o) const { return !(*this == o); }
  std::string str() const;  // "[1,3,224,224]"

 private:
  std::array<int64_t, kMaxRank> dim_{};
  int rank_ = 0;
  bool fits_ = true;
};

// kPlain: row-major, the shape as it stands. kPacked: the logical shape is [N, C, spatial...], the memory is
// [N, ceil(C / b), spatial..., b]; b, the channels of a block, is the backend's. The lanes beyond C hold unspecified
// values: kernels may compute on them but must never let them reach a valid lane. kLast: of bytes on the CPU, the
// memory is [N, spatial..., C], C rounded up (machine/packed_layout.h), with the same freedom for the bytes beyond C;
// of f32 the same with numbers of bf16.
enum class Layout : uint8_t { kPlain, kPacked, kLast };

struct TensorType {
  DType dtype = DType::kF32;
  Layout layout = Layout::kPlain;
  Shape shape;
  // Of an image in kLast that lies inside of a larger one: numbers from one pixel to the next. Else 0.
  int64_t pixel = 0;

  int64_t count() const { return shape.count(); }
  // Of the elements, without any padding that a layout has; the largest number there is for more.
  int64_t bytes() const;
};

struct Tensor {
  TensorType type;
  void* data = nullptr;

  const Shape& shape() const { return type.shape; }
  int64_t dim(int i) const { return type.shape.at(i); }
  int rank() const { return type.shape.rank(); }
  int64_t count() const { return type.count(); }
  template <typename T>
  T* as() {
    return static_cast<T*>(data);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

}  // namespace minnow
