// Products of matrices of types that have no fast way.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/gemm/matmul.h"

namespace minnow {
namespace {

template <typename T>
void matmul_as(const MatMulShape& s, const T* a, const T* b, const T* bias, T* c, ThreadPool* pool) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, T,
                                 std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>>;
  pool->parallel_for(s.products() * s.m, std::max<int64_t>(1, 10000 / (s.n * s.k + 1)),
                     [&](int64_t begin, int64_t end, int) {
                       for (int64_t row = begin; row < end; ++row) {
                         const int64_t p = row / s.m, i = row % s.m;
                         const T* from = a + s.a_of(p) * s.m * s.k + (s.transpose_a ? i : i * s.k);
                         const T* matrix = b + s.b_of(p) * s.k * s.n;
                         const int64_t step = s.transpose_a ? s.m : 1;
                         T* to = c + row * s.n;
                         for (int64_t j = 0; j < s.n; ++j) to[j] = bias == nullptr ? T(0) : bias[j];
                         if (s.transpose_b) {
                           for (int64_t j = 0; j < s.n; ++j) {
                             Sum sum = 0;
                             for (int64_t k = 0; k < s.k; ++k)
                               sum += static_cast<Sum>(from[k * step]) * static_cast<Sum>(matrix[j * s.k + k]);
                             to[j] = static_cast<T>(static_cast<Sum>(to[j]) + sum);
                           }
                         } else {
                           for (int64_t k = 0; k < s.k; ++k) {
                             const Sum factor = static_cast<Sum>(from[k * step]);
                             const T* values = matrix + k * s.n;
                             for (int64_t j = 0; j < s.n; ++j)
                               to[j] = static_cast<T>(static_cast<Sum>(to[j]) + factor * static_cast<Sum>(values[j]));
                           }
                         }
                       }
                     });
}

}  // namespace

void matmul_plain(const MatMulShape& shape, DType dtype, const void* a, const void* b, const void* bias, void* c,
                  ThreadPool* pool) {
  auto run = [&](auto zero) {
    using T = decltype(zero);
    matmul_as<T>(shape, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(bias),
                 static_cast<T*>(c), pool);
  };
  switch (dtype) {
    case DType::kF32:
      return run(float{});
    case DType::kF64:
      return run(double{});
    case DType::kI32:
    case DType::kU32:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace minnow
