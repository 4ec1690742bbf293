// Element types of tensors, and their mapping to C++ types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace minnow {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  // Storage types: tensors are kept in them, one element per byte with the upper bits 0. Ops move and convert them, and
  // compute in others.
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4E2M1,
  kI4,
  kU4,
  kI2,
  kU2,
};
constexpr int kDTypes = 25;

constexpr bool is_storage(DType t) { return t >= DType::kF8E4M3FN && t <= DType::kU2; }

constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    default:
      return is_storage(t) ? 1 : 4;
  }
}

// A float type that kernels compute with.
constexpr bool is_float(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16;
}

// The name used in messages and in the Python API: "f32", "i64", "bool", ...
const char* dtype_name(DType t);
// The type of that name; false when there is none.
bool dtype_of_name(const std::string& name, DType* out);

}  // namespace minnow
