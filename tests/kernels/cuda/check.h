// What the checks of CUDA kernels share: buffers on the device with guards around them, and comparison with numbers
// that a plain loop on the host has computed in double.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda::check {

inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

inline size_t size_of(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : dtype == DType::kBool ? 1 : 2;
}
inline const char* name_of(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kF16 ? "f16" : dtype == DType::kBF16 ? "bf16" : "bool";
}
// What a result of that type may be off by, relative to the sum of the magnitudes of what it was made of.
inline double step_of(DType dtype) { return dtype == DType::kF32 ? 4e-6 : dtype == DType::kF16 ? 1.2e-3 : 9e-3; }

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252ull) {}
  uint32_t bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 16);
  }
  int below(int n) { return static_cast<int>(bits() % static_cast<uint32_t>(n)); }
  float number() { return static_cast<float>(bits()) / 2147483648.0f - 1.0f; }  // of [-1, 1)
  std::vector<float> numbers(size_t n, float factor = 1.0f) {
    std::vector<float> v(n);
    for (float& x : v) x = factor * number();
    return v;
  }

 private:
  uint64_t state_;
};

inline void encode(DType dtype, const std::vector<float>& v, std::vector<uint8_t>* bytes) {
  bytes->resize(v.size() * size_of(dtype));
  for (size_t i = 0; i < v.size(); ++i) {
    uint8_t* to = bytes->data() + i * size_of(dtype);
    if (dtype == DType::kF32) std::memcpy(to, &v[i], 4);
    if (dtype == DType::kBool) *to = v[i] != 0.0f ? 1 : 0;
    if (dtype == DType::kI32) {
      const auto integer = static_cast<int32_t>(v[i]);
      std::memcpy(to, &integer, 4);
    }
    if (dtype == DType::kF16) {
      const __half one = __float2half(v[i]);
      std::memcpy(to, &one, 2);
    }
    if (dtype == DType::kBF16) {
      const __nv_bfloat16 one = __float2bfloat16(v[i]);
      std::memcpy(to, &one, 2);
    }
  }
}

inline std::vector<float> decode(DType dtype, const std::vector<uint8_t>& bytes) {
  std::vector<float> v(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < v.size(); ++i) {
    const uint8_t* from = bytes.data() + i * size_of(dtype);
    if (dtype == DType::kF32) std::memcpy(&v[i], from, 4);
    if (dtype == DType::kF16) {
      __half one;
      std::memcpy(&one, from, 2);
      v[i] = __half2float(one);
    }
    if (dtype == DType::kBF16) {
      __nv_bfloat16 one;
      std::memcpy(&one, from, 2);
      v[i] = __bfloat162float(one);
    }
  }
  return v;
}

// Memory of the device with guards before and behind it; its contents are NaN at first.
class Buffer {
 public:
  Buffer(DType dtype, size_t count) : dtype_(dtype), bytes_(count * size_of(dtype)) {
    require(cudaMalloc(&memory_, bytes_ + 2 * kGuard), "cudaMalloc");
    require(cudaMemset(memory_, 0xff, bytes_ + 2 * kGuard), "cudaMemset");
  }
  // The values are rounded to the type.
  Buffer(DType dtype, std::vector<float>* values) : Buffer(dtype, values->size()) {
    std::vector<uint8_t> bytes;
    encode(dtype, *values, &bytes);
    require(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    if (dtype == DType::kF16 || dtype == DType::kBF16) *values = decode(dtype, bytes);
  }
  // As they are.
  template <typename T>
  explicit Buffer(const std::vector<T>& all) : Buffer(DType::kBool, all.size() * sizeof(T)) {
    require(cudaMemcpy(data(), all.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(memory_); }

  char* data() const { return static_cast<char*>(memory_) + kGuard; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  std::vector<float> read() const {
    std::vector<uint8_t> bytes(bytes_);
    require(cudaMemcpy(bytes.data(), data(), bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return decode(dtype_, bytes);
  }
  // As they lie in memory.
  template <typename T>
  std::vector<T> elements() const {
    std::vector<T> all(bytes_ / sizeof(T));
    require(cudaMemcpy(all.data(), data(), bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }
  bool guards_hold() const {
    std::vector<uint8_t> bytes(2 * kGuard);
    require(cudaMemcpy(bytes.data(), memory_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
    require(cudaMemcpy(bytes.data() + kGuard, data() + bytes_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0xff; });
  }

 private:
  static constexpr size_t kGuard = 512;
  DType dtype_;
  size_t bytes_;
  void* memory_ = nullptr;
};

// Results: what they should be, and the magnitudes that their errors are relative to.
struct Expected {
  std::vector<double> value, magnitude;
  explicit Expected(size_t n) : value(n), magnitude(n) {}
};

class Report {
 public:
  // Elements whose expected magnitude is below 0 are not compared.
  void compare(const std::string& what, DType dtype, const std::vector<float>& got, const Expected& want,
               double factor = 1.0) {
    ++checks_;
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < want.value.size(); ++i) {
      if (want.magnitude[i] < 0) continue;
      const double w = rounded(dtype, want.value[i]), g = got[i];
      double error = 0;
      if (std::isnan(w) || std::isnan(g)) {
        error = std::isnan(w) && std::isnan(g) ? 0 : 1e9;
      } else if (std::isinf(w) || std::isinf(g)) {
        error = w == g ? 0 : 1e9;
      } else {
        error = std::abs(g - w) / (factor * step_of(dtype) * (std::abs(w) + std::abs(want.magnitude[i])) + 1e-7);
      }
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    most_ = std::max(most_, std::min(worst, 1e6));
    if (worst <= 1) return;
    fail(what + ": element " + std::to_string(at) + " is " + std::to_string(got[at]) + ", not " +
         std::to_string(want.value[at]) + ", " + std::to_string(worst) + " times what is allowed");
  }
  // Numbers that have to be the same.
  template <typename T>
  void equal(const std::string& what, const std::vector<T>& got, const std::vector<T>& want) {
    ++checks_;
    for (size_t i = 0; i < want.size(); ++i)
      if (got[i] != want[i])
        return fail(what + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
                    std::to_string(want[i]));
  }
  void guards(const std::string& what, const Buffer& buffer) {
    if (!buffer.guards_hold()) fail(what + ": wrote outside of its result");
  }
  void success(const std::string& what, cudaError_t error) {
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
      fail(what + ": " + cudaGetErrorString(error));
      if (cudaDeviceSynchronize() != cudaSuccess) finish();  // nothing can be run any more
    }
  }
  void fail(const std::string& line) {
    ++failures_;
    if (failures_ <= 12) std::printf("FAIL %s\n", line.c_str());
  }
  [[noreturn]] void finish() {
    std::printf("%s: %d checks, %d failures, the largest error is %.3f of what is allowed\n", family_.c_str(), checks_,
                failures_, most_);
    std::exit(failures_ == 0 ? 0 : 1);
  }
  // Before the first check of a family.
  void begin(const std::string& family) {
    if (!family_.empty())
      std::printf("%s: %d checks, %d failures, the largest error is %.3f of what is allowed\n", family_.c_str(),
                  checks_, failures_, most_);
    total_failures_ += failures_;
    std::fflush(stdout);
    family_ = family;
    checks_ = failures_ = 0;
    most_ = 0;
  }
  int end() {
    begin("");
    return total_failures_ == 0 ? 0 : 1;
  }

 private:
  static double rounded(DType dtype, double v) {
    if (dtype == DType::kF16) return __half2float(__float2half(static_cast<float>(v)));
    return static_cast<float>(v);
  }

  std::string family_;
  int checks_ = 0, failures_ = 0, total_failures_ = 0;
  double most_ = 0;
};

inline Target make_target(bool overlap) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  Target target;
  target.capability = 10 * properties.major + properties.minor;
  target.multiprocessors = properties.multiProcessorCount;
  target.overlap = overlap && target.capability >= 90;
  return target;
}

inline double activated(const Activation& a, double v) {
  const auto clamp = [](double x, double low, double high) { return x < low ? low : x > high ? high : x; };
  switch (a.function) {
    case Function::kNone:
      return v;
    case Function::kClamp:
      return clamp(v, a.alpha, a.beta);
    case Function::kLeakyRelu:
      return v < 0 ? static_cast<double>(a.alpha) * v : v;
    case Function::kHardSwish:
      return v * clamp(v + 3, 0, 6) / 6;
    case Function::kHardSigmoid:
      return clamp(static_cast<double>(a.alpha) * v + a.beta, 0, 1);
    case Function::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case Function::kSilu:
      return v / (1 + std::exp(-v));
    case Function::kTanh:
      return std::tanh(v);
    case Function::kGelu:
      return 0.5 * v * std::erfc(-v / std::sqrt(2.0));
  }
  return v;
}

inline std::vector<Activation> all_activations() {
  const float infinity = std::numeric_limits<float>::infinity();
  return {{Function::kNone, 0, 0},
          {Function::kClamp, 0, infinity},
          {Function::kClamp, 0, 6},
          {Function::kClamp, -0.5f, 0.75f},
          {Function::kLeakyRelu, 0.1f, 0},
          {Function::kHardSwish, 0, 0},
          {Function::kHardSigmoid, 0.2f, 0.5f},
          {Function::kSigmoid, 0, 0},
          {Function::kSilu, 0, 0},
          {Function::kTanh, 0, 0},
          {Function::kGelu, 0, 0}};
}

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32};

// Channels-last images: the lanes beyond the channels hold NaN.
inline std::vector<float> images(Random& random, int pixels, int channels, float factor = 1.0f) {
  const int padded = (channels + 7) / 8 * 8;
  std::vector<float> v = random.numbers(static_cast<size_t>(pixels) * padded, factor);
  for (int p = 0; p < pixels; ++p)
    for (int c = channels; c < padded; ++c)
      v[static_cast<size_t>(p) * padded + c] = std::numeric_limits<float>::quiet_NaN();
  return v;
}

}  // namespace minnow::cuda::check
