// The op MatMulInteger: (A - a_zero) (B - b_zero) of 8-bit integers, in i32; and QuantizedMatMul, which has three more
// inputs, as the planner may give them to the other one, too: its sums are requantized at once (quant/requantize.h).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/byte_linear.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/gemm/matmul.h"
#include "kernels/cpu/quant/requantize.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using LongLong = long long;

Status infer_sums(InferContext& c, Shape* sums) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "two matrices are needed");
  MatMulShape s;
  MINNOW_RETURN_IF_ERROR(read_matmul(c.shape(0), c.shape(1), false, false, &s));
  for (int i = 0; i < 2; ++i) {
    if (!is_byte(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be u8 or i8, not %s", i, dtype_name(c.in(i).dtype));
    if (!c.has(i + 2)) continue;
    if (c.in(i + 2).dtype != c.in(i).dtype)
      return fail(Code::kFormat, "zero point %d is %s, but its matrix %s", i, dtype_name(c.in(i + 2).dtype),
                  dtype_name(c.in(i).dtype));
    const int64_t zeros = c.shape(i + 2).count(), one_each = i == 0 ? s.a_matrices * s.m : s.b_matrices * s.n;
    const int64_t shared = i == 0 ? s.m : s.n;
    if (zeros != 1 && zeros != shared && zeros != one_each)
      return fail(Code::kFormat, "zero point %d has shape %s: one number, or one for each %s (%lld), is needed", i,
                  c.shape(i + 2).str().c_str(), i == 0 ? "row" : "column", static_cast<LongLong>(shared));
  }
  *sums = s.out;
  return ok();
}

Status infer_matmul_integer(InferContext& c) {
  if (c.num_inputs() > 4) return fail(Code::kFormat, "takes 4 inputs, not %d", c.num_inputs());
  Shape sums;
  MINNOW_RETURN_IF_ERROR(infer_sums(c, &sums));
  c.set(0, DType::kI32, sums);
  return ok();
}

Status infer_quantized_matmul(InferContext& c) {
  Shape sums;
  DType to = DType::kI8;
  MINNOW_RETURN_IF_ERROR(infer_sums(c, &sums));
  MINNOW_RETURN_IF_ERROR(infer_requantized(c, 4, sums, -1, &to));
  if (sums.rank() < 2 || c.shape(1).rank() < 2) return fail(Code::kFormat, "needs matrices, not a vector");
  c.set(0, to, sums);
  return ok();
}

// The zero point for row (or column) `i` of matrix `which`, when there are `size` rows in each matrix.
int32_t zero_at(const Tensor* zeros, int64_t which, int64_t size, int64_t i) {
  if (zeros == nullptr) return 0;
  const int64_t n = zeros->count();
  return byte_at(*zeros, n == 1 ? 0 : n == size ? i : which * size + i);
}

class MatMulInteger final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_matmul(node.in[0]->shape, node.in[1]->shape, false, false, &s_));
    *workspace = 0;
    if (node.out[0]->count() == 0) return ok();
    attrs_ = &node.attrs;
    is_sum_ = is_column_of_ones(node);
    if (is_sum_) return ok();
    unit_ = byte_unit();
    steps_ = integer_steps(s_.k);
    if (unit_ != nullptr) steps_ = byte_steps(*unit_, steps_);
    const bool zero_known = node.in.size() < 4 || node.in[3] == nullptr || node.constant[3] != nullptr;
    // Panels of one column are mostly padding: those of many small matrices are made for each run.
    const bool keeps = 4 * right_size() <= kLeastBytes + kMostBytes * node.in[1]->count();
    if (node.constant[1] != nullptr && zero_known && keeps) {
      const bool has_zero = node.in.size() > 3 && node.in[3] != nullptr;
      const Tensor* zeros = has_zero ? node.constant[3] : nullptr;
      const auto fill = [&](void* to) {
        const auto pack = [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) pack_panel(*node.constant[1], zeros, i, static_cast<uint32_t*>(to));
        };
        const int64_t all = s_.b_matrices * panels();
        node.pool == nullptr ? pack(0, all, 0) : node.pool->parallel_for(all, 1 + 20000 / (panel_size() + 1), pack);
      };
      has_zero ? packed_.make(node, {1, 3}, scheme(), 4 * right_size(), fill)
               : packed_.make(node, {1}, scheme(), 4 * right_size(), fill);
    } else {
      packed_.clear();
    }
    const int64_t offsets = unit_ == nullptr ? steps_ : 0;
    MINNOW_RETURN_IF_ERROR(tables_.keep(offsets * static_cast<int64_t>(sizeof(int64_t))));
    offset_.resize(static_cast<size_t>(offsets));
    for (int64_t i = 0; i < offsets; ++i) offset_[static_cast<size_t>(i)] = i * integer_panel();
    threads_ = std::max(1, node.threads);
    tile_ = node.in.size() > 5 ? (kRows + 1) * integer_panel() : 0;
    *workspace = 4 * (left_size() + (packed_.empty() ? right_size() : 0) + threads_ * tile_);
    return ok();
  }

  void run(const RunContext& context) override {
    const Tensor &a = *context.in[0], &b = *context.in[1];
    const Tensor *a_zeros = input(context, 2), *b_zeros = input(context, 3);
    if (context.out[0]->count() == 0) return;
    if (is_sum_) return add_rows(context);
    uint32_t *left = static_cast<uint32_t*>(context.workspace), *made = left + left_size();
    const uint32_t* right = packed_.empty() ? made : packed_.as<uint32_t>();
    // Panels of the right matrices, and lanes, sums and zero points of the rows, in one loop. What is read was mostly
    // written by other threads: each line of it is a wait, so that little is worth a thread.
    const int64_t rows = s_.a_matrices * s_.m, row_grain = 6000 / (s_.k + 1) + 1;
    const int64_t columns = packed_.empty() ? s_.b_matrices * panels() : 0, column_grain = 1000 / panel_size() + 1;
    const int64_t column_blocks = (columns + column_grain - 1) / column_grain;
    const int64_t pack_blocks = column_blocks + (rows + row_grain - 1) / row_grain;
    uint32_t *sums = left + lanes_size(), *zeros = sums + rows;
    const uint8_t flip = flip_for(a.type.dtype, true);
    const int32_t shift = shift_for(a.type.dtype, true);
    std::atomic<bool> centered{true};
    const auto pack_block = [&](int64_t block) {
      if (block < column_blocks) {
        for (int64_t i = block * column_grain; i < std::min(columns, (block + 1) * column_grain); ++i)
          pack_panel(b, b_zeros, i, made);
        return;
      }
      const int64_t first = (block - column_blocks) * row_grain;
      bool is_centered = true;
      for (int64_t i = first; i < std::min(rows, first + row_grain); ++i) {
        const int32_t zero = zero_at(a_zeros, i / s_.m, s_.m, i % s_.m) + shift;
        sums[i] = pack_row(a.as<uint8_t>() + i * s_.k, i, flip, left);
        zeros[i] = static_cast<uint32_t>(zero);
        is_centered = is_centered && zero == 0;
      }
      // Once: each time the line is taken away from all other threads.
      if (!is_centered && centered.load(std::memory_order_relaxed)) centered.store(false, std::memory_order_relaxed);
    };
    // Two small blocks are not worth a second thread.
    context.pool->parallel_for(pack_blocks, pack_blocks > 2 ? 1 : 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) pack_block(i);
    });
    const auto matrix = [&](int64_t i) { return right + i * panels() * panel_size(); };
    // A task is a block of rows times a panel of columns. A thread reads each panel once, and packed rows from a cache;
    // where these are more than the columns, each thread stays with some of them.
    const bool by_panel = threads_ == 1 || s_.n >= s_.m;
    const int64_t width = integer_panel(), few = kLongBlock / (width * s_.k + 1) / kLeastRows * kLeastRows;
    const int64_t some = std::clamp(few, kLeastRows, kRows), blocks = (s_.m + some - 1) / some;
    const int64_t work = std::min(s_.m, some) * width * s_.k;
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, true);
    if (!given) return;
    const Requantization& quantized = *given;
    uint32_t *c = static_cast<uint32_t*>(context.out[0]->data), *tiles = made + (packed_.empty() ? right_size() : 0);
    const bool one_zero = a_zeros == nullptr || a_zeros->count() == 1;
    const bool alone = context.pool->threads() > threads_;  // there is a tile for each of threads_
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      std::optional<ByteUse> use;
      if (unit_ != nullptr) use.emplace(*unit_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t p = task / panels() / blocks, i = task % (panels() * blocks);
        const int64_t panel = by_panel ? i / blocks : i % panels();
        const int64_t first = (by_panel ? i % blocks : i / panels()) * some;
        const int64_t which = s_.a_of(p), from_a = which * s_.m + first;
        const uint32_t* from_b = matrix(s_.b_of(p));
        const uint32_t* columns = from_b + panel * panel_size() + steps_ * width;
        // The zero point of a right matrix's first column goes into what a row starts with.
        uint32_t starts[kRows];
        for (int64_t r = 0; r < std::min(some, s_.m - first); ++r)
          starts[r] = 0u - from_b[steps_ * width + width] * sums[from_a + r];
        const int64_t at = (p * s_.m + first) * s_.n + panel * width;
        IntegerProduct product;
        product.left = unit_ == nullptr ? left + from_a * steps_ : left + which * matrix_lanes() + first * steps_;
        product.right = from_b + panel * panel_size();
        product.offset = offset_.data();
        product.steps = steps_;
        product.rows = std::min(some, s_.m - first);
        product.columns = std::min(width, s_.n - panel * width);
        product.start = starts;
        if (!centered.load(std::memory_order_relaxed)) {
          product.factor = zeros + from_a;
          product.column = columns;
        }
        product.c = quantized.active() ? tiles + worker * tile_ : c + at;
        product.ldc = quantized.active() ? width : s_.n;
        if (by_panel && !packed_.empty() && panel + 1 < panels() &&
            task + blocks < end) {  // the next panel's part for this block of rows
          const int64_t lanes = steps_ * width, begun = first / some * lanes / blocks;
          product.soon = product.right + panel_size() + begun;
          product.soon_lanes = (first / some + 1) * lanes / blocks - begun;
        }
        if (unit_ != nullptr && quantized.scale != nullptr && one_zero && columns[2 * width] == 0) {
          multiply_bytes(*use, product, quantized, panel * width, product.factor == nullptr ? 0 : *product.factor,
                         static_cast<uint8_t*>(context.out[0]->data) + at);
          continue;
        }
        unit_ == nullptr ? gemm_integer(product) : multiply_sums(*use, product);
        if (columns[2 * width] != 0)  // columns whose zero points differ from the first one's
          for (int64_t i = 0; i < product.rows; ++i)
            for (int64_t j = 0; j < product.columns; ++j)
              product.c[i * product.ldc + j] -=
                  sums[from_a + i] * (columns[width + j] - from_b[steps_ * width + width]);
        if (!quantized.active()) continue;
        Requantization own = quantized;
        own.bias = quantized.bias == nullptr ? nullptr : quantized.bias + panel * width * quantized.bias_step;
        const int64_t skipped = panel * width * quantized.factor_step;
        if (quantized.scale != nullptr) {
          own.scale = quantized.scale + skipped;
        } else {
          own.multiplier = quantized.multiplier + skipped;
          own.shift = quantized.shift + skipped;
        }
        requantize(own, 0, product.rows, reinterpret_cast<int32_t*>(product.c), width, product.columns,
                   offset(context.out[0]->data, at, dtype_size(own.to)), s_.n);
      }
    };
    const int64_t tasks = s_.products() * blocks * panels();
    if (alone) return range(0, tasks, 0);
    context.pool->parallel_for(tasks, 1 + 200000 / (work + 1), range);
  }

  bool reads(int i) const override { return (i != 1 && i != 3) || (packed_.empty() && !is_sum_); }
  [[gnu::cold]] Profile profile() const override { return {is_sum_ ? "sums" : scheme(), s_.macs()}; }

 private:
  static const Tensor* input(const RunContext& context, size_t i) {
    return i < context.in.size() ? context.in[i] : nullptr;
  }
  // Also names the form of packed matrices.
  const char* scheme() const { return unit_ != nullptr ? unit_->name : integer_group() == 4 ? "bytes" : "pairs"; }
  int64_t panels() const { return (s_.n + integer_panel() - 1) / integer_panel(); }
  // Lanes, then for each column its sum less K times its zero point, then the zero points, then whether they differ
  // from the matrix's first one; room to read beyond the end.
  int64_t panel_size() const { return (steps_ + 2) * integer_panel() + 64; }
  int64_t left_size() const { return (lanes_size() + 2 * s_.a_matrices * s_.m + 15) / 16 * 16; }
  int64_t matrix_lanes() const { return unit_ == nullptr ? s_.m * steps_ : byte_size(*unit_, s_.m, steps_); }
  int64_t lanes_size() const { return s_.a_matrices * matrix_lanes(); }
  int64_t right_size() const { return s_.b_matrices * panels() * panel_size(); }

  // What a mean of bytes is written as.
  [[gnu::cold]] bool is_column_of_ones(const NodeContext& node) const {
    const Tensor* b = node.constant[1];
    if (s_.n != 1 || s_.b_matrices != 1 || b == nullptr || (node.in.size() > 3 && node.in[3] != nullptr)) return false;
    const uint8_t* numbers = b->as<uint8_t>();
    return std::all_of(numbers, numbers + s_.k, [](uint8_t v) { return v == 1; });
  }

  // The product with a column of ones: rows are read where they lie.
  void add_rows(const RunContext& context) const {
    constexpr int64_t kSome = 64;
    const Tensor &a = *context.in[0], *a_zeros = input(context, 2), &y = *context.out[0];
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, true);
    if (!given) return;
    const Requantization& quantized = *given;
    const uint8_t flip = flip_for(a.type.dtype, false);
    const int32_t shift = shift_for(a.type.dtype, false);
    const bool one_zero = a_zeros == nullptr || a_zeros->count() == 1;
    const int32_t first_zero = one_zero ? zero_at(a_zeros, 0, s_.m, 0) : 0;
    context.pool->parallel_for(s_.a_matrices * s_.m, 1 + 32768 / (s_.k + 1), [&](int64_t begin, int64_t end, int) {
      uint32_t sums[kSome];
      LongLoop loop;
      for (int64_t first = begin; first < end && loop.goes_on(kSome * s_.k / 8); first += kSome) {
        const int64_t n = std::min(kSome, end - first);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t row = first + i;
          const int32_t zero = (one_zero ? first_zero : zero_at(a_zeros, row / s_.m, s_.m, row % s_.m)) + shift;
          sums[i] = sum_unsigned(a.as<uint8_t>() + row * s_.k, s_.k, flip) -
                    static_cast<uint32_t>(s_.k) * static_cast<uint32_t>(zero);
        }
        void* to = offset(y.data, first, dtype_size(y.type.dtype));
        if (quantized.active())
          requantize(quantized, 0, 1, reinterpret_cast<int32_t*>(sums), n, n, to, n);
        else
          std::memcpy(to, sums, static_cast<size_t>(n) * sizeof(uint32_t));
      }
    });
  }

  // Row i of all left matrices. Returns the sum of its bytes.
  uint32_t pack_row(const uint8_t* from, int64_t i, uint8_t flip, uint32_t* left) const {
    if (unit_ == nullptr) return pack_left(from, s_.k, 1, flip, left + i * steps_);
    constexpr int64_t kPart = 256;
    uint32_t lanes[kPart], sum = 0;
    for (int64_t s = 0; 4 * s < s_.k; s += kPart) {
      const int64_t bytes = std::min(4 * kPart, s_.k - 4 * s);
      sum += pack_left(from + 4 * s, bytes, 1, flip, lanes);
      place_left(*unit_, lanes, integer_steps(bytes), i % s_.m, s, steps_, left + i / s_.m * matrix_lanes());
    }
    return sum;
  }

  static ByteProduct byte_product(const IntegerProduct& product) {
    ByteProduct p;
    p.left = product.left;
    p.right = product.right;
    p.steps = product.steps;
    p.rows = product.rows;
    p.columns = product.columns;
    p.width = integer_panel();
    p.start = product.start;
    p.soon = product.soon;
    p.soon_lanes = product.soon_lanes;
    return p;
  }

  void multiply_sums(ByteUse& use, const IntegerProduct& product) const {
    ByteProduct p = byte_product(product);
    p.factor = product.factor;
    p.column = product.column;
    p.sums = product.c;
    p.ldc = product.ldc;
    use.multiply(p);
  }

  // As bytes at once: all rows have one zero point, with which the sums of columns are known.
  void multiply_bytes(ByteUse& use, const IntegerProduct& product, const Requantization& quantized,
                      int64_t first_column, uint32_t zero, uint8_t* to) const {
    ByteProduct p = byte_product(product);
    uint32_t* offsets = product.c + kRows * integer_panel();
    for (int64_t j = 0; j < p.columns; ++j) {
      const int64_t at = (first_column + j) * quantized.bias_step;
      offsets[j] = quantized.bias == nullptr ? 0 : static_cast<uint32_t>(quantized.bias[at]);
      if (product.column != nullptr) offsets[j] -= zero * product.column[j];
    }
    p.offset = offsets;
    p.scale = quantized.scale + first_column * quantized.factor_step;
    p.scale_of_column = quantized.factor_step != 0;
    p.is_signed = quantized.to == DType::kI8;
    p.zero = quantized.zero;
    p.bytes = to;
    p.ldc = s_.n;
    use.multiply(p);
  }

  // Panel `i` of all panels of all right matrices.
  void pack_panel(const Tensor& b, const Tensor* zeros, int64_t i, uint32_t* packed) const {
    const int64_t which = i / panels(), width = integer_panel(), first = i % panels() * width;
    const int64_t columns = std::min(width, s_.n - first), group = integer_group();
    const uint8_t flip = flip_for(b.type.dtype, false);
    const int32_t shift = shift_for(b.type.dtype, false);
    uint32_t *to = packed + i * panel_size(), *sums = to + steps_ * width, *zero = sums + width;
    std::fill(to, to + panel_size(), 0u);
    const uint8_t* from = b.as<uint8_t>() + which * s_.k * s_.n + first;
    LongLoop loop;
    for (int64_t k = 0; k < s_.k && loop.goes_on(width); k += group, to += width) {
      const uint8_t* rows[4] = {};
      for (int64_t g = 0; g < std::min(group, s_.k - k); ++g) rows[g] = from + (k + g) * s_.n;
      pack_right(rows, columns, flip, to);
      if (s_.k - k >= group) {
        sum_lanes(to, columns, sums);
        continue;
      }
      for (int64_t g = 0; g < s_.k - k; ++g)
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<uint32_t>(rows[g][j] ^ flip);
    }
    const int32_t zero_of_all = zero_at(zeros, which, s_.n, 0) + shift;
    for (int64_t j = 0; j < columns; ++j) {
      const int32_t z = zero_at(zeros, which, s_.n, first + j) + shift;
      zero[j] = static_cast<uint32_t>(z);
      sums[j] -= static_cast<uint32_t>(s_.k) * zero[j];
      if (z != zero_of_all) zero[width] = 1;
    }
  }

  // Rows of a block; fewer, of whole blocks of any unit, where one would take long: no deadline is asked within it.
  static constexpr int64_t kRows = 64, kLeastRows = 16, kLongBlock = 1 << 28;
  // Packed matrices that are kept have some bytes, or so many for each number.
  static constexpr int64_t kLeastBytes = 1 << 20, kMostBytes = 16;

  const Attrs* attrs_ = nullptr;
  const ByteUnit* unit_ = nullptr;
  MatMulShape s_;
  int64_t steps_ = 0, tile_ = 0;
  int threads_ = 1;
  bool is_sum_ = false;          // of each left row
  std::vector<int64_t> offset_;  // of steps, where no unit is
  KeptMemory tables_;
  Packed packed_;
};

std::unique_ptr<Kernel> create_matmul_integer(const NodeContext& node) {
  std::unique_ptr<Kernel> linear = create_byte_linear(node);
  return linear != nullptr ? std::move(linear) : std::make_unique<MatMulInteger>();
}

MINNOW_OP("MatMulInteger", infer_matmul_integer);
MINNOW_KERNEL("MatMulInteger", create_matmul_integer);
MINNOW_OP("QuantizedMatMul", infer_quantized_matmul);
MINNOW_KERNEL("QuantizedMatMul", create_matmul_integer);

}  // namespace
}  // namespace minnow
