#include "kernels/cuda/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/block_pool.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/product/cublaslt.h"
#include "kernels/cuda/stream.h"
#include "kernels/gpu/texts.h"

namespace minnow::cuda {

extern const void* const kTextKernels[];  // made by the build

namespace {

constexpr int64_t kKeptBytes = 256 << 20;  // of results that are free again, for the next ones
constexpr int64_t kMostElements = int64_t{1} << 30;

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(int index, void* data, int64_t bytes) : index_(index) {
    data_ = static_cast<char*>(data);
    bytes_ = bytes;
  }
  ~DeviceMemory() override {
    if (use_device(index_).ok()) cudaFree(data_);
  }

 private:
  int index_;
};

// A piece of a pool.
class ResultMemory final : public Memory {
 public:
  ResultMemory(BlockPool& pool, char* data, int64_t bytes) : pool_(pool) {
    data_ = data;
    bytes_ = bytes;
  }
  ~ResultMemory() override { pool_.give_back(data_, bytes_); }

 private:
  BlockPool& pool_;
};

// Between layouts, of elements of one type.
class LayoutKernel final : public gpu::GpuKernel {
 public:
  explicit LayoutKernel(bool packs) : packs_(packs) {}
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const Tensor &from = *context.in[0], &to = *context.out[0];
    const Shape& shape = from.type.shape;
    const DType dtype = from.type.dtype;
    const int64_t pixels = shape.count(2, shape.rank());
    if (shape.count() < kMostElements && (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16)) {
      LayoutChange change;
      change.from = change.to = dtype;
      change.to_channels_last = packs_;
      change.images = static_cast<int>(shape[0]);
      change.channels = static_cast<int>(shape[1]);
      change.pixels = static_cast<int>(pixels);
      change.x = from.data;
      change.y = to.data;
      return check(change_layout(change, target_of(stream)), "to change the layout");
    }
    Pack change;
    change.from = from.data;
    change.to = to.data;
    change.element_bytes = static_cast<int>(dtype_size(dtype));
    change.images = shape[0];
    change.channels = shape[1];
    change.pixels = pixels;
    change.packs = packs_;
    return check(pack(change, target_of(stream)), "to change the layout");
  }
  Profile profile() const override { return {packs_ ? "pack" : "unpack"}; }

 private:
  bool packs_;
};

class CudaDevice final : public gpu::Device {
 public:
  explicit CudaDevice(int index) : index_(index) {}
  Status open();

  std::string name() const override { return name_; }
  std::string driver() const override { return driver_; }
  const gpu::Limits& limits() const override { return limits_; }
  const gpu::Speed& speed() const override { return speed_; }
  Status program(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out) override;
  Status allocate(int64_t bytes, std::unique_ptr<Memory>* out) override;
  Status allocate_result(int64_t bytes, std::unique_ptr<Memory>* out) override;
  Status upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) override;
  std::unique_ptr<gpu::Stream> create_stream() override {
    return std::make_unique<CudaStream>(*this, index_, overlap_);
  }
  Status convert(gpu::Stream& stream, const void* from, DType from_type, void* to, DType to_type, int64_t n) override {
    const FloatConversion change = {from_type, to_type, n, from, to};
    if (!can_convert_floats(change)) return gpu::Device::convert(stream, from, from_type, to, to_type, n);
    return check(convert_floats(change, target_of(stream)), "to convert");
  }
  std::unique_ptr<gpu::CompiledElements> compile(const gpu::ElementProgram& program, const NodeContext& node) override {
    return compile_elements(program, node, machine_.capability);
  }
  const KernelTable* own_kernels() const override { return &CudaKernels::table(); }
  int channel_block() const override { return 0; }  // one block of all
  int64_t bytes(const TensorType& type) const override;
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) override {
    if (from.dtype != to.dtype || from.layout == to.layout) return nullptr;
    return std::make_unique<LayoutKernel>(to.layout == Layout::kPacked);
  }
  const Machine& machine() const { return machine_; }

 private:
  Status malloc(int64_t bytes, char** out) const;

  int index_;
  std::string name_, driver_;
  bool overlap_ = false;
  Machine machine_;
  gpu::Limits limits_;
  gpu::Speed speed_;
  cudaStream_t uploads_ = nullptr;
  // A piece that its user gives back is given to the next one at once: both use it in the order of the default stream.
  BlockPool results_{[this](int64_t bytes, char** out) { return malloc(bytes, out); },
                     [this](char* block) {
                       if (use_device(index_).ok()) cudaFree(block);
                     },
                     kKeptBytes};
  std::mutex mutex_;  // of the programs
  std::map<std::string, std::unique_ptr<TextProgram>> programs_;
};

Status CudaDevice::open() {
  LibraryProduct::expect();  // while the driver makes a context, which takes as long
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  cudaDeviceProp properties;
  MINNOW_RETURN_IF_ERROR(check(cudaGetDeviceProperties(&properties, index_), "to ask for the device's properties"));
  name_ = properties.name;
  int driver = 0;
  MINNOW_RETURN_IF_ERROR(check(cudaDriverGetVersion(&driver), "to ask for the driver's version"));
  driver_ = std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
  machine_.capability = properties.major * 10 + properties.minor;
  machine_.multiprocessors = properties.multiProcessorCount;
  machine_.shared_bytes = static_cast<int>(properties.sharedMemPerBlockOptin);
  machine_.l2_bytes = properties.l2CacheSize;
  cudaFuncAttributes code;
  const cudaError_t loads = cudaFuncGetAttributes(&code, kTextKernels[0]);
  if (loads == cudaErrorNoKernelImageForDevice || loads == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    return fail(Code::kDevice,
                "this build has no code for %s with compute capability %d.%d, or the driver is too old for it",
                properties.name, properties.major, properties.minor);
  }
  MINNOW_RETURN_IF_ERROR(check(loads, "to load the kernels"));
  machine_.compiled = std::min(code.ptxVersion, code.binaryVersion);
  overlap_ = machine_.compiled >= 90;
  const auto attribute = [&](cudaDeviceAttr what, double otherwise) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, index_) == cudaSuccess && value > 0 ? value : otherwise;
  };
  limits_.shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlock);
  for (int i = 0; i < 3; ++i) limits_.groups[i] = properties.maxGridSize[i];
  // 128 lanes a multiprocessor; twice the bits of the bus per clock of the memory. What is reached is less.
  const double hertz = 1e3 * attribute(cudaDevAttrClockRate, 1e6);
  speed_.flops = 0.5 * 2 * 128 * machine_.multiprocessors * hertz;
  speed_.bytes =
      0.6 * 2 * 1e3 * attribute(cudaDevAttrMemoryClockRate, 5e6) * attribute(cudaDevAttrGlobalMemoryBusWidth, 256) / 8;
  speed_.launch = 2e-6;
  speed_.copy = 1e-5;
  speed_.copy_bytes = 2e10;
  return check(cudaStreamCreateWithFlags(&uploads_, cudaStreamNonBlocking), "to create a stream");
}

Status CudaDevice::program(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out) {
  const gpu::TextInfo* info = gpu::find_text(text);
  if (info == nullptr) return fail(Code::kInternal, "there is no kernel text %s", text);
  std::vector<gpu::Constant> values;
  std::vector<std::string> names;
  MINNOW_RETURN_IF_ERROR(gpu::resolve_constants(*info, constants, &values, &names));
  std::string key = text;
  std::vector<int32_t> numbers;
  for (const gpu::Constant& value : values) {
    key += " " + std::to_string(value.value);
    numbers.push_back(value.value);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<TextProgram>& known = programs_[key];
  if (known == nullptr)
    known = std::make_unique<TextProgram>(*info, kTextKernels[gpu::index_of(*info)], std::move(numbers));
  *out = known.get();
  return ok();
}

Status CudaDevice::malloc(int64_t bytes, char** out) const {
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 64)));
  *out = static_cast<char*>(data);
  return check(error, ("to allocate " + std::to_string(bytes) + " bytes on " + name_).c_str());
}

Status CudaDevice::allocate(int64_t bytes, std::unique_ptr<Memory>* out) {
  char* data = nullptr;
  Status status = malloc(bytes, &data);
  if (!status.ok()) {
    results_.drop_unused();
    status = malloc(bytes, &data);
  }
  MINNOW_RETURN_IF_ERROR(status);
  *out = std::make_unique<DeviceMemory>(index_, data, bytes);
  return ok();
}

Status CudaDevice::allocate_result(int64_t bytes, std::unique_ptr<Memory>* out) {
  char* data = nullptr;
  MINNOW_RETURN_IF_ERROR(results_.allocate(bytes, &data));
  *out = std::make_unique<ResultMemory>(results_, data, bytes);
  return ok();
}

Status CudaDevice::upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) {
  MINNOW_RETURN_IF_ERROR(allocate(bytes, out));
  if (bytes == 0) return ok();
  MINNOW_RETURN_IF_ERROR(
      check(cudaMemcpyAsync((*out)->data(), host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, uploads_),
            "to copy to the device"));
  return check(cudaStreamSynchronize(uploads_), "to copy to the device");
}

int64_t CudaDevice::bytes(const TensorType& type) const {
  if (type.layout != Layout::kPacked || type.shape.rank() < 2) return type.bytes();
  TensorType padded = type;
  padded.shape[1] = round_channels(type.shape[1]);
  return padded.bytes();
}

}  // namespace

int count_devices() {
  int n = 0;
  if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
  cudaGetLastError();
  return 0;
}

Status open_device(int index, std::unique_ptr<gpu::Device>* out) {
  if (index >= count_devices()) return fail(Code::kDevice, "there are %d CUDA devices", count_devices());
  auto device = std::make_unique<CudaDevice>(index);
  MINNOW_RETURN_IF_ERROR(device->open());
  *out = std::move(device);
  return ok();
}

const Machine& machine_of(const NodeContext& node) { return static_cast<CudaDevice&>(gpu::device_of(node)).machine(); }

}  // namespace minnow::cuda
