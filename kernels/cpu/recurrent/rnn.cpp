// LSTM, GRU and RNN with the semantics of ONNX (layout 0). The products with the input are one matrix product over all
// time steps; the recurrent weights are packed once. Directions, and parts of a large batch, run on threads of their
// own; a direction alone divides its units among the threads.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/recurrent/byte_gates.h"
#include "kernels/cpu/recurrent/cell.h"
#include "kernels/cpu/recurrent/operands.h"
#include "kernels/cpu/recurrent/gate_stream.h"
#include "kernels/cpu/recurrent/quantized_gates.h"
#include "kernels/core/rounding.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/lockstep.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

using Layer = RecurrentLayer;

// y[m,n] = a[m,k] w[n,k]^T + bias[n]: in f32 with packed weights, in f64 as they lie.
struct Weights {
  int64_t n = 0, k = 0;
  int64_t packed_floats(bool low) const {
    return round_up(low ? bf16_packed_floats(k, n, false) : gemm_packed_floats(k, n), 16);
  }
};

void multiply(const Gemm& gemm, const float* a, const Weights& w, const float* packed, const float* bias, float* y,
              int64_t m, void* workspace, ThreadPool* pool) {
  if (m == 0) return;
  gemm.run({a, w.k, false, packed, bias, y, w.n, workspace, pool});
}
void multiply(const Gemm&, const double* a, const Weights& w, const double* rows, const double* bias, double* y,
              int64_t m, void*, ThreadPool*) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < w.n; ++j) {
      double sum = bias != nullptr ? bias[j] : 0;
      for (int64_t l = 0; l < w.k; ++l) sum += a[i * w.k + l] * rows[j * w.k + l];
      y[i * w.n + j] = sum;
    }
  }
}

class Recurrent final : public Kernel {
 public:
  Recurrent(const NodeContext& node, Layer layer, bool dynamic)
      : layer_(layer), attrs_(node.attrs), dynamic_(dynamic) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& x = node.in[kX]->shape;
    steps_ = x[0], batch_ = x[1], features_ = x[2];
    hidden_ = node.in[kR]->shape[dynamic_ ? 1 : 2];
    directions_ = directions_of(attrs_);
    dtype_ = node.in[kX]->dtype;
    is_double_ = dtype_ == DType::kF64;
    std::vector<GateFunction> functions;
    MINNOW_RETURN_IF_ERROR(read_gate_functions(attrs_, layer_, directions_, &functions));
    for (int d = 0; d < directions_; ++d) {
      std::copy_n(functions.begin() + d * functions_of(layer_), functions_of(layer_), options_[d].functions);
      options_[d].clip = attrs_.f("clip");
      options_[d].cell_clip = attrs_.f("cell_clip");
      options_[d].input_forget = attrs_.b("input_forget");
      options_[d].linear_before_reset = attrs_.b("linear_before_reset");
    }
    const int threads = std::max(1, node.threads);
    // A part of the batch is worth a thread from a few sequences on.
    one_range_ = dynamic_ && attrs_.b("one_range", false);
    const int64_t most_parts = one_range_ ? 1 : batch_ / 4;
    parts_ = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads / directions_, most_parts)));
    part_rows_ = (batch_ + parts_ - 1) / parts_;
    if (part_rows_ > 0) parts_ = static_cast<int>((batch_ + part_rows_ - 1) / part_rows_);
    const bool alone = directions_ * parts_ == 1;  // then a step may use all threads

    // GRU's candidate is a product of its own unless the reset gate comes after it.
    const bool split = layer_ == Layer::kGru && !options_[0].linear_before_reset;
    input_ = {gates_of(layer_) * hidden_, features_};
    // Each gate starts a block of its own, so that a range of units is a range of blocks.
    if (dynamic_) {
      input_bytes_ = ByteGates(features_, hidden_, input_.n / hidden_);
      recurrent_bytes_ = ByteGates(hidden_, hidden_, input_.n / hidden_);
      MINNOW_RETURN_IF_ERROR(tables_.keep(input_bytes_.table_bytes() + recurrent_bytes_.table_bytes()));
    }
    unit_ = is_double_ ? 1 : dynamic_ ? recurrent_bytes_.width() : pack_width();
    stride_ = round_up(hidden_, unit_);
    recurrent_[0] = {split ? 2 * stride_ : gates_of(layer_) * stride_, hidden_};
    recurrent_[1] = {split ? stride_ : 0, hidden_};
    if (!dynamic_) input_gemm_ = Gemm(steps_ * batch_, input_.n, input_.k, false, Activation(), threads);
    int64_t gemm_bytes = 0;
    for (int last = 0; last < (dynamic_ ? 0 : 2); ++last) {
      const int64_t rows = last ? batch_ - (parts_ - 1) * part_rows_ : part_rows_;
      for (int i = 0; i < (split ? 2 : 1); ++i) {
        Gemm& gemm = recurrent_gemm_[last][i];
        gemm = Gemm(rows, recurrent_[i].n, hidden_, false, Activation(), alone ? threads : 1);
        gemm_bytes = std::max(gemm_bytes, gemm.workspace_bytes());
      }
    }
    bool constant = node.constant[kW] != nullptr && node.constant[kR] != nullptr && dtype_ == DType::kF32;
    for (size_t i = kScales; i < node.in.size(); ++i)
      constant = constant && (node.in[i] == nullptr || node.constant[i] != nullptr);
    low_ = constant && !dynamic_ && node.precision == Precision::kLow && part_rows_ <= kLowRows;
    input_low_ = constant && !dynamic_ && Bf16Gemm::takes(steps_ * batch_, input_.n, input_.k, node.precision);
    if (input_low_)
      input_low_gemm_ = Bf16Gemm(steps_ * batch_, input_.n, input_.k, Activation(), threads, node.precision);
    streams_ = low_ || dynamic_ || (!is_double_ && part_rows_ <= tile_pixels(kStreamBlocks));
    const QuantizedMatrix* quantized[] = {constant ? node.quantized_input(kW) : nullptr,
                                          constant ? node.quantized_input(kR) : nullptr};
    const auto keeps = [&](int i) {
      return quantized[i] != nullptr && (i == 0 ? features_ : hidden_) % quantized[i]->block == 0;
    };
    if (keeps(0)) input_low_ = false;
    // Few weights stay in the second-level cache as floats, once a run has made them.
    unpacked_ = keeps(1) && steps_ > 1 && 4 * input_.n * hidden_ <= kUnpackedBytes;
    if (keeps(1)) low_ = false, streams_ = streams_ || !unpacked_;
    const bool pooled = alone && part_rows_ * recurrent_[0].n * hidden_ >= kPooledMacs;
    pooled_ = pooled && !streams_;
    const int64_t units = ceil_div(hidden_, unit_);
    lockstep_.reshape(pooled && streams_ ? static_cast<int>(std::min<int64_t>(threads, units)) : 1);
    // A state is computed from the one before: errors of rows of 8 bits would add up.
    const Precision precision = std::min(node.precision, Precision::kNormal);
    input_gates_ = !keeps(0) ? QuantizedGates()
                             : QuantizedGates(*quantized[0], steps_ * batch_, 1, input_.n, input_.n, features_, threads,
                                              precision);
    for (int i = 0; i < 2; ++i)
      recurrent_gates_[i] = !keeps(1) || recurrent_[i].n == 0
                                ? QuantizedGates()
                                : QuantizedGates(*quantized[1], part_rows_, recurrent_[i].n / stride_, hidden_, stride_,
                                                 hidden_, 1, precision);

    // Constant weights are packed once for each form.
    if (constant && dynamic_) {
      const auto fill = [&](void* to) {
        pack_gates(
            input_bytes_, recurrent_bytes_,
            [&](int i) {
              return i < static_cast<int>(node.in.size()) ? node.constant[static_cast<size_t>(i)] : nullptr;
            },
            static_cast<uint32_t*>(to), node.pool);
      };
      const auto is_there = [&](size_t i) { return i < node.in.size() && node.in[i] != nullptr; };
      const std::string form = std::string("recurrent,") + bytes_scheme();
      const int64_t bytes = 4 * directions_ * direction_floats();
      constexpr size_t w_zero = kZeros, r_zero = kZeros + 1, w_scale = kScales, r_scale = kScales + 1;
      if (is_there(w_zero) && is_there(r_zero)) {
        packed_.make(node, {kW, kR, w_scale, r_scale, w_zero, r_zero}, form + ",zeros", bytes, fill);
      } else if (is_there(w_zero) || is_there(r_zero)) {
        const size_t zero = is_there(w_zero) ? w_zero : r_zero;
        packed_.make(node, {kW, kR, w_scale, r_scale, zero}, form + (zero == w_zero ? ",w" : ",r"), bytes, fill);
      } else {
        packed_.make(node, {kW, kR, w_scale, r_scale}, form, bytes, fill);
      }
    } else if (constant) {
      const std::string form = std::string("recurrent") + (split ? ",split" : "") + (low_ ? ",bf16" : "") +
                               (input_low_ ? "," + input_low_gemm_.packing(true) : "") +
                               (keeps(0) ? ",w" + input_gates_.packing() : "") +
                               (keeps(1) ? ",r" + recurrent_gates_[0].packing() : "");
      packed_.make(node, {kW, kR}, form, 4 * directions_ * direction_floats(), [&](void* to) {
        FloatBuffer floats[2];
        const float* weights[] = {node.constant[kW]->as<float>(), node.constant[kR]->as<float>()};
        for (int i = 0; i < 2; ++i) {
          if (quantized[i] == nullptr || keeps(i)) continue;
          floats[i] = quantized[i]->floats();
          weights[i] = floats[i].data();
        }
        pack(weights[0], weights[1], static_cast<float*>(to), node.pool, quantized);
      });
    } else {
      packed_.clear();
    }

    const int64_t size = is_double_ ? 8 : 4;
    bytes_ = 0;
    for (int i = 0; i < kInputs; ++i) {
      const TensorType* type = i < static_cast<int>(node.in.size()) ? node.in[static_cast<size_t>(i)] : nullptr;
      converted_[i] = type != nullptr && i != kLens && dtype_ != compute_dtype(compute_type(dtype_))
                          ? take(type->count() * size)
                          : -1;
    }
    packed_at_ = !is_double_ && packed_.empty() ? take(directions_ * direction_floats() * size) : -1;
    bias_at_ = take(directions_ * bias_stride() * size);
    unpacked_at_ = take(unpacked_ ? directions_ * float_bytes() : 0);
    gates_at_ = take(directions_ * steps_ * batch_ * input_.n * size);
    gemm_at_ = take(dynamic_                ? 4 * input_bytes_.row_words(steps_ * batch_)
                    : !input_gates_.empty() ? input_gates_.workspace_bytes()
                    : input_low_            ? input_low_gemm_.workspace_bytes()
                                            : input_gemm_.workspace_bytes());
    const int64_t before = bytes_;
    state_at_ = take(2 * part_rows_ * hidden_ * size) - before;
    cell_at_ = take(part_rows_ * hidden_ * size) - before;
    recurrent_at_ = take(part_rows_ * gates_of(layer_) * stride_ * size) - before;
    if (dynamic_) gemm_bytes = lockstep_.parts() * 4 * recurrent_bytes_.row_words(part_rows_);
    if (keeps(1) && !unpacked_) {
      gates_bytes_ =
          round_up(std::max(recurrent_gates_[0].workspace_bytes(), recurrent_gates_[1].workspace_bytes()), 64);
      gemm_bytes = lockstep_.parts() * gates_bytes_;
    }
    unit_gemm_at_ = take(gemm_bytes) - before;
    units_at_ = before;
    unit_bytes_ = bytes_ - before;
    *workspace = before + directions_ * parts_ * unit_bytes_;
    return ok();
  }

  void run(const RunContext& context) override { is_double_ ? run_as<double>(context) : run_as<float>(context); }
  bool unpacks(int i) const override { return is_weight(i); }
  bool reads(int i) const override { return packed_.empty() || (!is_weight(i) && i < kScales); }
  [[gnu::cold]] Profile profile() const override {
    return {dynamic_                       ? bytes_scheme()
            : unpacked_                    ? "quantized_unpacked"
            : !recurrent_gates_[0].empty() ? recurrent_gates_[0].scheme()
            : low_                         ? "gemv_bf16"
            : streams_                     ? "stream"
                                           : "",
            steps_ * batch_ * directions_ * input_.n * (features_ + hidden_)};
  }

 private:
  static constexpr int64_t kPooledMacs = 1 << 18, kUnpackedBytes = 1 << 20;
  static constexpr int64_t kLowRows = 8;  // up to which reading the recurrent weights takes the time of a step

  int64_t take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  // Also names the form of packed bytes.
  static const char* bytes_scheme() {
    return byte_unit() != nullptr ? byte_unit()->name : integer_group() == 4 ? "bytes" : "pairs";
  }
  int64_t direction_floats() const {
    if (dynamic_) return input_bytes_.packed_words() + recurrent_bytes_.packed_words();
    return input_floats() + recurrent_floats(0) + (recurrent_[1].n > 0 ? recurrent_floats(1) : 0);
  }
  int64_t recurrent_floats(int phase) const {
    const QuantizedGates& gates = recurrent_gates_[phase];
    return gates.empty() ? recurrent_[phase].packed_floats(low_) : gates.packed_floats();
  }
  // Of the recurrent weights of a direction as floats.
  int64_t float_bytes() const { return 4 * (recurrent_[0].packed_floats(false) + recurrent_[1].packed_floats(false)); }
  int64_t input_floats() const {
    if (!input_gates_.empty()) return input_gates_.packed_floats();
    return input_low_ ? round_up(input_low_gemm_.packed_floats(), 16) : input_.packed_floats(false);
  }
  // What a column of packed recurrent weights takes.
  int64_t row_floats() const { return low_ ? bf16_pairs(hidden_) : hidden_; }
  int64_t bias_stride() const { return (input_.n + 15) / 16 * 16; }

  // `quantized`: what the weights are that stay so.
  void pack(const float* w, const float* r, float* to, ThreadPool* pool,
            const QuantizedMatrix* const* quantized = nullptr) const {
    for (int d = 0; d < directions_; ++d) {
      const float* rows_of_input = w + d * input_.n * features_;
      if (!input_gates_.empty()) {
        input_gates_.pack(*quantized[0], d * input_.n, to, pool);
      } else if (input_low_) {
        input_low_gemm_.pack_b(rows_of_input, features_, true, to, pool);
      } else {
        gemm_pack_b(rows_of_input, features_, true, features_, input_.n, to, pool);
      }
      to += input_floats();
      const float* rows = r + d * input_.n * hidden_;
      for (int phase = 0; phase < 2; ++phase) {
        const Weights& part = recurrent_[phase];
        if (part.n == 0) continue;
        if (!recurrent_gates_[0].empty()) {
          recurrent_gates_[phase].pack(*quantized[1], d * input_.n + (phase == 0 ? 0 : 2 * hidden_), to, pool);
          to += recurrent_floats(phase);
          continue;
        }
        for (int64_t gate = 0; gate < part.n / stride_; ++gate) {
          float* gate_at = to + gate * stride_ * row_floats();
          if (low_) {
            bf16_pack_b(rows, hidden_, true, hidden_, hidden_, false, gate_at, pool);
          } else {
            gemm_pack_b(rows, hidden_, true, hidden_, hidden_, gate_at, pool);
          }
          rows += hidden_ * hidden_;
        }
        to += recurrent_floats(phase);
      }
    }
  }

  // x W + b of all steps.
  void multiply_input(const RunContext& context, const float* x, const uint32_t* packed, const float* bias, float* to,
                      void* space, ThreadPool* pool) const {
    const int64_t rows = steps_ * batch_, work = rows * features_;
    auto* bytes = static_cast<uint32_t*>(space);
    int64_t last = 0;
    for (int64_t b = 0; b < batch_; ++b) last = std::max(last, std::min(length(context, b), steps_));
    const ByteRange range = one_range_ ? byte_range(x, last * batch_ * features_) : ByteRange();
    pool->parallel_for(rows, 1 + kPooledMacs / 16 / (features_ + 1), [&](int64_t begin, int64_t end, int) {
      input_bytes_.round(x, rows, begin, end, one_range_ ? &range : nullptr, bytes);
    });
    if (rows == 0) return;
    const ByteGates::Call call = {bytes, rows, packed, bias, to, input_.n, hidden_, false};
    pool->parallel_for(input_bytes_.panels(), 1 + kPooledMacs / (work * 4 * unit_ + 1),
                       [&](int64_t begin, int64_t end, int) { input_bytes_.multiply(call, begin, end); });
  }

  // An operand in the type it is computed in; null where it is left out.
  template <typename T>
  const T* operand(const RunContext& context, int i) const {
    const Tensor* t = i < static_cast<int>(context.in.size()) ? context.in[static_cast<size_t>(i)] : nullptr;
    if (t == nullptr || t->data == nullptr || converted_[i] < 0) return t == nullptr ? nullptr : t->as<T>();
    void* to = static_cast<char*>(context.workspace) + converted_[i];
    convert(dtype_, t->data, compute_dtype(compute_type(dtype_)), to, t->count());
    return static_cast<const T*>(to);
  }

  // Weights of a direction: the products' operands, in f32 packed.
  template <typename T>
  struct Operands {
    const T* weights;  // of the input
    const T* recurrent[2];
    const T* bias;   // W's and R's, summed where they only occur so
    const T* extra;  // see CellRow
    const T *h0, *c0;
  };

  template <typename T>
  void run_as(const RunContext& context) {
    const T *x = operand<T>(context, kX), *w = operand<T>(context, kW), *r = operand<T>(context, kR);
    const T *b = operand<T>(context, kBias), *h0 = operand<T>(context, kH0), *c0 = operand<T>(context, kC0);
    const T* p = operand<T>(context, kPeephole);
    char* space = static_cast<char*>(context.workspace);
    const float* packed = packed_.data();
    if constexpr (std::is_same_v<T, float>) {
      if (packed_at_ >= 0) {
        float* to = reinterpret_cast<float*>(space + packed_at_);
        if (dynamic_) {
          const auto tensor_of = [&](int i) {
            return i < static_cast<int>(context.in.size()) ? context.in[static_cast<size_t>(i)] : nullptr;
          };
          pack_gates(input_bytes_, recurrent_bytes_, tensor_of, reinterpret_cast<uint32_t*>(to), context.pool);
        } else {
          pack(w, r, to, context.pool);
        }
        packed = to;
      }
    }
    Operands<T> operands[2];
    const int64_t n = input_.n, h = hidden_;
    for (int d = 0; d < directions_; ++d) {
      Operands<T>& o = operands[d];
      if constexpr (std::is_same_v<T, float>) {
        o.weights = packed + d * direction_floats();
        o.recurrent[0] = o.weights + (dynamic_ ? input_bytes_.packed_words() : input_floats());
        o.recurrent[1] = o.recurrent[0] + recurrent_floats(0);
        float* unpacked = reinterpret_cast<float*>(space + unpacked_at_ + d * float_bytes());
        for (int phase = 0; unpacked_ && phase < 2; ++phase) {
          if (recurrent_[phase].n == 0) continue;
          recurrent_gates_[phase].unpack(o.recurrent[phase], unpacked, context.pool);
          o.recurrent[phase] = unpacked;
          unpacked += recurrent_[phase].packed_floats(false);
        }
      } else {
        o.weights = w + d * n * features_;
        o.recurrent[0] = r + d * n * h;
        o.recurrent[1] = o.recurrent[0] + recurrent_[0].n * h;
      }
      T* bias = reinterpret_cast<T*>(space + bias_at_) + d * bias_stride();
      std::fill_n(bias, bias_stride(), T{0});
      o.bias = bias;
      o.extra = p != nullptr ? p + d * 3 * h : nullptr;
      if (b != nullptr) {
        const T* own = b + d * 2 * n;
        // The reset gate of a linear_before_reset GRU acts on the recurrent bias of the candidate.
        const bool apart = layer_ == Layer::kGru && options_[d].linear_before_reset;
        for (int64_t i = 0; i < n; ++i) bias[i] = own[i] + (apart && i >= 2 * h ? T{0} : own[n + i]);
        if (apart) o.extra = own + n + 2 * h;
      }
      o.h0 = h0 != nullptr ? h0 + d * batch_ * h : nullptr;
      o.c0 = c0 != nullptr ? c0 + d * batch_ * h : nullptr;
      T* to = gates<T>(context, d);
      if constexpr (std::is_same_v<T, float>) {
        if (dynamic_) {
          multiply_input(context, x, reinterpret_cast<const uint32_t*>(o.weights), o.bias, to, space + gemm_at_,
                         context.pool);
          continue;
        }
        const GemmCall call = {x, input_.k, false, o.weights, o.bias, to, input_.n, space + gemm_at_, context.pool};
        if (!input_gates_.empty() || input_low_) {
          input_low_ ? input_low_gemm_.run(call) : input_gates_.multiply(call, steps_ * batch_, 0, input_.n);
          continue;
        }
      }
      multiply(input_gemm_, x, input_, o.weights, o.bias, to, steps_ * batch_, space + gemm_at_, context.pool);
    }
    const auto unit = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        scan(context, operands[i / parts_], static_cast<int>(i / parts_), i % parts_ * part_rows_,
             space + units_at_ + i * unit_bytes_, pooled_ ? context.pool : nullptr);
    };
    if (directions_ * parts_ == 1) return unit(0, 1, 0);
    context.pool->parallel_for(directions_ * parts_, 1, unit);
  }

  template <typename T>
  T* gates(const RunContext& context, int d) const {
    return reinterpret_cast<T*>(static_cast<char*>(context.workspace) + gates_at_) + d * steps_ * batch_ * input_.n;
  }

  int64_t length(const RunContext& context, int64_t sequence) const {
    const Tensor* lens = context.in.size() > kLens ? context.in[kLens] : nullptr;
    if (lens == nullptr) return steps_;
    return lens->type.dtype == DType::kI32 ? lens->as<int32_t>()[sequence] : lens->as<int64_t>()[sequence];
  }

  // A direction of some sequences, from step to step.
  template <typename T>
  struct Scan {
    const RunContext& context;
    const Operands<T>& operands;
    int d;
    int64_t first, rows;  // sequences
    T *states, *cell;     // states: of this step and the one before, in turns
    T* recurrent;         // products with the recurrent weights
    void* workspace;
    const Gemm* gemm;
    ThreadPool* pool;
  };

  template <typename T>
  void scan(const RunContext& context, const Operands<T>& operands, int d, int64_t first, char* space,
            ThreadPool* pool) {
    const int64_t rows = std::min(part_rows_, batch_ - first), h = hidden_;
    if (rows <= 0) return;
    const Scan<T> s = {context,
                       operands,
                       d,
                       first,
                       rows,
                       reinterpret_cast<T*>(space + state_at_),
                       reinterpret_cast<T*>(space + cell_at_),
                       reinterpret_cast<T*>(space + recurrent_at_),
                       space + unit_gemm_at_,
                       recurrent_gemm_[rows == part_rows_ ? 0 : 1],
                       pool};
    const auto start = [&](const T* from, T* to) {
      from != nullptr ? std::copy_n(from + first * h, rows * h, to) : std::fill_n(to, rows * h, T{0});
    };
    start(operands.h0, s.states);
    start(operands.c0, s.cell);
    const int phases = recurrent_[1].n > 0 ? 2 : 1;
    const int parts = lockstep_.parts();
    if (parts > 1) {
      const int64_t blocks = ceil_div(h, unit_);
      lockstep_.run(steps_ * phases, context.pool, [&](int64_t i, int part) {
        const auto bound = [&](int64_t p) { return std::min(h, p * blocks / parts * unit_); };
        step(s, i / phases, static_cast<int>(i % phases), part, bound(part), bound(part + 1));
      });
    } else {
      LongLoop loop;
      for (int64_t i = 0; i < steps_ * phases && loop.goes_on(rows * h); ++i)
        step(s, i / phases, static_cast<int>(i % phases), 0, 0, h);
    }
    put(context, 1, d * batch_ + first, rows, 0, h, s.states + steps_ % 2 * rows * h);
    put(context, 2, d * batch_ + first, rows, 0, h, s.cell);
  }

  // Step i for the units [begin, end). Phase 1 is the candidate of a GRU whose reset gate comes before the product:
  // it needs what phase 0 has made for all units.
  template <typename T>
  void step(const Scan<T>& s, int64_t i, int phase, int part, int64_t begin, int64_t end) const {
    const int64_t h = hidden_;
    const bool backward = s.d == 1 || attrs_.s("direction", "forward") == "reverse";
    const int64_t t = backward ? steps_ - 1 - i : i;
    T* gates_now = gates<T>(s.context, s.d) + (t * batch_ + s.first) * input_.n;
    const T* previous = s.states + i % 2 * s.rows * h;
    T* state = s.states + (i + 1) % 2 * s.rows * h;
    const Weights& weights = recurrent_[phase];
    dynamic_ ? byte_product(s, previous, i % 2 != 0, part, begin, end)
             : product(s, phase, phase == 0 ? previous : s.cell, i % 2 != 0, part, begin, end);
    for (int64_t r = 0; r < s.rows; ++r) {
      const CellRow<T> row = {gates_now + r * input_.n,
                              s.recurrent + r * weights.n,
                              stride_,
                              s.operands.extra,
                              previous + r * h,
                              state + r * h,
                              s.cell + r * h,
                              h,
                              begin,
                              end};
      const bool runs = t < length(s.context, s.first + r);
      if (layer_ == Layer::kGru && phase == 0) gru_gates(row, options_[s.d]);
      if (phase == 0 && recurrent_[1].n > 0) continue;
      if (!runs) {
        std::copy(row.previous + begin, row.previous + end, row.state + begin);
      } else if (layer_ == Layer::kGru) {
        gru_state(row, options_[s.d]);
      } else {
        layer_ == Layer::kLstm ? lstm_cell(row, options_[s.d]) : rnn_cell(row, options_[s.d]);
      }
      put(s.context, 0, (t * directions_ + s.d) * batch_ + s.first + r, 1, begin, end, runs ? row.state : nullptr);
    }
  }

  // The products of rows with the recurrent weights of some units, for all gates.
  void product(const Scan<double>& s, int phase, const double* from, bool, int, int64_t, int64_t) const {
    multiply(s.gemm[phase], from, recurrent_[phase], s.operands.recurrent[phase], static_cast<const double*>(nullptr),
             s.recurrent, s.rows, s.workspace, s.pool);
  }
  void product(const Scan<float>& s, int phase, const float* from, bool odd, int part, int64_t begin,
               int64_t end) const {
    const Weights& weights = recurrent_[phase];
    const float* packed = s.operands.recurrent[phase];
    if (!recurrent_gates_[0].empty() && !unpacked_)
      return recurrent_gates_[phase].multiply({from, hidden_, false, packed, nullptr, s.recurrent, weights.n,
                                               static_cast<char*>(s.workspace) + part * gates_bytes_, nullptr},
                                              s.rows, begin, end);
    if (!streams_)
      return multiply(s.gemm[phase], from, weights, packed, static_cast<const float*>(nullptr), s.recurrent, s.rows,
                      s.workspace, s.pool);
    const GateStream stream = {from, s.rows, hidden_, packed, s.recurrent, weights.n, stride_, odd, begin, end};
    low_ ? stream_gates_bf16(stream) : stream_gates(stream);
  }

  // The same with weights of bytes. Each part of the units quantizes the rows for itself, which is soon done.
  void byte_product(const Scan<double>&, const double*, bool, int, int64_t, int64_t) const {}
  void byte_product(const Scan<float>& s, const float* from, bool odd, int part, int64_t begin, int64_t end) const {
    uint32_t* rows = static_cast<uint32_t*>(s.workspace) + part * recurrent_bytes_.row_words(part_rows_);
    const ByteRange range = one_range_ ? byte_range(from, s.rows * hidden_) : ByteRange();
    recurrent_bytes_.round(from, s.rows, 0, s.rows, one_range_ ? &range : nullptr, rows);
    const auto* packed = reinterpret_cast<const uint32_t*>(s.operands.recurrent[0]);
    const int64_t n = recurrent_[0].n;
    recurrent_bytes_.multiply({rows, s.rows, packed, nullptr, s.recurrent, n, stride_, odd}, begin / unit_,
                              ceil_div(end, unit_));
  }

  // The units [begin, end) of rows of an output that the node may not have; zeros where `from` is null.
  template <typename T>
  void put(const RunContext& context, size_t output, int64_t row, int64_t rows, int64_t begin, int64_t end,
           const T* from) const {
    if (output >= context.out.size() || context.out[output] == nullptr) return;
    const size_t size = dtype_size(dtype_);
    for (int64_t r = 0; r < rows; ++r) {
      void* to = offset(context.out[output]->data, (row + r) * hidden_ + begin, size);
      if (from == nullptr) {
        std::memset(to, 0, static_cast<size_t>(end - begin) * size);
      } else {
        store_block(compute_type(dtype_), from + r * hidden_ + begin, dtype_, to, end - begin);
      }
    }
  }

  const Layer layer_;
  const Attrs& attrs_;
  const bool dynamic_;  // DynamicLSTM
  bool one_range_ = false;
  DType dtype_ = DType::kF32;
  bool is_double_ = false;
  int64_t steps_ = 0, batch_ = 0, features_ = 0, hidden_ = 0;
  int directions_ = 1;
  int parts_ = 1;  // of the batch, of part_rows_ sequences each
  int64_t part_rows_ = 0;
  CellOptions options_[2];
  Weights input_, recurrent_[2];
  Gemm input_gemm_, recurrent_gemm_[2][2];  // [last part][product]
  Bf16Gemm input_low_gemm_;
  bool low_ = false, input_low_ = false;  // the weights are bf16
  ByteGates input_bytes_, recurrent_bytes_;
  QuantizedGates input_gates_, recurrent_gates_[2];  // empty unless the weights stay quantized
  int64_t gates_bytes_ = 0;                          // of the workspace of a part of the units
  bool unpacked_ = false;                            // the recurrent weights become floats in each run
  KeptMemory tables_;
  int64_t unit_ = 1;      // columns of a block of recurrent weights
  int64_t stride_ = 0;    // of the gates in products with the recurrent weights
  bool streams_ = false;  // so few rows that each weight is read for all of them at once
  bool pooled_ = false;   // the products with the recurrent weights are
  Lockstep lockstep_;     // more than one part: units of a direction
  Packed packed_;         // constant weights: by direction, those of the input, then the recurrent ones

  // Places in the workspace, in bytes; -1: none. The last ones are within the space of a direction and part.
  int64_t bytes_ = 0;
  int64_t converted_[kInputs] = {};
  int64_t packed_at_ = -1, bias_at_ = 0, unpacked_at_ = 0, gates_at_ = 0, gemm_at_ = 0, units_at_ = 0, unit_bytes_ = 0;
  int64_t state_at_ = 0, cell_at_ = 0, recurrent_at_ = 0, unit_gemm_at_ = 0;
};

template <Layer layer, bool dynamic = false>
std::unique_ptr<Kernel> create(const NodeContext& node) {
  return std::make_unique<Recurrent>(node, layer, dynamic);
}

MINNOW_KERNEL("LSTM", create<Layer::kLstm>);
MINNOW_KERNEL("DynamicLSTM", (create<Layer::kLstm, true>));
MINNOW_KERNEL("GRU", create<Layer::kGru>);
MINNOW_KERNEL("RNN", create<Layer::kRnn>);

}  // namespace
}  // namespace minnow
