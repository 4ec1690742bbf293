// How fast the inner loops are: the peak, a matrix product, and the layers of ResNet-50 and MobileNetV2 at batch 1,
// with one and with two threads. All figures are the best of some runs, in GFLOP/s (a multiply-add counts as two).
//
//   bench_conv            all rows
//   bench_conv 3x3        those whose name contains "3x3"
//   MINNOW_ISA=avx2 bench_conv
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/core/float_buffer.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/machine/peak.h"
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/table.h"

namespace {

using minnow::Attrs;
using minnow::FloatBuffer;
using minnow::Layout;
using minnow::Tensor;
using minnow::TensorType;
using minnow::ThreadPool;

template <typename Run>
double best_seconds(double flops, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const int runs = flops > 1e9 ? 8 : 30;
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < best) best = seconds;
  }
  return best;
}

void fill(FloatBuffer* buffer, int64_t floats) {
  buffer->allocate(floats);
  for (int64_t i = 0; i < floats; ++i) buffer->data()[i] = static_cast<float>((i * 37) % 101) * 0.01f - 0.5f;
}

void print_row(const char* name, const char* scheme, double flops, const double (&seconds)[2]) {
  std::printf("%-26s %-14s %8.3f ms %6.1f   %8.3f ms %6.1f   %4.2fx\n", name, scheme, seconds[0] * 1e3,
              flops / seconds[0] * 1e-9, seconds[1] * 1e3, flops / seconds[1] * 1e-9, seconds[0] / seconds[1]);
}

// What this processor can do at this moment.
void bench_peak(ThreadPool* const (&pools)[2]) {
  for (ThreadPool* pool : pools) {
    const minnow::Peak peak = minnow::measure_peak(*pool);
    std::printf("peak, %d thread(s), %s: %.1f GFLOP/s, %.1f GB/s\n", pool->threads(), minnow::isa_name(),
                peak.flops * 1e-9, peak.bytes * 1e-9);
  }
}

void bench_gemm(int64_t size, ThreadPool* const (&pools)[2]) {
  FloatBuffer a, b, c, packed, workspace;
  fill(&a, size * size);
  fill(&b, size * size);
  fill(&c, size * size);
  packed.allocate(minnow::gemm_packed_floats(size, size));
  minnow::gemm_pack_b(b.data(), size, false, size, size, packed.data(), nullptr);
  const double flops = 2.0 * static_cast<double>(size * size * size);
  double seconds[2];
  for (int i = 0; i < 2; ++i) {
    const minnow::Gemm gemm(size, size, size, false, minnow::Activation(), pools[i]->threads());
    workspace.allocate(gemm.workspace_bytes() / 4);
    const minnow::GemmCall call = {a.data(),         size,    false, packed.data(), nullptr, c.data(), size,
                                   workspace.data(), pools[i]};
    seconds[i] = best_seconds(flops, [&] { gemm.run(call); });
  }
  char name[32];
  std::snprintf(name, sizeof name, "gemm %d^3", static_cast<int>(size));
  print_row(name, "gemm_packed", flops, seconds);
}

struct Layer {
  const char* name;
  int64_t ic, size, oc, kernel, stride, group;
};

void bench_layer(const Layer& l, ThreadPool* const (&pools)[2]) {
  Attrs attrs;
  const int64_t pad = l.kernel / 2;
  attrs.set("strides", std::vector<int64_t>{l.stride, l.stride});
  attrs.set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  attrs.set("group", l.group);
  attrs.set("activation", std::string("relu"));
  std::vector<TensorType> types = {{minnow::DType::kF32, Layout::kPlain, {1, l.ic, l.size, l.size}},
                                   {minnow::DType::kF32, Layout::kPlain, {l.oc, l.ic / l.group, l.kernel, l.kernel}},
                                   {minnow::DType::kF32, Layout::kPlain, {l.oc}}};
  std::vector<TensorType> out(1);
  const std::vector<const TensorType*> type_pointers = {&types[0], &types[1], &types[2]};
  const minnow::OpSpec* op = minnow::find_op("Conv");
  minnow::InferContext infer(attrs, type_pointers, {nullptr, nullptr, nullptr}, &out);
  if (!op->infer(infer).ok()) return;
  types[0].layout = out[0].layout = Layout::kPacked;
  FloatBuffer memory[4], workspace;
  Tensor tensors[4];
  for (int i = 0; i < 4; ++i) {
    tensors[i].type = i < 3 ? types[static_cast<size_t>(i)] : out[0];
    fill(&memory[i], tensors[i].type.bytes() / 4);
    tensors[i].data = memory[i].data();
  }
  double seconds[2], flops = 0;
  std::string scheme;
  for (int i = 0; i < 2; ++i) {
    const minnow::NodeContext node = {attrs,     type_pointers,       {nullptr, &tensors[1], &tensors[2]},
                                      {&out[0]}, pools[i]->threads(), minnow::Precision::kHigh};
    const auto kernel = minnow::cpu_kernels().find(*op)->create(node);
    int64_t bytes = 0;
    if (!kernel->reshape(node, &bytes).ok()) return;
    workspace.allocate(bytes / 4 + 16);
    minnow::RunContext run;
    run.in = {&tensors[0], &tensors[1], &tensors[2]};
    run.out = {&tensors[3]};
    run.workspace = workspace.data();
    run.pool = pools[i];
    const minnow::Profile profile = kernel->profile();
    flops = 2.0 * static_cast<double>(profile.macs);
    scheme = profile.scheme;
    seconds[i] = best_seconds(flops, [&] { kernel->run(run); });
  }
  print_row(l.name, scheme.c_str(), flops, seconds);
}

constexpr Layer kLayers[] = {
    {"resnet50 224 3-64 7x7/2", 3, 224, 64, 7, 2, 1},      {"resnet50 56 64-64 1x1", 64, 56, 64, 1, 1, 1},
    {"resnet50 56 64-64 3x3", 64, 56, 64, 3, 1, 1},        {"resnet50 56 64-256 1x1", 64, 56, 256, 1, 1, 1},
    {"resnet50 56 256-64 1x1", 256, 56, 64, 1, 1, 1},      {"resnet50 56 128 3x3/2", 128, 56, 128, 3, 2, 1},
    {"resnet50 56 256-512 1x1/2", 256, 56, 512, 1, 2, 1},  {"resnet50 28 128-512 1x1", 128, 28, 512, 1, 1, 1},
    {"resnet50 28 512-128 1x1", 512, 28, 128, 1, 1, 1},    {"resnet50 28 128 3x3", 128, 28, 128, 3, 1, 1},
    {"resnet50 28 256 3x3/2", 256, 28, 256, 3, 2, 1},      {"resnet50 14 256-1024 1x1", 256, 14, 1024, 1, 1, 1},
    {"resnet50 14 1024-256 1x1", 1024, 14, 256, 1, 1, 1},  {"resnet50 14 256 3x3", 256, 14, 256, 3, 1, 1},
    {"resnet50 14 512 3x3/2", 512, 14, 512, 3, 2, 1},      {"resnet50 7 512-2048 1x1", 512, 7, 2048, 1, 1, 1},
    {"resnet50 7 2048-512 1x1", 2048, 7, 512, 1, 1, 1},    {"resnet50 7 512 3x3", 512, 7, 512, 3, 1, 1},
    {"mobilenetv2 224 3-32 3x3/2", 3, 224, 32, 3, 2, 1},   {"mobilenetv2 112 32 dw", 32, 112, 32, 3, 1, 32},
    {"mobilenetv2 112 32-16 1x1", 32, 112, 16, 1, 1, 1},   {"mobilenetv2 112 16-96 1x1", 16, 112, 96, 1, 1, 1},
    {"mobilenetv2 112 96 dw/2", 96, 112, 96, 3, 2, 96},    {"mobilenetv2 56 24-144 1x1", 24, 56, 144, 1, 1, 1},
    {"mobilenetv2 56 144 dw", 144, 56, 144, 3, 1, 144},    {"mobilenetv2 56 144-24 1x1", 144, 56, 24, 1, 1, 1},
    {"mobilenetv2 28 192 dw", 192, 28, 192, 3, 1, 192},    {"mobilenetv2 28 192-32 1x1", 192, 28, 32, 1, 1, 1},
    {"mobilenetv2 14 384 dw", 384, 14, 384, 3, 1, 384},    {"mobilenetv2 14 64-384 1x1", 64, 14, 384, 1, 1, 1},
    {"mobilenetv2 7 960 dw", 960, 7, 960, 3, 1, 960},      {"mobilenetv2 7 160-960 1x1", 160, 7, 960, 1, 1, 1},
    {"mobilenetv2 7 320-1280 1x1", 320, 7, 1280, 1, 1, 1}, {"classifier 2048-1000", 2048, 1, 1000, 1, 1, 1},
};

}  // namespace

int main(int argc, char** argv) {
  if (const minnow::Status status = minnow::isa_status(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return static_cast<int>(status.code());
  }
  const char* filter = argc > 1 ? argv[1] : "";
  ThreadPool one(1), two(2);
  ThreadPool* const pools[2] = {&one, &two};
  bench_peak(pools);
  std::printf("%-26s %-14s %18s   %18s\n", "", "scheme", "1 thread, GFLOP/s", "2 threads, GFLOP/s");
  if (std::strstr("gemm", filter) != nullptr)
    for (int64_t size : {256, 512, 1024}) bench_gemm(size, pools);
  for (const Layer& layer : kLayers)
    if (std::strstr(layer.name, filter) != nullptr) bench_layer(layer, pools);
  return 0;
}
