// Layout::kPacked as the CPU has it: channels in blocks of as many floats as a vector of the instruction set holds. And
// Layout::kLast, for bytes, which tiles of AMX are loaded from as they lie, and for floats, which are rounded to bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "hwy/detect_compiler_arch.h"
#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace minnow {

// Channels per block on this machine: 16, 8 or 4.
int pack_width();

// Whether this build has processors with such tiles.
constexpr bool kHasLast = HWY_ARCH_X86_64 != 0;
// Bytes of a pixel in Layout::kLast.
constexpr int64_t last_channels(int64_t channels) { return (channels + 15) / 16 * 16; }
// Numbers of bf16 of a pixel of floats in Layout::kLast. Those beyond the channels are finite.
constexpr int64_t half_channels(int64_t channels) { return (channels + 31) / 32 * 32; }
// From one pixel of such an image to the next.
inline int64_t half_pixel(const TensorType& image) {
  return image.pixel > 0 ? image.pixel : half_channels(image.shape[1]);
}
// Tiles are read whole: behind the last pixel there are so many more, and so many bytes.
constexpr int64_t kReadPixels = 15, kReadBytes = 64;
// Elements of such a tensor, with those beyond its channels.
inline int64_t last_count(const Shape& s) { return s[0] * s.count(2, s.rank()) * last_channels(s[1]); }

// Bytes that a tensor of either layout takes, with the padding of its last block; the largest number there is for more.
int64_t stored_bytes(const TensorType& type);

// [N, C, spatial...] to [N, ceil(C / p), spatial..., p] with p = pack_width(), and back; any element size. The lanes
// beyond C get copies of valid values, so that computing on them meets no NaN or denormal that is not in the data.
void pack_channels(const Tensor& plain, Tensor* packed, ThreadPool* pool);
void unpack_channels(const Tensor& packed, Tensor* plain, ThreadPool* pool);
// The channels of some images of Layout::kLast side by side; those that lie there already are left alone.
void join_channels_last(const std::vector<const Tensor*>& from, Tensor* to, ThreadPool* pool);
// The same, or a plain copy, as the layouts of the two tensors ask for. Nothing is done when they share their memory.
void convert_layout(const Tensor& from, Tensor* to, ThreadPool* pool);

}  // namespace minnow
