#include "kernels/cpu/elementwise/frame.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/machine/cost.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

class Unary final : public Kernel {
 public:
  Unary(const UnaryFunctions& functions, const Params& params) : functions_(functions), params_(params) {}

  double seconds() const override { return estimate_seconds(count_, functions_.grain); }
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    dtype_ = node.in[0]->dtype;
    count_ = stored_count(*node.in[0]);
    function_ = functions_.of(compute_type(dtype_));
    return function_ == nullptr ? fail(Code::kUnsupported, "no kernel for elements of type %s", dtype_name(dtype_))
                                : ok();
  }

  void run(const RunContext& context) override {
    const size_t size = dtype_size(dtype_);
    const Compute compute = compute_type(dtype_);
    const void* in = context.in[0]->data;
    void* out = context.out[0]->data;
    const int64_t count = stored_count(context.in[0]->type);  // of a piece, it may be
    context.pool->parallel_for(count, functions_.grain, [&](int64_t begin, int64_t end, int) {
      if (compute_dtype(compute) == dtype_)
        return function_(offset(in, begin, size), offset(out, begin, size), end - begin, params_);
      Block buffer;
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        load_block(dtype_, offset(in, i, size), n, buffer.bytes);
        function_(buffer.bytes, buffer.bytes, n, params_);
        store_block(compute, buffer.bytes, dtype_, offset(out, i, size), n);
      }
    });
  }

 private:
  const UnaryFunctions functions_;
  const Params params_;
  UnaryFunction function_ = nullptr;
  DType dtype_ = DType::kF32;
  int64_t count_ = 0;
};

// The dims of a tensor as they lie in memory. Below rank 2 there are no channels to pack.
Shape stored_shape(const TensorType& type) {
  if (type.layout == Layout::kPlain || type.shape.rank() < 2) return type.shape;
  Shape shape = type.shape;
  shape[1] = (shape[1] + pack_width() - 1) / pack_width();
  shape.push_back(pack_width());
  return shape;
}

void copy_elements(const void* from, void* to, int64_t n, size_t size) {
  std::memcpy(to, from, static_cast<size_t>(n) * size);
}

template <typename T>
void fill(const void* from, void* to, int64_t n) {
  const T value = *static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (; n >= 4; n -= 4, out += 4) out[0] = out[1] = out[2] = out[3] = value;  // -Os unrolls nothing
  for (; n > 0; --n) *out++ = value;
}

void fill_elements(const void* from, void* to, int64_t n, size_t size) {
  switch (size) {
    case 1:
      return fill<uint8_t>(from, to, n);
    case 2:
      return fill<uint16_t>(from, to, n);
    case 4:
      return fill<uint32_t>(from, to, n);
    default:
      return fill<uint64_t>(from, to, n);
  }
}

}  // namespace

[[gnu::noinline]] UnaryFunctions::UnaryFunctions(UnaryFunction f32, UnaryFunction f64, UnaryFunction i32,
                                                 UnaryFunction i64, UnaryFunction u64, int64_t grain)
    : f32(f32), f64(f64), i32(i32), i64(i64), u64(u64), grain(grain) {}

std::unique_ptr<Kernel> create_unary(const UnaryFunctions& functions, const Params& params) {
  return std::make_unique<Unary>(functions, params);
}

[[gnu::noinline]] std::unique_ptr<Kernel> create_unary(UnaryFunction f32, UnaryFunction f64, UnaryFunction i32,
                                                       UnaryFunction i64, UnaryFunction u64, int64_t grain) {
  return create_unary({f32, f64, i32, i64, u64, grain}, Params());
}

Status infer_float(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  return ok();
}

Status infer_numeric(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (c.in(0).dtype == DType::kBool) return fail(Code::kFormat, "takes numbers, not bool");
  return ok();
}

std::unique_ptr<Kernel> create_broadcast(ChooseRow choose) { return std::make_unique<RowsKernel>(choose); }

[[gnu::cold]] Status RowsKernel::reshape(const NodeContext& node, int64_t* workspace) {
  *workspace = 0;
  kernel_ = choose_(node);
  return kernel_.function == nullptr
             ? fail(Code::kUnsupported, "no kernel for elements of type %s", dtype_name(node.in[0]->dtype))
             : broadcast_.make(node.in, *node.out[0], kernel_.swapped);
}

double RowsKernel::seconds() const { return estimate_seconds(broadcast_.total(), kernel_.grain); }

Status Broadcast::make(std::vector<const TensorType*> in, const TensorType& out, bool swapped) {
  if (in.size() > kMaxOperands) return fail(Code::kInternal, "%zu operands", in.size());
  source_ = {0, 1, 2};
  if (swapped) {
    std::swap(in[0], in[1]);
    std::swap(source_[0], source_[1]);
  }
  const Shape full = stored_shape(out);
  operands_ = static_cast<int>(in.size());
  out_dtype_ = out.dtype;
  total_ = full.count();
  rank_ = 1;
  dim_[0] = 1;
  for (auto& stride : stride_) stride[0] = 0;
  for (size_t i = 0; i < in.size(); ++i) dtype_[i] = in[i]->dtype;
  std::array<int64_t, kMaxOperands> step{1, 1, 1};  // elements of an operand below the current dim
  for (int k = 1; k <= full.rank(); ++k) {
    const int64_t dim = full.at(-k);
    std::array<int64_t, kMaxOperands> stride{};
    bool merge = true;
    for (size_t i = 0; i < in.size(); ++i) {
      const bool single = in[i]->shape.count() == 1;
      const Shape own = stored_shape(*in[i]);
      const int64_t own_dim = single || k > own.rank() ? 1 : own.at(-k);
      if (own_dim != dim && own_dim != 1)
        return fail(Code::kInternal, "operand %d of shape %s cannot be stretched to %s in this layout",
                    static_cast<int>(i), in[i]->shape.str().c_str(), out.shape.str().c_str());
      stride[i] = own_dim == 1 ? 0 : step[i];
      step[i] *= own_dim;
      merge = merge && stride[i] == stride_[i][static_cast<size_t>(rank_ - 1)] * dim_[static_cast<size_t>(rank_ - 1)];
    }
    if (dim == 1) continue;
    const bool first = rank_ == 1 && dim_[0] == 1;
    if (merge && !first) {
      dim_[static_cast<size_t>(rank_ - 1)] *= dim;
      continue;
    }
    if (!first) ++rank_;
    dim_[static_cast<size_t>(rank_ - 1)] = dim;
    for (size_t i = 0; i < in.size(); ++i) stride_[i][static_cast<size_t>(rank_ - 1)] = stride[i];
  }
  return ok();
}

// One thread's view of a run: where it stands, and how rows reach the kernel's function.
struct Broadcast::Worker {
  // The blocks stay uninitialized.
  Worker(const Broadcast& plan, const RowKernel& kernel, const void* const* in, void* out)
      : plan(plan), kernel(kernel), inputs(in), output(out) {}

  const Broadcast& plan;
  const RowKernel& kernel;
  const void* const* inputs;
  void* output;
  Block buffer[kMaxOperands + 1];  // converted operands, converted output
  Block expanded[kMaxOperands];    // operands stretched over several short rows
  std::array<int64_t, kMaxRank + 1> index{};

  // Sets the index of the dims from `first` on, and gives the operands' element offsets there.
  std::array<int64_t, kMaxOperands> seek(int64_t position, int first) {
    std::array<int64_t, kMaxOperands> at{};
    for (int d = first; d < plan.rank_; ++d) {
      const size_t u = static_cast<size_t>(d);
      index[u] = position % plan.dim_[u];
      position /= plan.dim_[u];
      for (size_t i = 0; i < kMaxOperands; ++i) at[i] += index[u] * plan.stride_[i][u];
    }
    return at;
  }

  void advance(std::array<int64_t, kMaxOperands>* at, int first) {
    for (int d = first; d < plan.rank_; ++d) {
      const size_t u = static_cast<size_t>(d);
      const bool carry = ++index[u] == plan.dim_[u];
      for (size_t i = 0; i < kMaxOperands; ++i)
        (*at)[i] += carry ? -(plan.dim_[u] - 1) * plan.stride_[i][u] : plan.stride_[i][u];
      if (!carry) return;
      index[u] = 0;
    }
  }

  const void* operand(size_t i, int64_t at) const {
    return offset(inputs[plan.source_[i]], at, dtype_size(plan.dtype_[i]));
  }

  bool is_converted(size_t i) const { return !kernel.native && plan.dtype_[i] != compute_dtype(kernel.compute); }

  void row(const void* const* in, const int* step, int64_t position, int64_t n) {
    const size_t operands = static_cast<size_t>(plan.operands_);
    const size_t out_size = dtype_size(plan.out_dtype_);
    void* out = offset(output, position, out_size);
    const bool convert_out = !kernel.native && !kernel.native_out && compute_dtype(kernel.compute) != plan.out_dtype_;
    bool direct = !convert_out;
    for (size_t i = 0; i < operands; ++i) direct = direct && !is_converted(i) && (step[i] != 0 || kernel.takes_single);
    if (direct) return kernel.function(in, step, out, n);

    int block_step[kMaxOperands];
    for (size_t i = 0; i < kMaxOperands; ++i) block_step[i] = step[i] != 0 || !kernel.takes_single;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t m = std::min(kBlock, n - begin);
      const void* block[kMaxOperands] = {};
      for (size_t i = 0; i < operands; ++i) {
        const DType dtype = plan.dtype_[i];
        const DType wanted = is_converted(i) ? compute_dtype(kernel.compute) : dtype;
        block[i] = buffer[i].bytes;
        if (step[i] != 0) {
          const void* from = offset(in[i], begin, dtype_size(dtype));
          is_converted(i) ? convert(dtype, from, wanted, buffer[i].bytes, m) : static_cast<void>(block[i] = from);
        } else if (begin == 0) {  // a single element: once for all blocks
          uint64_t single = 0;
          std::memcpy(&single, in[i], dtype_size(dtype));
          if (is_converted(i)) {
            uint64_t stored = single;
            convert(dtype, &stored, wanted, &single, 1);
          }
          fill_elements(&single, buffer[i].bytes, block_step[i] != 0 ? m : 1, dtype_size(wanted));
        }
      }
      void* to = offset(out, begin, out_size);
      kernel.function(block, block_step, convert_out ? buffer[kMaxOperands].bytes : to, m);
      if (convert_out) store_block(kernel.compute, buffer[kMaxOperands].bytes, plan.out_dtype_, to, m);
    }
  }

  void long_rows(int64_t begin, int64_t end) {
    const int64_t length = plan.dim_[0];
    const int64_t first = plan.rank_ == 1 ? 0 : begin / length;
    int64_t within = begin - first * length;
    std::array<int64_t, kMaxOperands> at = seek(first, 1);
    int step[kMaxOperands];
    for (size_t i = 0; i < kMaxOperands; ++i) step[i] = plan.stride_[i][0] != 0;
    while (begin < end) {
      const int64_t n = std::min(length - within, end - begin);
      const void* in[kMaxOperands] = {};
      for (size_t i = 0; i < static_cast<size_t>(plan.operands_); ++i) in[i] = operand(i, at[i] + within * step[i]);
      row(in, step, begin, n);
      begin += n;
      within = 0;
      advance(&at, 1);
    }
  }

  // Rows too short to be worth a call each: several at a time, operands that do not lie so already are stretched.
  // [begin, end) counts rows.
  void short_rows(int64_t begin, int64_t end) {
    const int64_t length = plan.dim_[0];
    const int64_t rows = plan.dim_[1];
    const int64_t most = std::min(rows, kBlock / length);
    int64_t within = begin % rows;
    std::array<int64_t, kMaxOperands> at = seek(begin / rows, 2);
    bool fresh = true;
    while (begin < end) {
      const int64_t count = std::min({most, rows - within, end - begin});
      const void* in[kMaxOperands] = {};
      int step[kMaxOperands] = {};
      for (size_t i = 0; i < static_cast<size_t>(plan.operands_); ++i) {
        const int64_t inner = plan.stride_[i][0];
        const int64_t outer = plan.stride_[i][1];
        const size_t size = dtype_size(plan.dtype_[i]);
        step[i] = inner != 0 || outer != 0;
        in[i] = operand(i, at[i] + within * outer);
        if (!step[i] || (inner == 1 && outer == length)) continue;
        if (inner == 1 && outer == 0) {  // the same row again and again: stretched once
          for (int64_t r = 0; fresh && r < most; ++r)
            copy_elements(in[i], offset(expanded[i].bytes, r * length, size), length, size);
        } else {
          for (int64_t r = 0; r < count; ++r)
            fill_elements(offset(in[i], r * outer, size), offset(expanded[i].bytes, r * length, size), length, size);
        }
        in[i] = expanded[i].bytes;
      }
      row(in, step, begin * length, count * length);
      begin += count;
      within += count;
      fresh = within == rows;
      if (fresh) {
        within = 0;
        advance(&at, 2);
      }
    }
  }
};

void Broadcast::run_piece(const RowKernel& kernel, const void* const* in, void* out, int64_t begin, int64_t end) const {
  Worker worker(*this, kernel, in, out);
  const int64_t length = dim_[0];
  const bool is_short = rank_ > 1 && length < kShortRow && begin % length == 0 && end % length == 0;
  is_short ? worker.short_rows(begin / length, end / length) : worker.long_rows(begin, end);
}

void Broadcast::run(const RowKernel& kernel, const RunContext& context) const {
  if (total_ == 0) return;
  const int64_t length = rank_ > 1 && dim_[0] < kShortRow ? dim_[0] : 1;
  const int64_t grain = std::max<int64_t>(1, kernel.grain / length);
  const void* in[kMaxOperands] = {};
  for (size_t i = 0; i < static_cast<size_t>(operands_); ++i) in[i] = context.in[i]->data;
  context.pool->parallel_for(total_ / length, grain, [&](int64_t begin, int64_t end, int) {
    run_piece(kernel, in, context.out[0]->data, begin * length, end * length);
  });
}

}  // namespace minnow
