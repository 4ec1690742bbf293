// Winograd's minimal filtering for 3x3 kernels with stride 1: an output tile of M x M takes (M + 2)^2 multiplications
// instead of 9 M^2. The interpolation points of F(4x4) are 0, +-sqrt(1/2), +-sqrt(2) and infinity: with them the result
// is as good as 2e-6 of the output's size, three times better than with the usual 0, +-1, +-2.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cmath>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr float kRoot2 = 1.41421356f, kRootHalf = 0.70710678f;

// x <- B^T x of 4 or 6 vectors.
HWY_INLINE void transform_in(V (&x)[4]) {
  const V x1 = x[1];
  x[0] = hn::Sub(x[0], x[2]);
  x[1] = hn::Add(x1, x[2]);
  x[2] = hn::Sub(x[2], x1);
  x[3] = hn::Sub(x1, x[3]);
}

HWY_INLINE void transform_in(V (&x)[6]) {
  const D d;
  const V five_halves = hn::Set(d, 2.5f), two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f);
  const V even1 = hn::NegMulAdd(two, x[2], x[4]), odd1 = hn::Mul(hn::Set(d, kRootHalf), hn::NegMulAdd(two, x[1], x[3]));
  const V even2 = hn::NegMulAdd(half, x[2], x[4]), odd2 = hn::Mul(hn::Set(d, kRoot2), hn::NegMulAdd(half, x[1], x[3]));
  x[0] = hn::Add(hn::NegMulAdd(five_halves, x[2], x[0]), x[4]);
  x[5] = hn::Add(hn::NegMulAdd(five_halves, x[3], x[1]), x[5]);
  x[1] = hn::Add(even1, odd1);
  x[2] = hn::Sub(even1, odd1);
  x[3] = hn::Add(even2, odd2);
  x[4] = hn::Sub(even2, odd2);
}

// y = A^T x.
HWY_INLINE void transform_out(const V (&x)[4], V (&y)[2]) {
  y[0] = hn::Add(x[0], hn::Add(x[1], x[2]));
  y[1] = hn::Sub(hn::Sub(x[1], x[2]), x[3]);
}

HWY_INLINE void transform_out(const V (&x)[6], V (&y)[4]) {
  const D d;
  const V sum1 = hn::Add(x[1], x[2]), sum2 = hn::Add(x[3], x[4]);
  const V difference1 = hn::Sub(x[1], x[2]), difference2 = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(x[0], hn::Add(sum1, sum2));
  y[1] = hn::MulAdd(hn::Set(d, kRootHalf), difference1, hn::Mul(hn::Set(d, kRoot2), difference2));
  y[2] = hn::MulAdd(hn::Set(d, 0.5f), sum1, hn::Add(sum2, sum2));
  y[3] = hn::MulAdd(hn::Set(d, kRootHalf / 2), difference1, hn::MulAdd(hn::Set(d, 2 * kRoot2), difference2, x[5]));
}

// One block of channels of one tile: (M + 2)^2 pixels to as many vectors, `to_step` apart. Rows and columns outside
// [begin, end) are padding.
template <int M>
HWY_INLINE void input_tile(const float* in, int64_t row, int64_t row_begin, int64_t row_end, int64_t column_begin,
                           int64_t column_end, float* to, int64_t to_step) {
  constexpr int N = M + 2;
  const D d;
  HWY_ALIGN float part[N * N * kFloatLanes];
  const bool whole = row_begin == 0 && row_end == N && column_begin == 0 && column_end == N;
  for (int c = 0; c < N; ++c) {
    V x[N];
    if (whole) {
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) x[r] = hn::LoadU(d, in + r * row + c * kFloatLanes);
    } else {
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) {
        const bool inside = r >= row_begin && r < row_end && c >= column_begin && c < column_end;
        x[r] = inside ? hn::LoadU(d, in + r * row + c * kFloatLanes) : hn::Zero(d);
      }
    }
    transform_in(x);
#pragma GCC unroll 6
    for (int r = 0; r < N; ++r) hn::Store(x[r], d, part + (r * N + c) * kFloatLanes);
  }
  for (int r = 0; r < N; ++r) {
    V x[N];
#pragma GCC unroll 6
    for (int c = 0; c < N; ++c) x[c] = hn::Load(d, part + (r * N + c) * kFloatLanes);
    transform_in(x);
#pragma GCC unroll 6
    for (int c = 0; c < N; ++c) hn::StoreU(x[c], d, to + (r * N + c) * to_step);
  }
}

// The way back: vectors `from_step` apart to M x M output pixels, of which `rows` x `columns` exist.
template <int M>
HWY_INLINE void output_tile(const float* from, int64_t from_step, const float* bias, const float* residual, float low,
                            float high, float* out, int64_t row, int64_t rows, int64_t columns) {
  constexpr int N = M + 2;
  const D d;
  HWY_ALIGN float part[M * N * kFloatLanes];
  for (int c = 0; c < N; ++c) {
    V x[N], y[M];
#pragma GCC unroll 6
    for (int r = 0; r < N; ++r) x[r] = hn::LoadU(d, from + (r * N + c) * from_step);
    transform_out(x, y);
#pragma GCC unroll 6
    for (int r = 0; r < M; ++r) hn::Store(y[r], d, part + (r * N + c) * kFloatLanes);
  }
  const V add = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias), least = hn::Set(d, low), most = hn::Set(d, high);
  for (int r = 0; r < rows; ++r) {
    V x[N], y[M];
#pragma GCC unroll 6
    for (int c = 0; c < N; ++c) x[c] = hn::Load(d, part + (r * N + c) * kFloatLanes);
    transform_out(x, y);
#pragma GCC unroll 6
    for (int c = 0; c < M; ++c) {
      if (c >= columns) continue;
      V v = hn::Add(y[c], add);
      if (residual != nullptr) v = hn::Add(v, hn::LoadU(d, residual + r * row + c * kFloatLanes));
      hn::StoreU(AtMost(most, AtLeast(least, v)), d, out + r * row + c * kFloatLanes);
    }
  }
}

void input_tile_2(const float* in, int64_t row, int64_t row_begin, int64_t row_end, int64_t column_begin,
                  int64_t column_end, float* to, int64_t to_step) {
  input_tile<2>(in, row, row_begin, row_end, column_begin, column_end, to, to_step);
}
void input_tile_4(const float* in, int64_t row, int64_t row_begin, int64_t row_end, int64_t column_begin,
                  int64_t column_end, float* to, int64_t to_step) {
  input_tile<4>(in, row, row_begin, row_end, column_begin, column_end, to, to_step);
}
void output_tile_2(const float* from, int64_t from_step, const float* bias, const float* residual, float low,
                   float high, float* out, int64_t row, int64_t rows, int64_t columns) {
  output_tile<2>(from, from_step, bias, residual, low, high, out, row, rows, columns);
}
void output_tile_4(const float* from, int64_t from_step, const float* bias, const float* residual, float low,
                   float high, float* out, int64_t row, int64_t rows, int64_t columns) {
  output_tile<4>(from, from_step, bias, residual, low, high, out, row, rows, columns);
}

// 1-D transforms of the kernel; the scales of B and A, which have no fractions, are in them.
constexpr double kRoot = 1.4142135623730951;
constexpr double kKernel2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kKernel4[6][3] = {{1, 0, 0},
                                   {-2.0 / 3, -kRoot / 3, -1.0 / 3},
                                   {-2.0 / 3, kRoot / 3, -1.0 / 3},
                                   {1.0 / 6, kRoot / 6, 1.0 / 3},
                                   {1.0 / 6, -kRoot / 6, 1.0 / 3},
                                   {0, 0, 1}};

// The kernels of up to kFloatLanes output channels, [lane][channel][9], to [point][channel][lane]. In double precision:
// what is rounded here is rounded for good. By some channels at a time: places of one channel are far apart, and all
// in the same set of the cache.
template <int N>
HWY_INLINE void kernel_block(const double (&g)[N][3], const float* w, int64_t lanes, int64_t channels, float* to,
                             int64_t to_step) {
  constexpr int64_t kGroup = 8;
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  using Double = hn::Vec<decltype(d)>;
  HWY_ALIGN float from[kGroup * 9 * kFloatLanes] = {};
  HWY_ALIGN float points[N * N][kGroup * kFloatLanes];
  for (int64_t first = 0; first < channels; first += kGroup) {
    const int64_t count = std::min(kGroup, channels - first);
    for (int64_t l = 0; l < lanes; ++l)
      for (int64_t i = 0; i < count * 9; ++i) from[i * kFloatLanes + l] = w[(l * channels + first) * 9 + i];
    for (int64_t at = 0; at < count * kFloatLanes; at += static_cast<int64_t>(hn::Lanes(d))) {
      const float* k = from + at / kFloatLanes * 9 * kFloatLanes + at % kFloatLanes;
      Double rows[N][3];
      for (int x = 0; x < 3; ++x) {
        const auto load = [&](int y) { return hn::PromoteTo(d, hn::LoadU(half, k + (3 * y + x) * kFloatLanes)); };
        const Double top = load(0), middle = load(1), bottom = load(2);
        for (int i = 0; i < N; ++i)
          rows[i][x] = hn::MulAdd(hn::Set(d, g[i][0]), top,
                                  hn::MulAdd(hn::Set(d, g[i][1]), middle, hn::Mul(hn::Set(d, g[i][2]), bottom)));
      }
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
          const Double sum =
              hn::MulAdd(hn::Set(d, g[j][0]), rows[i][0],
                         hn::MulAdd(hn::Set(d, g[j][1]), rows[i][1], hn::Mul(hn::Set(d, g[j][2]), rows[i][2])));
          hn::StoreU(hn::DemoteTo(half, sum), half, points[i * N + j] + at);
        }
    }
    for (int64_t p = 0; p < N * N; ++p)
      std::copy_n(points[p], count * kFloatLanes, to + p * to_step + first * kFloatLanes);
  }
}

void kernel_block_2(const float* w, int64_t lanes, int64_t channels, float* to, int64_t to_step) {
  kernel_block(kKernel2, w, lanes, channels, to, to_step);
}
void kernel_block_4(const float* w, int64_t lanes, int64_t channels, float* to, int64_t to_step) {
  kernel_block(kKernel4, w, lanes, channels, to, to_step);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {
namespace {

HWY_EXPORT(input_tile_2);
HWY_EXPORT(input_tile_4);
HWY_EXPORT(output_tile_2);
HWY_EXPORT(output_tile_4);
HWY_EXPORT(kernel_block_2);
HWY_EXPORT(kernel_block_4);

// What a thread works on at a time should stay in its second-level cache: transformed input and transformed output.
constexpr int64_t kInputBytes = 512 << 10, kResultBytes = 256 << 10;
// Threads divide the tiles, rather than the output channels, where each may read weights of this size: they need not
// all transform the same input then, and keep wide tiles of channels.
constexpr int64_t kSharedBytes = 1 << 20;

// For the estimate: a second-level cache, and steps that take as long as beginning and ending a tile.
constexpr double kCacheBytes = 2 << 20, kStepsBeside = 4;

class ConvWinograd final : public ConvScheme {
 public:
  ConvWinograd(const ConvShape& shape, int tile)
      : s_(shape),
        m_(tile),
        points_((tile + 2) * (tile + 2)),
        pack_(pack_width()),
        in_blocks_(ceil_div(s_.ic, pack_)),
        out_blocks_(ceil_div(s_.oc, pack_)),
        tiles_x_(ceil_div(s_.ow, m_)),
        tiles_(s_.n * ceil_div(s_.oh, m_) * tiles_x_) {
    const int64_t fit = std::max<int64_t>(1, kInputBytes / (4 * points_ * std::max<int64_t>(1, in_blocks_) * pack_));
    chunks_ = std::max<int64_t>(1, ceil_div(tiles_, std::max<int64_t>(fit, tile_pixels(2))));
    least_chunks_ = chunks_;
    const bool shares = 4 * packed_floats() <= kSharedBytes;
    if (s_.threads > 1 && shares)
      chunks_ = std::max(chunks_, std::min<int64_t>(2 * s_.threads, 2 * tiles_ / tile_pixels(2)));
    const bool divides = chunks_ < s_.threads && s_.threads % chunks_ == 0;
    if (chunks_ > 1 && (shares || !divides)) chunks_ = round_up(chunks_, s_.threads);
    chunk_ = std::max<int64_t>(1, ceil_div(tiles_, chunks_));
    chunks_ = ceil_div(tiles_, chunk_);
    const int64_t blocks_fit = std::max<int64_t>(2, kResultBytes / (4 * points_ * chunk_ * pack_));
    parts_ = std::max<int64_t>(1, ceil_div(out_blocks_, blocks_fit));
    if (s_.threads > 1 && chunks_ < s_.threads) parts_ = round_up(parts_, ceil_div(s_.threads, chunks_));
    part_ = std::max<int64_t>(1, ceil_div(out_blocks_, parts_));
    if (part_ > 1) part_ = round_up(part_, 2);
    parts_ = ceil_div(out_blocks_, part_);
    plan_ = TilePlan(chunk_, part_, s_.ic);
  }

  const char* name() const override { return m_ == 2 ? "winograd_f2" : "winograd_f4"; }
  const char* packing() const override { return name(); }

  // [point][output block][input channel][output channel in block]
  int64_t packed_floats() const override { return points_ * out_blocks_ * panel(); }

  void pack(const float* w, float* packed, ThreadPool* pool) const override {
    const auto blocks = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) pack_block(w, i, packed + i * panel());
    };
    if (pool == nullptr) return blocks(0, out_blocks_, 0);
    pool->parallel_for(out_blocks_, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, panel())), blocks);
  }

  int64_t workspace_bytes() const override { return s_.threads * worker_floats() * 4; }

  Work work() const override {
    const double places = static_cast<double>(points_ * tiles_), weights = 4.0 * static_cast<double>(packed_floats());
    const double in = static_cast<double>(in_blocks_), out = static_cast<double>(out_blocks_);
    // Each piece of work reads all weights: again from memory, where they are more than the cache holds. The number of
    // threads must not decide between schemes, whose results differ in their last bits.
    const double reads = weights > kCacheBytes ? static_cast<double>(least_chunks_) : 1;
    return {places * out * (static_cast<double>(s_.ic) + kStepsBeside), places * (in + out), reads * weights};
  }

  void run(const ConvCall& call) const override {
    float* workspace = static_cast<float*>(call.workspace);
    for (int i = 0; i < s_.threads; ++i) *held_chunk(workspace + i * worker_floats()) = -1;
    call.pool->parallel_for(chunks_ * parts_, 1, [&](int64_t begin, int64_t end, int worker) {
      float* space = workspace + worker * worker_floats();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / parts_ * chunk_, last = std::min(tiles_, first + chunk_);
        if (*held_chunk(space) != first) transform_input(call, first, last, space + 16);
        *held_chunk(space) = first;
        run_part(call, first, last, i % parts_, space + 16, space + 16 + input_floats());
      }
    });
  }

 private:
  struct Place {
    int64_t n, y, x;  // of the output
  };

  int64_t panel() const { return s_.ic * pack_; }
  int64_t input_floats() const { return points_ * in_blocks_ * chunk_ * pack_; }
  int64_t worker_floats() const { return round_up(16 + input_floats() + points_ * part_ * chunk_ * pack_, 16); }
  static int64_t* held_chunk(float* space) { return reinterpret_cast<int64_t*>(space); }

  Place place(int64_t tile) const {
    const int64_t tiles_y = ceil_div(s_.oh, m_);
    return {tile / tiles_x_ / tiles_y, tile / tiles_x_ % tiles_y * m_, tile % tiles_x_ * m_};
  }

  // The weights of an output block; the next point's are out_blocks_ * panel() further on.
  void pack_block(const float* w, int64_t block, float* to) const {
    const auto transform = m_ == 2 ? HWY_DYNAMIC_DISPATCH(kernel_block_2) : HWY_DYNAMIC_DISPATCH(kernel_block_4);
    const int64_t first = block * pack_;
    transform(w + first * s_.ic * 9, std::min(pack_, s_.oc - first), s_.ic, to, out_blocks_ * panel());
  }

  // [point][input block][tile][lane]
  void transform_input(const ConvCall& call, int64_t first, int64_t last, float* to) const {
    const auto transform = m_ == 2 ? HWY_DYNAMIC_DISPATCH(input_tile_2) : HWY_DYNAMIC_DISPATCH(input_tile_4);
    const int64_t row = s_.iw * pack_, n = m_ + 2;
    LongLoop loop;
    for (int64_t b = 0; b < in_blocks_ && loop.goes_on(64 * (last - first)); ++b)
      for (int64_t t = first; t < last; ++t) {
        const Place p = place(t);
        const int64_t y = p.y - s_.top, x = p.x - s_.left;
        const float* in = call.x + ((p.n * in_blocks_ + b) * s_.ih * s_.iw + y * s_.iw + x) * pack_;
        transform(in, row, std::clamp<int64_t>(-y, 0, n), std::clamp<int64_t>(s_.ih - y, 0, n),
                  std::clamp<int64_t>(-x, 0, n), std::clamp<int64_t>(s_.iw - x, 0, n),
                  to + (b * chunk_ + t - first) * pack_, in_blocks_ * chunk_ * pack_);
      }
  }

  void run_part(const ConvCall& call, int64_t first, int64_t last, int64_t part, const float* input,
                float* result) const {
    const int64_t block_begin = part * part_, blocks = std::min(part_, out_blocks_ - block_begin), count = last - first;
    const bool usual = blocks == part_ && count == chunk_;
    const TilePlan plan = usual ? plan_ : TilePlan(count, blocks, s_.ic);
    Tile t;
    t.in_pixel = pack_;
    t.w_block = panel();
    t.out_pixel = pack_;
    t.out_block = chunk_ * pack_;
    t.lanes = static_cast<int>(pack_);
    t.low = -std::numeric_limits<float>::infinity();
    t.high = std::numeric_limits<float>::infinity();
    const int64_t full = s_.ic / pack_;
    t.steps[0].outer = full;
    t.steps[0].in_outer = chunk_ * pack_;
    t.steps[0].w_outer = pack_ * pack_;
    t.steps[0].length = pack_;
    t.steps[1].in = full * chunk_ * pack_;
    t.steps[1].w = full * pack_ * pack_;
    t.steps[1].length = s_.ic % pack_;
    LongLoop loop;
    for (int64_t point = 0; point < points_; ++point)
      for (int g = 0; g < plan.groups() && loop.goes_on(plan.tiles() * s_.ic); ++g) {
        const TilePlan::Blocks group = plan.group(g);
        t.w = call.w + (point * out_blocks_ + block_begin + group.first) * panel();
        // Meanwhile the weights of the next group come.
        const bool last_group = g + 1 == plan.groups(), more = !last_group || point + 1 < points_;
        const TilePlan::Blocks next = plan.group(last_group ? 0 : g + 1);
        const float* next_w = call.w + ((point + last_group) * out_blocks_ + block_begin + next.first) * panel();
        for (int64_t i = 0; i < plan.tiles(); ++i) {
          const int64_t at = plan.tile_begin(i), pixels = plan.tile_begin(i + 1) - at;
          t.in = input + (point * in_blocks_ * chunk_ + at) * pack_;
          t.out = result + ((point * part_ + group.first) * chunk_ + at) * pack_;
          if (more) t.fetch(next_w, next.count, i, plan.tiles());
          tile_function(group.count, static_cast<int>(pixels))(t);
        }
      }
    const auto transform = m_ == 2 ? HWY_DYNAMIC_DISPATCH(output_tile_2) : HWY_DYNAMIC_DISPATCH(output_tile_4);
    for (int64_t b = 0; b < blocks && loop.goes_on(64 * count); ++b)
      for (int64_t tile = first; tile < last; ++tile) {
        const Place p = place(tile);
        const int64_t block = block_begin + b, rows = std::min<int64_t>(m_, s_.oh - p.y),
                      columns = std::min<int64_t>(m_, s_.ow - p.x);
        const int64_t at = (((p.n * out_blocks_ + block) * s_.oh + p.y) * s_.ow + p.x) * pack_;
        transform(result + (b * chunk_ + tile - first) * pack_, part_ * chunk_ * pack_,
                  call.bias == nullptr ? nullptr : call.bias + block * pack_,
                  call.residual == nullptr ? nullptr : call.residual + at, s_.activation.low, s_.activation.high,
                  call.y + at, s_.ow * pack_, rows, columns);
        if (s_.activation.is_clamp()) continue;
        for (int64_t r = 0; r < rows; ++r) activate(s_.activation, call.y + at + r * s_.ow * pack_, columns * pack_);
      }
  }

  ConvShape s_;
  int m_;
  int64_t points_, pack_, in_blocks_, out_blocks_;
  int64_t tiles_x_, tiles_;                               // tiles of the output in a row, and in all
  int64_t least_chunks_, chunks_, chunk_, parts_, part_;  // tiles, and output blocks, of a piece of work
  TilePlan plan_;
};

}  // namespace

std::unique_ptr<ConvScheme> make_conv_winograd(const ConvShape& shape, int tile) {
  return std::make_unique<ConvWinograd>(shape, tile);
}

}  // namespace minnow
#endif
