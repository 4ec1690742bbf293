// From the bytes of a camera to the input of a model, with MNN's results: places by a matrix, colors, normalization.
#pragma once

#include "kernels/vision/picture.h"

namespace minnow::vision {

// As MNN numbers them.
enum class PixelFormat { kRgba = 0, kRgb = 1, kBgr = 2, kGray = 3, kBgra = 4, kNv21 = 11, kNv12 = 12, kI420 = 13 };
enum class Filter { kNearest, kBilinear, kBicubic };
enum class Wrap { kClamp, kZero, kRepeat };

struct ImageProcess {
  PixelFormat source = PixelFormat::kRgba, target = PixelFormat::kRgba;
  Filter filter = Filter::kNearest;
  Wrap wrap = Wrap::kClamp;
  float mean[4] = {0, 0, 0, 0}, factor[4] = {1, 1, 1, 1};
  float matrix[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};  // from (x, y, 1) of the result to that of the source
  uint8_t padding = 0;                            // outside, with kZero
};

// 0 where there is no such format, or it has no pixels of its own.
int64_t channels_of(PixelFormat format);

struct ProcessedTensor {
  void* data = nullptr;
  DType dtype = DType::kF32;  // or u8, which is not normalized
  int64_t height = 0, width = 0;
  bool channels_last = false;
};

// `stride`: bytes between rows, of luma too; chroma follows after all its rows, planes with half the stride.
Status process_image(const ImageProcess& process, const uint8_t* pixels, int64_t width, int64_t height, int64_t stride,
                     const ProcessedTensor& tensor, ThreadPool& pool);

}  // namespace minnow::vision
