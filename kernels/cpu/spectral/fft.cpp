#include "kernels/cpu/spectral/fft.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include <algorithm>
#include <cmath>

#include "kernels/cpu/machine/simd.h"

#ifndef MINNOW_KERNELS_CPU_FFT_ONCE
#define MINNOW_KERNELS_CPU_FFT_ONCE
namespace minnow {

constexpr int kMaxRadix = 13;

// One pass over the data: `stride` numbers stand side by side (lines, and what earlier passes have split), each taking
// part in size / radix small transforms.
struct FftPass {
  int radix;
  int64_t n, size, stride;
  const double* twiddles;
  const double* roots;  // cos, and then sin, of 2 pi j k / radix at [j][k], for odd ones
};

}  // namespace minnow
#endif

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Complex {
  hn::Vec<D> re, im;
};

template <class D>
HWY_INLINE Complex<D> Plus(Complex<D> a, Complex<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Complex<D> Minus(Complex<D> a, Complex<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}

// Places of the operands and results of one small transform.
template <class D>
struct FftLines {
  D d;
  const double* in;
  double* out;
  int64_t half, step_in, step_out;  // from real to imaginary parts, and from one number to the next
  const double* twiddles;

  HWY_INLINE Complex<D> Get(int j, int64_t q) const {
    const double* p = in + j * step_in + q;
    return {hn::LoadU(d, p), hn::LoadU(d, p + half)};
  }
  HWY_INLINE void Put(int k, int64_t q, Complex<D> y) const {
    double* p = out + k * step_out + q;
    if (k > 0) {
      const auto c = hn::Set(d, twiddles[2 * k - 2]), s = hn::Set(d, twiddles[2 * k - 1]);
      y = {hn::NegMulAdd(y.im, s, hn::Mul(y.re, c)), hn::MulAdd(y.re, s, hn::Mul(y.im, c))};
    }
    hn::StoreU(y.re, d, p);
    hn::StoreU(y.im, d, p + half);
  }
};

template <class D>
HWY_INLINE void Radix2(const FftLines<D>& l, int64_t q) {
  const auto a = l.Get(0, q), b = l.Get(1, q);
  l.Put(0, q, Plus<D>(a, b));
  l.Put(1, q, Minus<D>(a, b));
}

template <class D>
HWY_INLINE void Radix4(const FftLines<D>& l, int64_t q) {
  const auto a = l.Get(0, q), b = l.Get(1, q), c = l.Get(2, q), e = l.Get(3, q);
  const auto ac = Plus<D>(a, c), a_c = Minus<D>(a, c), be = Plus<D>(b, e), b_e = Minus<D>(b, e);
  l.Put(0, q, Plus<D>(ac, be));
  l.Put(1, q, {hn::Add(a_c.re, b_e.im), hn::Sub(a_c.im, b_e.re)});
  l.Put(2, q, Minus<D>(ac, be));
  l.Put(3, q, {hn::Sub(a_c.re, b_e.im), hn::Add(a_c.im, b_e.re)});
}

// Numbers j and radix - j meet conjugate roots, so that their sum meets the cosine and their difference the sine.
template <class D>
HWY_INLINE void RadixOdd(const FftLines<D>& l, int64_t q, int radix, const double* roots) {
  const int half = radix / 2;
  Complex<D> sum[kMaxRadix / 2], difference[kMaxRadix / 2];
  const auto first = l.Get(0, q);
  auto all = first;
  for (int j = 0; j < half; ++j) {
    const auto a = l.Get(j + 1, q), b = l.Get(radix - j - 1, q);
    sum[j] = Plus<D>(a, b);
    difference[j] = Minus<D>(a, b);
    all = Plus<D>(all, sum[j]);
  }
  l.Put(0, q, all);
  const double* sines = roots + half * half;
  for (int k = 0; k < half; ++k) {
    auto even = first;
    Complex<D> odd{hn::Zero(l.d), hn::Zero(l.d)};
    for (int j = 0; j < half; ++j) {
      const auto c = hn::Set(l.d, roots[k * half + j]), s = hn::Set(l.d, sines[k * half + j]);
      even = {hn::MulAdd(sum[j].re, c, even.re), hn::MulAdd(sum[j].im, c, even.im)};
      odd = {hn::MulAdd(difference[j].im, s, odd.re), hn::NegMulAdd(difference[j].re, s, odd.im)};
    }
    l.Put(k + 1, q, Plus<D>(even, odd));
    l.Put(radix - k - 1, q, Minus<D>(even, odd));
  }
}

template <class D>
HWY_INLINE void RunPassBy(D d, const FftPass& pass, const double* in, double* out) {
  const int64_t rest = pass.size / pass.radix, lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t half = pass.n * (pass.stride / (pass.n / pass.size));
  for (int64_t p = 0; p < rest; ++p) {
    const FftLines<D> lines{d,
                            in + p * pass.stride,
                            out + p * pass.radix * pass.stride,
                            half,
                            rest * pass.stride,
                            pass.stride,
                            pass.twiddles + p * 2 * (pass.radix - 1)};
    for (int64_t q = 0; q < pass.stride; q += lanes) {
      if (pass.radix == 4)
        Radix4(lines, q);
      else if (pass.radix == 2)
        Radix2(lines, q);
      else
        RadixOdd(lines, q, pass.radix, pass.roots);
    }
  }
}

void RunFftPass(const FftPass& pass, const double* in, double* out) {
  const hn::ScalableTag<double> d;
  if (pass.stride % static_cast<int64_t>(hn::Lanes(d)) == 0) return RunPassBy(d, pass, in, out);
  RunPassBy(hn::CappedTag<double, 1>(), pass, in, out);
}

int FftLanes() { return static_cast<int>(hn::Lanes(hn::ScalableTag<double>())); }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(RunFftPass);
HWY_EXPORT(FftLanes);

namespace {

const double kTau = 8 * std::atan(1.0);

// cos and sin of -2 pi k / n, from an angle between -pi and pi.
void root(int64_t k, int64_t n, double* cosine, double* sine) {
  k %= n;
  if (2 * k > n) k -= n;
  const double angle = kTau * (static_cast<double>(k) / static_cast<double>(n));
  *cosine = std::cos(angle);
  *sine = -std::sin(angle);
}

// Factors in the order of the passes; empty when there are others than those there is code for.
std::vector<int> factors_of(int64_t n) {
  std::vector<int> factors;
  for (int f : {4, 2, 3, 5, 7, 11, 13}) {
    while (n % f == 0) {
      factors.push_back(f);
      n /= f;
    }
  }
  if (n != 1) factors.clear();
  return factors;
}

int64_t padded_length(int64_t n) {
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

// Cosines and sines of an odd radix, half by half.
std::vector<double> roots_of(int radix) {
  const int half = radix / 2;
  std::vector<double> roots(static_cast<size_t>(2 * half * half));
  for (int k = 0; k < half; ++k) {
    for (int j = 0; j < half; ++j) {
      const auto at = static_cast<size_t>(k * half + j);
      root((j + 1) * (k + 1), radix, &roots[at], &roots[at + static_cast<size_t>(half * half)]);
      roots[at + static_cast<size_t>(half * half)] *= -1;
    }
  }
  return roots;
}

const double* odd_roots(int radix) {
  static const std::vector<double> kRoots[] = {roots_of(3), roots_of(5), roots_of(7), roots_of(11), roots_of(13)};
  for (const std::vector<double>& roots : kRoots)
    if (static_cast<int>(roots.size()) == 2 * (radix / 2) * (radix / 2)) return roots.data();
  return nullptr;
}

// (re, im) *= (c, s) for all lines of each number.
void multiply(double* re, double* im, const double* factors, int64_t n, int64_t width) {
  for (int64_t k = 0; k < n; ++k) {
    const double c = factors[2 * k], s = factors[2 * k + 1];
    for (int64_t w = k * width; w < (k + 1) * width; ++w) {
      const double x = re[w], y = im[w];
      re[w] = x * c - y * s;
      im[w] = x * s + y * c;
    }
  }
}

}  // namespace

int Fft::lanes() { return HWY_DYNAMIC_DISPATCH(FftLanes)(); }

int64_t Fft::work_size(int64_t n, int64_t width) {
  if (n == 1 || !factors_of(n).empty()) return 2 * n * width;
  return 4 * padded_length(n) * width;
}

int64_t Fft::table_size(int64_t n) {
  if (n == 1 || !factors_of(n).empty()) return 2 * n;
  return 2 * n + 8 * padded_length(n);
}

Fft::Fft(int64_t n) : n_(n) {
  const std::vector<int> factors = factors_of(n);
  if (n > 1 && factors.empty()) {
    const int64_t m = padded_length(n);
    padded_ = std::make_unique<Fft>(m);
    chirp_.resize(static_cast<size_t>(2 * n));
    std::vector<double> data(static_cast<size_t>(2 * m)), work(static_cast<size_t>(2 * m));
    for (int64_t k = 0; k < n; ++k) {
      double* c = &chirp_[static_cast<size_t>(2 * k)];
      root(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n)), 2 * n, c, c + 1);
      for (int64_t at : {k, (m - k) % m}) {
        data[static_cast<size_t>(at)] = c[0] / static_cast<double>(m);
        data[static_cast<size_t>(m + at)] = -c[1] / static_cast<double>(m);
      }
    }
    const double* result = padded_->transform(data.data(), work.data(), 1);
    spectrum_.resize(static_cast<size_t>(2 * m));
    for (int64_t k = 0; k < m; ++k) {
      spectrum_[static_cast<size_t>(2 * k)] = result[k];
      spectrum_[static_cast<size_t>(2 * k + 1)] = result[m + k];
    }
    return;
  }
  int64_t size = n;
  for (int radix : factors) {
    Pass& pass = passes_.emplace_back();
    pass.radix = radix;
    const int64_t rest = size / radix;
    pass.twiddles.resize(static_cast<size_t>(2 * rest * (radix - 1)));
    double* to = pass.twiddles.data();
    for (int64_t p = 0; p < rest; ++p)
      for (int k = 1; k < radix; ++k, to += 2) root(p * k, size, to, to + 1);
    size = rest;
  }
}

double* Fft::transform(double* data, double* work, int64_t width) const {
  if (padded_ != nullptr) return by_chirp(data, work, width);
  int64_t size = n_, stride = width;
  for (const Pass& pass : passes_) {
    const FftPass call{pass.radix, n_, size, stride, pass.twiddles.data(), odd_roots(pass.radix)};
    HWY_DYNAMIC_DISPATCH(RunFftPass)(call, data, work);
    std::swap(data, work);
    size /= pass.radix;
    stride *= pass.radix;
  }
  return data;
}

// With j k = (j^2 + k^2 - (k - j)^2) / 2 the sum is a convolution of x[j] c[j] with the conjugate of the chirp c.
double* Fft::by_chirp(double* data, double* work, int64_t width) const {
  const int64_t m = padded_->length(), used = n_ * width, all = m * width;
  double *re = data, *im = data + used, *wide = work, *other = work + 2 * all;
  multiply(re, im, chirp_.data(), n_, width);
  std::fill_n(wide, 2 * all, 0.0);
  std::copy_n(re, used, wide);
  std::copy_n(im, used, wide + all);
  double* y = padded_->transform(wide, other, width);
  multiply(y, y + all, spectrum_.data(), m, width);
  // The transform with real and imaginary parts in each other's place is the inverse one.
  double* next = y == wide ? other : wide;
  std::swap_ranges(y, y + all, y + all);
  y = padded_->transform(y, next, width);
  std::copy_n(y + all, used, re);
  std::copy_n(y, used, im);
  multiply(re, im, chirp_.data(), n_, width);
  return data;
}

}  // namespace minnow
#endif
