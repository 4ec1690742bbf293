// Pad: constant, reflect, edge, wrap; negative pads crop.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/operand.h"
#include "kernels/core/region.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kBytesPerTask = 64 << 10;

enum class PadMode { kConstant, kReflect, kEdge, kWrap };

Status pad_mode(const Attrs& attrs, PadMode* mode) {
  static const char* const kNames[] = {"constant", "reflect", "edge", "wrap"};
  const std::string name = attrs.s("mode", "constant");
  for (int i = 0; i < 4; ++i)
    if (name == kNames[i]) {
      *mode = static_cast<PadMode>(i);
      return ok();
    }
  return fail(Code::kUnsupported, "mode '%s'; known are constant, reflect, edge and wrap", name.c_str());
}

constexpr int64_t kMostPadding = int64_t{1} << 40;

// What negative pads leave of an axis, and where it starts in the output.
struct Window {
  int64_t begin, end, at;

  Window(int64_t n, int64_t before, int64_t after)
      : begin(std::max<int64_t>(0, -before)), end(n - std::max<int64_t>(0, -after)), at(std::max<int64_t>(0, before)) {}
  int64_t size() const { return end - begin; }
};

Status infer_pad(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  PadMode mode;
  MINNOW_RETURN_IF_ERROR(pad_mode(c.attrs, &mode));
  if (c.has(2)) {
    MINNOW_RETURN_IF_ERROR(require_dtype(c, 2, c.in(0).dtype));
    if (c.in(2).count() != 1)
      return fail(Code::kFormat, "the value must be one element, not %s", c.shape(2).str().c_str());
  }
  std::vector<int64_t> pads;
  MINNOW_RETURN_IF_ERROR(c.ints(1, &pads));
  const Shape& x = c.shape(0);
  if (static_cast<int>(pads.size()) != 2 * x.rank())
    return fail(Code::kFormat, "%zu pads for the shape %s; %d are needed", pads.size(), x.str().c_str(), 2 * x.rank());
  Shape y = x;
  for (int k = 0; k < x.rank(); ++k) {
    const int64_t before = pads[static_cast<size_t>(2 * k)], after = pads[static_cast<size_t>(2 * k + 1)];
    const bool huge = std::max(before, after) > kMostPadding || std::min(before, after) < -kMostPadding;
    y[k] += huge ? 0 : before + after;
    if (huge || y[k] < 0)
      return fail(Code::kFormat, "pads %lld and %lld do not fit axis %d of %s", static_cast<long long>(before),
                  static_cast<long long>(after), k, x.str().c_str());
    if (mode != PadMode::kConstant && y[k] > 0 && Window(x[k], before, after).size() <= 0)
      return fail(Code::kFormat, "with pads %lld and %lld nothing is left to repeat at axis %d of %s",
                  static_cast<long long>(before), static_cast<long long>(after), k, x.str().c_str());
  }
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

// Where index i of an axis of n is found; -1 for the constant.
int64_t repeat_index(int64_t i, int64_t n, PadMode mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PadMode::kEdge:
      return i < 0 ? 0 : n - 1;
    case PadMode::kWrap:
      return (i % n + n) % n;
    case PadMode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1), at = (i % period + period) % period;
      return at < n ? at : period - at;
    }
    default:
      return -1;
  }
}

void fill_elements(char* dst, const char* value, int64_t count, size_t size) {
  if (size == 1) {
    std::memset(dst, *value, static_cast<size_t>(count));
  } else if (size == 4) {  // by far the most frequent
    for (int64_t i = 0; i < count; ++i) std::memcpy(dst + 4 * i, value, 4);
  } else {
    for (int64_t i = 0; i < count; ++i, dst += size) std::memcpy(dst, value, size);
  }
}

// One row of the output runs along the last padded axis. Its elements are blocks: the unpadded axes behind.
class PadKernel final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    x_ = node.in[0]->shape;
    y_ = node.out[0]->shape;
    // For each axis, the offset in the source of each index of the output, -1 for the constant.
    *workspace = 0;
    for (int64_t d : y_) *workspace += d * static_cast<int64_t>(sizeof(int64_t));
    return pad_mode(node.attrs, &mode_);
  }

  void run(const RunContext& c) override {
    if (y_.count() == 0) return;
    const size_t size = dtype_size(c.in[0]->type.dtype);
    const IntView pads(*c.in[1]);
    int axis = -1;
    for (int k = 0; k < y_.rank(); ++k)
      if (pads[2 * k] != 0 || pads[2 * k + 1] != 0) axis = k;
    if (axis < 0) return copy_bytes(c.in[0]->data, c.out[0]->data, c.in[0]->type.bytes(), c.pool);

    const auto stride = strides_of(x_);
    std::array<const int64_t*, kMaxRank> map{};
    int64_t* next = static_cast<int64_t*>(c.workspace);
    for (int k = 0; k <= axis; ++k) {
      map[static_cast<size_t>(k)] = next;
      const Window w(x_[k], pads[2 * k], pads[2 * k + 1]);
      for (int64_t i = 0; i < y_[k]; ++i) {
        const int64_t from = repeat_index(i - w.at, w.size(), mode_);
        *next++ = from < 0 ? -1 : (w.begin + from) * stride[static_cast<size_t>(k)] * static_cast<int64_t>(size);
      }
    }
    int64_t zero = 0;  // a scalar's worth of zero bytes, for any type
    const char* value = c.in.size() > 2 && c.in[2] != nullptr ? c.in[2]->as<char>() : reinterpret_cast<char*>(&zero);
    const int64_t block = y_.count(axis + 1, y_.rank()), bytes = block * static_cast<int64_t>(size);
    // Inside [first, last) the row is one run of the source.
    const Window w(x_[axis], pads[2 * axis], pads[2 * axis + 1]);
    const int64_t first = std::min(w.at, y_[axis]), last = std::clamp(w.at + w.size(), first, y_[axis]);
    const char* src = c.in[0]->as<char>();
    char* dst = c.out[0]->as<char>();

    auto rows = [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        char* to = dst + row * y_[axis] * bytes;
        int64_t offset = 0, rest = row;
        for (int k = axis - 1; k >= 0 && offset >= 0; --k) {
          const int64_t from = map[static_cast<size_t>(k)][rest % y_[k]];
          rest /= y_[k];
          offset = from < 0 ? -1 : offset + from;
        }
        if (offset < 0) {
          fill_elements(to, value, y_[axis] * block, size);
          continue;
        }
        const int64_t* at = map[static_cast<size_t>(axis)];
        const auto border = [&](int64_t i, int64_t stop) {
          for (; i < stop; ++i) {
            if (at[i] < 0) {
              fill_elements(to + i * bytes, value, block, size);
            } else {
              std::memcpy(to + i * bytes, src + offset + at[i], static_cast<size_t>(bytes));
            }
          }
        };
        border(0, first);
        if (last > first)
          std::memcpy(to + first * bytes, src + offset + at[first], static_cast<size_t>((last - first) * bytes));
        border(last, y_[axis]);
      }
    };
    const int64_t count = y_.count(0, axis);
    if (c.pool == nullptr) return rows(0, count, 0);
    c.pool->parallel_for(count, kBytesPerTask / std::max<int64_t>(1, y_[axis] * bytes) + 1, rows);
  }

  [[gnu::cold]] Profile profile() const override { return {"rows"}; }

 private:
  Shape x_, y_;
  PadMode mode_ = PadMode::kConstant;
};

std::unique_ptr<Kernel> create_pad(const NodeContext&) { return std::make_unique<PadKernel>(); }

MINNOW_OP("Pad", infer_pad);
MINNOW_KERNEL("Pad", create_pad);

}  // namespace
}  // namespace minnow
