// What products and convolutions have in common on a GPU: bias, residual and activation, and sums over k that are made
// in parts where there would be too few work-groups otherwise.
#pragma once

#include "kernels/gpu/dense/activation.h"
#include "kernels/gpu/device.h"

namespace minnow::gpu {

// Bits of the parameter `flags` of the texts dense_*.
enum LayerFlag : int32_t { kBiasOfColumn = 1, kBiasOfRow = 2, kResidual = 4, kGate = 8, kOneA = 16, kTable = 32 };

// Input i of a run, or null where it is missing.
const void* input_data(const RunContext& context, size_t i);
// The address of input i, or any other one where it is missing, for a text that does not read it then.
const void* input_or(const RunContext& context, size_t i, const void* other);
// The element type of input i, as a constant of a text; that of f32 where it is missing.
int32_t type_of(const NodeContext& node, size_t i);
inline int32_t type_of(DType t) { return static_cast<int32_t>(t); }
inline int32_t to_i32(int64_t v) { return static_cast<int32_t>(v); }

// The bits of f16, rounded to nearest even; finite numbers stay finite.
uint16_t to_half(float v);

// A processor that runs OpenCL is filled by a few work-groups, and gains nothing from large ones.
bool has_many_units(const Device& device);

// How many results a work-group makes: 16 x 16 work-items with so many rows and columns each, of the texts whose names
// end with `suffix`.
struct Tile {
  const char* suffix = "";
  int64_t rows = 64, columns = 64;
  int64_t count(int64_t m, int64_t n) const { return groups_for(m, rows) * groups_for(n, columns); }
};
Tile choose_tile(const Device& device, int64_t m, int64_t n, int64_t products);

// Constant weights [count, rows, columns] as [count, columns, rows], so that work-items side by side read numbers side
// by side. Packs nothing where they are no constants of f32.
void pack_columns(const NodeContext& node, size_t input, int64_t count, int64_t rows, int64_t columns, Packed* packed);

// How the sums over k are cut.
struct Parts {
  int64_t count = 1;
  int64_t k = 1;  // of each but the last, a multiple of 16
};
Parts choose_parts(const Device& device, int64_t tiles, int64_t k, int64_t results);

// The launch after a product in parts: adds them up, and then what a layer adds.
class Finish {
 public:
  // A bias is for `inner` elements that are next to each other, and there are `channels` of them.
  Status prepare(const NodeContext& node, const LayerActivation& activation, int64_t n, int64_t parts, int64_t inner,
                 int64_t channels);
  Status enqueue(const RunContext& context, Stream& stream) const;

 private:
  const Program* program_ = nullptr;
  LayerActivation activation_;
  int64_t n_ = 0, parts_ = 0, inner_ = 1, channels_ = 1;
};

}  // namespace minnow::gpu
