// Times the products of four networks on a GPU, in every way that product_configs() lists, and by cuBLASLt where it is
// installed: CUDA-graph replays of one product several times in a row, random data in f16.
//
//   nvcc -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -I. bench/gpu/products.cu kernels/cuda/product/*.cu
//     kernels/cuda/product/*.cpp kernels/core/status.cpp -o bench_products
//   ./bench_products [NETWORK,... [BATCH,... [all]]]      `all` prints the ten best
//   MINNOW_SKIP_TILES=NAME,... leaves out tiles; MINNOW_TIMES=FILE gets a line for each configuration
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/product/cublaslt.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/product/tiles.h"

namespace minnow::cuda {
namespace {

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    const cudaError_t error_ = (call);                                                              \
    if (error_ != cudaSuccess) {                                                                    \
      std::printf("FAILED %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::fflush(stdout);                                                                          \
      std::_Exit(3);                                                                                \
    }                                                                                               \
  } while (false)

const Activation kNone{}, kRelu{Function::kClamp, 0, INFINITY}, kRelu6{Function::kClamp, 0, 6},
    kGelu{Function::kGelu, 0, 0};

struct Layer {
  std::string what;
  int H, W, C, K, R, S, stride, pad;
  Activation activation;
  bool residual;
  int count;
};

struct Network {
  std::string name;
  std::vector<Layer> layers;
};

Layer conv(const char* what, int size, int c, int k, int r, int stride, const Activation& activation, bool residual,
           int count) {
  return {what, size, size, c, k, r, r, stride, r / 2, activation, residual, count};
}

Layer rows(const char* what, int m, int c, int k, const Activation& activation, bool residual, int count) {
  return {what, 1, m, c, k, 1, 1, 1, 0, activation, residual, count};
}

std::vector<Network> networks() {
  Network resnet{"resnet50", {{"conv1", 115, 115, 12, 64, 4, 4, 1, 0, kRelu, false, 1}}};
  int channels = 64, size = 56;
  const int repeats[] = {3, 4, 6, 3};
  for (int s = 0; s < 4; ++s) {
    const int width = 64 << s, stride = s == 0 ? 1 : 2, next = size / stride;
    auto& l = resnet.layers;
    l.push_back(conv("1x1 first", size, channels, width, 1, 1, kRelu, false, 1));
    l.push_back(conv("3x3 first", size, width, width, 3, stride, kRelu, false, stride == 1 ? repeats[s] : 1));
    l.push_back(conv("down", size, channels, 4 * width, 1, stride, kNone, false, 1));
    l.push_back(conv("1x1 up", next, width, 4 * width, 1, 1, kRelu, true, repeats[s]));
    l.push_back(conv("1x1", next, 4 * width, width, 1, 1, kRelu, false, repeats[s] - 1));
    if (stride == 2) l.push_back(conv("3x3", next, width, width, 3, 1, kRelu, false, repeats[s] - 1));
    channels = 4 * width;
    size = next;
  }
  resnet.layers.push_back(rows("fc", 1, 2048, 1000, kNone, false, 1));

  Network mobile{"mobilenetv2", {{"conv1", 113, 113, 12, 32, 2, 2, 1, 0, kRelu6, false, 1}}};
  const int blocks[7][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                            {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  channels = 32;
  size = 112;
  for (const auto& b : blocks) {
    for (int i = 0; i < b[2]; ++i) {
      const int stride = i == 0 ? b[3] : 1, wide = b[0] * channels;
      if (b[0] != 1) mobile.layers.push_back(conv("expand", size, channels, wide, 1, 1, kRelu6, false, 1));
      size /= stride;
      mobile.layers.push_back(conv("project", size, wide, b[1], 1, 1, kNone, i > 0, 1));
      channels = b[1];
    }
  }
  mobile.layers.push_back(conv("head", size, 320, 1280, 1, 1, kRelu6, false, 1));
  mobile.layers.push_back(rows("fc", 1, 1280, 1000, kNone, false, 1));

  Network vit{"vit_s", {{rows("patch", 196, 768, 384, kNone, false, 1)}}};
  vit.layers.push_back(rows("qkv", 197, 384, 1152, kNone, false, 12));
  vit.layers.push_back(rows("proj", 197, 384, 384, kNone, true, 12));
  vit.layers.push_back(rows("fc1", 197, 384, 1536, kGelu, false, 12));
  vit.layers.push_back(rows("fc2", 197, 1536, 384, kNone, true, 12));
  vit.layers.push_back(rows("head", 1, 384, 1000, kNone, false, 1));

  Network bert{"bert", {{rows("qkv", 128, 768, 2304, kNone, false, 12)}}};
  bert.layers.push_back(rows("proj", 128, 768, 768, kNone, true, 12));
  bert.layers.push_back(rows("fc1", 128, 768, 3072, kGelu, false, 12));
  bert.layers.push_back(rows("fc2", 128, 3072, 768, kNone, true, 12));

  Network gemm{"gemm",
               {{rows("1024^3", 1024, 1024, 1024, kNone, false, 1)}}};  // at batch 1, the plain figures of a GPU
  gemm.layers.push_back(rows("2048^3", 2048, 2048, 2048, kNone, false, 1));
  gemm.layers.push_back(rows("4096^3", 4096, 4096, 4096, kNone, false, 1));
  gemm.layers.push_back(rows("8192^3", 8192, 8192, 8192, kNone, false, 1));
  return {resnet, mobile, vit, bert, gemm};
}

// Layers that are alike are timed once.
bool alike(const Layer& a, const Layer& b) {
  return a.H == b.H && a.W == b.W && a.C == b.C && a.K == b.K && a.R == b.R && a.stride == b.stride &&
         a.residual == b.residual && a.activation.function == b.activation.function;
}

void merge(Network* network) {
  std::vector<Layer> merged;
  for (const Layer& l : network->layers) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Layer& m) { return alike(l, m); });
    if (same == merged.end()) {
      merged.push_back(l);
    } else {
      same->count += l.count;
    }
  }
  network->layers = merged;
}

int up8(int v) { return (v + 7) / 8 * 8; }

Product product_of(const Layer& l, int images) {
  Product p;
  p.images = l.H == 1 ? 1 : images;
  p.has_bias = true;
  p.has_residual = l.residual;
  ProductArguments& s = p.shape;
  s.H = l.H;
  s.W = l.H == 1 ? l.W * images : l.W;
  s.C = l.C;
  s.pixel = up8(l.C);
  s.R = l.R;
  s.S = l.S;
  s.stride_h = s.stride_w = l.stride;
  s.pad_h = s.pad_w = l.pad;
  s.P = (s.H + 2 * l.pad - l.R) / l.stride + 1;
  s.Q = (s.W + 2 * l.pad - l.S) / l.stride + 1;
  s.M = p.images * s.P * s.Q;
  s.N = l.K;
  s.depth = l.R * l.S * s.pixel;
  s.end.row = s.end.columns = up8(l.K);
  s.end.bias_count = l.K;
  s.end.wide = true;
  set_activation(l.activation, &s.end);
  if (l.what == "conv1") merge_taps(&p);  // of blocks of an image
  return p;
}

__global__ void fill(__half* to, int64_t count, float scale, unsigned seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    unsigned v = static_cast<unsigned>(i) * 2654435761u + seed;
    v = (v ^ (v >> 15)) * 2246822519u;
    v = (v ^ (v >> 13)) * 3266489917u;
    to[i] = __float2half(scale * (static_cast<int>(v >> 16) - 32768) / 32768.f);
  }
}

class Timer {
 public:
  Timer() {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
  }
  cudaStream_t stream() const { return stream_; }

  // Microseconds of one of `times` in a row; below 0: it failed.
  template <typename Run>
  double time(int times, const Run& run) {
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    bool good = true;
    for (int i = 0; i < times && good; ++i) good = run();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess || !good ||
        cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      if (graph != nullptr) cudaGraphDestroy(graph);
      return -1;
    }
    cudaGraphDestroy(graph);
    CHECK(cudaGraphLaunch(ready, stream_));
    float best = 1e9f;
    for (int i = 0; i < 4; ++i) {
      CHECK(cudaEventRecord(begin_, stream_));
      CHECK(cudaGraphLaunch(ready, stream_));
      CHECK(cudaEventRecord(end_, stream_));
      CHECK(cudaEventSynchronize(end_));
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, begin_, end_));
      best = std::min(best, ms);
    }
    cudaGraphExecDestroy(ready);
    return best * 1000.0 / times;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
};

bool listed(const std::string& list, const std::string& what) {
  return list.empty() || ("," + list + ",").find("," + what + ",") != std::string::npos;
}

void time_network(const Network& network, int batch, bool all, Timer& timer) {
  constexpr int64_t kWorkspace = 32 << 20;
  const char *const skipped = std::getenv("MINNOW_SKIP_TILES"), *const times_path = std::getenv("MINNOW_TIMES");
  FILE* const all_times = times_path == nullptr ? nullptr : std::fopen(times_path, "a");
  std::printf("\n== %s, batch %d\n%-10s %-34s %3s %8s %-20s %8s %8s %6s %8s %8s  %s\n", network.name.c_str(), batch,
              "layer", "shape", "x", "own us", "config", "first us", "no TMA", "TFLOPS", "Lt us", "Lt/own", "place");
  double sum = 0, sum_first = 0, sum_library = 0, sum_same = 0;
  for (const Layer& l : network.layers) {
    const Product p = product_of(l, batch);
    const ProductArguments& s = p.shape;
    char shape[64];
    std::snprintf(shape, sizeof shape, "%dx%dx%d->%d %dx%d s%d%s", s.H, s.W, l.C, l.K, l.R, l.S, l.stride,
                  l.residual ? " +res" : "");
    __half *x, *w, *y, *residual, *narrow;
    float* bias;
    void* workspace;
    const int64_t x_count = int64_t{p.images} * l.H * l.W * batch * up8(l.C), y_count = int64_t{s.M} * s.end.row;
    CHECK(cudaMalloc(&x, static_cast<size_t>(x_count) * 2));
    CHECK(cudaMalloc(&w, static_cast<size_t>(s.N) * s.depth * 2));
    CHECK(cudaMalloc(&y, static_cast<size_t>(y_count) * 2));
    CHECK(cudaMalloc(&residual, static_cast<size_t>(y_count) * 2));
    CHECK(cudaMalloc(&bias, static_cast<size_t>(s.N + 8) * 4));
    CHECK(cudaMalloc(&narrow, static_cast<size_t>(s.N + 8) * 2));
    CHECK(cudaMalloc(&workspace, kWorkspace));
    fill<<<1024, 256, 0, timer.stream()>>>(x, x_count, 1, 1);
    fill<<<1024, 256, 0, timer.stream()>>>(w, int64_t{s.N} * s.depth, 0.1f, 2);
    fill<<<1024, 256, 0, timer.stream()>>>(residual, y_count, 1, 3);
    fill<<<16, 256, 0, timer.stream()>>>(narrow, s.N, 1, 4);
    CHECK(cudaMemsetAsync(bias, 0, static_cast<size_t>(s.N + 8) * 4, timer.stream()));
    CHECK(cudaStreamSynchronize(timer.stream()));
    const ProductOperands operands{x, w, bias, l.residual ? residual : nullptr, y, narrow};
    const int times = p.flops() > 2e10 ? 3 : p.flops() > 2e9 ? 8 : 20;

    double best = 1e9, first = -1, without = 1e9;
    int place = 0, best_place = 0;  // in the list
    std::string name, text;
    std::map<std::string, std::pair<double, std::string>> of_tile;
    const std::vector<ProductConfig> configs = product_configs(p);
    for (const ProductConfig& config : configs) {
      if (skipped != nullptr && listed(std::string(skipped) + ",", tile_at(config.tile).name)) continue;
      const double us = timer.time(times, [&] {
        const Status status = launch(p, config, operands, timer.stream());
        if (!status.ok()) std::printf("FAILED %s: %s\n", config_name(config).c_str(), status.message().c_str());
        return status.ok();
      });
      if (us < 0) continue;
      if (all_times != nullptr)
        std::fprintf(all_times, "%s %d,%s,%s,%.2f\n", network.name.c_str(), batch, shape, config_name(config).c_str(),
                     us);
      ++place;
      if (first < 0) first = us;
      if (us < best) {
        best = us;
        best_place = place;
        name = config_name(config);
      }
      if (tile_at(config.tile).family != Family::kTma) without = std::min(without, us);
      auto& entry = of_tile.try_emplace(config_name(config), 1e9, "").first->second;
      if (us < entry.first) entry = {us, config_name(config)};
    }
    double library = -1;
    const std::unique_ptr<LibraryProduct> plans = LibraryProduct::create(p, kWorkspace);
    for (int i = 0; plans != nullptr && i < plans->plans(); ++i) {
      const double us = timer.time(times, [&] { return plans->launch(i, operands, workspace, timer.stream()).ok(); });
      if (us > 0 && (library < 0 || us < library)) library = us;
    }
    std::printf("%-10s %-34s %3d %8.2f %-20s %8.2f %8.2f %6.0f %8.2f %8.2f  %d of %zu\n", l.what.c_str(), shape,
                l.count, best, name.c_str(), first, without, p.flops() / best / 1e6, library,
                library > 0 ? library / best : 0.0, best_place, configs.size());
    if (all) {
      std::vector<std::pair<double, std::string>> order;
      for (const auto& entry : of_tile) order.push_back(entry.second);
      std::sort(order.begin(), order.end());
      std::printf("          ");
      for (size_t i = 0; i < std::min<size_t>(order.size(), 10); ++i)
        std::printf(" %s %.2f;", order[i].second.c_str(), order[i].first);
      std::printf("\n");
    }
    std::fflush(stdout);
    sum += best * l.count;
    sum_first += first * l.count;
    if (library > 0) {
      sum_library += library * l.count;
      sum_same += best * l.count;
    }
    for (void* memory : {static_cast<void*>(x), static_cast<void*>(w), static_cast<void*>(y),
                         static_cast<void*>(residual), static_cast<void*>(bias), static_cast<void*>(narrow), workspace})
      CHECK(cudaFree(memory));
  }
  if (all_times != nullptr) std::fclose(all_times);
  std::printf("SUM %s batch %d, ms: own %.4f; first of the list %.4f; where cuBLASLt can: own %.4f, cuBLASLt %.4f\n",
              network.name.c_str(), batch, sum / 1000, sum_first / 1000, sum_same / 1000, sum_library / 1000);
  std::fflush(stdout);
}

}  // namespace

int run(const std::string& names, const std::string& batches, bool all) {
  const Chip& chip = current_chip();
  std::printf("compute capability %d, %d processors, %d tiles\n", chip.capability, chip.processors, tile_count());
  Timer timer;
  std::vector<Network> all_networks = networks();
  for (Network& network : all_networks) {
    merge(&network);
    for (int batch : {1, 32})
      if (listed(names, network.name) && listed(batches, std::to_string(batch)) &&
          !(network.name == "gemm" && batch > 1))
        time_network(network, batch, all, timer);
  }
  return 0;
}

}  // namespace minnow::cuda

int main(int argc, char** argv) {
  return minnow::cuda::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "", argc > 3);
}
