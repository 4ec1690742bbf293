#include "kernels/vulkan/try_matrices.h"

#include <vector>

#include "kernels/gpu/dense/layer.h"

namespace minnow::vulkan {
namespace {

constexpr int kRows = 48, kColumns = 40, kDepth = 72;  // not whole tiles

// From -4 to 4, without an order that an error might keep.
float number_at(int i) { return static_cast<float>((i * 7 + i / 5 * 3) % 9 - 4); }

Status multiply(VulkanDevice& device, std::vector<uint16_t>* y) {
  const gpu::Program* program = nullptr;
  MINNOW_RETURN_IF_ERROR(device.program("product_32x32", {}, &program));
  std::vector<uint16_t> x(size_t{kRows} * kDepth), w(size_t{kColumns} * kDepth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = gpu::to_half(number_at(static_cast<int>(i)));
  for (size_t i = 0; i < w.size(); ++i) w[i] = gpu::to_half(number_at(static_cast<int>(i) + 11));
  y->assign(size_t{kRows} * kColumns, 0);
  const auto bytes = [](const std::vector<uint16_t>& v) { return static_cast<int64_t>(2 * v.size()); };
  std::unique_ptr<Memory> left, right, result;
  MINNOW_RETURN_IF_ERROR(device.upload(x.data(), bytes(x), &left));
  MINNOW_RETURN_IF_ERROR(device.upload(w.data(), bytes(w), &right));
  MINNOW_RETURN_IF_ERROR(device.upload(y->data(), bytes(*y), &result));
  gpu::Arguments arguments;
  arguments.buffer(left->data()).buffer(right->data());
  for (int i = 0; i < 6; ++i) arguments.buffer(result->data());
  // The parameters of the text: rows to x_row, the window, channels and so on.
  for (int v :
       {kRows, kColumns, kDepth, kDepth, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, kDepth, 1, kColumns, 1, 2 * kDepth, 0, 1})
    arguments.add(v);
  arguments.add(0.0f).add(0.0f);
  const std::unique_ptr<gpu::Stream> stream = device.create_stream();
  MINNOW_RETURN_IF_ERROR(
      stream->launch(*program, arguments, {gpu::groups_for(kRows, 32) * gpu::groups_for(kColumns, 32)}));
  MINNOW_RETURN_IF_ERROR(stream->download(result->data(), y->data(), bytes(*y)));
  return stream->finish();
}

}  // namespace

bool matrices_are_right(VulkanDevice& device) {
  std::vector<uint16_t> y;
  if (!multiply(device, &y).ok()) return false;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      float want = 0;
      for (int k = 0; k < kDepth; ++k) want += number_at(r * kDepth + k) * number_at(c * kDepth + k + 11);
      if (y[static_cast<size_t>(r * kColumns + c)] != gpu::to_half(want)) return false;
    }
  return true;
}

}  // namespace minnow::vulkan
