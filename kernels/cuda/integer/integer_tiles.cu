#include <algorithm>
#include <cmath>

#include "kernels/cuda/integer/integer_kernel.cuh"
#include "kernels/cuda/integer/integer_product.h"

namespace minnow::cuda {
namespace {

using IntegerFunction = void (*)(IntegerArguments);

struct IntegerTile {
  const char* name;
  int m, n, threads, stages, chunk;
  IntegerFunction matrix, windows;
  int shared_bytes(const IntegerEnding& end) const { return stages * (m + n) * 128 + constant_bytes(end, n); }
};

// rows and columns of the tile, those of a warp, stages, bytes of a chunk, blocks on a processor
#define MINNOW_TILE(NAME, M, N, WM, WN, STAGES, CHUNK, BLOCKS)                 \
  {                                                                            \
    NAME #M "x" #N "x" #STAGES, M, N, (M / WM) * (N / WN) * 32, STAGES, CHUNK, \
        integer_kernel<M, N, WM, WN, STAGES, CHUNK, true, BLOCKS>,             \
        integer_kernel<M, N, WM, WN, STAGES, CHUNK, false, BLOCKS>             \
  }

const IntegerTile kTiles[] = {
    MINNOW_TILE("int8_", 16, 128, 16, 32, 4, 16, 1),     MINNOW_TILE("int8_", 32, 64, 16, 32, 5, 16, 1),
    MINNOW_TILE("int8_", 64, 32, 16, 32, 5, 16, 1),      MINNOW_TILE("int8_", 64, 64, 32, 32, 4, 16, 1),
    MINNOW_TILE("int8_", 128, 64, 32, 32, 3, 16, 2),     MINNOW_TILE("int8_", 128, 128, 32, 64, 3, 16, 2),
    MINNOW_TILE("int8_half_", 32, 64, 16, 32, 5, 8, 1),  MINNOW_TILE("int8_half_", 64, 32, 16, 32, 5, 8, 1),
    MINNOW_TILE("int8_half_", 128, 64, 32, 32, 3, 8, 2),
};
constexpr int kTileCount = static_cast<int>(sizeof kTiles / sizeof *kTiles);

int div_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

int steps_of(const IntegerProduct& p) { return div_up(p.is_matrix() ? p.a.C : p.a.depth, 128); }

int shared_limit() {
  static const int bytes = [] {
    int device = 0, limit = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
      return 48 << 10;
    return limit;
  }();
  return bytes;
}

// In seconds; only proportions matter. The rates are twice those of the same instructions for f16.
double estimate(const IntegerProduct& p, const IntegerTile& tile, const IntegerConfig& config, const Target& target) {
  const int steps = steps_of(p), each_steps = div_up(steps, config.cluster);
  const double area = 1.0 * tile.m * tile.n;
  const double step = std::max(2 * area * 128 / 3.6e12, (tile.m + tile.n) * 128 / (tile.chunk == 16 ? 29e9 : 16e9));
  const double blocks = 1.0 * div_up(p.a.M, tile.m) * div_up(p.a.N, tile.n) * p.batch * config.cluster;
  const double resident = std::max(1, (200 << 10) / tile.shared_bytes(p.a.end));
  const double each = std::ceil(blocks / std::max(target.multiprocessors, 1)), rounds = std::ceil(each / resident);
  const double end = area * p.a.end.bytes / 20e9 + area * 2e-11;
  const double latency = 0.7e-6 + rounds * (each_steps * 0.6e-6 / (tile.stages - 1) + 0.5e-6);
  const double meeting = config.cluster > 1 ? 1.35e-6 : 0;
  return std::max(latency, 1.5e-6 + each * (each_steps * step + end)) + meeting;
}

}  // namespace

int integer_tiles() { return kTileCount; }

std::string config_name(const IntegerConfig& config) {
  return std::string(kTiles[config.tile].name) + (config.cluster > 1 ? " z" + std::to_string(config.cluster) : "");
}

bool can_multiply(const IntegerProduct& p, const IntegerConfig& config, const Target& target) {
  if (config.tile < 0 || config.tile >= kTileCount) return false;
  const IntegerTile& tile = kTiles[config.tile];
  const IntegerArguments& a = p.a;
  if (tile.chunk != p.chunk || tile.shared_bytes(a.end) > shared_limit() || target.capability < 75) return false;
  if (a.M < 1 || a.N < 1 || a.C < 1 || p.batch < 1 || p.batch > 65535) return false;
  if (a.pixel % p.chunk != 0 || a.depth % 16 != 0 || (p.batch > 1 && a.x_batch % p.chunk != 0)) return false;
  constexpr int kMostSize = 30000;  // places in images are kept in 16 bits
  if (!p.is_matrix() && (a.H > kMostSize || a.W > kMostSize || a.pad_h > 1000 || a.pad_w > 1000 ||
                         a.R * a.dilation_h > 1000 || a.S * a.dilation_w > 1000))
    return false;
  if (config.cluster == 1) return true;
  const int steps = steps_of(p);
  return target.overlap && target.capability >= 90 &&
         (config.cluster == 2 || config.cluster == 4 || config.cluster == 8) &&
         div_up(steps, config.cluster) * (config.cluster - 1) < steps;
}

std::vector<IntegerConfig> integer_configs(const IntegerProduct& product, const Target& target, size_t most) {
  std::vector<std::pair<double, IntegerConfig>> ranked;
  for (int i = 0; i < kTileCount; ++i)
    for (int cluster : {1, 2, 4, 8}) {
      const IntegerConfig config{i, cluster};
      const IntegerTile& tile = kTiles[i];
      if (!can_multiply(product, config, target)) continue;
      const int64_t tiles = int64_t{div_up(product.a.M, tile.m)} * div_up(product.a.N, tile.n) * product.batch;
      if (cluster > 1 && tiles * cluster > 6 * target.multiprocessors) continue;
      ranked.emplace_back(estimate(product, tile, config, target), config);
    }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > most) ranked.resize(most);
  std::vector<IntegerConfig> configs;
  for (const auto& pair : ranked) configs.push_back(pair.second);
  return configs;
}

cudaError_t multiply_integers(const IntegerProduct& product, const IntegerConfig& config, const Target& target) {
  if (!can_multiply(product, config, target)) return cudaErrorInvalidValue;
  const IntegerTile& tile = kTiles[config.tile];
  IntegerArguments a = product.a;
  a.steps = steps_of(product);
  a.steps_each = div_up(a.steps, config.cluster);
  a.column_tiles = div_up(a.N, tile.n);
  // x is unsigned: what is filled up with zeros counts as -128.
  a.end.row_sum_add = a.flip == 0 ? 0 : 128 * (a.steps * 128 - a.R * a.S * a.C);
  a.row_sums = a.end.w_zero != nullptr;
  const IntegerFunction kernel = product.is_matrix() ? tile.matrix : tile.windows;
  const int shared_bytes = tile.shared_bytes(a.end);
  const cudaError_t allowed = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  const dim3 grid(static_cast<unsigned>(div_up(a.M, tile.m) * a.column_tiles), static_cast<unsigned>(product.batch),
                  static_cast<unsigned>(config.cluster));
  return launch(target, kernel, grid, tile.threads, shared_bytes, config.cluster, a);
}

}  // namespace minnow::cuda
