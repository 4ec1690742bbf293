// What kernels that move elements share.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/core/infer.h"
#include "kernels/core/region.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {

// Elements of any type are moved, if there are not too many for an int, and the device has buffers of their size.
bool can_move(const NodeContext& node, std::string* why);

inline int size_of(const Tensor& t) { return static_cast<int>(dtype_size(t.type.dtype)); }
inline int type_of(const Tensor& t) { return static_cast<int>(t.type.dtype); }
inline int32_t as_int(int64_t x) { return static_cast<int32_t>(x); }

// The three arguments of divided(), see text/movement.inc.
inline void add_divisor(Arguments* arguments, int64_t size) {
  const Divisor divisor(std::max<int64_t>(size, 1));
  arguments->add(divisor.size).add(divisor.factor).add(divisor.shift);
}

// The rows that the texts read for each dim, innermost first: a divisor and two numbers.
class DimRows {
 public:
  void add(int64_t size, int64_t a, int64_t b) {
    const Divisor divisor(std::max<int64_t>(size, 1));
    for (uint32_t word :
         {divisor.size, divisor.factor, divisor.shift, static_cast<uint32_t>(a), static_cast<uint32_t>(b)})
      words_.push_back(word);
  }
  int32_t rank() const { return static_cast<int32_t>(words_.size() / 5); }
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

// How often elements of `size` bytes are one of up to 8: neighbors are moved together where runs of them are a multiple
// long, and the addresses are.
int64_t widest_factor(int64_t size, int64_t run, std::initializer_list<const void*> addresses);

// The copy of a region, as CPU kernels have it in copy_region().
class RegionMove {
 public:
  // Gives false where there is nothing to copy.
  Status make(Device& device, const Region& region, int64_t element_size);
  Status enqueue(Stream& stream, const void* from, void* to) const;

 private:
  struct Launch {
    int64_t size = 0;  // of elements; 0: nothing to copy
    bool tiled = false;
    int64_t count = 0;
    std::array<int64_t, 4> matrix{};  // rows, cols, src_col, dst_row
    int32_t rank = 0, src = 0, dst = 0;
    Uploaded code;
  };
  static Status make_launch(Device& device, const Region& region, int64_t size, Launch* out);
  Status enqueue(const Launch& launch, Stream& stream, const void* from, void* to) const;

  Device* device_ = nullptr;
  Launch wide_, narrow_;  // of larger elements, for addresses that are a multiple of their size
};

}  // namespace minnow::gpu
