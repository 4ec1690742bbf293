// softmax(scale Q K^T + masks) V for many heads at once, tiled so that the scores never leave the cache. Made by
// Attention (attention.cpp) and the planner (runtime/src/fuse/attention.cpp), which say by strides where the
// operands lie: what transposes, splits and repeats them is not run at all.
//
// Inputs: q, k, v and the masks. Attributes, all counting elements:
//   shape              of the output
//   batch              sizes of the dimensions over which the product is repeated
//   rows, keys, depth, width    of Q [rows, depth], K [keys, depth], V [keys, width]
//   q, k, v, out       {offset, stride of rows or keys, stride of depth or width, strides of batch...}
//   mask0, mask1, ...  {offset, stride of rows, stride of keys, strides of batch...}
//   scale, mask_scale  what products and masks are multiplied by
//   fill, keep         of masks that are conditions: the score where one is not `keep`
//   causal             row i sees the first i + 1 + causal keys; those behind have the score -inf
//   zero_rows          rows of the softmax that become 0: "empty", of scores -inf only, or "nan"
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// x[i] += factor * mask[i]
void add_mask(float* x, const float* mask, int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, mask + i), hn::LoadU(d, x + i)), d, x + i);
  for (; i < n; ++i) x[i] += factor * mask[i];
}

// x[i] = fill where condition[i] is not `keep`
void select(float* x, const uint8_t* condition, int64_t n, bool keep, float fill) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto other = hn::Set(d, fill);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(bytes, condition + i));
    const auto holds = hn::RebindMask(d, hn::Ne(wide, hn::Zero(du)));
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(keep ? hn::IfThenElse(holds, v, other) : hn::IfThenElse(holds, other, v), d, x + i);
  }
  for (; i < n; ++i) x[i] = (condition[i] != 0) == keep ? x[i] : fill;
}

// x = e^(x - max x) for the first n of each row of x, 0 in the rest up to a whole vector; gives their sums.
void exponentials(float* x, int64_t stride, int64_t rows, int64_t n, float* sums) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / lanes * lanes;
  const auto lowest = hn::Set(d, -__builtin_inff());
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    // NaN may get lost here; it comes back with the exponentials.
    auto most = lowest;
    for (int64_t i = 0; i < whole; i += lanes) most = hn::Max(most, hn::LoadU(d, x + i));
    if (whole < n) {
      const auto valid = hn::FirstN(d, static_cast<size_t>(n - whole));
      const auto last = hn::IfThenElse(valid, hn::LoadU(d, x + whole), lowest);
      hn::StoreU(last, d, x + whole);
      most = hn::Max(most, last);
    }
    const auto shift = hn::Set(d, hn::GetLane(hn::MaxOfLanes(d, most)));
    auto sum = hn::Zero(d), sum2 = sum;
    int64_t i = 0;
    for (; i + 2 * lanes <= whole; i += 2 * lanes) {
      const auto e = ExpOfNegative(d, hn::Sub(hn::LoadU(d, x + i), shift));
      const auto e2 = ExpOfNegative(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
      hn::StoreU(e, d, x + i);
      hn::StoreU(e2, d, x + i + lanes);
      sum = hn::Add(sum, e);
      sum2 = hn::Add(sum2, e2);
    }
    for (; i < n; i += lanes) {
      auto e = ExpOfNegative(d, hn::Sub(hn::LoadU(d, x + i), shift));
      if (i >= whole) e = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), e);
      hn::StoreU(e, d, x + i);
      sum = hn::Add(sum, e);
    }
    sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, sum2)));
  }
}

// The same of the scores of a block of rows in the form of tiles (bf16_tile.h), rounded to bf16, and 0 up to a whole
// tile. NaN is in the sum.
void exponentials_of_tiles(const float* x, int64_t rows, int64_t n, uint16_t* to, float* sums) {
#if HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const auto lowest = hn::Set(d, -__builtin_inff());
  const int64_t vectors = (n + 15) / 16;
  const auto valid = hn::FirstN(d, static_cast<size_t>(n - 16 * (vectors - 1)));
  for (int64_t r = 0; r < rows; ++r, x += 32, to += 32) {
    const auto place = [&](int64_t i) { return i / 2 * 1024 + i % 2 * 16; };
    const auto last = hn::IfThenElse(valid, hn::LoadU(d, x + place(vectors - 1)), lowest);
    auto most = last;
    for (int64_t i = 0; i + 1 < vectors; ++i) most = hn::Max(most, hn::LoadU(d, x + place(i)));
    const auto shift = hn::Set(d, hn::GetLane(hn::MaxOfLanes(d, most)));
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < vectors; ++i) {
      const auto score = i + 1 == vectors ? last : hn::LoadU(d, x + place(i));
      auto e = ExpOfNegative(d, hn::Sub(score, shift));
      if (i + 1 == vectors) e = hn::IfThenElseZero(valid, e);
      sum = hn::Add(sum, e);
      const auto u = hn::BitCast(bits, e);
      const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(bits, 1u));
      const auto near = hn::Add(hn::Add(u, hn::Set(bits, 0x7fffu)), odd);
      hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(near)), half, to + place(i));
    }
    if (vectors % 2 != 0) hn::StoreU(hn::Zero(half), half, to + place(vectors));
    sums[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
#else
  (void)x, (void)rows, (void)n, (void)to, (void)sums;
#endif
}

// to[i] = factor * from[i], where `to` and `from` may be the same.
void multiply(const float* from, int64_t n, float factor, float* to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(f, hn::LoadU(d, from + i)), d, to + i);
  for (; i < n; ++i) to[i] = factor * from[i];
}

// to = factor * from, rows of n numbers.
void scale_rows(const float* from, int64_t from_stride, int64_t rows, int64_t n, float factor, float* to) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += n) multiply(from, n, factor, to);
}

// to = from / sums, row by row; both may be the same.
void divide_rows(const float* from, int64_t from_stride, int64_t rows, int64_t n, const float* sums, float* to,
                 int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += stride) multiply(from, n, 1 / sums[r], to);
}

// to = from, rows of as many numbers as a vector has.
void copy_vectors(const float* from, int64_t stride, int64_t rows, float* to) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r, from += stride, to += hn::Lanes(d)) hn::StoreU(hn::LoadU(d, from), d, to);
}

// out[j] = sum over i of x[i] * rows[j * stride + i]
void dots(const float* x, int64_t n, const float* rows, int64_t stride, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < count; ++j, rows += stride) {
    auto sum = hn::Zero(d), sum2 = sum;
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, rows + i), sum);
      sum2 = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, rows + i + lanes), sum2);
    }
    for (; i + lanes <= n; i += lanes) sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, rows + i), sum);
    float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, sum2)));
    for (; i < n; ++i) total += x[i] * rows[i];
    out[j] = total;
  }
}

// out[i] = factor * sum over j of x[j] * rows[j * stride + i]
void weighted_sum(const float* x, int64_t count, const float* rows, int64_t stride, int64_t n, float factor,
                  float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    const float* row = rows + i;
    for (int64_t j = 0; j < count; ++j, row += stride) {
      const auto w = hn::Set(d, x[j]);
      a = hn::MulAdd(w, hn::LoadU(d, row), a);
      b = hn::MulAdd(w, hn::LoadU(d, row + lanes), b);
      c = hn::MulAdd(w, hn::LoadU(d, row + 2 * lanes), c);
      e = hn::MulAdd(w, hn::LoadU(d, row + 3 * lanes), e);
    }
    hn::StoreU(hn::Mul(a, f), d, out + i);
    hn::StoreU(hn::Mul(b, f), d, out + i + lanes);
    hn::StoreU(hn::Mul(c, f), d, out + i + 2 * lanes);
    hn::StoreU(hn::Mul(e, f), d, out + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) {
    auto a = hn::Zero(d);
    for (int64_t j = 0; j < count; ++j) a = hn::MulAdd(hn::Set(d, x[j]), hn::LoadU(d, rows + j * stride + i), a);
    hn::StoreU(hn::Mul(a, f), d, out + i);
  }
  for (; i < n; ++i) {
    float a = 0;
    for (int64_t j = 0; j < count; ++j) a += x[j] * rows[j * stride + i];
    out[i] = factor * a;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/attention.h"
#include "kernels/cpu/attention/bf16_tile.h"
#include "kernels/cpu/gemm/bf16.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {

HWY_EXPORT(add_mask);
HWY_EXPORT(select);
HWY_EXPORT(exponentials);
HWY_EXPORT(exponentials_of_tiles);
HWY_EXPORT(scale_rows);
HWY_EXPORT(divide_rows);
HWY_EXPORT(copy_vectors);
HWY_EXPORT(dots);
HWY_EXPORT(weighted_sum);

namespace {

constexpr int64_t kFewRows = 4;            // K and V are then used as they lie: packing would not pay
constexpr int64_t kScoreBytes = 24 << 10;  // of a block of rows: about what is left of the first-level cache
constexpr int64_t kMostRows = 56;
constexpr bool kHasTiles = kHasLowPrecision && MINNOW_AVX512 != 0;
constexpr int64_t kLowRows = 64;        // whole tiles of bf16
constexpr int64_t kSerialMacs = 20000;  // fewer are not worth waking a thread
constexpr float kInfinity = std::numeric_limits<float>::infinity();
static_assert(kMostRows <= 64 && kLowRows <= 64, "a bit for each row of a block");

// The products with K and V, of a block of rows.
struct Plans {
  TilePlan scores, values;
};

class Attention final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Attrs& a = node.attrs;
    batch_ = a.ints("batch");
    rows_ = a.i("rows");
    keys_ = a.i("keys");
    depth_ = a.i("depth");
    width_ = a.i("width");
    scale_ = static_cast<float>(a.f("scale", 1));
    mask_scale_ = static_cast<float>(a.f("mask_scale", 1));
    fill_ = static_cast<float>(a.f("fill", 0));
    keep_ = a.b("keep", true);
    causal_ = a.i("causal", -1);
    const std::string zero_rows = a.s("zero_rows");
    zero_empty_ = zero_rows == "empty";
    zero_nan_ = zero_rows == "nan";
    q_ = OperandPlace(a.ints("q"));
    k_ = OperandPlace(a.ints("k"));
    v_ = OperandPlace(a.ints("v"));
    out_ = OperandPlace(a.ints("out"));
    masks_.clear();
    for (size_t i = 3; i < node.in.size(); ++i) masks_.emplace_back(a.ints(("mask" + std::to_string(i - 3)).c_str()));
    batches_ = 1;
    for (int64_t n : batch_) batches_ *= n;

    threads_ = std::max(1, node.threads);
    pack_ = pack_width();
    padded_ = round_up(keys_, pack_);
    direct_ = rows_ <= kFewRows && k_.column == 1 && v_.column == 1;
    low_ = !direct_ && k_.column == 1 && v_.column == 1 && Bf16Gemm::takes(rows_, keys_, depth_, node.precision) &&
           Bf16Gemm::takes(rows_, width_, keys_, node.precision);
    tiled_ = kHasTiles && low_ && Bf16Attention::takes(node.precision);
    if (direct_) {
      block_ = rows_;
    } else if (tiled_) {
      block_ = std::min(rows_, Bf16Attention::kRows);
      tiles_ = Bf16Attention(keys_, depth_, width_);
    } else if (low_) {
      block_ = std::min<int64_t>(rows_, kLowRows);
    } else {
      const int64_t tile = tile_pixels(2);
      block_ = std::clamp(kScoreBytes / (4 * padded_) / tile * tile, tile, kMostRows);
      block_ = ceil_div(rows_, ceil_div(rows_, block_));
    }
    blocks_ = ceil_div(rows_, block_);
    parts_ =
        batches_ >= 2 * threads_ || direct_ ? 1 : std::clamp<int64_t>(ceil_div(4 * threads_, batches_), 1, blocks_);
    if (threads_ == 1) parts_ = 1;
    for (int last : {0, 1}) {
      const int64_t rows = last == 0 ? block_ : rows_ - (blocks_ - 1) * block_;
      if (!low_ || tiled_) continue;
      low_scores_[last] = Bf16Gemm(rows, keys_, depth_, Activation(), 1, node.precision);
      low_values_[last] = Bf16Gemm(rows, width_, keys_, Activation(), 1, node.precision);
    }
    // The last block is shorter; others differ only by what their rows see.
    plans_.clear();
    for (int64_t b = 0; b < blocks_ && !direct_ && !low_; ++b) {
      if (causal_ < 0 && b > 0 && b + 1 < blocks_) continue;
      const int64_t rows = std::min(block_, rows_ - b * block_), keys = seen(b * block_ + rows);
      plans_.push_back({TilePlan(rows, ceil_div(keys, pack_), depth_), TilePlan(rows, ceil_div(width_, pack_), keys)});
    }
    *workspace = threads_ * worker_floats() * 4;
    return ok();
  }

  void run(const RunContext& context) override {
    float* workspace = static_cast<float*>(context.workspace);
    for (int i = 0; i < threads_; ++i) *reinterpret_cast<int64_t*>(workspace + i * worker_floats()) = -1;
    const int64_t grain = std::max<int64_t>(1, kSerialMacs / (rows_ * keys_ * (depth_ + width_)));
    context.pool->parallel_for(batches_ * parts_, grain, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        run_item(context, i / parts_, i % parts_, workspace + worker * worker_floats());
    });
  }

  [[gnu::cold]] Profile profile() const override {
    return {tiled_    ? std::string("gemm_") + bf16_unit()->name
            : low_    ? low_scores_[0].scheme()
            : direct_ ? "direct"
                      : "tiled",
            batches_ * rows_ * keys_ * (depth_ + width_)};
  }

 private:
  // Floats in front of a worker's space: whose K and V it has packed, and where the first masks of these rows begin.
  static constexpr int64_t kHeld = 16;
  static constexpr size_t kHeldMasks = kHeld / 2 - 2;

  // How many keys the first `rows` rows see, at most.
  int64_t seen(int64_t rows) const { return causal_ < 0 ? keys_ : std::min(keys_, rows + causal_); }

  int64_t k_floats() const { return direct_ ? 0 : low_ ? low_scores_[0].packed_floats() : padded_ * depth_; }
  int64_t v_floats() const {
    return direct_ ? 0 : low_ ? low_values_[0].packed_floats() : keys_ * round_up(width_, pack_);
  }
  int64_t gemm_floats() const {
    int64_t bytes = 0;
    for (int last = 0; low_ && last < 2; ++last)
      bytes = std::max({bytes, low_scores_[last].workspace_bytes(), low_values_[last].workspace_bytes()});
    return bytes / 4;
  }
  int64_t q_floats() const { return round_up(block_ * depth_, 16); }
  int64_t worker_floats() const {
    if (tiled_) return kHeld + tiles_.bytes() / 4 + q_floats() + round_up(Bf16Attention::kRows + padded_, 16);
    return kHeld + round_up(k_floats() + v_floats(), 16) + q_floats() +
           round_up(block_ * padded_ + block_ + padded_, 16) + gemm_floats();
  }

  void run_item(const RunContext& context, int64_t batch, int64_t part, float* space) const {
    const float* k = context.in[1]->as<float>() + k_.at(batch, batch_);
    const float* v = context.in[2]->as<float>() + v_.at(batch, batch_);
    int64_t* held = reinterpret_cast<int64_t*>(space);
    float* packed_k = space + kHeld;
    float* packed_v = packed_k + k_floats();
    float* q = packed_k + round_up(k_floats() + v_floats(), 16);
    float* scores = q + q_floats();
    float* sums = scores + block_ * padded_;
    const int64_t places[2] = {k_.at(batch, batch_), v_.at(batch, batch_)};
    for (size_t m = 0; m < std::min(kHeldMasks, masks_.size()); ++m) held[2 + m] = masks_[m].at(batch, batch_);
    if (kHasTiles && tiled_) return run_tiles(context, batch, part, held, places, k, v, space);
    if (!direct_ && (held[0] != places[0] || held[1] != places[1])) {
      if (low_) {
        low_scores_[0].pack_b(k, k_.row, true, packed_k, nullptr);
        low_values_[0].pack_b(v, v_.row, false, packed_v, nullptr);
      } else {
        pack_k(k, packed_k);
        pack_v(v, packed_v);
      }
      held[0] = places[0];
      held[1] = places[1];
    }
    float* gemm_space = space + worker_floats() - gemm_floats();
    for (int64_t b = part * blocks_ / parts_; b < (part + 1) * blocks_ / parts_; ++b) {
      const int64_t first = b * block_, rows = std::min(block_, rows_ - first);
      const int last = b + 1 == blocks_ ? 1 : 0;
      const int64_t keys = low_ ? keys_ : seen(first + rows);
      const size_t plan = causal_ < 0 ? std::min<size_t>(plans_.size() - 1, last) : static_cast<size_t>(b);
      const Plans* plans = plans_.empty() ? nullptr : &plans_[plan];
      copy_q(context.in[0]->as<float>() + q_.at(batch, batch_) + first * q_.row, rows, q);
      float* out = context.out[0]->as<float>() + out_.at(batch, batch_) + first * out_.row;
      if (direct_) {
        for (int64_t r = 0; r < rows; ++r)
          HWY_DYNAMIC_DISPATCH(dots)(q + r * depth_, depth_, k, k_.row, keys, scores + r * padded_);
      } else if (low_) {
        low_scores_[last].run({q, depth_, false, packed_k, nullptr, scores, padded_, gemm_space, nullptr});
      } else {
        product(plans->scores, q, depth_, depth_, packed_k, depth_, round_up(keys, pack_), scores, padded_);
      }
      uint64_t zeros = 0;  // rows of the block that become 0
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores + r * padded_;
        for (size_t m = 0; m < masks_.size(); ++m)
          mask(context, m, place_of_mask(held, m, batch), first + r, 0, keys, row, sums + block_);
        std::fill(row + seen(first + r + 1), row + keys, -kInfinity);
        if (zero_empty_ && std::all_of(row, row + keys, [](float x) { return x == -kInfinity; }))
          zeros |= uint64_t{1} << r;
      }
      HWY_DYNAMIC_DISPATCH(exponentials)(scores, padded_, rows, keys, sums);
      for (int64_t r = 0; r < rows && (zero_nan_ || zeros != 0); ++r) {
        if ((zeros >> r & 1) == 0 && !(zero_nan_ && sums[r] != sums[r])) continue;
        std::fill_n(scores + r * padded_, padded_, 0.0f);
        sums[r] = 1;
      }
      if (direct_) {
        for (int64_t r = 0; r < rows; ++r) HWY_DYNAMIC_DISPATCH(weighted_sum)
        (scores + r * padded_, keys, v, v_.row, width_, 1 / sums[r], out + r * out_.row);
      } else {
        if (low_) {
          low_values_[last].run({scores, padded_, false, packed_v, nullptr, out, out_.row, gemm_space, nullptr});
        } else {
          product(plans->values, scores, padded_, keys, packed_v, keys_, width_, out, out_.row);
        }
        HWY_DYNAMIC_DISPATCH(divide_rows)(out, out_.row, rows, width_, sums, out, out_.row);
      }
    }
  }

  // The same, by tiles of bf16.
  void run_tiles(const RunContext& context, int64_t batch, int64_t part, int64_t* held, const int64_t (&places)[2],
                 const float* k, const float* v, float* space) const {
    constexpr int64_t kKeys = Bf16Attention::kKeys;
    char* tiles = reinterpret_cast<char*>(space + kHeld);
    float* q = space + kHeld + tiles_.bytes() / 4;
    float *sums = q + q_floats(), *scores = tiles_.scores(tiles);
    if (held[0] != places[0] || held[1] != places[1]) {
      tiles_.pack(k, k_.row, v, v_.row, tiles);
      held[0] = places[0];
      held[1] = places[1];
    }
    bf16_unit()->begin(kBf16Depth);
    for (int64_t b = part * blocks_ / parts_; b < (part + 1) * blocks_ / parts_; ++b) {
      const int64_t first = b * block_, rows = std::min(block_, rows_ - first), keys = seen(first + rows);
      copy_q(context.in[0]->as<float>() + q_.at(batch, batch_) + first * q_.row, rows, q);
      tiles_.multiply_keys(q, rows, keys, tiles);
      uint64_t zeros = 0;
      for (int64_t r = 0; r < rows && changes_scores(); ++r) {
        bool empty = zero_empty_;
        for (int64_t key = 0; key < keys; key += kKeys) {
          float* row = scores + key / kKeys * Bf16Attention::kTile + r * kKeys;
          const int64_t count = std::min(kKeys, keys - key);
          for (size_t m = 0; m < masks_.size(); ++m)
            mask(context, m, place_of_mask(held, m, batch), first + r, key, count, row, sums + Bf16Attention::kRows);
          std::fill(row + std::clamp<int64_t>(seen(first + r + 1) - key, 0, count), row + count, -kInfinity);
          empty = empty && std::all_of(row, row + count, [](float x) { return x == -kInfinity; });
        }
        if (empty) zeros |= uint64_t{1} << r;
      }
      HWY_DYNAMIC_DISPATCH(exponentials_of_tiles)(scores, rows, keys, tiles_.weights(tiles), sums);
      for (int64_t r = 0; r < rows && (zero_nan_ || zeros != 0); ++r) {
        if ((zeros >> r & 1) == 0 && !(zero_nan_ && sums[r] != sums[r])) continue;
        for (int64_t key = 0; key < keys; key += kKeys)
          std::fill_n(tiles_.weights(tiles) + key / kKeys * Bf16Attention::kTile + r * kKeys, kKeys, uint16_t{0});
        sums[r] = 1;
      }
      float* out = context.out[0]->as<float>() + out_.at(batch, batch_) + first * out_.row;
      for (int64_t column = 0; column < width_; column += kKeys) {
        const float* values = tiles_.multiply_values(column, rows, keys, tiles);
        HWY_DYNAMIC_DISPATCH(divide_rows)
        (values, kKeys, rows, std::min(kKeys, width_ - column), sums, out + column, out_.row);
      }
    }
    bf16_unit()->end();
  }

  // K as [blocks of keys][depth][key], any numbers beyond the last.
  void pack_k(const float* k, float* to) const {
    for (int64_t first = 0; first < keys_; first += pack_, to += depth_ * pack_) {
      const int64_t n = std::min<int64_t>(pack_, keys_ - first);
      const float* from = k + first * k_.row;
      if (k_.column == 1) {
        transpose(Transposition{depth_, pack_, k_.row, pack_, n, depth_}, from, to, sizeof(float));
      } else {
        if (n < pack_) std::fill(to, to + depth_ * pack_, 0.0f);
        for (int64_t d = 0; d < depth_; ++d)
          for (int64_t j = 0; j < n; ++j) to[d * pack_ + j] = from[j * k_.row + d * k_.column];
      }
    }
  }

  // V as [blocks of columns][key][column], 0 beyond the last.
  void pack_v(const float* v, float* to) const {
    for (int64_t first = 0; first < width_; first += pack_, to += keys_ * pack_) {
      const int64_t n = std::min<int64_t>(pack_, width_ - first);
      const float* from = v + first * v_.column;
      if (n == pack_ && v_.column == 1) {
        HWY_DYNAMIC_DISPATCH(copy_vectors)(from, v_.row, keys_, to);
        continue;
      }
      if (n < pack_) std::fill(to, to + keys_ * pack_, 0.0f);
      for (int64_t j = 0; j < keys_; ++j, from += v_.row) {
        if (v_.column == 1) {
          std::memcpy(to + j * pack_, from, static_cast<size_t>(n) * sizeof(float));
        } else {
          for (int64_t i = 0; i < n; ++i) to[j * pack_ + i] = from[i * v_.column];
        }
      }
    }
  }

  // Rows of Q brought together: where they lie they may drive each other out of the first-level cache.
  void copy_q(const float* q, int64_t rows, float* to) const {
    if (q_.column == 1) return HWY_DYNAMIC_DISPATCH(scale_rows)(q, q_.row, rows, depth_, scale_, to);
    for (int64_t r = 0; r < rows; ++r, q += q_.row, to += depth_)
      for (int64_t d = 0; d < depth_; ++d) to[d] = scale_ * q[d * q_.column];
  }

  // C[rows, n] = A[rows, length] B, with the first rows of B, which is in blocks of columns.
  void product(const TilePlan& plan, const float* a, int64_t a_row, int64_t length, const float* b, int64_t b_rows,
               int64_t n, float* c, int64_t c_row) const {
    Tile t;
    t.in_pixel = a_row;
    t.steps[0].length = length;
    t.steps[1].outer = 0;
    t.w_block = b_rows * pack_;
    t.out_pixel = c_row;
    t.out_block = pack_;
    t.low = -kInfinity;
    t.high = kInfinity;
    for (int g = 0; g < plan.groups(); ++g) {
      const TilePlan::Blocks blocks = plan.group(g);
      t.w = b + blocks.first * t.w_block;
      t.lanes = static_cast<int>(std::min<int64_t>(pack_, n - (blocks.first + blocks.count - 1) * pack_));
      for (int64_t tile = 0; tile < plan.tiles(); ++tile) {
        const int64_t row = plan.tile_begin(tile), count = plan.tile_begin(tile + 1) - row;
        if (count == 0) continue;
        t.in = a + row * a_row;
        t.out = c + row * c_row + blocks.first * pack_;
        tile_function(blocks.count, static_cast<int>(count))(t);
      }
    }
  }

  // Whether scores become others before their softmax.
  bool changes_scores() const { return !masks_.empty() || causal_ >= 0 || zero_empty_; }
  int64_t place_of_mask(const int64_t* held, size_t m, int64_t batch) const {
    return m < kHeldMasks ? held[2 + m] : masks_[m].at(batch, batch_);
  }

  // Applies mask m, which begins there, to the scores of a row, from `key` on. `space` holds a row of numbers.
  void mask(const RunContext& context, size_t m, int64_t begin, int64_t row, int64_t key, int64_t keys, float* scores,
            float* space) const {
    const OperandPlace& place = masks_[m];
    const Tensor& tensor = *context.in[3 + m];
    begin += row * place.row + key * place.column;
    if (tensor.type.dtype == DType::kBool) {
      const uint8_t* condition = tensor.as<uint8_t>() + begin;
      if (place.column == 1) return HWY_DYNAMIC_DISPATCH(select)(scores, condition, keys, keep_, fill_);
      for (int64_t j = 0; j < keys; ++j) scores[j] = (condition[j * place.column] != 0) == keep_ ? scores[j] : fill_;
      return;
    }
    const float* values = tensor.as<float>() + begin;
    if (place.column != 1) {
      for (int64_t j = 0; j < keys; ++j) space[j] = values[j * place.column];
      values = space;
    }
    HWY_DYNAMIC_DISPATCH(add_mask)(scores, values, keys, mask_scale_);
  }

  std::vector<int64_t> batch_;
  OperandPlace q_, k_, v_, out_;
  std::vector<OperandPlace> masks_;
  int64_t rows_ = 0, keys_ = 0, depth_ = 0, width_ = 0, batches_ = 0;
  float scale_ = 1, mask_scale_ = 1, fill_ = 0;
  bool keep_ = true, direct_ = false, zero_empty_ = false, zero_nan_ = false;
  int64_t causal_ = -1;  // keys before the first row; -1: all rows see all keys
  int threads_ = 1;
  int64_t pack_ = 1, padded_ = 0;               // keys up to whole vectors
  int64_t block_ = 1, blocks_ = 1, parts_ = 1;  // rows of a block, blocks, units of work of one head
  std::vector<Plans> plans_;                    // of the first block of rows and the last one, or of each
  Bf16Gemm low_scores_[2], low_values_[2];      // in their place
  Bf16Attention tiles_;                         // in place of these, where nothing is split
  bool low_ = false, tiled_ = false;
};

std::unique_ptr<Kernel> create_attention(const NodeContext&) { return std::make_unique<Attention>(); }

Status infer_attention(InferContext& c) {
  Shape shape;
  for (int64_t n : c.attrs.ints("shape")) shape.push_back(n);
  c.set(0, DType::kF32, shape);
  return ok();
}

MINNOW_OP("FusedAttention", infer_attention);
MINNOW_KERNEL("FusedAttention", create_attention);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
