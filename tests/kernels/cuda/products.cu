// Checks every way to compute a product on a GPU against a slow kernel: odd and prime sizes, lanes of padding that hold
// NaN, guards around the result, all activations, residuals. Prints what failed; the exit status is 1 then.
//
//   nvcc -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -DMINNOW_WATCHDOG -I. tests/kernels/cuda/products.cu
//     kernels/cuda/product/*.cu kernels/cuda/product/*.cpp kernels/core/activation.cpp kernels/core/status.cpp -o
//     products
//   ./products list | xargs -P 6 -n 1 timeout 60 ./products check       # each tile in a process of its own
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/product/product.h"
#include "kernels/cuda/product/tiles.h"

namespace minnow::cuda {
namespace {

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    const cudaError_t error_ = (call);                                                              \
    if (error_ != cudaSuccess) {                                                                    \
      std::printf("FAILED %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::fflush(stdout);                                                                          \
      std::_Exit(3);                                                                                \
    }                                                                                               \
  } while (false)

__host__ __device__ uint32_t mixed(uint64_t i) {
  i = (i + 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
  i = (i ^ (i >> 31)) * 0x94D049BB133111EBull;
  return static_cast<uint32_t>(i >> 32);
}

// Sums of these are exact in f32, in any order: halves from -1.5 to 1.5.
__host__ __device__ float coarse(uint64_t i) { return (static_cast<int>(mixed(i) % 7) - 3) * 0.5f; }
__host__ __device__ float fine(uint64_t i) { return static_cast<int>(mixed(i) % 65536) / 32768.0f - 1; }

template <typename T>
__device__ T from_float(float v) {
  return static_cast<T>(v);
}

// Rows of `row` elements, of which `count` hold numbers and the others NaN (or zeros).
template <typename T>
__global__ void fill(T* to, int64_t total, int row, int count, uint64_t seed, bool exact, bool zero) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const float v = exact ? coarse(seed + i) : fine(seed + i);
    to[i] = from_float<T>(i % row < count ? v : zero ? 0.f : NAN);
  }
}

const Activation kActivations[] = {
    {Function::kClamp, 0, INFINITY},  {Function::kClamp, -0.5f, 0.75f}, {Function::kClamp, 0, 6},
    {Function::kLeakyRelu, 0.25f, 0}, {Function::kHardSwish, 0, 0},     {Function::kHardSigmoid, 0.25f, 0.75f},
    {Function::kSigmoid, 0, 0},       {Function::kSilu, 0, 0},          {Function::kTanh, 0, 0},
    {Function::kGelu, 0, 0},
};

__device__ double activated(double v, const Activation& a) {
  switch (a.function) {
    case Function::kClamp:
      return v != v ? v : fmin(fmax(v, double{a.alpha}), double{a.beta});
    case Function::kLeakyRelu:
      return v < 0 ? a.alpha * v : v;
    case Function::kHardSwish:
      return v * fmin(fmax(v + 3, 0.0), 6.0) / 6;
    case Function::kHardSigmoid:
      return fmin(fmax(a.alpha * v + a.beta, 0.0), 1.0);
    case Function::kSigmoid:
      return 1 / (1 + exp(-v));
    case Function::kSilu:
      return v / (1 + exp(-v));
    case Function::kTanh:
      return tanh(v);
    case Function::kGelu:
      return 0.5 * v * erfc(-v / sqrt(2.0));
    default:
      return v;
  }
}

template <typename T>
__device__ double number(T v) {
  return static_cast<double>(static_cast<float>(v));
}

// Where column n of row m lies in y; below 0: nowhere.
__device__ int64_t place(const ProductArguments& a, int b, int m, int n) {
  const Spread& s = a.end.spread;
  if (s.rows == 0) return b * a.y_batch + m * a.end.row + n;
  const int channels = a.N / (s.rows * s.columns), block = n / channels;
  const int image = m / (a.P * a.Q), row = m / a.Q % a.P * s.rows + block / s.columns;
  const int column = m % a.Q * s.columns + block % s.columns;
  if (row >= s.height || column >= s.width) return -1;
  return ((int64_t{image} * s.height + row) * s.width + column) * channels + n % channels;
}

// The second half of the channels of each pixel to an image of its own, the first half to another one.
template <typename T>
__global__ void part(const T* x, int64_t pixels, int half, T* first, T* second) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= pixels * half) return;
  const int64_t pixel = i / half, channel = i % half;
  first[i] = x[pixel * 2 * half + channel];
  second[i] = x[pixel * 2 * half + half + channel];
}

// One thread for each element of y; also how large the sum of absolute products is.
template <typename T>
__global__ void reference(ProductArguments a, const T* x, const T* w, const float* bias, const void* residual,
                          Activation activation, int images, int batch, int padded, double* y, double* size) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= int64_t{batch} * a.M * a.N) return;
  const int n = static_cast<int>(i % a.N), m = static_cast<int>(i / a.N % a.M), b = static_cast<int>(i / a.N / a.M);
  const int image = m / (a.P * a.Q), p = m / a.Q % a.P, q = m % a.Q;
  double sum = 0, magnitude = 0;
  for (int r = 0; r < a.R; ++r)
    for (int s = 0; s < a.S; ++s) {
      const int h = p * a.stride_h - a.pad_h + r * a.dilation_h, v = q * a.stride_w - a.pad_w + s * a.dilation_w;
      if (h < 0 || h >= a.H || v < 0 || v >= a.W || image >= images) continue;
      const T* from = x + b * a.x_batch + ((int64_t{image} * a.H + h) * a.W + v) * a.pixel;
      const T* by = w + b * a.w_batch + int64_t{n} * a.depth + (r * a.S + s) * padded;
      for (int c = 0; c < a.C; ++c) {
        sum += number(from[c]) * number(by[c]);
        magnitude += fabs(number(from[c]) * number(by[c]));
      }
    }
  if (bias != nullptr) sum += bias[b * a.bias_batch + n];
  const int64_t at = place(a, b, m, n);
  if (residual != nullptr && at >= 0)
    sum += a.end.f32 ? static_cast<const float*>(residual)[at] : number(static_cast<const T*>(residual)[at]);
  y[i] = activated(sum, activation);
  size[i] = magnitude;
}

struct Verdict {
  unsigned wrong, guards;
  float worst;
};

// `y` begins and ends with `guard` bytes of 0xa5; so are elements that nobody may write.
template <typename T>
__global__ void compare(ProductArguments a, int batch, const char* memory, int64_t bytes, int guard, const double* y,
                        const double* size, double relative, double of_size, Verdict* verdict) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < guard && (memory[i] != static_cast<char>(0xa5) || memory[guard + bytes + i] != static_cast<char>(0xa5)))
    atomicAdd(&verdict->guards, 1u);
  if (i < int64_t{batch} * a.M * a.end.row && a.y_batch == a.M * a.end.row && a.end.spread.rows == 0) {
    const int column = static_cast<int>(i % a.end.row);
    if (column >= a.end.columns)
      for (size_t k = 0; k < sizeof(T); ++k)
        if (memory[guard + i * sizeof(T) + k] != static_cast<char>(0xa5)) atomicAdd(&verdict->guards, 1u);
  }
  if (i >= int64_t{batch} * a.M * a.N) return;
  const int n = static_cast<int>(i % a.N), m = static_cast<int>(i / a.N % a.M), b = static_cast<int>(i / a.N / a.M);
  const int64_t at = place(a, b, m, n);
  if (at < 0) return;
  const double v = number(reinterpret_cast<const T*>(memory + guard)[at]);
  const double error = fabs(v - y[i]), allowed = relative * fabs(y[i]) + of_size * size[i] + 1e-6;
  if (!(error <= allowed)) {
    atomicAdd(&verdict->wrong, 1u);
    const float ratio = static_cast<float>(error / allowed);
    atomicMax(reinterpret_cast<int*>(&verdict->worst), __float_as_int(ratio == ratio ? ratio : 1e30f));
  }
}

struct Case {
  const char* what;
  int images, H, W, C, K, R, S, stride_h, stride_w, pad_h, pad_w, end_h, end_w, dilation;
  int groups = 1;      // of channels; or products of a batch
  bool packed = true;  // y is channels-last with channels up to a multiple of 8; else a matrix with rows of K
  int gap = 0;         // elements after each row that are not to be written; -1: taps of a row are channels
  // Blocks of results, and how many rows and columns of the last blocks are beyond the image: see Spread.
  int block_rows = 0, block_columns = 0, cut_rows = 0, cut_columns = 0;
  bool split = false;  // half of the channels lie elsewhere
};

const Case kCases[] = {
    // matrices: M is images
    {"1x1x1", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"1x8x8", 1, 1, 1, 8, 8, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"7x13x17", 1, 1, 7, 17, 13, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"1x1000x2048", 1, 1, 1, 2048, 1000, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"33x129x100", 1, 1, 33, 100, 129, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"197x384x384", 1, 1, 197, 384, 384, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"300x200x136 gap", 1, 1, 300, 136, 200, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false, 8},
    {"513x65x520 gap", 1, 1, 513, 520, 65, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false, 3},
    {"3 of 70x50x40", 1, 1, 70, 40, 50, 1, 1, 1, 1, 0, 0, 0, 0, 1, 3, false},
    {"5 of 128x64x200", 1, 1, 128, 200, 64, 1, 1, 1, 1, 0, 0, 0, 0, 1, 5, false},
    {"4099x136x72", 1, 1, 4099, 72, 136, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    {"9001x257x1030", 1, 1, 9001, 1030, 257, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false},
    // convolutions
    {"1x1 14x14 130->70", 2, 14, 14, 130, 70, 1, 1, 1, 1, 0, 0, 0, 0, 1},
    {"1x1 s2 15x15 64->100", 3, 15, 15, 64, 100, 1, 1, 2, 2, 0, 0, 0, 0, 1},
    {"3x3 14x14 64->64", 2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {"3x3 13x11 3->17", 3, 13, 11, 3, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {"3x3 13x11 13->33", 3, 13, 11, 13, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {"3x3 s2 28x28 96->128", 2, 28, 28, 96, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1},
    {"3x3 s2 end 17x19 24->40", 2, 17, 19, 24, 40, 3, 3, 2, 2, 0, 0, 1, 1, 1},
    {"5x5 d2 19x23 40->72", 1, 19, 23, 40, 72, 5, 5, 1, 1, 4, 4, 4, 4, 2},
    {"1x7 9x31 136->65", 1, 9, 31, 136, 65, 1, 7, 1, 1, 0, 3, 0, 3, 1},
    {"7x1 s3,1 31x9 72->24", 1, 31, 9, 72, 24, 7, 1, 3, 1, 3, 0, 3, 0, 1},
    {"7x7 s2 41x43 16->64", 2, 41, 43, 16, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1},
    {"4x4 23x23 12->64", 2, 23, 23, 12, 64, 4, 4, 1, 1, 0, 0, 0, 0, 1},
    {"3x3 7x7 256->192, 33 images", 33, 7, 7, 256, 192, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {"3x3 groups 12x12 16->24", 2, 12, 12, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 3},
    {"1x1 groups 12x12 64->11", 2, 12, 12, 64, 11, 1, 1, 1, 1, 0, 0, 0, 0, 1, 4},
    {"4x4 merged 23x25 12->64", 2, 23, 25, 12, 64, 4, 4, 1, 1, 0, 0, 0, 0, 1, 1, true, -1},
    {"2x3 s1,2 merged 9x14 5->40", 3, 9, 14, 5, 40, 2, 3, 1, 2, 0, 0, 0, 0, 1, 1, true, -1},
    {"3x3 one column 64->64", 1, 57, 1, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    // transposed convolutions
    {"2x2 blocks 9x13 72->24", 3, 9, 13, 72, 96, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, true, 0, 2, 2},
    {"2x2 blocks 16x16 128->64", 1, 16, 16, 128, 256, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, true, 0, 2, 2},
    {"2x2 cut blocks 3x3 9x7 40->32", 2, 9, 7, 40, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, true, 0, 2, 2, 1, 1},
    {"3x2 cut blocks 2x2 11x5 17->8", 2, 11, 5, 17, 48, 2, 2, 1, 1, 1, 0, 0, 1, 1, 1, true, 0, 3, 2, 2, 1},
    {"1x4 cut blocks 1x3 1x77 24->16", 2, 1, 77, 24, 64, 1, 3, 1, 1, 0, 1, 0, 1, 1, 1, true, 0, 1, 4, 0, 3},
    // channels of two images
    {"split 1x1 14x14 128->72", 2, 14, 14, 128, 72, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, true, 0, 0, 0, 0, 0, true},
    {"split 3x3 9x11 256->40", 2, 9, 11, 256, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, true, 0, 0, 0, 0, 0, true},
    {"split 3x3 s2 17x13 48->33", 1, 17, 13, 48, 33, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, true, 0, 0, 0, 0, 0, true},
    {"split 1x1 5x5 16->16", 1, 5, 5, 16, 16, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, true, 0, 0, 0, 0, 0, true},
    {"split 2x2 blocks 9x9 64->32", 1, 9, 9, 64, 32, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, true, 0, 2, 2, 0, 0, true},
    {"2x2 blocks 2x2 inside 12x10 64->40", 2, 12, 10, 64, 160, 2, 2, 1, 1, -1, -1, 1, 1, 1, 1, true, 0, 2, 2},
};

int up8(int v) { return (v + 7) / 8 * 8; }

class Memory {
 public:
  explicit Memory(int64_t bytes) { CHECK(cudaMalloc(&data_, static_cast<size_t>(bytes + 256))); }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

struct Tally {
  int runs = 0, failed = 0;
};

// One case with all configurations of a tile.
template <typename T>
void check_case(const Case& c, int tile, Element element, bool residual, bool bias, bool f32, bool exact,
                int activation, cudaStream_t stream, Tally* tally) {
  Product p;
  p.element = element;
  p.images = c.images;
  p.batch = c.groups;
  p.has_bias = bias;
  p.has_residual = residual;
  ProductArguments& a = p.shape;
  const bool matrix = !c.packed;
  a.H = c.H;
  a.W = c.W;
  a.C = c.C;
  a.R = c.R;
  a.S = c.S;
  a.stride_h = c.stride_h;
  a.stride_w = c.stride_w;
  a.pad_h = c.pad_h;
  a.pad_w = c.pad_w;
  a.dilation_h = a.dilation_w = c.dilation;
  a.P = (c.H + c.pad_h + c.end_h - (c.R - 1) * c.dilation - 1) / c.stride_h + 1;
  a.Q = (c.W + c.pad_w + c.end_w - (c.S - 1) * c.dilation - 1) / c.stride_w + 1;
  a.M = c.images * a.P * a.Q;
  a.N = c.K;
  const int padded = up8(c.C);
  a.depth = c.R * c.S * padded;
  a.w_batch = int64_t{c.K} * a.depth;
  if (matrix) {
    a.pixel = padded;
    a.x_batch = int64_t{a.M} * padded;
    a.end.row = c.K + c.gap;
    a.end.columns = c.K;
    a.y_batch = a.M * a.end.row;
  } else {
    a.pixel = c.groups == 1 ? padded : up8(c.C * c.groups);
    a.x_batch = c.C;
    a.end.row = up8(c.K * c.groups);
    a.end.columns = c.groups == 1 ? up8(c.K) : c.K;
    a.y_batch = c.groups == 1 ? a.M * a.end.row : c.K;
  }
  a.bias_batch = matrix ? 0 : c.K;
  a.end.bias_count = c.K;
  if (c.block_rows > 0) {
    Spread& s = a.end.spread;
    s.rows = c.block_rows;
    s.columns = c.block_columns;
    s.height = a.P * s.rows - c.cut_rows;
    s.width = a.Q * s.columns - c.cut_columns;
    s.by_channels = Divisor(c.K / (s.rows * s.columns));
    s.by_columns = Divisor(s.columns);
    s.by_grid_rows = Divisor(a.P);
    s.by_grid_columns = Divisor(a.Q);
  }
  a.end.wide = a.end.columns % 8 == 0 && a.end.row % 8 == 0 && a.y_batch % 8 == 0 && a.bias_batch % 8 == 0;
  if (c.groups == 1) a.end.wide = a.end.columns % 8 == 0 && a.end.row % 8 == 0;
  a.end.f32 = f32;
  const Activation function = activation < 0 ? Activation() : kActivations[activation];
  set_activation(function, &a.end);

  const ProductArguments unmerged = a;
  if (c.gap < 0) merge_taps(&p);
  if (c.split) a.split = a.pixel = c.C / 2;
  std::vector<ProductConfig> configs;
  for (const ProductConfig& config :
       {ProductConfig{tile, 1, false}, ProductConfig{tile, 2, false}, ProductConfig{tile, 4, false},
        ProductConfig{tile, 2, true}, ProductConfig{tile, 4, true}, ProductConfig{tile, 8, true}})
    if (can_launch(p, config)) configs.push_back(config);
  if (configs.empty()) return;

  const int64_t pixels = int64_t{c.images} * c.H * c.W;
  const int64_t x_count = matrix ? int64_t{c.groups} * a.M * a.pixel : pixels * unmerged.pixel;
  const int64_t w_count = a.w_batch * c.groups;
  int64_t y_count = (matrix || c.groups == 1) ? int64_t{c.groups} * a.M * a.end.row : int64_t{a.M} * a.end.row;
  if (c.block_rows > 0)
    y_count = int64_t{c.images} * a.end.spread.height * a.end.spread.width * a.end.spread.by_channels.value;
  const int64_t results = int64_t{c.groups} * a.M * a.N;
  const int64_t y_bytes = y_count * (f32 ? 4 : sizeof(T));
  constexpr int kGuard = 4096;
  Memory x(x_count * sizeof(T)), w(w_count * sizeof(T)), biases((c.K * c.groups + 8) * 4), before(y_bytes);
  Memory y(y_bytes + 2 * kGuard), expected(results * 8), size(results * 8), verdict(sizeof(Verdict));
  fill<T>
      <<<512, 256, 0, stream>>>(x.as<T>(), x_count, unmerged.pixel, matrix ? c.C : c.C * c.groups, 1, exact, c.gap < 0);
  Memory first(x_count * sizeof(T)), second(x_count * sizeof(T));
  if (c.split)
    part<T><<<static_cast<unsigned>(x_count / 256 + 1), 256, 0, stream>>>(x.as<T>(), pixels, a.split, first.as<T>(),
                                                                          second.as<T>());
  fill<T><<<512, 256, 0, stream>>>(w.as<T>(), w_count, padded, c.C, uint64_t{1} << 40, exact, true);
  fill<float><<<16, 256, 0, stream>>>(biases.as<float>(), c.K * c.groups + 8, 1, 1, uint64_t{2} << 40, exact, false);
  if (f32) {
    fill<float><<<512, 256, 0, stream>>>(before.as<float>(), y_count, 1, 1, uint64_t{3} << 40, exact, false);
  } else {
    fill<T><<<512, 256, 0, stream>>>(before.as<T>(), y_count, 1, 1, uint64_t{3} << 40, exact, false);
  }
  const unsigned blocks = static_cast<unsigned>((std::max(results, y_count) + 255) / 256 + 16);
  reference<T><<<blocks, 256, 0, stream>>>(unmerged, x.as<T>(), w.as<T>(), bias ? biases.as<float>() : nullptr,
                                           residual ? before.as<void>() : nullptr, function, c.images, c.groups, padded,
                                           expected.as<double>(), size.as<double>());
  CHECK(cudaGetLastError());

  for (const ProductConfig& config : configs) {
    CHECK(cudaMemsetAsync(y.as<void>(), 0xa5, static_cast<size_t>(y_bytes + 2 * kGuard), stream));
    CHECK(cudaMemsetAsync(verdict.as<void>(), 0, sizeof(Verdict), stream));
    ProductOperands operands{c.split ? first.as<T>() : x.as<T>(), w.as<T>(), bias ? biases.as<float>() : nullptr,
                             residual ? before.as<void>() : nullptr, y.as<char>() + kGuard};
    operands.more = second.as<T>();
    bool started = true;
    for (int i = 0; i < 3; ++i) {  // one after the other, as programmatic launches
      const Status status = launch(p, config, operands, stream);
      if (!status.ok()) {
        std::printf("FAILED %s %s: %s\n", config_name(config).c_str(), c.what, status.message().c_str());
        started = false;
        break;
      }
    }
    ++tally->runs;
    if (!started) {
      ++tally->failed;
      continue;
    }
    const bool narrow = sizeof(T) == 2 && !f32;
    const double relative = narrow ? (element == Element::kBF16 ? 1.0 / 200 : 1.0 / 1900) : 2e-6;
    const double of_size = exact ? (activation >= 4 ? 1e-6 : 0) : element == Element::kTF32 ? 1.0 / 1024 : 2e-6;
    if (f32 || sizeof(T) == 4) {
      compare<float><<<blocks, 256, 0, stream>>>(a, c.groups, y.as<char>(), y_bytes, kGuard, expected.as<double>(),
                                                 size.as<double>(), relative, of_size, verdict.as<Verdict>());
    } else {
      compare<T><<<blocks, 256, 0, stream>>>(a, c.groups, y.as<char>(), y_bytes, kGuard, expected.as<double>(),
                                             size.as<double>(), relative, of_size, verdict.as<Verdict>());
    }
    Verdict seen{};
    cudaError_t error = cudaMemcpyAsync(&seen, verdict.as<void>(), sizeof seen, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
      std::printf("FAILED %s %s: %s\n", config_name(config).c_str(), c.what, cudaGetErrorString(error));
      std::fflush(stdout);
      std::_Exit(3);
    }
    if (seen.wrong != 0 || seen.guards != 0) {
      if (tally->failed++ < 12)
        std::printf("FAILED %s %s%s%s%s%s: %u of %lld wrong, worst %.3g of what is allowed; %u guards\n",
                    config_name(config).c_str(), c.what, residual ? " residual" : "", bias ? " bias" : "",
                    f32 ? " f32" : "", exact ? "" : " fine", seen.wrong, static_cast<long long>(results), seen.worst,
                    seen.guards);
    }
  }
}

template <typename T>
void check_tile(int tile, Element element, cudaStream_t stream, Tally* tally) {
  const bool two = sizeof(T) == 2;
  int i = 0;
  for (const Case& c : kCases) {
    check_case<T>(c, tile, element, false, false, false, true, -1, stream, tally);
    check_case<T>(c, tile, element, true, true, two && i % 2 == 0, i % 3 != 0, i % 3 == 0 ? -1 : 0, stream, tally);
    ++i;
  }
  // All activations, in all three forms of rows.
  const int count = static_cast<int>(sizeof kActivations / sizeof *kActivations);
  for (int activation = 0; activation < count; ++activation) {
    const Case wide{"70x40x72", 1, 1, 70, 72, 40, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false};
    const Case odd{"70x41x72", 1, 1, 70, 72, 41, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false};
    check_case<T>(wide, tile, element, true, true, false, true, activation, stream, tally);
    check_case<T>(odd, tile, element, activation % 2 == 0, true, false, true, activation, stream, tally);
    if (two) check_case<T>(wide, tile, element, true, true, true, true, activation, stream, tally);
  }
  // Batches of images.
  for (int images : {1, 2, 5, 16, 33}) {
    const Case conv{"3x3 9x10 72->88", images, 9, 10, 72, 88, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    check_case<T>(conv, tile, element, true, true, false, true, 0, stream, tally);
  }
}

int run(const std::string& mode, const std::string& only) {
  if (mode == "list") {
    for (int i = 0; i < tile_count(); ++i) std::printf("%s\n", tile_at(i).name);
    return 0;
  }
  ProductConfig config;
  if (mode != "check" || !config_named(only, &config)) {
    std::printf("products list | products check TILE\n");
    return 2;
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Tally tally;
  const Tile& tile = tile_at(config.tile);
  switch (tile.element) {
    case Element::kF16:
      check_tile<__half>(config.tile, tile.element, stream, &tally);
      break;
    case Element::kBF16:
      check_tile<__nv_bfloat16>(config.tile, tile.element, stream, &tally);
      break;
    default:
      check_tile<float>(config.tile, tile.element, stream, &tally);
  }
  std::printf("%s %s: %d runs, %d failed\n", tally.failed == 0 && tally.runs > 0 ? "ok" : "BAD", tile.name, tally.runs,
              tally.failed);
  return tally.failed == 0 && tally.runs > 0 ? 0 : 1;
}

}  // namespace
}  // namespace minnow::cuda

int main(int argc, char** argv) { return minnow::cuda::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""); }
