// Discrete Fourier transforms of complex numbers, of any length, in doubles.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace minnow {

// The transform of one length: prime factors up to 13 by Stockham's algorithm, which needs no reordering; other
// lengths as a convolution with a chirp (Bluestein), by transforms of a power of two. Always n log n operations.
class Fft {
 public:
  explicit Fft(int64_t n);

  int64_t length() const { return n_; }
  // Lines are transformed side by side, one per vector lane.
  static int lanes();
  // Doubles of the tables for a length, about.
  static int64_t table_size(int64_t n);
  // Doubles of data and work that transform() needs for `width` lines.
  static int64_t data_size(int64_t n, int64_t width) { return 2 * n * width; }
  static int64_t work_size(int64_t n, int64_t width);

  // y[k] = sum of x[j] exp(-2 pi i j k / n) for each of `width` lines. `data` holds the real parts, [n][width], and
  // then the imaginary ones; gives where the result is: in `data`, or at the front of `work`.
  double* transform(double* data, double* work, int64_t width) const;

 private:
  struct Pass {
    int radix;
    std::vector<double> twiddles;  // cos and sin of -2 pi p k / size, for each p of the rest, k from 1 to radix - 1
  };
  double* by_chirp(double* data, double* work, int64_t width) const;

  int64_t n_;
  std::vector<Pass> passes_;
  // For Bluestein: the transform of the padded length, the chirp, and its transform.
  std::unique_ptr<Fft> padded_;
  std::vector<double> chirp_, spectrum_;
};

}  // namespace minnow
