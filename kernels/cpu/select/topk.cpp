// TopK: every element becomes an unsigned key that sorts as wanted, with its index below it, so that one selection
// serves all types, both orders and ties (the lower index first). NaN counts as the greatest, as when numpy sorts.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/reduce/axis.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// Keys that grow with the numbers: of a float, the bits, all flipped when it is negative, else with the sign set.
uint32_t key_of(float x) {
  if (x != x) return ~uint32_t{0};
  x += 0.0f;  // -0 is equal to 0
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
uint64_t key_of(double x) {
  if (x != x) return ~uint64_t{0};
  x += 0.0;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits ^ (static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63) | (uint64_t{1} << 63));
}
uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
uint64_t key_of(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63); }
uint64_t key_of(uint64_t x) { return x; }

// A key of 32 bits and its index in one number, or a pair for longer keys.
struct Narrow {
  uint64_t bits;
  void set(uint32_t key, int64_t index) { bits = static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(index); }
  int64_t index() const { return static_cast<int64_t>(bits & 0xFFFFFFFFu); }
  bool operator<(const Narrow& o) const { return bits < o.bits; }
};
struct Wide {
  uint64_t key;
  int64_t position;
  void set(uint64_t k, int64_t index) { key = k, position = index; }
  int64_t index() const { return position; }
  bool operator<(const Wide& o) const { return key != o.key ? key < o.key : position < o.position; }
};

template <typename T, typename Item>
void make_items(const void* data, int64_t n, int64_t first, bool largest, Item* items) {
  using Key = decltype(key_of(T{}));
  const Key flip = largest ? ~Key{0} : Key{0};
  for (int64_t i = 0; i < n; ++i) items[i].set(key_of(static_cast<const T*>(data)[i]) ^ flip, first + i);
}

// Compares items, and ends the work from within a long sort.
struct Stopped {};
struct Before {
  LongLoop* loop;
  template <typename Item>
  bool operator()(const Item& a, const Item& b) const {
    if (!loop->goes_on(2)) throw Stopped();
    return a < b;
  }
};

// Brings the k least of n items to the front, in order.
template <typename Item>
void select(Item* items, int64_t n, int64_t k) {
  constexpr int64_t kFew = 32;
  LongLoop loop;
  const Before before{&loop};
  if (k <= kFew) {  // one look at most of them
    std::sort(items, items + k);
    for (int64_t i = k; i < n; ++i) {
      if (!(items[i] < items[k - 1])) continue;
      const Item item = items[i];
      int64_t at = k - 1;
      for (; at > 0 && item < items[at - 1]; --at) items[at] = items[at - 1];
      items[at] = item;
    }
    return;
  }
  if (k < n / 8) {  // a heap of the least so far, which most of them do not enter
    std::make_heap(items, items + k, before);
    for (int64_t i = k; i < n; ++i) {
      if (!(items[i] < items[0])) continue;
      std::pop_heap(items, items + k, before);
      items[k - 1] = items[i];
      std::push_heap(items, items + k, before);
    }
    std::sort_heap(items, items + k, before);
    return;
  }
  if (k < n) std::nth_element(items, items + k, items + n, before);
  std::sort(items, items + k, before);
}

class TopK final : public Kernel {
 public:
  explicit TopK(const NodeContext& node) : attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    MINNOW_RETURN_IF_ERROR(view_.set(attrs_.i("axis", -1), shape));
    // The values or the indices may not be wanted.
    AxisView out;
    MINNOW_RETURN_IF_ERROR(out.set(attrs_.i("axis", -1), (node.out[0] != nullptr ? node.out[0] : node.out[1])->shape));
    k_ = out.rows;
    dtype_ = node.in[0]->dtype;
    if (view_.rows >= int64_t{1} << 32) return fail(Code::kUnsupported, "an axis of 2^32 elements or more");
    const Compute compute = compute_type(dtype_);
    is_narrow_ = compute == Compute::kF32 || compute == Compute::kI32;
    bytes_ = (view_.rows * static_cast<int64_t>(is_narrow_ ? sizeof(Narrow) : sizeof(Wide)) + 63) / 64 * 64;
    *workspace = bytes_ * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    if (k_ == 0) return;
    const int64_t grain = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, view_.rows));
    context.pool->parallel_for(view_.outer * view_.inner, grain, [&](int64_t begin, int64_t end, int worker) {
      void* items = static_cast<char*>(context.workspace) + worker * bytes_;
      try {
        for (int64_t i = begin; i < end; ++i)
          is_narrow_ ? one(context, i, static_cast<Narrow*>(items)) : one(context, i, static_cast<Wide*>(items));
      } catch (const Stopped&) {  // the results are unused
      }
    });
  }

 private:
  template <typename Item>
  void one(const RunContext& context, int64_t i, Item* items) const {
    const size_t size = dtype_size(dtype_);
    const bool largest = attrs_.b("largest", true);
    const char* x = offset(context.in[0]->data, i / view_.inner * view_.rows * view_.inner + i % view_.inner, size);
    Block gathered, converted;
    for (int64_t r = 0; r < view_.rows; r += kBlock) {
      const int64_t n = std::min(kBlock, view_.rows - r);
      const void* piece = offset(x, r * view_.inner, size);
      if (view_.inner != 1) {
        for (int64_t j = 0; j < n; ++j)
          std::memcpy(offset(gathered.bytes, j, size), offset(x, (r + j) * view_.inner, size), size);
        piece = gathered.bytes;
      }
      make(load_block(dtype_, piece, n, converted.bytes), n, r, largest, items + r);
    }
    select(items, view_.rows, k_);
    const int64_t at = i / view_.inner * k_ * view_.inner + i % view_.inner;
    for (int64_t j = 0; j < k_; ++j) {
      const int64_t index = items[j].index();
      if (context.out[0] != nullptr)
        std::memcpy(offset(context.out[0]->data, at + j * view_.inner, size), offset(x, index * view_.inner, size),
                    size);
      if (context.out.size() > 1 && context.out[1] != nullptr)
        context.out[1]->as<int64_t>()[at + j * view_.inner] = index;
    }
  }

  void make(const void* data, int64_t n, int64_t first, bool largest, Narrow* items) const {
    compute_type(dtype_) == Compute::kF32 ? make_items<float>(data, n, first, largest, items)
                                          : make_items<int32_t>(data, n, first, largest, items);
  }
  void make(const void* data, int64_t n, int64_t first, bool largest, Wide* items) const {
    switch (compute_type(dtype_)) {
      case Compute::kF64:
        return make_items<double>(data, n, first, largest, items);
      case Compute::kU64:
        return make_items<uint64_t>(data, n, first, largest, items);
      default:
        return make_items<int64_t>(data, n, first, largest, items);
    }
  }

  const Attrs& attrs_;
  AxisView view_;
  int64_t k_ = 0;
  bool is_narrow_ = true;
  int64_t bytes_ = 0;  // of workspace for each thread
  DType dtype_ = DType::kF32;
};

std::unique_ptr<Kernel> create(const NodeContext& node) { return std::make_unique<TopK>(node); }

Status infer_topk(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  if (c.in(0).dtype == DType::kBool) return fail(Code::kFormat, "takes numbers, not bool");
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", -1), c.shape(0).rank(), &axis));
  if (c.shape(1).count() != 1)
    return fail(Code::kFormat, "k must be one number, not a tensor of shape %s", c.shape(1).str().c_str());
  std::vector<int64_t> k;
  MINNOW_RETURN_IF_ERROR(c.ints(1, &k));
  Shape shape = c.shape(0);
  if (k[0] < 0 || k[0] > shape[axis])
    return fail(Code::kFormat, "k is %lld, but axis %d of shape %s has %lld elements", static_cast<long long>(k[0]),
                axis, shape.str().c_str(), static_cast<long long>(shape[axis]));
  shape[axis] = k[0];
  c.set(0, c.in(0).dtype, shape);
  c.set(1, DType::kI64, shape);
  return ok();
}

MINNOW_OP("TopK", infer_topk);
MINNOW_KERNEL("TopK", create);

}  // namespace
}  // namespace minnow
