// The op LookUp.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <cstring>

#include "kernels/cpu/quant/look_up.h"

#if HWY_TARGET == HWY_AVX3 && (HWY_TARGETS & HWY_AVX2)
// Most processors with AVX-512 have tables of 256 bytes (byte_tables.h); the others take the code for AVX2.
namespace minnow {
namespace N_AVX2 {
void find_bytes(const uint8_t* x, const uint8_t* table, uint8_t lowest, int64_t n, uint8_t* y);
int64_t bytes_at_once();
}  // namespace N_AVX2
namespace N_AVX3 {
void find_bytes(const uint8_t* x, const uint8_t* table, uint8_t lowest, int64_t n, uint8_t* y) {
  N_AVX2::find_bytes(x, table, lowest, n, y);
}
int64_t bytes_at_once() { return N_AVX2::bytes_at_once(); }
}  // namespace N_AVX3
}  // namespace minnow
#else
HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kVectors = 4;  // of bytes at a time

// y[i] = table[x[i] ^ lowest], for bytes_at_once() of them or more. Instructions look up bytes in 16 of them.
void find_bytes(const uint8_t* x, const uint8_t* table, uint8_t lowest, int64_t n, uint8_t* y) {
  const hn::ScalableTag<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kPart = 16, kParts = 8;  // of each half
  HWY_ALIGN uint8_t parts[2 * kParts * kPart];
  std::memcpy(parts, table, sizeof(parts));
#if HWY_ARCH_X86
  const hn::RebindToSigned<decltype(d)> d_signed;
  // A byte below 128 finds something in each part of its half up to its own one: all that together, of parts that hold
  // the differences from one to the next, is what its own part of the table has. Others find 0.
  const hn::CappedTag<uint8_t, kPart> d_part;
  for (int i = 0; i < 2 * kParts; ++i)
    if (i % kParts != 0)
      hn::Store(hn::Xor(hn::LoadU(d_part, table + kPart * i), hn::LoadU(d_part, table + kPart * (i - 1))), d_part,
                parts + kPart * i);
  const auto step = [&](V v) HWY_ATTR {
    return hn::BitCast(d, hn::SaturatedSub(hn::BitCast(d_signed, v), hn::Set(d_signed, kPart)));
  };
#else
  // A byte finds something only in its own part.
  const auto step = [&](V v) HWY_ATTR { return hn::Sub(v, hn::Set(d, kPart)); };
#endif
  const V flip = hn::Set(d, lowest), half = hn::Set(d, 128);
  for (int64_t i = 0; i < n; i += kVectors * lanes) {
    const int64_t at = HWY_MIN(i, n - kVectors * lanes);  // the last ones once more
    V v[kVectors], found[kVectors];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      v[k] = hn::Xor(hn::LoadU(d, x + at + k * lanes), flip);
      found[k] = hn::Zero(d);
    }
    for (const uint8_t* of_half = parts; of_half < parts + sizeof(parts); of_half += kParts * kPart) {
      V place[kVectors];
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        place[k] = v[k];
        v[k] = hn::Xor(v[k], half);
      }
      for (const uint8_t* p = of_half; p < of_half + kParts * kPart; p += kPart) {
        const V part = hn::LoadDup128(d, p);
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
          found[k] = hn::Xor(found[k], hn::TableLookupBytesOr0(part, place[k]));
          place[k] = step(place[k]);
        }
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) hn::StoreU(found[k], d, y + at + k * lanes);
  }
}

int64_t bytes_at_once() { return kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>())); }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "kernels/cpu/machine/packed_layout.h"

#include <algorithm>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/quant/byte_tables.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(find_bytes);
HWY_EXPORT(bytes_at_once);

bool is_narrow(DType t) { return t == DType::kI8 || t == DType::kU8 || t == DType::kI16 || t == DType::kU16; }

Status infer_look_up(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const DType x = c.in(0).dtype;
  if (!is_narrow(x)) return fail(Code::kFormat, "takes integers of 8 or 16 bits, not %s", dtype_name(x));
  const int64_t numbers = int64_t{1} << (8 * dtype_size(x));
  if (c.shape(1).rank() != 1 || c.shape(1)[0] != numbers)
    return fail(Code::kFormat, "a table of shape %s for %s", c.shape(1).str().c_str(), dtype_name(x));
  c.set(0, c.in(1).dtype, c.shape(0));
  return ok();
}

// The number as an unsigned one counts from 0: the table of a signed type starts in the middle.
template <typename X, typename Y>
void map(const X* x, const Y* table, X lowest, int64_t n, Y* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[static_cast<X>(x[i] ^ lowest)];
}

template <typename X>
void map_as(size_t size, const void* x, const void* table, X lowest, int64_t n, void* y) {
  const X* from = static_cast<const X*>(x);
  const auto as = [&](auto zero) {
    using Y = decltype(zero);
    map<X, Y>(from, static_cast<const Y*>(table), lowest, n, static_cast<Y*>(y));
  };
  size == 1 ? as(uint8_t{0}) : size == 2 ? as(uint16_t{0}) : size == 4 ? as(uint32_t{0}) : as(uint64_t{0});
}

void run_look_up(const Attrs&, const RunContext& context) {
  const size_t size = dtype_size(context.out[0]->type.dtype);
  const TensorType& type = context.in[0]->type;
  const int64_t count = type.layout == Layout::kLast ? last_count(type.shape) : type.count();
  context.pool->parallel_for(count, 8192, [&](int64_t begin, int64_t end, int) {
    look_up(*context.in[1], *context.in[0], begin, end - begin, offset(context.out[0]->data, begin, size));
  });
}

LayoutRule layout_of_look_up(const std::vector<const TensorType*>& in) {
  return dtype_size(in[0]->dtype) == 1 && dtype_size(in[1]->dtype) == 1 ? LayoutRule::kFollowLast : LayoutRule::kPlain;
}

MINNOW_OP("LookUp", infer_look_up);
MINNOW_KERNEL("LookUp", create_simple<run_look_up>, LayoutRule::kPlain, /*in_place=*/false, layout_of_look_up);

}  // namespace

void look_up(const Tensor& table, const Tensor& x, int64_t first, int64_t n, void* y) {
  const DType type = x.type.dtype;
  const void* from = offset(x.data, first, dtype_size(type));
  const size_t size = dtype_size(table.type.dtype);
  const uint8_t lowest = type == DType::kI8 ? 0x80 : 0;
  if (dtype_size(type) == 1 && size == 1 && (has_byte_tables() || n >= HWY_DYNAMIC_DISPATCH(bytes_at_once)())) {
    const auto find = has_byte_tables() ? find_narrow : HWY_DYNAMIC_DISPATCH(find_bytes);
    return find(static_cast<const uint8_t*>(from), static_cast<const uint8_t*>(table.data), lowest, n,
                static_cast<uint8_t*>(y));
  }
  if (dtype_size(type) == 1 && size == 4 && n >= 128 && has_byte_tables()) {
    const int64_t most = n / 64 * 64;
    find_wide(static_cast<const uint8_t*>(from), static_cast<const uint32_t*>(table.data), lowest, most,
              static_cast<uint32_t*>(y));
    from = offset(from, most, 1);
    y = offset(y, most, 4);
    n -= most;
  }
  if (dtype_size(type) == 1) return map_as<uint8_t>(size, from, table.data, lowest, n, y);
  map_as<uint16_t>(size, from, table.data, type == DType::kI16 ? 0x8000 : 0, n, y);
}

}  // namespace minnow
#endif  // HWY_ONCE
