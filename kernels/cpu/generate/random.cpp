// Random numbers from Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): a function of
// the seed, the run and the place, so threads share nothing. Each run of a kernel gives other numbers.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// Four words for a counter of 128 and a key of 64 bits.
std::array<uint32_t, 4> philox(uint64_t block, uint64_t run, uint32_t seed) {
  uint32_t a = static_cast<uint32_t>(block), b = static_cast<uint32_t>(block >> 32);
  uint32_t c = static_cast<uint32_t>(run), d = static_cast<uint32_t>(run >> 32);
  uint32_t key = seed, key2 = 0;
  for (int round = 0; round < 10; ++round, key += 0x9E3779B9u, key2 += 0xBB67AE85u) {
    const uint64_t x = uint64_t{a} * 0xD2511F53u, y = uint64_t{c} * 0xCD9E8D57u;
    a = static_cast<uint32_t>(y >> 32) ^ b ^ key;
    c = static_cast<uint32_t>(x >> 32) ^ d ^ key2;
    b = static_cast<uint32_t>(y);
    d = static_cast<uint32_t>(x);
  }
  return {a, b, c, d};
}

// A multiple of 2^-53 from [0, 1).
double fraction(uint32_t high, uint32_t low) { return ((high >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0; }

// The two fractions of each block.
struct Stream {
  uint64_t run;
  uint32_t seed;

  void pair(int64_t block, double* u, double* v) const {
    const auto words = philox(static_cast<uint64_t>(block), run, seed);
    *u = fraction(words[0], words[1]);
    *v = fraction(words[2], words[3]);
  }
};

class Random : public Kernel {
 public:
  explicit Random(const Attrs& attrs) : attrs_(attrs) {}
  void run(const RunContext& context) override { fill(context, {runs_++, static_cast<uint32_t>(attrs_.i("seed"))}); }

 protected:
  virtual void fill(const RunContext& context, Stream stream) const = 0;
  const Attrs& attrs_;

 private:
  uint64_t runs_ = 0;  // of this kernel, which lives as long as its session
};

// Fills the output with what `pair(u, v)` makes of each pair of fractions, in doubles.
template <typename Pair>
void fill_pairs(const RunContext& c, Stream stream, Pair pair) {
  Tensor& out = *c.out[0];
  const int64_t n = out.count();
  c.pool->parallel_for((n + kBlock - 1) / kBlock, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      double numbers[kBlock];
      const int64_t first = b * kBlock, used = std::min(kBlock, n - first);
      for (int64_t i = 0; i < used; i += 2) {
        stream.pair((first + i) / 2, &numbers[i], &numbers[i + 1]);
        pair(&numbers[i], &numbers[i + 1]);
      }
      convert(DType::kF64, numbers, out.type.dtype, offset(out.data, first, dtype_size(out.type.dtype)), used);
    }
  });
}

class RandomUniform final : public Random {
 public:
  using Random::Random;

 private:
  void fill(const RunContext& c, Stream stream) const override {
    const double low = attrs_.f("low", 0), range = attrs_.f("high", 1) - low;
    // As many bits as every number of the type below 1 can have, so that none is rounded up to 1.
    const DType to = c.out[0]->type.dtype;
    const double steps = std::ldexp(1, to == DType::kF64 ? 53 : to == DType::kF16 ? 11 : to == DType::kF32 ? 24 : 8);
    const auto scale = [=](double u) { return low + std::floor(u * steps) / steps * range; };
    fill_pairs(c, stream, [=](double* u, double* v) {
      *u = scale(*u);
      *v = scale(*v);
    });
  }
};

// By the method of Box and Muller.
class RandomNormal final : public Random {
 public:
  using Random::Random;

 private:
  void fill(const RunContext& c, Stream stream) const override {
    const double mean = attrs_.f("mean", 0), scale = attrs_.f("scale", 1);
    fill_pairs(c, stream, [=](double* u, double* v) {
      const double radius = std::sqrt(-2 * std::log(1 - *u)), angle = 8 * std::atan(1.0) * *v;
      *u = mean + scale * (radius * std::cos(angle));
      *v = mean + scale * (radius * std::sin(angle));
    });
  }
};

template <typename Kind>
std::unique_ptr<Kernel> create(const NodeContext& node) {
  return std::make_unique<Kind>(node.attrs);
}

Status infer_random(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_int(c, 0));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 1, 1));
  MINNOW_RETURN_IF_ERROR(require_out_rank(c.shape(0)[0]));
  const DType to = c.attrs.get("to", DType::kF32);
  if (!is_float(to)) return fail(Code::kUnsupported, "random numbers of type %s", dtype_name(to));
  if (c.value(0) == nullptr) return c.needs_value(0);
  std::vector<int64_t> dims;
  MINNOW_RETURN_IF_ERROR(c.ints(0, &dims));
  Shape shape;
  for (int64_t d : dims) shape.push_back(d);
  MINNOW_RETURN_IF_ERROR(check_shape(shape));
  c.set(0, to, shape);
  return ok();
}

MINNOW_OP("RandomUniform", infer_random, kRandom);
MINNOW_KERNEL("RandomUniform", create<RandomUniform>);
MINNOW_OP("RandomNormal", infer_random, kRandom);
MINNOW_KERNEL("RandomNormal", create<RandomNormal>);

// --- Multinomial

class Multinomial final : public Random {
 public:
  using Random::Random;

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    classes_ = node.in[0]->shape[1];
    *workspace = classes_ * 8 * node.threads;
    return ok();
  }

 private:
  void fill(const RunContext& c, Stream stream) const override {
    const Tensor& x = *c.in[0];
    Tensor& out = *c.out[0];
    const int64_t samples = out.dim(1);
    c.pool->parallel_for(x.dim(0), 1, [&](int64_t begin, int64_t end, int worker) {
      double* sums = static_cast<double*>(c.workspace) + worker * classes_;
      for (int64_t row = begin; row < end; ++row) {
        convert(x.type.dtype, offset(x.data, row * classes_, dtype_size(x.type.dtype)), DType::kF64, sums, classes_);
        const double greatest = *std::max_element(sums, sums + classes_);
        double sum = 0;
        for (int64_t k = 0; k < classes_; ++k) sums[k] = sum += std::exp(sums[k] - greatest);
        LongLoop loop;
        for (int64_t i = row * samples; i < (row + 1) * samples && loop.goes_on(64); ++i) {
          double part[2];
          stream.pair(i / 2, &part[0], &part[1]);
          int64_t drawn = std::upper_bound(sums, sums + classes_, part[i % 2] * sum) - sums;
          drawn = std::min(drawn, classes_ - 1);
          convert(DType::kI64, &drawn, out.type.dtype, offset(out.data, i, dtype_size(out.type.dtype)), 1);
        }
      }
    });
  }

  int64_t classes_ = 0;
};

Status infer_multinomial(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 2, 2));
  const DType to = c.attrs.get("to", DType::kI32);
  if (!is_float(c.in(0).dtype) || (to != DType::kI32 && to != DType::kI64))
    return fail(Code::kFormat, "from %s to %s", dtype_name(c.in(0).dtype), dtype_name(to));
  const Shape& x = c.shape(0);
  if (x[1] == 0 && x[0] > 0) return fail(Code::kFormat, "there are no classes to draw from: %s", x.str().c_str());
  const Shape out{x[0], c.attrs.i("samples", 1)};
  MINNOW_RETURN_IF_ERROR(check_shape(out));
  c.set(0, to, out);
  return ok();
}

MINNOW_OP("Multinomial", infer_multinomial, kRandom);
MINNOW_KERNEL("Multinomial", create<Multinomial>);

}  // namespace
}  // namespace minnow
