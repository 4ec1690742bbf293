// Blocks of elements, converted between the type they are stored in and the type they are computed in. All element
// types need only five types of arithmetic, so most ops are written for these five and work on blocks.
#pragma once

#include <cstdint>

#include "kernels/cpu/convert/minifloat.h"
#include "kernels/core/dtype.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/core/tensor.h"

namespace minnow {

enum class Compute : uint8_t { kF32, kF64, kI32, kI64, kU64 };

// Holds every value of `t` exactly: f16, bf16, minifloats -> f32; the integers up to 16 bits and bool -> i32; u32 ->
// i64.
constexpr Compute compute_type(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return Compute::kF32;
    case DType::kF64:
      return Compute::kF64;
    case DType::kU32:
    case DType::kI64:
      return Compute::kI64;
    case DType::kU64:
      return Compute::kU64;
    default:
      return is_minifloat(t) ? Compute::kF32 : Compute::kI32;
  }
}

constexpr DType compute_dtype(Compute c) {
  switch (c) {
    case Compute::kF32:
      return DType::kF32;
    case Compute::kF64:
      return DType::kF64;
    case Compute::kI32:
      return DType::kI32;
    case Compute::kI64:
      return DType::kI64;
    default:
      return DType::kU64;
  }
}

// Elements that the users of blocks convert at a time, and a buffer that holds as many of any type.
constexpr int64_t kBlock = 512;
struct Block {
  alignas(64) unsigned char bytes[kBlock * 8];
};

// `n` elements of type `from` in their compute type: `data` itself when it is the same type, else in `buffer`.
const void* load_block(DType from, const void* data, int64_t n, void* buffer);

// Converts n elements of a compute type as a cast does: floats truncate toward zero, and round to the nearest float16,
// ties to even; integers wrap; bool is "not zero". A float that an integer type cannot hold gives what x86 gives: the
// least int32 (int64 for 64-bit targets and u32), cut to the width. Minifloats are rounded from f32, as `how` says.
void store_block(Compute from, const void* block, DType to, void* data, int64_t n, Storing how = {});

// The same between any two types; n may be of any size. `in` and `out` may be the same memory if the types have one
// size.
void convert(DType from, const void* in, DType to, void* out, int64_t n, Storing how = {});

// In the body of a loop keeps the compiler from vectorizing it. For the few elements that do not fill a vector, and for
// types that are too rare to be worth the code: a vectorized loop takes half a kilobyte.
inline __attribute__((always_inline)) void keep_scalar() { __asm__ volatile(""); }

// Elements that a tensor has in memory, with the channel padding of the packed layout.
inline int64_t stored_count(const TensorType& type) {
  return stored_bytes(type) / static_cast<int64_t>(dtype_size(type.dtype));
}

inline const char* offset(const void* data, int64_t elements, size_t size) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(size);
}
inline char* offset(void* data, int64_t elements, size_t size) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size);
}

}  // namespace minnow
