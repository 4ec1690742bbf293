#include "kernels/cpu/gemm/bf16_micro_kernel.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// What is rounded to the nearest, ties to even, in the upper halves; NaN stays NaN.
template <class DU, class V>
HWY_INLINE V rounded(DU bits, V x) {
  const auto up = hn::Add(hn::Set(bits, 0x7fffu), hn::And(hn::ShiftRight<16>(x), hn::Set(bits, 1u)));
  const auto is_nan = hn::Gt(hn::And(x, hn::Set(bits, 0x7fffffffu)), hn::Set(bits, 0x7f800000u));
  return hn::And(hn::IfThenElse(is_nan, hn::Or(x, hn::Set(bits, 0x400000u)), hn::Add(x, up)),
                 hn::Set(bits, 0xffff0000u));
}

// 16 numbers.
HWY_INLINE void round16(const float* from, uint16_t* to, uint16_t* left) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> half;
  for (int64_t i = 0; i < 16; i += kLanes) {
    const auto x = hn::BitCast(bits, hn::LoadU(d, from + i));
    const auto y = rounded(bits, x);
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(y)), half, to + i);
    if (left == nullptr) continue;
    const auto rest = hn::BitCast(bits, hn::Sub(hn::BitCast(d, x), hn::BitCast(d, y)));
    const auto exponent = hn::Set(bits, 0x7f800000u);
    const auto finite = hn::Ne(hn::And(y, exponent), exponent);
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(hn::IfThenElseZero(finite, rounded(bits, rest)))), half,
               left + i);
  }
}

void round_row(const float* from, int64_t n, int64_t count, uint16_t* to, uint16_t* left, int64_t step) {
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t at = i / 32 * step + i % 32;
    uint16_t* left_at = left == nullptr ? nullptr : left + at;
    if (i + 16 <= n) {
      round16(from + i, to + at, left_at);
    } else {
      float part[16] = {};
      if (i < n) std::memcpy(part, from + i, static_cast<size_t>(n - i) * sizeof(float));
      round16(part, to + at, left_at);
    }
  }
}

void add_to_sums(const Bf16Pixels& t) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> half;
  for (int p = 0; p < t.pixels; ++p) {
    if (t.place[p] < 0) continue;
    for (int64_t i = 0; i < t.blocks * 16; i += kLanes) {
      float* sums = t.sums + p * 32 + i;
      auto x = hn::Load(d, sums);
      if (t.bias != nullptr) x = hn::Add(x, hn::LoadU(d, t.bias + i));
      if (t.residual != nullptr) {
        const auto more = hn::PromoteTo(bits, hn::LoadU(half, t.residual + t.place[p] + i));
        x = hn::Add(x, hn::BitCast(d, hn::ShiftLeft<16>(more)));
      }
      hn::Store(x, d, sums);
    }
  }
}

// Blocks of 16 columns are those of the largest registers.
#if HWY_TARGET == HWY_AVX3

void round_blocks(const float* first, const float* second, int64_t channels, int64_t pixels, uint16_t* to,
                  uint16_t* left) {
  const float* blocks[2] = {first, second};
  for (int b = 0; b < 2; ++b) {
    const int64_t lanes = std::clamp<int64_t>(channels - 16 * b, 0, 16);
    for (int64_t p = 0; p < pixels; ++p) {
      const int64_t at = 32 * p + 16 * b;
      uint16_t* left_at = left == nullptr ? nullptr : left + at;
      if (lanes == 16) {
        round16(blocks[b] + 16 * p, to + at, left_at);
      } else {
        float part[16] = {};
        if (lanes > 0) std::memcpy(part, blocks[b] + 16 * p, static_cast<size_t>(lanes) * sizeof(float));
        round16(part, to + at, left_at);
      }
    }
  }
}

// A block of 16 columns, all of which are stored.
template <bool kBias, bool kStart>
HWY_INLINE void finish_block(const Bf16Result& t, const float* sums, const float* bias, const float* start,
                             float* out) {
  const D d;
  const auto low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for (int64_t i = 0; i < 16; i += kLanes) {
    const auto more = kBias ? hn::LoadU(d, bias + i) : hn::Zero(d);
    for (int64_t p = 0; p < t.pixels; ++p) {
      auto x = hn::Load(d, sums + p * 32 + i);
      if (kBias) x = hn::Add(x, more);
      if (kStart) x = hn::Add(x, hn::LoadU(d, start + p * t.out_pixel + i));
      hn::StoreU(AtMost(high, AtLeast(low, x)), d, out + p * t.out_pixel + i);
    }
  }
}

void finish(const Bf16Result& t) {
  const D d;
  const auto low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for (int b = 0; b < t.blocks; ++b) {
    const int64_t lanes = b == t.blocks - 1 ? t.lanes : 16;
    const float *sums = t.sums + b * 16, *bias = t.bias == nullptr ? nullptr : t.bias + b * 16;
    const float* from = t.start == nullptr ? nullptr : t.start + b * t.out_block;
    float* to = t.out + b * t.out_block;
    if (lanes == 16) {
      const auto block = bias == nullptr ? (from == nullptr ? finish_block<false, false> : finish_block<false, true>)
                                         : (from == nullptr ? finish_block<true, false> : finish_block<true, true>);
      block(t, sums, bias, from, to);
      continue;
    }
    for (int64_t p = 0; p < t.pixels; ++p) {
      HWY_ALIGN float start[16] = {}, result[16];
      if (from != nullptr) std::memcpy(start, from + p * t.out_pixel, static_cast<size_t>(lanes) * sizeof(float));
      for (int64_t i = 0; i < 16; i += kLanes) {
        auto x = hn::Load(d, sums + p * 32 + i);
        if (bias != nullptr) x = hn::Add(x, hn::LoadU(d, bias + i));
        if (from != nullptr) x = hn::Add(x, hn::Load(d, start + i));
        hn::StoreU(AtMost(high, AtLeast(low, x)), d, result + i);
      }
      std::memcpy(to + p * t.out_pixel, result, static_cast<size_t>(lanes) * sizeof(float));
    }
  }
}

#else

void round_blocks(const float*, const float*, int64_t, int64_t, uint16_t*, uint16_t*) {}
void finish(const Bf16Result&) {}

#endif

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/packed_layout.h"

#if MINNOW_AVX512
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace minnow {

HWY_EXPORT(round_row);
HWY_EXPORT(add_to_sums);
HWY_EXPORT(round_blocks);
HWY_EXPORT(finish);

void bf16_finish(const Bf16Result& result) { HWY_DYNAMIC_DISPATCH(finish)(result); }

namespace {

// Sums in tiles 0 to 3, pixels in 4 and 5, weights in 6 and 7: four products for four loads.
template <class Tiles, int P, int B>
void multiply_tiles(Tiles& tiles, const Bf16Tile& t) {
  tiles.template zero<0>();
  if constexpr (B > 1) tiles.template zero<1>();
  if constexpr (P > 1) tiles.template zero<2>();
  if constexpr (P > 1 && B > 1) tiles.template zero<3>();
  constexpr int64_t kLine = 64;
  const int64_t steps = t.outer * t.middle * t.inner * (t.split ? 3 : 1);
  const char *soon = t.soon, *const soon_end = soon + t.soon_bytes;
  const int64_t piece = steps == 0 ? 0 : ((t.soon_bytes + kLine - 1) / kLine + steps - 1) / steps * kLine;
  const auto add = [&](const char* in, const char* w) {
    for (const char* end = std::min(soon + piece, soon_end); soon < end; soon += kLine) __builtin_prefetch(soon, 0, 2);
    tiles.template load<4>(in, t.in_pixel);
    tiles.template load<6>(w, kAmxBytes);
    tiles.template add_product<0, 4, 6>();
    if constexpr (B > 1) {
      tiles.template load<7>(w + t.w_block, kAmxBytes);
      tiles.template add_product<1, 4, 7>();
    }
    if constexpr (P > 1) {
      tiles.template load<5>(in + kAmxRows * t.in_pixel, t.in_pixel);
      tiles.template add_product<2, 5, 6>();
    }
    if constexpr (P > 1 && B > 1) tiles.template add_product<3, 5, 7>();
  };
  for (int64_t o = 0; o < t.outer; ++o) {
    const char* w = t.w + o * t.w_outer;
    for (int64_t m = 0; m < t.middle; ++m) {
      for (int64_t i = 0; i < t.inner; ++i, w += kBf16StepBytes) {
        const char* in = t.in + o * t.in_outer + m * t.in_middle + (t.offset == nullptr ? i * t.in_inner : t.offset[i]);
        add(in, w);
        if (!t.split) continue;
        add(in + t.in_left, w);
        w += kBf16StepBytes;
        add(in, w);
      }
    }
  }
  constexpr int64_t kRow = kBf16Blocks * kBf16Columns, kRowBytes = 4 * kRow;
  tiles.template store<0>(t.sums, kRowBytes);
  if constexpr (B > 1) tiles.template store<1>(t.sums + kBf16Columns, kRowBytes);
  if constexpr (P > 1) tiles.template store<2>(t.sums + kAmxRows * kRow, kRowBytes);
  if constexpr (P > 1 && B > 1) tiles.template store<3>(t.sums + kAmxRows * kRow + kBf16Columns, kRowBytes);
}

template <class Tiles>
void multiply(const Bf16Tile& t) {
  Tiles tiles(static_cast<int>(2 * t.depth));
  if (t.pixels > kAmxRows) {
    t.blocks == 2 ? multiply_tiles<Tiles, 2, 2>(tiles, t) : multiply_tiles<Tiles, 2, 1>(tiles, t);
  } else {
    t.blocks == 2 ? multiply_tiles<Tiles, 1, 2>(tiles, t) : multiply_tiles<Tiles, 1, 1>(tiles, t);
  }
}

// Cold, so that it is compiled for size: tests alone run it, and a first product that is compared with it.
[[gnu::cold]] void emulate(const Bf16Tile& t) { multiply<EmulatedTiles>(t); }
void begin_nothing(int64_t) {}

constexpr double kAmxGain = 16;
constexpr Bf16Unit kEmulated = {"amx_emulated", kAmxGain, begin_nothing, EmulatedTiles::end, emulate};

#if MINNOW_AVX512
// Whether a unit multiplies as the emulation: exactly where all sums are small integers, which no order of summing
// changes, nearly so elsewhere. All numbers of tiles, and each way through the loops, are tried.
bool multiplies_right(const Bf16Unit& unit) {
  constexpr int kSteps = 6;
  struct Data {
    alignas(64) uint16_t in[(kSteps + 1) * 64 * 40], w[4 * kSteps * kBf16StepBytes / 2];
    alignas(64) float sums[2][32 * 32];
  };
  const auto data = std::make_unique<Data>();
  for (const bool whole : {true, false}) {
    uint32_t random = 12345;
    const auto next = [&] {
      random = random * 1664525u + 1013904223u;
      const float x =
          whole ? static_cast<float>(random >> 28) - 8.0f : static_cast<float>(random >> 8) * 0x1p-24f - 0.5f;
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof(bits));
      return static_cast<uint16_t>(bits >> 16);
    };
    for (uint16_t& x : data->in) x = next();
    for (uint16_t& x : data->w) x = next();
    for (int pixels : {1, 16, 17, 32}) {
      for (int variant = 0; variant < 4; ++variant) {
        const int blocks = 1 + variant % 2;
        for (float& sum : data->sums[0]) sum = -1;
        std::memcpy(data->sums[1], data->sums[0], sizeof(data->sums[0]));
        Bf16Tile t;
        t.in = reinterpret_cast<const char*>(data->in);
        t.in_pixel = 128;
        t.w = reinterpret_cast<const char*>(data->w);
        t.split = variant >= 2;
        t.in_left = 320;
        t.w_block = 2 * kSteps * kBf16StepBytes;
        t.outer = 2, t.in_outer = 1280, t.w_outer = (t.split ? 6 : 3) * kBf16StepBytes;
        t.inner = 3, t.in_inner = 64;
        t.pixels = pixels, t.blocks = blocks;
        t.sums = data->sums[0];
        kEmulated.multiply(t);
        t.sums = data->sums[1];
        unit.begin(kBf16Depth);
        unit.multiply(t);
        unit.end();
        for (int p = 0; p < pixels; ++p)
          for (int c = 0; c < blocks * 16; ++c) {
            const float difference = data->sums[0][p * 32 + c] - data->sums[1][p * 32 + c];
            if (!(std::abs(difference) <= (whole ? 0.0f : 1e-4f))) return false;
          }
      }
    }
  }
  return true;
}

void begin_tiles(int64_t depth) { AmxTiles::begin(static_cast<int>(2 * depth), kAmxRows); }

constexpr Bf16Unit kAmx = {"amx", kAmxGain, begin_tiles, AmxTiles::end, multiply<AmxTiles>};

struct Features {
  bool avx512_bf16 = false, amd = false;
};

Features features() {
  Features f;
  uint32_t a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return f;
  f.amd = b == 0x68747541;  // "Auth"
  const uint32_t last = a;
  if (last < 7 || __get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return f;  // OSXSAVE
  uint32_t kept, high;  // registers that the system keeps
  asm volatile("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
  uint32_t leaves;
  __cpuid_count(7, 0, leaves, b, c, d);
  if (leaves < 1) return f;
  __cpuid_count(7, 1, a, b, c, d);
  f.avx512_bf16 = (a >> 5 & 1) != 0 && (kept & 0xe6) == 0xe6;
  return f;
}

bool rounds_by_instruction() {
  static const bool does = pack_width() == kBf16Columns && features().avx512_bf16;
  return does;
}

// Virtual machines hide instructions that the processor has. A process of its own tries them.
bool survives(const Bf16Unit& unit) {
#ifdef __linux__
  const pid_t child = fork();
  if (child == 0) _exit(multiplies_right(unit) ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
#else
  (void)unit;
  return false;
#endif
}

#endif  // MINNOW_AVX512

struct UnitChoice {
  const Bf16Unit* unit = nullptr;
  bool named = false;
  Status status;
};

UnitChoice choose_unit() {
  UnitChoice choice;
  const char* variable = std::getenv("MINNOW_BF16");
  const std::string wanted = variable == nullptr ? "" : variable;
  choice.named = !wanted.empty();
  if (wanted == "none") return choice;
  if (wanted != "" && wanted != "emulated" && wanted != "amx" && wanted != "avx512") {
    choice.status = fail(Code::kUsage, "MINNOW_BF16=%s: it is one of amx, avx512, emulated, none", wanted.c_str());
    return choice;
  }
#if MINNOW_AVX512
  // Images whose channels are last are computed with AVX2 too, if only to test what is written for them.
  if (wanted == "emulated" && 2 * pack_width() >= kBf16Columns) choice.unit = &kEmulated;
  if (pack_width() == kBf16Columns) {
    const Features has = features();
    if ((wanted.empty() || wanted == "amx") && request_amx(AmxNumbers::kBf16) && multiplies_right(kAmx))
      choice.unit = &kAmx;
    // Intel's processors do these at half the speed of products of f32, AMD's at twice.
    const bool fast = has.avx512_bf16 && has.amd && multiplies_right(*bf16_avx512_unit());
    if (wanted.empty() && choice.unit == nullptr && fast) choice.unit = bf16_avx512_unit();
    if (wanted == "avx512" && survives(*bf16_avx512_unit())) choice.unit = bf16_avx512_unit();
  }
#endif
  if (!wanted.empty() && choice.unit == nullptr)
    choice.status =
        fail(Code::kUsage, "MINNOW_BF16=%s: this machine has no such unit, or not with the instruction set %s",
             wanted.c_str(), isa_name());
  return choice;
}

const UnitChoice& unit_choice() {
  static const UnitChoice chosen = choose_unit();
  return chosen;
}

}  // namespace

void bf16_round_row(const float* from, int64_t n, int64_t count, uint16_t* to, uint16_t* left, int64_t step) {
#if MINNOW_AVX512
  if (left == nullptr && rounds_by_instruction()) {
    for (int64_t i = 0; i < count; i += 32, to += step) {
      const float* first = from + std::min(i, n);
      bf16_round_avx512(first, first + (n - i > 16 ? 16 : 0), n - i, 1, to);
    }
    return;
  }
#endif
  HWY_DYNAMIC_DISPATCH(round_row)(from, n, count, to, left, step);
}

void bf16_round_blocks(const float* first, const float* second, int64_t channels, int64_t pixels, uint16_t* to,
                       uint16_t* left) {
#if MINNOW_AVX512
  if (left == nullptr && rounds_by_instruction()) return bf16_round_avx512(first, second, channels, pixels, to);
#endif
  HWY_DYNAMIC_DISPATCH(round_blocks)(first, second, channels, pixels, to, left);
}

bool bf16_round_pair([[maybe_unused]] const float* first, [[maybe_unused]] const float* second,
                     [[maybe_unused]] int64_t columns, [[maybe_unused]] uint16_t* to) {
#if MINNOW_AVX512
  if (rounds_by_instruction()) {
    bf16_round_pair_avx512(first, second, columns, to);
    return true;
  }
#endif
  return false;
}

#if MINNOW_AVX512
[[gnu::cold]] static void join_planes(const float* from, int64_t plane, int64_t channels, int64_t pixels,
                                      uint16_t* to) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < kBf16PlanesAtOnce; ++c) {
      uint16_t numbers[kBf16Depth];
      bf16_round_row(from + c * plane + p, c < channels, kBf16Depth, numbers, nullptr, 0);
      *to++ = numbers[0];
    }
}

void bf16_join_planes(const float* from, int64_t plane, int64_t channels, int64_t pixels, uint16_t* to) {
  (pack_width() == kBf16Columns ? bf16_join_planes_avx512 : join_planes)(from, plane, channels, pixels, to);
}

void bf16_add_to_sums(const Bf16Pixels& t) { HWY_DYNAMIC_DISPATCH(add_to_sums)(t); }

void bf16_store_pixels(const Bf16Pixels& t) {
  if (rounds_by_instruction()) return bf16_store_avx512(t);
  bf16_add_to_sums(t);
  const int64_t n = t.blocks * kBf16Columns;
  for (int p = 0; p < t.pixels; ++p) {
    if (t.place[p] < 0) continue;
    float* sums = t.sums + p * kBf16Blocks * kBf16Columns;
    // NaN stays NaN.
    for (int64_t i = 0; i < n; ++i) sums[i] = sums[i] < t.low ? t.low : sums[i] > t.high ? t.high : sums[i];
    uint16_t rounded[kBf16Blocks * kBf16Columns];
    bf16_round_row(sums, n, kBf16Blocks * kBf16Columns, rounded, nullptr, 0);
    std::memcpy(t.out + t.place[p], rounded, static_cast<size_t>(2 * n));
  }
}
#endif

const Bf16Unit* bf16_unit() { return kHasLowPrecision ? unit_choice().unit : nullptr; }

double bf16_gain(Precision precision) {
  if (precision == Precision::kHigh || bf16_unit() == nullptr || pack_width() != kBf16Columns) return 1;
  const double gain = unit_choice().named ? kAmxGain : bf16_unit()->gain;  // what is asked for by name is used
  return std::max(1.0, precision == Precision::kNormal ? gain / 3 : gain);
}

Status bf16_status() { return kHasLowPrecision ? unit_choice().status : ok(); }

}  // namespace minnow
#endif
