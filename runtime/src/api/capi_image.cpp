// The C API: images to tensors.
#include <cmath>

#include "kernels/core/registrar.h"
#include "kernels/vision/image_process.h"
#include "runtime/src/api/handles.h"

namespace minnow {
namespace {

using vision::PixelFormat;

template <typename T>
constexpr bool same(T ours, int32_t given) {
  return static_cast<int32_t>(ours) == given;
}
static_assert(same(PixelFormat::kRgba, MINNOW_RGBA) && same(PixelFormat::kRgb, MINNOW_RGB) &&
                  same(PixelFormat::kBgr, MINNOW_BGR) && same(PixelFormat::kGray, MINNOW_GRAY) &&
                  same(PixelFormat::kBgra, MINNOW_BGRA) && same(PixelFormat::kNv21, MINNOW_NV21) &&
                  same(PixelFormat::kNv12, MINNOW_NV12) && same(PixelFormat::kI420, MINNOW_I420),
              "formats are cast");
static_assert(same(vision::Filter::kNearest, MINNOW_NEAREST) && same(vision::Filter::kBilinear, MINNOW_BILINEAR) &&
                  same(vision::Filter::kBicubic, MINNOW_BICUBIC),
              "filters are cast");
static_assert(same(vision::Wrap::kClamp, MINNOW_WRAP_CLAMP) && same(vision::Wrap::kZero, MINNOW_WRAP_ZERO) &&
                  same(vision::Wrap::kRepeat, MINNOW_WRAP_REPEAT),
              "wraps are cast");

constexpr bool kHasImages = is_kept("image processing");

bool is_known_source(int32_t format) {
  return vision::channels_of(static_cast<PixelFormat>(format)) > 0 || format == MINNOW_NV21 || format == MINNOW_NV12 ||
         format == MINNOW_I420;
}

Status read_process(const minnow_image_process& given, vision::ImageProcess* process) {
  if (!is_known_source(given.source)) return fail(Code::kUsage, "%d is no format of images", given.source);
  process->source = static_cast<PixelFormat>(given.source);
  process->target = static_cast<PixelFormat>(given.target);
  if (vision::channels_of(process->target) == 0)
    return fail(Code::kUsage, "%d is no format of tensors: one of RGBA, RGB, BGR, GRAY and BGRA is", given.target);
  if (given.filter < MINNOW_NEAREST || given.filter > MINNOW_BICUBIC)
    return fail(Code::kUsage, "%d is no filter", given.filter);
  if (given.wrap < MINNOW_WRAP_CLAMP || given.wrap > MINNOW_WRAP_REPEAT)
    return fail(Code::kUsage, "%d is no wrap", given.wrap);
  if (given.padding < 0 || given.padding > 255)
    return fail(Code::kUsage, "the padding is %d: it is from 0 to 255", given.padding);
  process->filter = static_cast<vision::Filter>(given.filter);
  process->wrap = static_cast<vision::Wrap>(given.wrap);
  process->padding = static_cast<uint8_t>(given.padding);
  for (int i = 0; i < 9; ++i) {
    if (!std::isfinite(given.matrix[i])) return fail(Code::kUsage, "the matrix has numbers that are not finite");
    process->matrix[i] = given.matrix[i];
  }
  std::copy(given.mean, given.mean + 4, process->mean);
  std::copy(given.normal, given.normal + 4, process->factor);
  return ok();
}

Status read_target(const minnow_tensor& given, int64_t channels, bool channels_last, vision::ProcessedTensor* tensor) {
  if (given.data == nullptr) return null_argument("the data of the tensor");
  if (given.dtype != MINNOW_F32 && given.dtype != MINNOW_U8)
    return fail(Code::kUsage, "the tensor must be of float32 or uint8");
  if (given.rank < 3 || given.rank > 4 || (given.rank == 4 && given.shape[0] != 1))
    return fail(Code::kUsage, "the tensor must have the shape [1, %s], or that without the 1",
                channels_last ? "height, width, channels" : "channels, height, width");
  const int64_t* shape = given.shape + (given.rank == 4 ? 1 : 0);
  if (shape[channels_last ? 2 : 0] != channels)
    return fail(Code::kUsage, "the tensor has %lld channels, but the format %lld",
                static_cast<long long>(shape[channels_last ? 2 : 0]), static_cast<long long>(channels));
  tensor->data = given.data;
  tensor->dtype = static_cast<DType>(given.dtype);
  tensor->height = shape[channels_last ? 0 : 1];
  tensor->width = shape[channels_last ? 1 : 2];
  tensor->channels_last = channels_last;
  constexpr int64_t kMost = int64_t{1} << 30;
  if (tensor->height < 0 || tensor->width < 0 || tensor->height > kMost || tensor->width > kMost ||
      tensor->height * tensor->width > kMost)
    return fail(Code::kUsage, "the size of the tensor is impossible");
  return ok();
}

Status convert(const minnow_image_process* given, const void* pixels, int32_t width, int32_t height, int64_t stride,
               const minnow_tensor* target) {
  if (given == nullptr) return null_argument("process");
  if (pixels == nullptr) return null_argument("pixels");
  if (target == nullptr) return null_argument("tensor");
  minnow_image_process settings = MINNOW_IMAGE_PROCESS;
  MINNOW_RETURN_IF_ERROR(take_known(given, sizeof settings, "minnow_image_process", &settings));
  vision::ImageProcess process;
  MINNOW_RETURN_IF_ERROR(read_process(settings, &process));
  if (width < 1 || height < 1 || int64_t{width} * height > (int64_t{1} << 30))
    return fail(Code::kUsage, "an image of %d x %d pixels is impossible", width, height);
  const int64_t channels = std::max<int64_t>(1, vision::channels_of(process.source));
  const bool is_video = vision::channels_of(process.source) == 0;
  const int64_t least = is_video ? (width + 1) / 2 * 2 : width * channels;
  if (stride == 0) stride = least;
  if (stride < least || stride > (int64_t{1} << 40) || (settings.source == MINNOW_I420 && stride % 2 != 0))
    return fail(Code::kUsage, "the stride is %lld bytes, and a row needs %lld", static_cast<long long>(stride),
                static_cast<long long>(least));
  vision::ProcessedTensor tensor;
  MINNOW_RETURN_IF_ERROR(
      read_target(*target, vision::channels_of(process.target), settings.channels_last != 0, &tensor));
  if (tensor.height == 0 || tensor.width == 0) return ok();
  if (settings.threads < 0 || settings.threads > 256)
    return fail(Code::kUsage, "%d threads; 1 to 256 are possible, 0 means 1", settings.threads);
  ThreadPool pool(std::max(1, settings.threads));
  return vision::process_image(process, static_cast<const uint8_t*>(pixels), width, height, stride, tensor, pool);
}

}  // namespace
}  // namespace minnow

minnow_code minnow_convert_image(const minnow_image_process* process, const void* pixels, int32_t width, int32_t height,
                                 int64_t stride, const minnow_tensor* tensor) {
  return minnow::answer([&]() -> minnow::Status {
    if constexpr (minnow::kHasImages) return minnow::convert(process, pixels, width, height, stride, tensor);
    return minnow::fail(minnow::Code::kUnsupported, "this slim build has no image processing");
  });
}
