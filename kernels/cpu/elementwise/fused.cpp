#include "kernels/core/program.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/elementwise/chain.h"
#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kPiece = 4096;           // elements, at the most
constexpr int64_t kLeastPiece = 1024;      // fewer are not worth the calls
constexpr int64_t kChainBlock = 128;       // a multiple of what chains take at a time
constexpr int64_t kCacheBytes = 96 << 10;  // for what lies between the steps
constexpr int64_t kFusedGrain = 16384;     // see UnaryFunctions
constexpr size_t kLine = 64;               // bytes of a line of the cache

class Fused final : public Kernel {
 public:
  explicit Fused(const Program& program) : program_(program) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType& y = *node.out[0];
    const size_t operands = node.in.size(), steps = program_.steps.size();
    total_ = stored_count(y);
    seconds_ = 0;
    values_.assign(operands + steps, Value());
    kernels_.resize(steps);
    rows_.clear();
    for (size_t i = 0; i < operands; ++i) values_[i].type = *node.in[i];
    for (size_t k = 0; k < steps; ++k) {
      const Program::Step& step = program_.steps[k];
      TensorType& made = values_[operands + k].type;
      made = {step.dtype, y.layout, y.shape};
      NodeContext own{*step.attrs, {}, std::vector<const Tensor*>(step.in.size()), {&made}};
      for (int v : step.in) own.in.push_back(&value(v).type);
      rows_.push_back(cpu_kernels().find(*step.op));
      kernels_[k] = rows_[k]->create(own);
      int64_t bytes = 0;
      MINNOW_RETURN_IF_ERROR(kernels_[k]->reshape(own, &bytes).at(step.op->name));
      const double seconds = kernels_[k]->seconds();
      seconds_ += seconds > 0 ? seconds : estimate_seconds(total_, kFusedGrain);
    }
    place_values();
    find_chains(y);

    // Short rows are computed several at a time if they are whole: the longest of them is a multiple of all.
    int64_t unit = 1;
    Shape stored = y.shape;
    const bool packed = y.layout == Layout::kPacked;
    if (packed) stored.push_back(pack_width());
    for (int k = stored.rank() - 1; k > (packed ? 1 : -1) && stored[k] > 0 && stored[k] * unit < kShortRow; --k)
      unit *= stored[k];
    piece_ = std::clamp(kCacheBytes / std::max<int64_t>(1, buffers_ * widest_), kLeastPiece, kPiece);
    // So many elements are worth a thread.
    const auto grain = static_cast<int64_t>(estimate_seconds(total_, 1) / std::max(seconds_, 1e-9));
    if (node.threads > 1) piece_ = std::min(piece_, std::max(grain, 4 * kChainBlock));
    // Whole blocks of chains, where rows allow it: what is left of a piece goes step by step.
    const int64_t blocks = std::lcm(unit, kChainBlock), whole = blocks <= piece_ ? blocks : unit;
    piece_ = std::max<int64_t>(1, piece_ / whole) * whole;
    grain_ = grain / piece_;
    buffer_bytes_ = (std::min(piece_, total_) * widest_ + 63) / 64 * 64;
    *workspace = node.threads * buffers_ * buffer_bytes_;
    workers_.resize(static_cast<size_t>(node.threads));
    for (Worker& worker : workers_) {
      worker.base.resize(values_.size() + kLine / sizeof(char*));
      worker.in.type.shape = worker.out.type.shape = Shape{0};
      worker.context.in = {&worker.in};
      worker.context.out = {&worker.out};
    }
    return ok();
  }

  void run(const RunContext& context) override {
    context.pool->parallel_for((total_ + piece_ - 1) / piece_, grain_, [&](int64_t first, int64_t last, int w) {
      Worker& worker = workers_[static_cast<size_t>(w)];
      worker.context.pool = context.pool;
      char* buffers = static_cast<char*>(context.workspace) + w * buffers_ * buffer_bytes_;
      for (size_t v = 0; v < context.in.size(); ++v) worker.base[v] = static_cast<char*>(context.in[v]->data);
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = i * piece_, end = std::min(total_, begin + piece_);
        for (size_t v = context.in.size(); v < values_.size(); ++v)
          worker.base[v] = values_[v].output >= 0
                               ? static_cast<char*>(context.out[static_cast<size_t>(values_[v].output)]->data)
                               : offset(buffers + values_[v].buffer * buffer_bytes_, -begin, size(v));
        run_piece(worker, begin, end);
      }
    });
  }

  double seconds() const override { return seconds_; }
  [[gnu::cold]] Profile profile() const override { return {program_.names()}; }

 private:
  struct Value {
    TensorType type;
    int output = -1;      // its number, or
    int64_t buffer = -1;  // where it is while it is needed
    size_t last = 0;      // step that reads it
  };
  // On lines of the cache of its own: all are written for every piece.
  struct alignas(kLine) Worker {
    std::vector<char*> base;  // by value: where its tensor begins, or would if there were more of it than a piece
    Tensor in, out;
    RunContext context;
  };

  struct Chain {
    size_t begin, end;        // its steps
    int from;                 // value that it begins with
    std::vector<Link> links;  // without addresses
    std::vector<int> others;  // by link: the value of its other operand, or -1
  };

  Value& value(int v) { return values_[static_cast<size_t>(v)]; }
  size_t size(size_t v) const { return dtype_size(values_[v].type.dtype); }

  void place_values() {
    for (size_t i = 0; i < program_.results.size(); ++i) value(program_.results[i]).output = static_cast<int>(i);
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (int v : program_.steps[k].in) value(v).last = k;
    std::vector<int64_t> free;
    buffers_ = widest_ = 0;
    const size_t operands = values_.size() - kernels_.size();
    for (size_t k = 0; k < kernels_.size(); ++k) {
      Value& made = values_[operands + k];
      const auto width = static_cast<int64_t>(size(operands + k));
      // Operands that are unused after this step free their buffer: for its result, if the elements have the same size.
      for (const bool before : {true, false}) {
        for (int v : program_.steps[k].in) {
          Value& read = value(v);
          if (read.buffer < 0 || read.last != k || (size(static_cast<size_t>(v)) == size(operands + k)) != before)
            continue;
          free.push_back(read.buffer);
          read.last = kernels_.size();  // once
        }
        if (!before || made.output >= 0) continue;
        if (free.empty()) free.push_back(buffers_++);
        made.buffer = free.back();
        free.pop_back();
        widest_ = std::max(widest_, width);
      }
    }
  }

  // What lies at the same place of the result, or is a single number: an operand of a chain.
  bool is_aligned(int v, const TensorType& y) {
    const TensorType& type = value(v).type;
    return type.dtype == DType::kF32 && (type.shape.count() == 1 || (type.shape == y.shape && type.layout == y.layout));
  }

  // The link for step k, where the step before makes the value `previous` and nothing else reads that; -1: the first of
  // a chain, whose operand that is not a single number begins it.
  bool find_link_of(size_t k, int previous, const TensorType& y, int* begins, Link* link, int* other) {
    const Program::Step& step = program_.steps[k];
    if (step.dtype != DType::kF32) return false;
    const auto count = static_cast<int>(step.in.size());
    int place = -1;
    for (int i = 0; i < count; ++i) {
      if (!is_aligned(step.in[static_cast<size_t>(i)], y)) return false;
      const int v = step.in[static_cast<size_t>(i)];
      if (place < 0 && (previous >= 0 ? v == previous : value(v).type.shape.count() == y.shape.count())) place = i;
    }
    if (place < 0 || count > 2 || !minnow::find_link(step.op->name, count, place, &link->op)) return false;
    *begins = step.in[static_cast<size_t>(place)];
    *other = count == 2 ? step.in[static_cast<size_t>(1 - place)] : -1;
    if (*other == previous && previous >= 0) return false;  // x * x, whose operand is in no memory
    link->single = *other >= 0 && value(*other).type.shape.count() == 1;
    return true;
  }

  void find_chains(const TensorType& y) {
    chains_.clear();
    std::vector<int> reads(values_.size());
    for (const Program::Step& step : program_.steps)
      for (int v : step.in) ++reads[static_cast<size_t>(v)];
    const auto operands = static_cast<int>(values_.size() - kernels_.size());
    for (size_t k = 0; k < kernels_.size();) {
      Chain chain{k, k, 0, {}, {}};
      int previous = -1;
      while (chain.end < kernels_.size() && chain.links.size() < kMostLinks) {
        Link link;
        int begins = -1, other = -1;
        if (!find_link_of(chain.end, previous, y, &begins, &link, &other)) break;
        if (previous < 0) chain.from = begins;
        chain.links.push_back(link);
        chain.others.push_back(other);
        previous = operands + static_cast<int>(chain.end++);
        if (value(previous).output >= 0 || reads[static_cast<size_t>(previous)] != 1) break;
      }
      if (chain.links.size() > 1) chains_.push_back(chain);
      k = std::max(chain.end, k + 1);
    }
  }

  // So much of a piece as fills vectors; the rest goes step by step.
  int64_t run_links(const Chain& chain, const Worker& worker, int64_t begin, int64_t end) const {
    Link links[kMostLinks];
    const auto count = static_cast<int>(chain.links.size());
    for (int k = 0; k < count; ++k) {
      links[k] = chain.links[static_cast<size_t>(k)];
      const int other = chain.others[static_cast<size_t>(k)];
      if (other < 0) continue;
      const auto* data = reinterpret_cast<const float*>(worker.base[static_cast<size_t>(other)]);
      links[k].other = links[k].single ? data : data + begin;
    }
    const size_t made = values_.size() - kernels_.size() + chain.end - 1;
    const auto* x = reinterpret_cast<const float*>(worker.base[static_cast<size_t>(chain.from)]) + begin;
    return run_chain(links, count, x, reinterpret_cast<float*>(worker.base[made]) + begin, end - begin);
  }

  void run_piece(Worker& worker, int64_t begin, int64_t end) {
    size_t k = 0;
    for (const Chain& chain : chains_) {
      run_steps(worker, k, chain.begin, begin, end);
      const int64_t done = begin + run_links(chain, worker, begin, end);
      if (done < end) run_steps(worker, chain.begin, chain.end, done, end);
      k = chain.end;
    }
    run_steps(worker, k, kernels_.size(), begin, end);
  }

  void run_steps(Worker& worker, size_t first, size_t last, int64_t begin, int64_t end) {
    const size_t operands = values_.size() - kernels_.size();
    for (size_t k = first; k < last; ++k) {
      const Program::Step& step = program_.steps[k];
      const size_t made = operands + k;
      if (rows_[k]->pieces == Pieces::kRows) {
        const void* in[kMaxOperands] = {};
        for (size_t i = 0; i < step.in.size(); ++i) in[i] = worker.base[static_cast<size_t>(step.in[i])];
        static_cast<const RowsKernel&>(*kernels_[k]).run_piece(in, worker.base[made], begin, end);
        continue;
      }
      const auto take = [&](Tensor& piece, size_t v) {
        piece.type.dtype = values_[v].type.dtype;
        piece.type.shape[0] = end - begin;
        piece.data = offset(worker.base[v], begin, size(v));
      };
      take(worker.in, static_cast<size_t>(step.in[0]));
      take(worker.out, made);
      kernels_[k]->run(worker.context);
    }
  }

  const Program& program_;
  std::vector<const KernelRow*> rows_;            // by step
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by step
  std::vector<Value> values_;
  std::vector<Worker> workers_;
  std::vector<Chain> chains_;
  int64_t buffers_ = 0, buffer_bytes_ = 0;
  int64_t widest_ = 0;  // bytes of an element in a buffer
  int64_t total_ = 0, piece_ = 1, grain_ = 1;
  double seconds_ = 0;
};

Status infer_fused(InferContext&) { return fail(Code::kFormat, "is not an op of files without a body"); }

std::unique_ptr<Kernel> create_fused(const NodeContext& node) {
  return std::make_unique<Fused>(static_cast<const Program&>(node.attrs));
}

MINNOW_OP("Fused", infer_fused);
MINNOW_KERNEL("Fused", create_fused, LayoutRule::kElementwise, /*in_place=*/true);

}  // namespace

[[gnu::cold]] std::string Program::names() const {
  std::string all;
  for (const Step& step : steps) all.append(all.empty() ? "" : "+").append(step.op->name);
  return all;
}

void Program::seal() {
  std::vector<int64_t> text(results.begin(), results.end());
  for (size_t k = 0; k < steps.size(); ++k) {
    nest(std::to_string(k) + ".", *steps[k].attrs);
    text.push_back(-static_cast<int64_t>(reinterpret_cast<intptr_t>(steps[k].op)));  // no number of a value
    text.push_back(static_cast<int64_t>(steps[k].dtype));
    text.insert(text.end(), steps[k].in.begin(), steps[k].in.end());
  }
  set("program", std::move(text));
}

}  // namespace minnow
