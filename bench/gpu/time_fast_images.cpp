// Times depthwise convolution, pooling, GroupNorm and layouts of the shapes of known networks, in f16.
#include "bench/gpu/time_fast.h"
#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/group_norm.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/pool.h"

namespace minnow::cuda::bench {
namespace {

void time_depthwise(int n, int size, int channels, int kernel, int stride, DType dtype = DType::kF16) {
  const int out = (size - 1) / stride + 1;
  const size_t element = dtype == DType::kF32 ? 4 : 2;
  const size_t in_count = static_cast<size_t>(n) * size * size * channels;
  const size_t out_count = static_cast<size_t>(n) * out * out * channels;
  Memory x(in_count * element), y(out_count * element), w(static_cast<size_t>(kernel * kernel * channels) * element);
  Memory bias(static_cast<size_t>(channels) * 4);
  Depthwise d;
  d.dtype = dtype;
  d.images = n, d.height = d.width = size, d.channels = channels, d.out_height = d.out_width = out;
  d.kernel_height = d.kernel_width = kernel, d.stride_y = d.stride_x = stride, d.pad_y = d.pad_x = kernel / 2;
  d.activation = {Function::kClamp, 0, 6};
  d.x = x.at(), d.y = y.at(), d.weights = w.at(), d.bias = bias.at<float>();
  std::string all;
  double best = 1e9, own = 0;
  for (int scheme = -1; scheme < depthwise_schemes(d); ++scheme) {
    d.scheme = scheme;
    const double us = time_of(20, [&](int, const Target& t) { return depthwise(d, t); });
    if (scheme < 0) own = us;
    best = std::min(best, us);
    char text[32];
    std::snprintf(text, sizeof text, scheme < 0 ? "" : " %.2f", us);
    all += text;
  }
  line("depthwise " + std::to_string(kernel) + "x" + std::to_string(kernel) + " s" + std::to_string(stride) + " " +
           std::to_string(n) + "x" + std::to_string(size) + "x" + std::to_string(size) + "x" +
           std::to_string(channels) +
           (dtype == DType::kF32    ? " f32"
            : dtype == DType::kBF16 ? " bf16"
                                    : "") +
           " [" + all + "]",
       own, static_cast<double>(in_count + out_count) * element);
}

void time_pool(int n, int size, int channels) {
  const int out = size / 2;
  const size_t in_count = static_cast<size_t>(n) * size * size * channels;
  const size_t out_count = static_cast<size_t>(n) * out * out * channels;
  Memory x(in_count * 2), y(out_count * 2);
  Pool p;
  p.images = n, p.height = p.width = size, p.channels = channels, p.out_height = p.out_width = out;
  p.kernel_height = p.kernel_width = 3, p.stride_y = p.stride_x = 2, p.pad_y = p.pad_x = 1;
  p.x = x.at(), p.y = y.at();
  line("max pool 3x3 s2 " + std::to_string(n) + "x" + std::to_string(size) + "x" + std::to_string(channels),
       time_of(20, [&](int, const Target& t) { return pool(p, t); }), static_cast<double>(in_count + out_count) * 2);
}

void time_global(int n, int pixels, int channels) {
  Memory x(static_cast<size_t>(n) * pixels * channels * 2), y(static_cast<size_t>(n) * channels * 2);
  GlobalPool p;
  p.images = n, p.pixels = pixels, p.channels = p.kept_channels = p.y_stride = channels;
  p.x = x.at(), p.y = y.at();
  line("global mean " + std::to_string(n) + "x" + std::to_string(pixels) + "x" + std::to_string(channels),
       time_of(20, [&](int, const Target& t) { return global_pool(p, t); }), static_cast<double>(x.bytes()));
}

void time_layout(int n, int channels, int pixels, bool to_last) {
  const size_t lanes = static_cast<size_t>((channels + 7) / 8 * 8);
  const size_t plain = static_cast<size_t>(n) * channels * pixels, last = static_cast<size_t>(n) * lanes * pixels;
  Memory a(plain * 4), b(last * 2);
  LayoutChange l;
  l.images = n, l.channels = channels, l.pixels = pixels, l.to_channels_last = to_last;
  l.from = to_last ? DType::kF32 : DType::kF16, l.to = to_last ? DType::kF16 : DType::kF32;
  l.x = to_last ? a.at() : b.at(), l.y = to_last ? b.at() : a.at();
  line(std::string(to_last ? "f32 plain to f16 channels-last " : "f16 channels-last to f32 plain ") +
           std::to_string(n) + "x" + std::to_string(channels) + "x" + std::to_string(pixels),
       time_of(20, [&](int, const Target& t) { return change_layout(l, t); }),
       static_cast<double>(plain * 4 + last * 2));
}

void time_group_norm(int n, int pixels, int channels, int groups) {
  Memory x(static_cast<size_t>(n) * pixels * channels * 2), y(x.bytes());
  GroupNorm g;
  g.images = n, g.pixels = pixels, g.channels = channels, g.groups = groups;
  Memory workspace(static_cast<size_t>(group_norm_workspace(g)));
  g.x = x.at(), g.y = y.at(), g.workspace = workspace.at<float>();
  line("group norm " + std::to_string(n) + "x" + std::to_string(pixels) + "x" + std::to_string(channels) + "/" +
           std::to_string(groups),
       time_of(20, [&](int, const Target& t) { return group_norm(g, t); }), 3.0 * static_cast<double>(x.bytes()));
}

}  // namespace
}  // namespace minnow::cuda::bench

int main() {
  using namespace minnow::cuda::bench;
  const int layers[][3] = {{112, 32, 1}, {112, 96, 2}, {56, 144, 1}, {56, 144, 2}, {28, 192, 1},
                           {28, 192, 2}, {14, 384, 1}, {14, 576, 1}, {14, 576, 2}, {7, 960, 1}};
  std::printf("depthwise: the time of each scheme, then that of the chosen one\n");
  for (const int n : {1, 32}) {
    for (const auto& l : layers) time_depthwise(n, l[0], l[1], 3, l[2]);
    time_depthwise(n, 28, 240, 5, 1);
    time_depthwise(n, 56, 72, 5, 2);
    time_depthwise(n, 56, 128, 7, 1);
  }
  time_depthwise(32, 56, 144, 3, 1, minnow::DType::kBF16);
  time_depthwise(32, 56, 144, 3, 1, minnow::DType::kF32);
  for (const int n : {1, 32}) {
    time_pool(n, 112, 64);
    time_global(n, 49, 1280);
    time_global(n, 12544, 32);
    time_layout(n, 3, 224 * 224, true);
    time_layout(n, 64, 56 * 56, true);
    time_layout(n, 64, 56 * 56, false);
    time_group_norm(n, 4096, 320, 32);
  }
  return 0;
}
