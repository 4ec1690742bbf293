// The op FusedRows, which the planner makes (runtime/src/fuse/rows.cpp): nodes each of which makes a row of its results
// of the same row of what it reads. Some rows at a time pass all of them, so that what lies between them stays in the
// cache of a thread, and there is one parallel loop, at whose end threads wait for each other.
//
// The attributes are a Program; a missing operand of a step is -1. Its values are matrices of `rows` rows, or, where
// they have other numbers of elements than the first result, the same for all rows.
#include <algorithm>

#include "kernels/core/program.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kHeldBytes = 256 << 10;  // for what lies between the steps
constexpr int64_t kLeastOfPart = 2048;     // of a part; fewer are not worth the calls
constexpr int64_t kOwnLine = 64;

class FusedRows final : public Kernel {
 public:
  explicit FusedRows(const Program& program) : program_(program) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const int64_t total = node.out[0]->count();
    rows_ = program_.i("rows", 1);
    length_ = total / rows_;
    place_values(node, total);
    const int64_t row_bytes = std::max<int64_t>(1, buffers_ * widest_ * length_);
    part_ = std::clamp<int64_t>(kHeldBytes / row_bytes, 1, rows_);
    if (node.threads > 1)
      part_ = std::min(part_, std::max(ceil_div(kLeastOfPart, length_), ceil_div(rows_, 2 * node.threads)));
    int64_t parts = ceil_div(rows_, part_);
    if (parts > node.threads) parts = round_up(parts, node.threads);
    part_ = ceil_div(rows_, parts);
    buffer_bytes_ = round_up(part_ * length_ * widest_, kOwnLine);
    // Kernels may keep something while they run: each thread has its own, for whole parts and the last one.
    kernel_bytes_ = 0;
    workers_ = std::vector<Worker>(static_cast<size_t>(node.threads));
    for (Worker& worker : workers_) {
      worker.tensors.resize(values_.size());
      worker.steps.resize(program_.steps.size());
      for (const bool last : {false, true}) MINNOW_RETURN_IF_ERROR(make_kernels(worker, node.precision, last));
    }
    worker_bytes_ = buffers_ * buffer_bytes_ + round_up(kernel_bytes_, kOwnLine);
    *workspace = node.threads * worker_bytes_;
    return ok();
  }

  void run(const RunContext& context) override {
    for (Worker& worker : workers_) worker.error = ok();
    context.pool->parallel_for(ceil_div(rows_, part_), 1, [&](int64_t begin, int64_t end, int w) {
      char* space = static_cast<char*>(context.workspace) + w * worker_bytes_;
      for (int64_t i = begin; i < end; ++i) run_part(context, i * part_, workers_[static_cast<size_t>(w)], space);
    });
    for (Worker& worker : workers_)
      if (!worker.error.ok()) context.report(std::move(worker.error));
  }

  [[gnu::cold]] Profile profile() const override { return {program_.names()}; }

 private:
  struct Value {
    TensorType type;
    bool is_whole = true;  // not the same for all rows
    int output = -1;       // its number, or
    int64_t buffer = -1;   // where it is while it is needed
  };
  struct Step {
    RunContext context;
    std::unique_ptr<Kernel> kernels[2];  // for whole parts, and the last one
  };
  // On lines of the cache of its own.
  struct alignas(kOwnLine) Worker {
    std::vector<Tensor> tensors;  // by value
    std::vector<Step> steps;
    Status error;
  };

  // Its loops are the calling thread's own.
  static ThreadPool& alone() {
    static ThreadPool* const one = new ThreadPool(1);  // never destroyed: it may be asked for by what ends later
    return *one;
  }

  int64_t last_rows() const { return rows_ - (ceil_div(rows_, part_) - 1) * part_; }
  size_t size(size_t v) const { return dtype_size(values_[v].type.dtype); }

  void place_values(const NodeContext& node, int64_t total) {
    const size_t operands = node.in.size(), steps = program_.steps.size();
    values_.assign(operands + steps, Value());
    for (size_t i = 0; i < operands; ++i) {
      Value& read = values_[i];
      read.type.dtype = node.in[i]->dtype;
      const int64_t count = node.in[i]->count();
      read.is_whole = count == total;
      if (!read.is_whole && count != 1) read.type.shape = Shape{count};
    }
    for (size_t k = 0; k < steps; ++k) values_[operands + k].type.dtype = program_.steps[k].dtype;
    for (Value& value : values_)
      if (value.is_whole) value.type.shape = Shape{part_, length_};
    for (size_t i = 0; i < program_.results.size(); ++i)
      values_[static_cast<size_t>(program_.results[i])].output = static_cast<int>(i);
    // A buffer is free again after the last step that reads it.
    std::vector<size_t> last(values_.size());
    for (size_t k = 0; k < steps; ++k)
      for (int v : program_.steps[k].in)
        if (v >= 0) last[static_cast<size_t>(v)] = k;
    buffers_ = widest_ = 0;
    for (size_t k = 0; k < steps; ++k) {
      Value& made = values_[operands + k];
      if (made.output >= 0) continue;
      const auto is_taken = [&] {
        for (size_t v = operands; v < operands + k; ++v)
          if (values_[v].buffer == made.buffer && last[v] >= k) return true;
        return false;
      };
      for (made.buffer = 0; is_taken(); ++made.buffer) {
      }
      buffers_ = std::max(buffers_, made.buffer + 1);
      widest_ = std::max(widest_, static_cast<int64_t>(size(operands + k)));
    }
  }

  Status make_kernels(Worker& worker, Precision precision, bool last) {
    const int64_t rows = last ? last_rows() : part_;
    for (Value& value : values_)
      if (value.is_whole) value.type.shape = Shape{rows, length_};
    for (size_t k = 0; k < worker.steps.size(); ++k) {
      const Program::Step& step = program_.steps[k];
      Step& own = worker.steps[k];
      const size_t made = values_.size() - worker.steps.size() + k, operands = step.in.size();
      NodeContext node{*step.attrs,
                       std::vector<const TensorType*>(operands),
                       std::vector<const Tensor*>(operands),
                       {&values_[made].type},
                       1,
                       precision};
      own.context.in.resize(operands);
      for (size_t i = 0; i < operands; ++i) {
        if (step.in[i] < 0) continue;
        const auto v = static_cast<size_t>(step.in[i]);
        node.in[i] = &values_[v].type;
        own.context.in[i] = &worker.tensors[v];
      }
      own.context.out.assign(1, &worker.tensors[made]);
      own.context.pool = &alone();
      own.context.error = &worker.error;
      own.kernels[last] = cpu_kernels().find(*step.op)->create(node);
      int64_t bytes = 0;
      MINNOW_RETURN_IF_ERROR(own.kernels[last]->reshape(node, &bytes).at(step.op->name));
      kernel_bytes_ = std::max(kernel_bytes_, bytes);
    }
    return ok();
  }

  void run_part(const RunContext& context, int64_t first, Worker& worker, char* space) const {
    const int64_t rows = std::min(part_, rows_ - first);
    for (size_t v = 0; v < values_.size(); ++v) {
      const Value& value = values_[v];
      Tensor& tensor = worker.tensors[v];
      tensor.type = value.type;
      if (value.is_whole) tensor.type.shape[0] = rows;
      const auto output = static_cast<size_t>(value.output);
      tensor.data = value.buffer >= 0   ? space + value.buffer * buffer_bytes_
                    : value.output >= 0 ? context.out[output]->data
                                        : context.in[v]->data;
      if (value.is_whole && value.buffer < 0) tensor.data = offset(tensor.data, first * length_, size(v));
    }
    for (Step& step : worker.steps) {
      step.context.workspace = space + buffers_ * buffer_bytes_;
      step.kernels[rows == part_ ? 0 : 1]->run(step.context);
    }
  }

  const Program& program_;
  std::vector<Value> values_;  // operands, then what the steps make
  std::vector<Worker> workers_;
  int64_t rows_ = 1, length_ = 1, part_ = 1;  // rows of a part
  int64_t buffers_ = 0, buffer_bytes_ = 0, kernel_bytes_ = 0, worker_bytes_ = 0;
  int64_t widest_ = 0;  // bytes of an element in a buffer
};

Status infer_fused_rows(InferContext&) { return fail(Code::kFormat, "is not an op of files without a body"); }

std::unique_ptr<Kernel> create_fused_rows(const NodeContext& node) {
  return std::make_unique<FusedRows>(static_cast<const Program&>(node.attrs));
}

MINNOW_OP("FusedRows", infer_fused_rows);
MINNOW_KERNEL("FusedRows", create_fused_rows);

}  // namespace
}  // namespace minnow
