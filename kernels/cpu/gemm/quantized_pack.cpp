// How packed weights of few bits lie in memory, and how they get there from the numbers of a file.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/core/elements.h"
#include "kernels/core/interrupt.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// A unit of one row, whose lane begins at `to`.
void put_unit(const uint8_t* codes, int bits, int64_t lanes, uint32_t* to) {
  uint32_t group[8];
  std::memcpy(group, codes, sizeof group);
  if (bits == 8) {
    for (int64_t g = 0; g < 8; ++g, to += lanes) *to = group[g];
    return;
  }
  int taken = 0;
  for (const int width : {4, 2, 1}) {
    if ((bits & width) == 0) continue;
    const int groups = 8 / width;
    const uint32_t mask = ((1u << width) - 1) * 0x01010101u;
    for (int first = 0; first < 8; first += groups, to += lanes) {
      uint32_t word = 0;
      for (int g = 0; g < groups; ++g) word |= (group[first + g] >> taken & mask) << (width * g);
      *to = word;
    }
    taken += width;
  }
}

}  // namespace

QuantizedForm::QuantizedForm(const QuantizedMatrix& matrix)
    : rows(matrix.rows),
      columns(matrix.columns),
      block(matrix.block),
      blocks(matrix.blocks()),
      units(ceil_div(matrix.block, kQuantizedUnit)),
      bits(matrix.bits),
      has_offset(matrix.has_offset),
      half_scales(matrix.half_scales),
      offset_of_least(matrix.offset_of_least) {}

int64_t QuantizedForm::panels() const { return ceil_div(rows, pack_width()); }
int64_t QuantizedForm::scale_step() const { return pack_width() * scale_bytes() * (has_offset ? 2 : 1); }
int64_t QuantizedForm::scale_words() const { return round_up(blocks * scale_step(), 64) / 4; }
int64_t QuantizedForm::block_words() const { return pack_width() * units * bits; }
int64_t QuantizedForm::panel_words() const { return round_up(scale_words() + blocks * block_words(), 16); }

void QuantizedForm::pack(const QuantizedMatrix& matrix, const int32_t* order, void* to, ThreadPool* pool) const {
  const int64_t lanes = pack_width();
  const auto half = static_cast<uint8_t>(zero());
  // The scales of a row, a lane.
  const auto pack_scales = [&](int64_t row, char* at) {
    constexpr int64_t kPart = 128;
    float numbers[2][kPart];
    uint16_t halves[kPart];
    for (int64_t first = 0; first < blocks; first += kPart) {
      const int64_t n = std::min(kPart, blocks - first);
      matrix.stored_scales(row * blocks + first, n, numbers[0], numbers[1]);
      for (int k = 0; k < (has_offset ? 2 : 1); ++k) {
        if (half_scales) convert_elements(DType::kF32, numbers[k], DType::kF16, halves, n);
        char* place = at + first * scale_step() + k * lanes * scale_bytes();
        for (int64_t i = 0; i < n; ++i, place += scale_step())
          half_scales ? std::memcpy(place, halves + i, 2) : std::memcpy(place, numbers[k] + i, 4);
      }
    }
  };
  const auto pack_panels = [&](int64_t begin, int64_t end, int) {
    constexpr int64_t kPart = 64 * kQuantizedUnit;
    uint8_t codes[kPart];
    std::vector<int8_t> whole(static_cast<size_t>(order == nullptr ? 0 : columns));
    LongLoop loop;
    for (int64_t panel = begin; panel < end && loop.goes_on(lanes * columns); ++panel) {
      uint32_t* base = static_cast<uint32_t*>(to) + panel * panel_words();
      if (rows - panel * lanes < lanes) std::memset(base, 0, static_cast<size_t>(4 * panel_words()));
      for (int64_t lane = 0; lane < std::min(lanes, rows - panel * lanes); ++lane) {
        const int64_t row = panel * lanes + lane;
        pack_scales(row, reinterpret_cast<char*>(base) + lane * scale_bytes());
        uint32_t* at = base + scale_words() + lane;
        if (order != nullptr) matrix.codes(row * columns, columns, whole.data());
        // Blocks of whole units follow each other without a gap.
        const int64_t length = block % kQuantizedUnit == 0 ? columns : block;
        for (int64_t from = 0; from < columns; from += length) {
          for (int64_t first = from; first < from + length; first += kPart) {
            const int64_t n = std::min(kPart, from + length - first);
            auto* signed_codes = reinterpret_cast<int8_t*>(codes);
            if (order == nullptr) {
              matrix.codes(row * columns + first, n, signed_codes);
            } else {
              for (int64_t i = 0; i < n; ++i) signed_codes[i] = whole[static_cast<size_t>(order[first + i])];
            }
            for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(codes[i] + half);
            std::fill(codes + n, codes + round_up(n, kQuantizedUnit), half);
            for (int64_t u = 0; u < n; u += kQuantizedUnit, at += bits * lanes) put_unit(codes + u, bits, lanes, at);
          }
        }
      }
      matrix.release(std::min(lanes, rows - panel * lanes) * columns);
    }
  };
  if (pool == nullptr) return pack_panels(0, panels(), 0);
  pool->parallel_for(panels(), 1, pack_panels);
}

void QuantizedForm::pack_ones(void* to) const {
  const int64_t lanes = pack_width();
  auto* words = static_cast<uint32_t*>(to);
  if (rows % lanes != 0) std::memset(words + rows / lanes * panel_words(), 0, static_cast<size_t>(4 * panel_words()));
  for (int64_t row = 0; row < rows; ++row)
    reinterpret_cast<float*>(words + row / lanes * panel_words())[row % lanes] = 1;
}

void QuantizedForm::pack_unit(int64_t row, int64_t unit, const uint8_t* codes, void* to) const {
  const int64_t lanes = pack_width(), place = scale_words() + unit * bits * lanes + row % lanes;
  put_unit(codes, bits, lanes, static_cast<uint32_t*>(to) + row / lanes * panel_words() + place);
}

}  // namespace minnow
