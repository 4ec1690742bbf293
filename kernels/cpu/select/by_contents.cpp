// Ops whose output shape depends on contents: NonZero, Compress, Unique.
#include <algorithm>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// Element i of any type is not zero. Minus zero is zero, NaN is not.
class Truth {
 public:
  explicit Truth(const Tensor& t)
      : data_(t.as<char>()), size_(dtype_size(t.type.dtype)), sign_(is_float(t.type.dtype)) {}
  bool operator[](int64_t i) const {
    if (size_ == 1) return data_[i] != 0;
    uint64_t bits = 0;
    std::memcpy(&bits, data_ + i * static_cast<int64_t>(size_), size_);
    if (sign_) bits &= (uint64_t{1} << (8 * size_ - 1)) - 1;
    return bits != 0;
  }
  int64_t count(int64_t n) const {
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) found += (*this)[i];
    return found;
  }

 private:
  const char* data_;
  size_t size_;
  bool sign_;
};

// --- NonZero, ArgWhere: the same numbers, transposed

Status count_non_zero(InferContext& c, int64_t* rank, int64_t* count) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.value(0) == nullptr) return c.needs_value(0);
  *rank = c.shape(0).rank();  // for a scalar no numbers, as the specification has it
  *count = Truth(*c.value(0)).count(c.in(0).count());
  return ok();
}

Status infer_non_zero(InferContext& c) {
  int64_t rank = 0, count = 0;
  MINNOW_RETURN_IF_ERROR(count_non_zero(c, &rank, &count));
  c.set(0, DType::kI64, {rank, count});
  return ok();
}

Status infer_arg_where(InferContext& c) {
  int64_t rank = 0, count = 0;
  MINNOW_RETURN_IF_ERROR(count_non_zero(c, &rank, &count));
  c.set(0, DType::kI64, {count, rank});
  return ok();
}

// The place along axis k of element `found` goes to y[k * axis_step + found * item_step].
void find_non_zero(const RunContext& c, int64_t count, int64_t axis_step, int64_t item_step) {
  const Tensor& x = *c.in[0];
  const Truth truth(x);
  int64_t* y = c.out[0]->as<int64_t>();
  for (int64_t i = 0, found = 0; i < x.count() && found < count; ++i) {
    if (!truth[i]) continue;
    int64_t rest = i, *place = y + found++ * item_step;
    for (int k = x.rank() - 1; k >= 0; --k) {
      place[k * axis_step] = rest % x.dim(k);
      rest /= x.dim(k);
    }
  }
}

void run_non_zero(const Attrs&, const RunContext& c) { find_non_zero(c, c.out[0]->dim(1), c.out[0]->dim(1), 1); }
void run_arg_where(const Attrs&, const RunContext& c) { find_non_zero(c, c.out[0]->dim(0), 1, c.out[0]->dim(1)); }

MINNOW_OP("NonZero", infer_non_zero);
MINNOW_KERNEL("NonZero", create_simple<run_non_zero>);
MINNOW_OP("ArgWhere", infer_arg_where);
MINNOW_KERNEL("ArgWhere", create_simple<run_arg_where>);

// --- Compress

Status infer_compress(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 1, 1, 1));
  Shape y = c.shape(0);
  int axis = 0;
  if (c.attrs.has("axis")) {
    MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis"), y.rank(), &axis));
  } else {
    y = {y.count()};
  }
  if (c.value(1) == nullptr) return c.needs_value(1);
  y[axis] = Truth(*c.value(1)).count(std::min(y[axis], c.shape(1)[0]));
  c.set(0, c.in(0).dtype, y);
  return ok();
}

void run_compress(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  Tensor& y = *c.out[0];
  int axis = 0;
  int64_t outer = 1, dim = x.count(), inner = 1;
  if (attrs.has("axis")) {
    const Status status = normalize_axis(attrs.i("axis"), x.rank(), &axis);
    if (!status.ok()) return c.report(status);
    outer = x.shape().count(0, axis);
    dim = x.dim(axis);
    inner = x.shape().count(axis + 1, x.rank());
  }
  if (y.count() == 0) return;
  const Truth keep(*c.in[1]);
  const int64_t bytes = inner * static_cast<int64_t>(dtype_size(x.type.dtype)), n = std::min(dim, c.in[1]->dim(0));
  char *to = y.as<char>(), *end = to + y.type.bytes();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < n; ++i) {
      if (!keep[i] || to == end) continue;  // the caller's memory may have changed since it was counted
      std::memcpy(to, x.as<char>() + (o * dim + i) * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
}

MINNOW_OP("Compress", infer_compress);
MINNOW_KERNEL("Compress", create_simple<run_compress>);

// --- Unique

// The input as n items of outer * inner elements, lying `inner` apart.
struct Items {
  int64_t outer = 1, n = 1, inner = 1;
  int axis = -1;  // -1: the elements of the flattened input
};

Status unique_items(const Attrs& attrs, const Shape& x, Items* items) {
  items->n = x.count();
  if (!attrs.has("axis")) return ok();
  MINNOW_RETURN_IF_ERROR(normalize_axis(attrs.i("axis"), x.rank(), &items->axis));
  items->outer = x.count(0, items->axis);
  items->n = x[items->axis];
  items->inner = x.count(items->axis + 1, x.rank());
  return ok();
}

// Elements a and b of an array: -1, 0 or 1. NaNs are equal and come last.
using Compare = int (*)(const void* x, int64_t a, int64_t b);
template <typename T>
int compare(const void* x, int64_t at_a, int64_t at_b) {
  const T a = static_cast<const T*>(x)[at_a], b = static_cast<const T*>(x)[at_b];
  if (a < b) return -1;
  if (b < a) return 1;
  if (a == b) return 0;
  return static_cast<int>(a != a) - static_cast<int>(b != b);
}

// Null for types whose elements have no order here.
Compare compare_of(DType t) {
  Compare function = nullptr;
  with_number(t == DType::kBool ? DType::kU8 : t, [&](auto zero) { function = compare<decltype(zero)>; });
  return function;
}

int compare_items(Compare compare, const void* x, const Items& items, int64_t a, int64_t b) {
  for (int64_t o = 0; o < items.outer; ++o)
    for (int64_t i = 0; i < items.inner; ++i) {
      const int64_t line = o * items.n * items.inner + i;
      const int order = compare(x, line + a * items.inner, line + b * items.inner);
      if (order != 0) return order;
    }
  return 0;
}

struct Entry {
  uint64_t key;
  int64_t index;
};

// The elements' places in ascending order, equal ones as they come: keys, whose order as unsigned numbers is that of
// the elements, are sorted digit by digit, but for those digits that all have in common. `work` is for 2 * n entries.
void sort_elements(const Tensor& x, int64_t n, Entry* work, int64_t* order) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const DType dtype = x.type.dtype;
  const DType wide = is_float(dtype) ? DType::kF64 : dtype == DType::kU64 ? DType::kU64 : DType::kI64;
  uint64_t different = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    uint64_t keys[kBlock];
    double numbers[kBlock];
    const int64_t m = std::min(kBlock, n - i);
    void* to = wide == DType::kF64 ? static_cast<void*>(numbers) : keys;
    convert(dtype, offset(x.data, i, dtype_size(dtype)), wide, to, m);
    for (int64_t k = 0; k < m; ++k) {
      uint64_t key = keys[k];
      if (wide == DType::kF64) {
        const double number = numbers[k] + 0.0;  // one zero
        std::memcpy(&key, &number, sizeof key);
        key = number != number ? ~uint64_t{0} : (key & kSign) != 0 ? ~key : key | kSign;
      } else if (wide == DType::kI64) {
        key ^= kSign;
      }
      work[i + k] = {key, i + k};
      different |= key ^ work[0].key;
    }
  }
  Entry *from = work, *to = work + n;
  LongLoop loop;
  for (int shift = 0; shift < 64 && loop.goes_on(8 * n); shift += 8) {
    if ((different >> shift & 255) == 0) continue;
    int64_t place[257] = {};
    for (int64_t i = 0; i < n; ++i) ++place[(from[i].key >> shift & 255) + 1];
    for (int digit = 0; digit < 256; ++digit) place[digit + 1] += place[digit];
    for (int64_t i = 0; i < n; ++i) to[place[from[i].key >> shift & 255]++] = from[i];
    std::swap(from, to);
  }
  for (int64_t i = 0; i < n; ++i) order[i] = from[i].index;
}

constexpr int64_t kUniqueWork = 7;  // numbers for each item

// Fills `first` with the first occurrence of each distinct item, in ascending order of the items (`sorted`) or of the
// occurrences, and `group` with each item's place among them. All three arrays have n elements, and behind the last
// there is room for 4 * n more. Returns how many.
int64_t find_unique(const Tensor& tensor, const Items& items, bool sorted, int64_t* order, int64_t* first,
                    int64_t* group) {
  const void* x = tensor.data;
  const Compare compare = compare_of(tensor.type.dtype);
  if (items.outer * items.inner == 1) {
    sort_elements(tensor, items.n, reinterpret_cast<Entry*>(group + items.n), order);
  } else {
    for (int64_t i = 0; i < items.n; ++i) order[i] = i;
    struct Stopped {};
    LongLoop loop;
    try {
      std::sort(order, order + items.n, [&](int64_t a, int64_t b) {
        if (!loop.goes_on(items.outer * items.inner)) throw Stopped();
        const int c = compare_items(compare, x, items, a, b);
        return c != 0 ? c < 0 : a < b;
      });
    } catch (const Stopped&) {  // the results are unused
      return 0;
    }
  }
  int64_t found = 0;
  for (int64_t i = 0; i < items.n; ++i) {
    if (i == 0 || compare_items(compare, x, items, order[i - 1], order[i]) != 0) first[found++] = order[i];
    group[order[i]] = found - 1;
  }
  if (!sorted) {
    // Each group's number becomes the rank of its first occurrence: the occurrences in order meet new groups in order.
    std::fill(order, order + found, -1);
    int64_t seen = 0;
    for (int64_t i = 0; i < items.n; ++i) {
      int64_t& place = order[group[i]];
      if (place < 0) {
        place = seen;
        first[seen++] = i;
      }
      group[i] = place;
    }
  }
  return found;
}

Status infer_unique(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  Items items;
  MINNOW_RETURN_IF_ERROR(unique_items(c.attrs, c.shape(0), &items));
  if (compare_of(c.in(0).dtype) == nullptr)
    return fail(Code::kUnsupported, "the unique elements of %s", dtype_name(c.in(0).dtype));
  const Tensor* x = c.value(0);
  if (x == nullptr) return c.needs_value(0);
  MINNOW_RETURN_IF_ERROR(room_for(kUniqueWork * items.n * static_cast<int64_t>(sizeof(int64_t))));
  std::vector<int64_t> work(static_cast<size_t>(kUniqueWork * items.n));
  int64_t* w = work.data();
  const int64_t found = find_unique(*x, items, false, w, w + items.n, w + 2 * items.n);
  Shape y{found};
  if (items.axis >= 0) {
    y = c.shape(0);
    y[items.axis] = found;
  }
  c.set(0, c.in(0).dtype, y);
  c.set(1, DType::kI64, {found});
  c.set(2, DType::kI64, {items.n});
  c.set(3, DType::kI64, {found});
  return ok();
}

class UniqueKernel final : public Kernel {
 public:
  explicit UniqueKernel(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    items_ = Items();
    MINNOW_RETURN_IF_ERROR(unique_items(attrs_, node.in[0]->shape, &items_));
    *workspace = kUniqueWork * items_.n * static_cast<int64_t>(sizeof(int64_t));
    return ok();
  }

  void run(const RunContext& c) override {
    int64_t* order = static_cast<int64_t*>(c.workspace);
    int64_t *first = order + items_.n, *group = first + items_.n;
    const Tensor& x = *c.in[0];
    const bool sorted = attrs_.b("sorted", attrs_.i("sorted", 1) != 0);
    const int64_t found = find_unique(x, items_, sorted, order, first, group);
    // Of a run that is to end the items may be half sorted: more of them, or none, seem to differ.
    if (found != c.out[0]->dim(items_.axis >= 0 ? items_.axis : 0)) return;
    const auto output = [&](size_t i) {
      return i < c.out.size() && c.out[i] != nullptr ? c.out[i]->as<int64_t>() : nullptr;
    };
    const int64_t bytes = items_.inner * static_cast<int64_t>(dtype_size(x.type.dtype));
    char* y = c.out[0]->as<char>();
    for (int64_t o = 0; o < items_.outer && bytes > 0; ++o)
      for (int64_t i = 0; i < found; ++i, y += bytes)
        std::memcpy(y, x.as<char>() + (o * items_.n + first[i]) * bytes, static_cast<size_t>(bytes));
    if (int64_t* indices = output(1)) std::copy(first, first + found, indices);
    if (int64_t* inverse = output(2)) std::copy(group, group + items_.n, inverse);
    if (int64_t* counts = output(3)) {
      std::fill(counts, counts + found, 0);
      for (int64_t i = 0; i < items_.n; ++i) ++counts[group[i]];
    }
  }

 private:
  const Attrs& attrs_;
  Items items_;
};

std::unique_ptr<Kernel> create_unique(const NodeContext& node) { return std::make_unique<UniqueKernel>(node.attrs); }

MINNOW_OP("Unique", infer_unique);
MINNOW_KERNEL("Unique", create_unique);

}  // namespace
}  // namespace minnow
