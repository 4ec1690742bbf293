#include "kernels/cuda/product/product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/cuda/product/tensor_map.h"
#include "kernels/cuda/product/tiles.h"
#include "kernels/cuda/product/tma_arguments.h"

namespace minnow::cuda {
namespace {

constexpr int kMostDevices = 16, kMostTiles = 256;

int div_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

// What a configuration makes of a product.
struct Split {
  int row_tiles, column_tiles;
  int steps, each;  // of the depth: in all, and for a block
};

Split split_of(const Product& p, const Tile& tile, const ProductConfig& config) {
  const ProductArguments& s = p.shape;
  const int step = 128 / bytes_of(p.element);
  Split split{div_up(s.M, tile.m), div_up(s.N, tile.n), 0, 0};
  if (tile.family == Family::kTma) {
    split.steps = div_up(s.C, step) * s.R * s.S;
  } else {
    split.steps = div_up(p.is_matrix() ? s.C : s.depth, step);
  }
  split.each = config.shares_depth ? div_up(split.steps, config.cluster) : split.steps;
  return split;
}

bool runs_on(const Tile& tile, const Chip& chip) {
  if (tile.shared_bytes() > chip.shared_bytes) return false;
  switch (tile.family) {
    case Family::kPlain:
      return true;
    case Family::kMma:
      return chip.capability >= (tile.element == Element::kF16 ? 75 : 80);
    case Family::kWgmma:
      return chip.has_hopper_code;
    case Family::kTma:
      return chip.has_hopper_code && has_tensor_maps();
  }
  return false;
}

// What a family of kernels does on an H200, fitted to the times of all configurations of four networks: on each
// processor multiply-adds (twice) of 16 bits, bytes to shared memory and bytes of results a second, and what a launch
// takes.
struct Rates {
  double flops, loads, stores, launch;
};
constexpr Rates kRates[] = {{0.35e12, 29e9, 28e9, 0.7e-6},   // kPlain
                            {1.94e12, 29e9, 28e9, 0.7e-6},   // kMma
                            {7.13e12, 38e9, 35e9, 2.0e-6},   // kWgmma
                            {4.92e12, 68e9, 20e9, 2.5e-6}};  // kTma

// An estimate in seconds, good enough to put the promising ones first: only proportions matter.
double estimate(const Product& p, const Tile& tile, const ProductConfig& config, const Chip& chip) {
  const Split split = split_of(p, tile, config);
  const Rates& rates = kRates[static_cast<int>(tile.family)];
  const int bytes = bytes_of(p.element), shared = config.shares_depth ? 1 : config.cluster;
  const double area = 1.0 * tile.m * tile.n;
  const double flops = tile.family == Family::kPlain || bytes == 2 ? rates.flops : rates.flops / 2;
  const double step =
      std::max(2 * area * (128 / bytes) / flops, (tile.m + static_cast<double>(tile.n) / shared) * 128 / rates.loads);
  const double blocks =
      1.0 * split.row_tiles * split.column_tiles * p.batch * (config.shares_depth ? config.cluster : 1);
  const double each = std::ceil(blocks / std::max(chip.processors, 1)), rounds = std::ceil(each / tile.blocks);
  const double end = area * bytes * (p.has_residual ? 1.7 : 1) / rates.stores;
  const double latency = rates.launch + rounds * (split.each * 0.56e-6 / (tile.stages - 1) + 0.34e-6);
  const double whole = 1.5e-6 + each * (split.each * step + end);
  // Shared columns have not paid yet.
  const double meeting = config.shares_depth ? 1.35e-6 + area * 3.1e-10 : config.cluster > 1 ? 10e-6 : 0;
  return std::max(latency, whole) + meeting;
}

// Leaves out what cannot be the best.
bool is_sensible(const Product& p, const Tile& tile, const ProductConfig& config, const Chip& chip) {
  const ProductArguments& s = p.shape;
  const int narrowest = tile.family == Family::kPlain ? 16 : 32, lowest = tile.family >= Family::kWgmma ? 64 : 16;
  if (tile.n > 2 * narrowest && s.N <= tile.n / 2) return false;
  if (tile.m > lowest && s.M <= tile.m / 2) return false;
  if (!config.shares_depth) return config.cluster == 1 || split_of(p, tile, config).row_tiles >= chip.processors / 2;
  const Split split = split_of(p, tile, config);
  const int64_t tiles = int64_t{split.row_tiles} * split.column_tiles * p.batch;
  return tiles * config.cluster <= chip.processors * 6 && tile.m * tile.n <= 128 * 128;
}

Status check(cudaError_t error, const char* what) {
  return error == cudaSuccess ? ok() : fail(Code::kDevice, "CUDA: %s: %s", what, cudaGetErrorString(error));
}

// Allows a kernel the shared memory that it takes, once for each device.
Status allow_shared(int index, const void* kernel, bool windows) {
  static std::array<std::atomic<bool>, size_t{kMostDevices} * kMostTiles * 2> allowed{};
  const Tile& tile = tile_at(index);
  int device = 0;
  if (Status status = check(cudaGetDevice(&device), "no current device"); !status.ok()) return status;
  std::atomic<bool>* flag = nullptr;
  if (device < kMostDevices && index < kMostTiles) {
    flag = &allowed[static_cast<size_t>((device * kMostTiles + index) * 2 + (windows ? 1 : 0))];
    if (flag->load(std::memory_order_relaxed)) return ok();
  }
  Status status =
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tile.shared_bytes()), tile.name);
  if (status.ok() && flag != nullptr) flag->store(true, std::memory_order_relaxed);
  return status;
}

Status start(const Tile& tile, const void* kernel, dim3 grid, dim3 cluster, void* arguments, cudaStream_t stream) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(tile.threads));
  config.dynamicSmemBytes = static_cast<size_t>(tile.shared_bytes());
  config.stream = stream;
  config.attrs = attributes;
  if (current_chip().capability >= 90) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster.x * cluster.z > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster.x;
    attributes[config.numAttrs].val.clusterDim.y = cluster.y;
    attributes[config.numAttrs++].val.clusterDim.z = cluster.z;
  }
  void* list[] = {arguments};
  return check(cudaLaunchKernelExC(&config, kernel, list), tile.name);
}

const void* advance(const void* p, int64_t elements, int bytes) {
  return p == nullptr ? nullptr : static_cast<const char*>(p) + elements * bytes;
}

Status launch_blocks(const Product& p, const ProductConfig& config, const Tile& tile, const void* kernel,
                     ProductArguments a, cudaStream_t stream) {
  const Split split = split_of(p, tile, config);
  const int bytes = bytes_of(p.element), out = a.end.f32 ? 4 : bytes;
  constexpr int kMost = 65535;  // blocks in y
  for (int done = 0; done < p.batch; done += kMost) {
    const int now = std::min(kMost, p.batch - done);
    const dim3 grid(static_cast<unsigned>(split.row_tiles * split.column_tiles), static_cast<unsigned>(now),
                    static_cast<unsigned>(config.cluster));
    const dim3 cluster(1, 1, static_cast<unsigned>(config.cluster));
    if (Status status = start(tile, kernel, grid, cluster, &a, stream); !status.ok()) return status;
    a.x = advance(a.x, now * a.x_batch, bytes);
    a.w = advance(a.w, now * a.w_batch, bytes);
    a.end.residual = advance(a.end.residual, now * a.y_batch, out);
    a.end.y = const_cast<void*>(advance(a.end.y, now * a.y_batch, out));
    if (a.end.bias != nullptr) a.end.bias += int64_t{now} * a.bias_batch;
  }
  return ok();
}

Status launch_persistent(const Product& p, const ProductConfig& config, const Tile& tile, const void* kernel,
                         const ProductArguments& a, cudaStream_t stream) {
  const Split split = split_of(p, tile, config);
  const int shared = config.shares_depth ? 1 : config.cluster;
  MapArguments g;
  g.a = a;
  g.windows = p.is_matrix() ? 0 : 1;
  g.x_batches = p.batch > 1 && a.x_batch != 0 ? 1 : 0;
  g.w_batches = p.batch > 1 && a.w_batch != 0 ? 1 : 0;
  g.channel_steps = split.steps / (a.R * a.S);
  g.row_tiles = div_up(split.row_tiles, shared);
  g.work = g.row_tiles * split.column_tiles * p.batch;
  g.cluster = config.cluster;
  g.shares_depth = config.shares_depth ? 1 : 0;
  Product part = p;  // of the channels: those that lie together
  if (a.split != 0) {
    part.shape.C = a.split;
    g.split_steps = a.split * bytes_of(p.element) / 128;
  }
  const auto map = [&](const void* x, CUtensorMap* to) {
    return p.is_matrix() ? map_matrix(part, x, tile.m, to) : map_windows(part, x, tile.m, to);
  };
  const bool made =
      map_weights(p, a.w, tile.n / shared, &g.w) && map(a.x, &g.x) && (a.split == 0 || map(a.more, &g.more));
  const Ending& end = a.end;
  g.staged = bytes_of(p.element) == 2 && end.wide && !end.f32 && tile.n % 64 == 0 && !config.shares_depth &&
             (p.batch == 1 || a.y_batch % 8 == 0) && !(end.bends && end.residual != nullptr) && end.spread.rows == 0;
  const bool results = g.staged == 0 || (map_result(p, end.y, 16, &g.y) &&
                                         (end.residual == nullptr || map_result(p, end.residual, tile.m, &g.residual)));
  if (!made || !results) return fail(Code::kDevice, "CUDA: the driver makes no tensor map for %s", tile.name);
  const int resident = current_chip().processors * tile.blocks / config.cluster;
  const int clusters = config.shares_depth ? g.work : std::min(g.work, resident);
  return start(tile, kernel, dim3(static_cast<unsigned>(clusters * config.cluster)),
               dim3(static_cast<unsigned>(config.cluster)), &g, stream);
}

}  // namespace

bool Product::is_matrix() const {
  const ProductArguments& s = shape;
  return s.R * s.S == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_h == 0 && s.pad_w == 0 && s.P == s.H &&
         s.Q == s.W && (s.pitch == 0 || s.pitch == s.W * s.pixel);
}

double Product::flops() const { return 2.0 * shape.M * shape.N * shape.C * shape.R * shape.S * batch; }

Product matrix_product(Element element, int m, int n, int k, int row_x, int row_w, int64_t row_y) {
  Product p;
  p.element = element;
  ProductArguments& s = p.shape;
  s.W = s.Q = s.M = m;
  s.C = k;
  s.pixel = row_x;
  s.depth = row_w;
  s.N = s.end.columns = s.end.bias_count = n;
  s.end.row = row_y;
  s.end.wide = n % 8 == 0 && row_y % 8 == 0;
  set_activation({}, &s.end);
  return p;
}

void merge_taps(Product* product) {
  ProductArguments& s = product->shape;
  s.pitch = s.W * s.pixel;
  s.C = s.S * s.pixel;
  s.pixel *= s.stride_w;
  s.W = s.Q;
  s.S = s.stride_w = 1;
}

int tile_count() {
  static const int count = [] {
    int sum = 0;
    for (const TileRows& rows : {plain_tiles(), mma_tiles(), wgmma_tiles(), tma_tiles()}) sum += rows.count;
    return sum;
  }();
  return count;
}

const Tile& tile_at(int i) {
  for (const TileRows& rows : {plain_tiles(), mma_tiles(), wgmma_tiles()}) {
    if (i < rows.count) return rows.rows[i];
    i -= rows.count;
  }
  return tma_tiles().rows[i];
}

const Chip& current_chip() {
  static const std::array<Chip, kMostDevices> chips = [] {
    std::array<Chip, kMostDevices> all{};
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    for (int i = 0; i < std::min(count, kMostDevices); ++i) {
      Chip& chip = all[static_cast<size_t>(i)];
      int major = 0, minor = 0;
      cudaDeviceGetAttribute(&chip.processors, cudaDevAttrMultiProcessorCount, i);
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i);
      cudaDeviceGetAttribute(&chip.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, i);
      chip.capability = major * 10 + minor;
      chip.has_hopper_code = chip.capability == 90;
    }
    return all;
  }();
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) device = 0;
  return chips[static_cast<size_t>(device)];
}

std::string config_name(const ProductConfig& config) {
  std::string name = tile_at(config.tile).name;
  if (config.cluster > 1) name += (config.shares_depth ? " z" : " c") + std::to_string(config.cluster);
  return name;
}

bool config_named(const std::string& name, ProductConfig* config) {
  const size_t space = name.find(' ');
  const std::string first = name.substr(0, space);
  *config = {};
  for (int i = 0; i < tile_count(); ++i)
    if (first == tile_at(i).name) config->tile = i;
  if (space == std::string::npos) return config->tile >= 0;
  const std::string rest = name.substr(space + 1);
  if (rest.size() != 2 || (rest[0] != 'z' && rest[0] != 'c') || rest[1] < '2' || rest[1] > '8') return false;
  config->shares_depth = rest[0] == 'z';
  config->cluster = rest[1] - '0';
  return config->tile >= 0;
}

bool can_launch(const Product& p, const ProductConfig& config) {
  const Chip& chip = current_chip();
  if (config.tile < 0 || config.tile >= tile_count()) return false;
  const Tile& tile = tile_at(config.tile);
  const ProductArguments& s = p.shape;
  const int bytes = bytes_of(p.element);
  if (tile.element != p.element || !runs_on(tile, chip)) return false;
  if (s.M < 1 || s.N < 1 || s.C < 1 || p.batch < 1) return false;
  // Chunks of 16 bytes begin at multiples of 16 bytes.
  if (s.pixel * bytes % 16 != 0 || s.pitch * bytes % 16 != 0 || s.depth * bytes % 16 != 0) return false;
  if (p.batch > 1 && (s.x_batch * bytes % 16 != 0 || s.w_batch * bytes % 16 != 0)) return false;
  // So do the channels of the second part; a copy by a tensor map takes 128 bytes of one part.
  if (s.split != 0 && (s.split % 8 != 0 || s.C != 2 * s.split || p.batch > 1)) return false;
  if (tile.family == Family::kTma && s.split * bytes % 128 != 0) return false;
  constexpr int kMostSize = 30000;  // places in images are kept in 16 bits
  const Split split = split_of(p, tile, config);
  if (int64_t{split.row_tiles} * split.column_tiles > std::numeric_limits<int>::max() / 8 / p.batch) return false;
  if (tile.family == Family::kTma) {
    if (!p.is_matrix() && (p.batch > 1 || !can_map_windows(s))) return false;
  } else {
    if (int64_t{p.images} * s.H * std::max(int64_t{s.W} * s.pixel, int64_t{s.pitch}) > std::numeric_limits<int>::max())
      return false;
    if (!p.is_matrix() && (s.H > kMostSize || s.W > kMostSize || s.pad_h > 1000 || s.pad_w > 1000 ||
                           s.R * s.dilation_h > 1000 || s.S * s.dilation_w > 1000))
      return false;
    if (config.cluster > 1 && !config.shares_depth) return false;
  }
  if (config.cluster == 1) return !config.shares_depth;
  if (chip.capability < 90 || (config.cluster != 2 && config.cluster != 4 && config.cluster != 8)) return false;
  if (config.shares_depth) return split.each * (config.cluster - 1) < split.steps;
  return config.cluster <= 4 && tile.n / config.cluster % 8 == 0 && split.row_tiles >= config.cluster;
}

std::vector<ProductConfig> product_configs(const Product& product, size_t most) {
  const Chip& chip = current_chip();
  std::vector<std::pair<double, ProductConfig>> ranked;
  // What is not sensible has to do for products that are too small for all tiles.
  for (const bool all : {false, true}) {
    if (!ranked.empty()) break;
    for (int i = 0; i < tile_count(); ++i)
      for (const ProductConfig& config :
           {ProductConfig{i, 1, false}, ProductConfig{i, 2, false}, ProductConfig{i, 4, false},
            ProductConfig{i, 2, true}, ProductConfig{i, 4, true}, ProductConfig{i, 8, true}}) {
        if (!can_launch(product, config) || !(all || is_sensible(product, tile_at(i), config, chip))) continue;
        ranked.emplace_back(estimate(product, tile_at(i), config, chip), config);
      }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > most) ranked.resize(most);
  std::vector<ProductConfig> configs;
  for (const auto& pair : ranked) configs.push_back(pair.second);
  return configs;
}

Status launch(const Product& product, const ProductConfig& config, const ProductOperands& operands,
              cudaStream_t stream) {
  const Tile& tile = tile_at(config.tile);
  ProductArguments a = product.shape;
  a.x = operands.x;
  a.more = operands.more;
  a.w = operands.w;
  a.end.bias = operands.bias;
  a.end.residual = operands.residual;
  a.end.y = operands.y;
  const Split split = split_of(product, tile, config);
  a.steps = split.steps;
  a.steps_each = split.each;
  a.column_tiles = split.column_tiles;
  if (a.pitch == 0) a.pitch = a.W * a.pixel;
  const bool windows = !product.is_matrix();
  const void* kernel = windows ? tile.windows : tile.matrix;
  if (Status status = allow_shared(config.tile, kernel, windows); !status.ok()) return status;
  return tile.family == Family::kTma ? launch_persistent(product, config, tile, kernel, a, stream)
                                     : launch_blocks(product, config, tile, kernel, a, stream);
}

void set_activation(const Activation& activation, Ending* end) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  end->curve = Ending::kNone;
  end->times = false;
  end->slope = end->scale = end->gain = 1;
  end->shift = end->offset = 0;
  end->low = -kInfinity;
  end->high = kInfinity;
  switch (activation.function) {
    case Function::kNone:
      break;
    case Function::kClamp:
      end->low = activation.alpha;
      end->high = activation.beta;
      break;
    case Function::kLeakyRelu:
      end->slope = activation.alpha;
      break;
    case Function::kHardSwish:
      end->curve = Ending::kHardSigmoid;
      end->times = true;
      end->scale = 1 / 6.0f;
      end->shift = 0.5f;
      break;
    case Function::kHardSigmoid:
      end->curve = Ending::kHardSigmoid;
      end->scale = activation.alpha;
      end->shift = activation.beta;
      break;
    case Function::kSigmoid:
    case Function::kSilu:
      end->curve = Ending::kSigmoid;
      end->times = activation.function == Function::kSilu;
      break;
    case Function::kTanh:  // 2 * sigmoid(2 * v) - 1
      end->curve = Ending::kSigmoid;
      end->scale = end->gain = 2;
      end->offset = -1;
      break;
    case Function::kGelu:
      end->curve = Ending::kGelu;
      break;
  }
  end->bends = end->curve != Ending::kNone || end->slope != 1;
  end->clamps = !end->bends && !(std::isinf(end->low) && std::isinf(end->high) && end->low < end->high);
}

}  // namespace minnow::cuda
