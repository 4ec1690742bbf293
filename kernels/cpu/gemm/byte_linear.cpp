// QuantizedMatMul with constant weights by terms: the weights of an output are a row on the left, the rows of bytes are
// columns on the right, and results are written as columns.
#include "kernels/cpu/gemm/byte_linear.h"

#include <algorithm>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/gemm/term_weights.h"
#include "kernels/cpu/quant/requantize.h"

namespace minnow {
namespace {

class ByteLinear final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Tensor& w = *node.constant[1];
    attrs_ = &node.attrs;
    k_ = w.dim(0);
    outs_ = w.dim(1);
    rows_ = node.in[0]->count() / k_;
    threads_ = std::max(1, node.threads);
    const TermWeights terms = {1, outs_, k_, 1, 1, outs_};
    std::vector<uint32_t> places;
    const int64_t words = terms.find_places(w, node.pool, &places);
    weights_.make(node, {1}, std::string("byte_linear,") + byte_unit()->name, 4 * (words + round_up(outs_, 2)),
                  [&](void* to) {
                    uint32_t* sums = static_cast<uint32_t*>(to);
                    terms.pack(w, places, node.pool, sums + round_up(outs_, 2), sums);
                  });
    *workspace = 4 * (round_up(outs_, 16) + panels() * panel_size());
    return ok();
  }

  void run(const RunContext& context) override {
    const Tensor &a = *context.in[0], *zeros = context.in[2];
    const ByteUnit& unit = *byte_unit();
    const uint8_t flip = flip_for(a.type.dtype, false);
    const uint32_t zero =
        static_cast<uint32_t>((zeros == nullptr ? 0 : byte_at(*zeros, 0)) + shift_for(a.type.dtype, false));
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, true);
    if (!given) return;
    const Requantization& q = *given;
    const uint32_t *sums = weights_.as<uint32_t>(), *terms = sums + round_up(outs_, 2);
    uint32_t *starts = static_cast<uint32_t*>(context.workspace), *image = starts + round_up(outs_, 16);
    for (int64_t o = 0; o < outs_; ++o)
      starts[o] = (q.bias == nullptr ? 0 : static_cast<uint32_t>(q.bias[o * q.bias_step])) - zero * sums[o];
    const int64_t width = integer_panel();
    context.pool->parallel_for(panels(), 1 + 100000 / (panel_size() + 1), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        unit.panel_of_rows(a.as<uint8_t>() + i * width * k_, k_, std::min(width, rows_ - i * width), flip, width,
                           image + i * panel_size());
    });
    // A task is some outputs and some panels, so that both stay in the second cache.
    const int64_t shares = ceil_div(outs_, kOuts), at_once = std::max<int64_t>(1, kPanelWords / (panel_size() + 1));
    const int64_t groups = ceil_div(panels(), at_once);
    const auto range = [&](int64_t begin, int64_t end, int) {
      LongLoop loop;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % shares * kOuts, group = task / shares;
        ByteProduct p;
        p.terms = terms;
        p.blocks = terms + first / kTermRows;
        p.steps = integer_steps(k_);
        p.rows = std::min(kOuts, outs_ - first);
        p.width = width;
        p.start = starts + first;
        p.scale = q.scale + first * q.factor_step;
        p.scale_of_row = q.factor_step != 0;
        p.is_signed = q.to == DType::kI8;
        p.zero = q.zero;
        p.is_transposed = true;
        p.ldc = outs_;
        const int64_t last = std::min(panels(), (group + 1) * at_once);
        for (int64_t i = group * at_once; i < last && loop.goes_on(panel_size() * kOuts / 32); ++i) {
          p.right = image + i * panel_size();
          p.columns = std::min(width, rows_ - i * width);
          p.bytes = static_cast<uint8_t*>(context.out[0]->data) + i * width * outs_ + first;
          unit.multiply(p);
        }
      }
    };
    if (context.pool->threads() > threads_) return range(0, shares * groups, 0);
    context.pool->parallel_for(shares * groups, 1 + 100000 / (at_once * panel_size() * kOuts / 16 + 1), range);
  }

  bool reads(int i) const override { return i != 1 && i != 3; }
  [[gnu::cold]] Profile profile() const override { return {byte_unit()->name, rows_ * k_ * outs_}; }

 private:
  static constexpr int64_t kOuts = 64, kPanelWords = 1 << 16;

  int64_t panels() const { return ceil_div(rows_, integer_panel()); }
  int64_t panel_size() const { return integer_steps(k_) * integer_panel(); }

  const Attrs* attrs_ = nullptr;
  int64_t k_ = 0, outs_ = 0, rows_ = 0;
  int threads_ = 1;
  Packed weights_;
};

}  // namespace

std::unique_ptr<Kernel> create_byte_linear(const NodeContext& node) {
  constexpr int64_t kLeastRows = 8;  // of bytes
  if (byte_unit() == nullptr || !byte_unit()->takes_terms || node.in.size() < 6 || node.in[5] == nullptr)
    return nullptr;
  const Tensor *w = node.constant[1], *zeros = node.constant[3];
  if (w == nullptr || w->type.dtype != DType::kI8 || w->type.shape.rank() != 2 || w->count() == 0) return nullptr;
  if (node.in[5]->dtype != DType::kF32 || (node.in[2] != nullptr && node.in[2]->count() != 1)) return nullptr;
  if (node.in[3] != nullptr && zeros == nullptr) return nullptr;
  for (int64_t i = 0; zeros != nullptr && i < zeros->count(); ++i)
    if (byte_at(*zeros, i) != 0) return nullptr;
  if (w->dim(1) < kTermRows || node.in[0]->count() < kLeastRows * w->dim(0)) return nullptr;
  return std::make_unique<ByteLinear>();
}

}  // namespace minnow
