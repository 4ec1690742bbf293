#include "kernels/cuda/product/tensor_map.h"

#include <cuda_runtime_api.h>

namespace minnow::cuda {
namespace {

// The driver's functions are asked for by name: the library is loaded where there is no driver, too.
template <typename Function>
Function* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

auto* tiled() {
  static auto* const function = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  return function;
}

auto* im2col() {
  static auto* const function = driver_function<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  return function;
}

// f32 is rounded to TF32 on the way.
CUtensorMapDataType type_of(Element element) {
  switch (element) {
    case Element::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Element::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  }
}

template <int kRank>
bool make_tiled(Element element, const void* data, const cuuint64_t (&dims)[kRank],
                const cuuint64_t (&strides)[kRank - 1], const cuuint32_t (&box)[kRank], CUtensorMap* map) {
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  return tiled() != nullptr &&
         tiled()(map, type_of(element), kRank, const_cast<void*>(data), dims, strides, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Where the last window begins, counted from the last pixel.
int upper_corner(int size, int results, int stride, int pad) { return (results - 1) * stride - pad - (size - 1); }

cuuint64_t u64(int64_t v) { return static_cast<cuuint64_t>(v); }
cuuint32_t u32(int v) { return static_cast<cuuint32_t>(v); }

}  // namespace

bool has_tensor_maps() { return tiled() != nullptr && im2col() != nullptr; }

bool can_map_windows(const ProductArguments& s) {
  const auto corner = [](int v) { return v >= -128 && v <= 127; };
  return corner(-s.pad_h) && corner(-s.pad_w) && corner(upper_corner(s.H, s.P, s.stride_h, s.pad_h)) &&
         corner(upper_corner(s.W, s.Q, s.stride_w, s.pad_w)) && s.stride_h <= 8 && s.stride_w <= 8 &&
         (s.R - 1) * s.dilation_h <= 255 && (s.S - 1) * s.dilation_w <= 255;
}

bool map_matrix(const Product& product, const void* x, int rows, CUtensorMap* map) {
  const ProductArguments& s = product.shape;
  const int bytes = bytes_of(product.element);
  const bool one = product.batch == 1 || s.x_batch == 0;
  const cuuint64_t dims[3] = {u64(s.C), u64(s.M), u64(one ? 1 : product.batch)};
  const cuuint64_t strides[2] = {u64(int64_t{s.pixel} * bytes),
                                 u64(one ? int64_t{s.pixel} * s.M * bytes : s.x_batch * bytes)};
  const cuuint32_t box[3] = {u32(128 / bytes), u32(rows), 1};
  return make_tiled<3>(product.element, x, dims, strides, box, map);
}

bool map_weights(const Product& product, const void* w, int columns, CUtensorMap* map) {
  const ProductArguments& s = product.shape;
  const int bytes = bytes_of(product.element), taps = s.R * s.S;
  const bool one = product.batch == 1 || s.w_batch == 0;
  const cuuint64_t dims[4] = {u64(s.C), u64(taps), u64(s.N), u64(one ? 1 : product.batch)};
  const cuuint64_t strides[3] = {u64(int64_t{s.depth} / taps * bytes), u64(int64_t{s.depth} * bytes),
                                 u64(one ? int64_t{s.depth} * s.N * bytes : s.w_batch * bytes)};
  const cuuint32_t box[4] = {u32(128 / bytes), 1, u32(columns), 1};
  return make_tiled<4>(product.element, w, dims, strides, box, map);
}

bool map_result(const Product& product, const void* y, int rows, CUtensorMap* map) {
  const ProductArguments& s = product.shape;
  const int bytes = bytes_of(product.element);
  const cuuint64_t dims[3] = {u64(s.end.columns), u64(s.M), u64(product.batch)};
  const cuuint64_t strides[2] = {u64(s.end.row * bytes),
                                 u64((product.batch == 1 ? s.end.row * s.M : s.y_batch) * bytes)};
  const cuuint32_t box[3] = {u32(128 / bytes), u32(rows), 1};
  return make_tiled<3>(product.element, y, dims, strides, box, map);
}

bool map_windows(const Product& product, const void* x, int rows, CUtensorMap* map) {
  const ProductArguments& s = product.shape;
  const int bytes = bytes_of(product.element);
  const cuuint64_t dims[4] = {u64(s.C), u64(s.W), u64(s.H), u64(product.images)};
  const int64_t pixel = int64_t{s.pixel} * bytes, row = s.pitch == 0 ? pixel * s.W : int64_t{s.pitch} * bytes;
  const cuuint64_t strides[3] = {u64(pixel), u64(row), u64(row * s.H)};
  const int lower[2] = {-s.pad_w, -s.pad_h};
  const int upper[2] = {upper_corner(s.W, s.Q, s.stride_w, s.pad_w), upper_corner(s.H, s.P, s.stride_h, s.pad_h)};
  const cuuint32_t steps[4] = {1, u32(s.stride_w), u32(s.stride_h), 1};
  return im2col() != nullptr &&
         im2col()(map, type_of(product.element), 4, const_cast<void*>(x), dims, strides, lower, upper, u32(128 / bytes),
                  u32(rows), steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace minnow::cuda
