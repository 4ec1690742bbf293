#include "kernels/vulkan/product.h"

#include <algorithm>

#include "kernels/gpu/dense/layer.h"

namespace minnow::vulkan {
namespace {

constexpr size_t kMostSchemes = 6;  // that a session tries
constexpr int64_t kMostParts = 16;
constexpr int64_t kMostSums = int64_t{1} << 26;  // bytes
constexpr int kFlagBias = 1, kFlagResidual = 4;

// Of a unit (a multiprocessor), roughly: multiplications and bytes in a second, and how long memory lets it wait.
constexpr double kMacs = 8e11, kPlainMacs = 1e11, kBytes = 6e10, kWait = 0.6e-6, kMerge = 1.5e-6;
constexpr double kSharedBytes = 1.6e5;

}  // namespace

const ProductSchemes::Tile ProductSchemes::kTiles[] = {
    {"product_16x64", 16, 64, 64, true}, {"product_32x32", 32, 32, 64, true},   {"product_64x32", 64, 32, 64, true},
    {"product_64x64", 64, 64, 64, true}, {"product_128x64", 128, 64, 32, true}, {"product_128x128", 128, 128, 32, true},
    {"product", 64, 64, 16, false},
};

const ProductSchemes::Tile ProductSchemes::kFewRows[] = {{"few_rows", 4, 4, 256, false, true},
                                                         {"few_rows_subgroups", 4, 4, 256, false, true}};

bool ProductSchemes::is_few_rows() const {
  const Product& p = product_;
  return p.rows <= kFewRows[0].high && p.from == Rows::kMatrix && p.groups == 1 && p.tail == 0 && p.spread == 0 &&
         !p.gated && !p.joined;
}

int64_t ProductSchemes::tiles_of(const Tile& tile) const {
  return gpu::groups_for(product_.rows, tile.high) * gpu::groups_for(product_.columns, tile.wide) * product_.groups;
}

Status ProductSchemes::prepare(const NodeContext& node, const Product& product, int64_t* workspace) {
  product_ = product;
  device_ = &gpu::device_of(node);
  schemes_.clear();
  const Machine& machine = machine_of(node);
  const bool matrices = machine.matrices && product.dtype == DType::kF16;
  const bool parallel = gpu::has_many_units(*device_);
  const double units = parallel ? std::max(machine.units, 16) : 1;
  const int64_t bytes = static_cast<int64_t>(dtype_size(product.dtype));
  const int64_t kept = product.groups * product.rows * ((product.columns + 7) / 8 * 8) * 4;
  for (const Tile& tile : kTiles) {
    if (tile.matrices != matrices) continue;
    const int64_t tiles = tiles_of(tile);
    const double step_bytes = static_cast<double>((tile.high + tile.wide) * tile.step * bytes);
    const double most_resident = std::max(1.0, std::min(16.0, kSharedBytes / (2 * step_bytes + 4096)));
    const double step_seconds = std::max(
        static_cast<double>(tile.high * tile.wide * tile.step) / (matrices ? kMacs : kPlainMacs), step_bytes / kBytes);
    int64_t before = 0;
    for (int64_t wanted = 1; wanted <= (parallel ? kMostParts : 1); wanted *= 2) {
      const int64_t steps = gpu::groups_for(gpu::groups_for(product.depth, wanted), tile.step);
      const int64_t parts = gpu::groups_for(product.depth, steps * tile.step);
      if (parts == before || (parts > 1 && (parts * kept > kMostSums || steps < 2))) break;
      before = parts;
      // Of a unit that has the most groups: they run beside each other, as many as its memory holds.
      const double groups = static_cast<double>(gpu::groups_for(tiles * parts, static_cast<int64_t>(units)));
      const double resident = std::min(most_resident, groups);
      double seconds = groups / resident * static_cast<double>(steps) * std::max(kWait, resident * step_seconds);
      seconds += groups * static_cast<double>(tile.high * tile.wide) * 2 * static_cast<double>(bytes) / kBytes;
      if (parts > 1)
        seconds += kMerge + static_cast<double>(gpu::groups_for(tiles, static_cast<int64_t>(units)) * (parts + 1) *
                                                tile.high * tile.wide * 4) /
                                kBytes;
      schemes_.push_back({&tile, parts, steps * tile.step, seconds});
    }
  }
  if (is_few_rows()) {
    const Tile& tile = kFewRows[machine.subgroups && machine.subgroup == 32 ? 1 : 0];
    const double groups = static_cast<double>(gpu::groups_for(product.columns, 4)) / units;
    const double steps = static_cast<double>(gpu::groups_for(product.depth, tile.step));
    schemes_.push_back({&tile, 1, product.depth, std::max(1.0, groups / 8) * steps * kWait / 2});
  }
  std::stable_sort(schemes_.begin(), schemes_.end(),
                   [](const Scheme& a, const Scheme& b) { return a.seconds < b.seconds; });
  if (schemes_.size() > kMostSchemes) schemes_.resize(kMostSchemes);
  int64_t sums = 0, counters = 0;
  for (const Scheme& scheme : schemes_)
    if (scheme.parts > 1) {
      sums = std::max(sums, scheme.parts * kept);
      counters = std::max(counters, tiles_of(*scheme.tile));
    }
  *workspace += sums;
  counters_ = nullptr;
  if (counters > 0) {
    const std::vector<int32_t> zeros(static_cast<size_t>(counters));
    MINNOW_RETURN_IF_ERROR(device_->upload(zeros.data(), 4 * counters, &counters_));
  }
  choose(0);
  return compiled_;
}

Status ProductSchemes::compile(const Scheme& scheme, const gpu::Program** out) const {
  const Product& p = product_;
  if (scheme.tile->few_rows)
    return device_->program(
        scheme.tile->text,
        {{"TYPE", gpu::type_of(p.dtype)}, {"ROWS", gpu::to_i32(p.rows)}, {"ACTIVATION", p.activation.kind}}, out);
  return device_->program(scheme.tile->text,
                          {{"TYPE", gpu::type_of(p.dtype)},
                           {"TYPE_X", gpu::type_of(p.from == Rows::kImage ? p.image : p.dtype)},
                           {"LOADER", static_cast<int32_t>(p.from)},
                           {"GATE", p.gated ? 1 : 0},
                           {"JOINED", p.joined ? 1 : 0},
                           {"TAIL", gpu::to_i32(p.tail)},
                           {"SPREAD", gpu::to_i32(p.spread)},
                           {"ACTIVATION", p.activation.kind}},
                          out);
}

void ProductSchemes::choose(int scheme) {
  chosen_ = static_cast<size_t>(scheme);
  compiled_ = compile(schemes_[chosen_], &program_);
}

std::string ProductSchemes::name() const {
  if (schemes_.empty()) return "";
  const Scheme& scheme = schemes_[chosen_];
  return std::string(scheme.tile->text) + (scheme.parts > 1 ? "_parts" + std::to_string(scheme.parts) : "");
}

Status ProductSchemes::launch(const ProductOperands& operands, gpu::Stream& stream) const {
  MINNOW_RETURN_IF_ERROR(Status(compiled_));
  const Product& p = product_;
  const Scheme& scheme = schemes_[chosen_];
  if (scheme.tile->few_rows) return launch_few_rows(operands, stream);
  const auto given = [&](const void* address) { return address != nullptr ? address : operands.y; };
  const bool parts = scheme.parts > 1;
  gpu::Arguments arguments;
  arguments.buffer(operands.x).buffer(operands.w).buffer(given(operands.bias)).buffer(given(operands.residual));
  arguments.buffer(given(operands.gate)).buffer(parts ? operands.sums : operands.y);
  arguments.buffer(parts ? counters_->data() : operands.y).buffer(operands.y);
  for (int64_t v :
       {p.rows, p.columns, p.depth, p.x_row, p.height, p.width, p.out_height, p.out_width, p.stride_h, p.stride_w,
        p.dilation_h, p.dilation_w, p.pad_h, p.pad_w, p.channels, p.kernel_w, p.y_row, scheme.parts, scheme.part_k})
    arguments.add(gpu::to_i32(v));
  const int32_t flags = (operands.bias != nullptr ? kFlagBias : 0) | (operands.residual != nullptr ? kFlagResidual : 0);
  arguments.add(flags).add(gpu::to_i32(p.groups)).add(p.activation.alpha).add(p.activation.beta);
  const int64_t groups = tiles_of(*scheme.tile) * scheme.parts;
  return stream.launch(*program_, arguments, {std::min(groups, device_->limits().groups[0])});
}

Status ProductSchemes::launch_few_rows(const ProductOperands& operands, gpu::Stream& stream) const {
  const Product& p = product_;
  const auto given = [&](const void* address) { return address != nullptr ? address : operands.y; };
  gpu::Arguments arguments;
  arguments.buffer(operands.x).buffer(operands.w).buffer(given(operands.bias)).buffer(given(operands.residual));
  arguments.buffer(operands.y);
  for (int64_t v : {p.columns, p.depth, p.x_row, p.y_row}) arguments.add(gpu::to_i32(v));
  arguments.add((operands.bias != nullptr ? kFlagBias : 0) | (operands.residual != nullptr ? kFlagResidual : 0));
  arguments.add(p.activation.alpha).add(p.activation.beta);
  return stream.launch(*program_, arguments, {std::min<int64_t>(gpu::groups_for(p.columns, 4), 65535)});
}

}  // namespace minnow::vulkan
