#include "kernels/opencl/device.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>

#include "kernels/gpu/address_space.h"
#include "kernels/gpu/cache_file.h"
#include "kernels/gpu/error_slots.h"
#include "kernels/gpu/texts.h"
#include "kernels/opencl/api.h"

namespace minnow::opencl {

extern const char* const kSources[];  // made by the build

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 32;  // of a buffer: kernels have offsets of 32 bits

std::vector<cl_device_id> all_devices() {
  std::vector<cl_device_id> devices;
  const Api* cl = nullptr;
  if (!find_api(&cl).ok()) return devices;
  cl_uint n = 0;
  if (cl->clGetPlatformIDs(0, nullptr, &n) != CL_SUCCESS || n == 0) return devices;
  std::vector<cl_platform_id> platforms(n);
  cl->clGetPlatformIDs(n, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    cl_uint m = 0;
    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &m) != CL_SUCCESS || m == 0) continue;
    const size_t before = devices.size();
    devices.resize(before + m);
    cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, m, devices.data() + before, nullptr);
  }
  // GPUs first, whatever the order of the platforms.
  const auto is_gpu = [&](cl_device_id device) {
    cl_device_type type = 0;
    cl->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
    return (type & CL_DEVICE_TYPE_GPU) != 0;
  };
  std::stable_partition(devices.begin(), devices.end(), is_gpu);
  return devices;
}

using AddressSpace = gpu::AddressSpace<cl_mem>;

class BufferMemory final : public Memory {
 public:
  BufferMemory(const Api& cl, AddressSpace& space, cl_mem buffer, int64_t bytes)
      : cl_(cl), space_(space), buffer_(buffer) {
    data_ = space.add(buffer, bytes);
    bytes_ = bytes;
  }
  ~BufferMemory() override {
    space_.remove(data_);
    cl_.clReleaseMemObject(buffer_);
  }

 private:
  const Api& cl_;
  AddressSpace& space_;
  cl_mem buffer_;
};

// A compiled text. Several programs share one where constants are arguments.
struct Built {
  Built(const Api& cl, cl_program program, cl_kernel kernel) : kernel(kernel), cl_(cl), program_(program) {}
  ~Built() {
    cl_.clReleaseKernel(kernel);
    cl_.clReleaseProgram(program_);
  }
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;

  cl_kernel kernel;
  std::mutex arguments;  // are set before each launch

 private:
  const Api& cl_;
  cl_program program_;
};

class BuiltProgram final : public gpu::Program {
 public:
  BuiltProgram(const gpu::TextInfo& text, std::shared_ptr<Built> built, std::vector<cl_int> constants)
      : Program(text), built(std::move(built)), constants(std::move(constants)) {}
  const std::shared_ptr<Built> built;
  const std::vector<cl_int> constants;  // that are arguments
};

class OpenClDevice final : public gpu::Device {
 public:
  OpenClDevice(const Api& cl, cl_device_id id) : cl(cl), id_(id) {}
  Status open();

  std::string name() const override { return text(CL_DEVICE_NAME); }
  bool is_software() const override { return (number<cl_device_type>(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0; }
  const gpu::Limits& limits() const override { return limits_; }
  const gpu::Speed& speed() const override { return speed_; }
  Status program(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out) override;
  Status allocate(int64_t bytes, std::unique_ptr<Memory>* out) override;
  Status upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) override;
  std::unique_ptr<gpu::Stream> create_stream() override;

  const Api& cl;
  AddressSpace space;

  Status create_queue(cl_command_queue* out) {
    cl_int error = CL_SUCCESS;
    *out = cl.clCreateCommandQueue(context_, id_, 0, &error);
    return error == CL_SUCCESS ? ok() : failed("to create a queue", error);
  }

 private:
  Status build(const gpu::TextInfo& text, const std::string& options, std::shared_ptr<Built>* out);
  // Compiled before, and kept in the user's cache; null where it was not, or the driver does not take it.
  cl_program find_binary(const std::string& name, const std::string& key, const std::string& options);
  void keep_binary(const std::string& name, const std::string& key, cl_program program);
  std::string text(cl_device_info what) const {
    size_t n = 0;
    cl.clGetDeviceInfo(id_, what, 0, nullptr, &n);
    std::string value(n, '\0');
    cl.clGetDeviceInfo(id_, what, n, value.data(), nullptr);
    return value.c_str();
  }
  template <typename T>
  T number(cl_device_info what) const {
    T value = 0;
    cl.clGetDeviceInfo(id_, what, sizeof value, &value, nullptr);
    return value;
  }

  cl_device_id id_;
  cl_context context_ = nullptr;
  cl_command_queue uploads_ = nullptr;
  gpu::Limits limits_;
  gpu::Speed speed_;
  std::string driver_;  // and the device, by name and version
  int64_t most_bytes_ = kMostBytes;
  std::mutex mutex_;         // of the programs, and of uploads
  bool specializes_ = true;  // compiles a text for each set of constants
  std::map<std::string, std::shared_ptr<Built>> built_;
  std::map<std::string, std::unique_ptr<BuiltProgram>> programs_;
};

class OpenClStream final : public gpu::Stream {
 public:
  explicit OpenClStream(OpenClDevice& device) : device_(device), errors_(device) {
    made_ = device.create_queue(&queue_);
  }
  ~OpenClStream() override {
    if (queue_ == nullptr) return;
    device_.cl.clFinish(queue_);
    device_.cl.clReleaseCommandQueue(queue_);
  }

  Status launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) override;
  bool owns(const void* address) const override {
    int64_t offset = 0;
    return device_.space.find(address, &offset) != nullptr;
  }
  Status upload(const void* host, void* device, int64_t bytes) override;
  Status download(const void* device, void* host, int64_t bytes) override;
  Status copy(const void* from, void* to, int64_t bytes) override;
  Status finish() override;
  Status error_slot(const RunContext& context, gpu::ErrorFunction function, void** address) override {
    return errors_.find(context, function, address);
  }

 private:
  Status find(const void* address, cl_mem* buffer, int64_t* offset) {
    MINNOW_RETURN_IF_ERROR(made_);
    *buffer = device_.space.find(address, offset);
    return *buffer != nullptr ? ok() : fail(Code::kInternal, "OpenCL was given an address that is none of its memory");
  }

  OpenClDevice& device_;
  gpu::ErrorSlots errors_;
  cl_command_queue queue_ = nullptr;
  Status made_;
};

Status OpenClDevice::open() {
  cl_int error = CL_SUCCESS;
  context_ = cl.clCreateContext(nullptr, 1, &id_, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return failed("to create a context", error);
  driver_ = name() + "\n" + text(CL_DEVICE_VERSION) + "\n" + text(CL_DRIVER_VERSION) + "\n";
  most_bytes_ = static_cast<int64_t>(std::min<cl_ulong>(kMostBytes, number<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE)));
  limits_.tensor_bytes = most_bytes_;
  limits_.shared_bytes = static_cast<int64_t>(number<cl_ulong>(CL_DEVICE_LOCAL_MEM_SIZE));
  // A processor's compiler takes longer than most of what is then computed.
  specializes_ = (number<cl_device_type>(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) == 0;
  // A rough guess, until it is measured: 32 lanes a compute unit.
  const double units = number<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS),
               mhz = number<cl_uint>(CL_DEVICE_MAX_CLOCK_FREQUENCY);
  speed_.flops = std::max(units * mhz * 1e6 * 32, 1e9);
  return create_queue(&uploads_);
}

Status OpenClDevice::program(const char* text, std::initializer_list<gpu::Constant> constants,
                             const gpu::Program** out) {
  const gpu::TextInfo* info = gpu::find_text(text);
  if (info == nullptr) return fail(Code::kInternal, "there is no kernel text %s", text);
  std::vector<gpu::Constant> values;
  std::vector<std::string> names;
  MINNOW_RETURN_IF_ERROR(gpu::resolve_constants(*info, constants, &values, &names));
  std::string key = text, options;
  std::vector<cl_int> numbers;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string definition = " -D" + names[i] + "=" + std::to_string(values[i].value);
    key += definition;
    if (specializes_) options += definition;
    if (!specializes_) numbers.push_back(values[i].value);
  }
  if (!specializes_) options = " -DARGUMENTS";
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<BuiltProgram>& known = programs_[key];
  if (known == nullptr) {
    std::shared_ptr<Built>& built = built_[text + options];
    if (built == nullptr) MINNOW_RETURN_IF_ERROR(build(*info, options, &built));
    known = std::make_unique<BuiltProgram>(*info, built, std::move(numbers));
  }
  *out = known.get();
  return ok();
}

Status OpenClDevice::build(const gpu::TextInfo& text, const std::string& options, std::shared_ptr<Built>* out) {
  const char* source = kSources[gpu::index_of(text)];
  const std::string key = driver_ + options + "\n" + source;
  char file[40];
  std::snprintf(file, sizeof file, "opencl/%016llx.bin", static_cast<unsigned long long>(gpu::hash_of(key)));
  cl_int error = CL_SUCCESS;
  cl_program program = find_binary(file, key, options);
  const bool is_new = program == nullptr;
  if (is_new) {
    program = cl.clCreateProgramWithSource(context_, 1, &source, nullptr, &error);
    if (error != CL_SUCCESS) return failed("to create a program", error);
    error = cl.clBuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr);
  }
  if (error != CL_SUCCESS) {
    size_t n = 0;
    cl.clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &n);
    std::string log(n, '\0');
    cl.clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, n, log.data(), nullptr);
    cl.clReleaseProgram(program);
    return Status(Code::kDevice,
                  "the driver of " + name() + " does not compile the kernel " + text.name + ": " + log.c_str());
  }
  cl_kernel kernel = cl.clCreateKernel(program, text.name, &error);
  if (error != CL_SUCCESS) {
    cl.clReleaseProgram(program);
    return failed("to create a kernel", error);
  }
  if (is_new) keep_binary(file, key, program);
  *out = std::make_shared<Built>(cl, program, kernel);
  return ok();
}

cl_program OpenClDevice::find_binary(const std::string& name, const std::string& key, const std::string& options) {
  std::string binary;
  if (!gpu::read_cache(name, key, &binary) || binary.empty()) return nullptr;
  const size_t bytes = binary.size();
  const auto* begin = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int state = CL_SUCCESS, error = CL_SUCCESS;
  cl_program program = cl.clCreateProgramWithBinary(context_, 1, &id_, &bytes, &begin, &state, &error);
  if (error != CL_SUCCESS) return nullptr;
  if (state == CL_SUCCESS && cl.clBuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr) == CL_SUCCESS)
    return program;
  cl.clReleaseProgram(program);
  return nullptr;
}

void OpenClDevice::keep_binary(const std::string& name, const std::string& key, cl_program program) {
  size_t bytes = 0;
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS || bytes == 0)
    return;
  std::string binary(bytes, '\0');
  char* begin = binary.data();
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof begin, &begin, nullptr) == CL_SUCCESS)
    gpu::write_cache(name, key, binary);
}

Status OpenClDevice::allocate(int64_t bytes, std::unique_ptr<Memory>* out) {
  if (bytes > most_bytes_)
    return fail(Code::kDevice, "%lld bytes of memory at once; with OpenCL this device gives at most %lld",
                static_cast<long long>(bytes), static_cast<long long>(most_bytes_));
  cl_int error = CL_SUCCESS;
  cl_mem buffer = cl.clCreateBuffer(context_, CL_MEM_READ_WRITE, static_cast<size_t>(std::max<int64_t>(bytes, 64)),
                                    nullptr, &error);
  if (error != CL_SUCCESS) return failed("to allocate a buffer", error);
  *out = std::make_unique<BufferMemory>(cl, space, buffer, bytes);
  return ok();
}

Status OpenClDevice::upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) {
  MINNOW_RETURN_IF_ERROR(allocate(bytes, out));
  if (bytes == 0) return ok();
  int64_t offset = 0;
  cl_mem buffer = space.find((*out)->data(), &offset);
  const std::lock_guard<std::mutex> lock(mutex_);
  const cl_int error =
      cl.clEnqueueWriteBuffer(uploads_, buffer, CL_TRUE, 0, static_cast<size_t>(bytes), host, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok() : failed("to copy to the device", error);
}

std::unique_ptr<gpu::Stream> OpenClDevice::create_stream() { return std::make_unique<OpenClStream>(*this); }

Status OpenClStream::launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) {
  const auto& compiled = static_cast<const BuiltProgram&>(program);
  Built& built = *compiled.built;
  if (!arguments.fit(program.text))
    return fail(Code::kInternal, "wrong arguments for the kernel text %s", program.text.name);
  if (groups.x <= 0 || groups.y <= 0 || groups.z <= 0) return ok();
  const std::lock_guard<std::mutex> lock(built.arguments);
  cl_uint at = 0;
  cl_int error = CL_SUCCESS;
  std::vector<cl_uint> offsets;
  for (const void* address : arguments.buffers()) {
    cl_mem buffer = nullptr;
    int64_t offset = 0;
    MINNOW_RETURN_IF_ERROR(find(address, &buffer, &offset));
    offsets.push_back(static_cast<cl_uint>(offset));
    error |= device_.cl.clSetKernelArg(built.kernel, at++, sizeof buffer, &buffer);
  }
  for (cl_uint offset : offsets) error |= device_.cl.clSetKernelArg(built.kernel, at++, sizeof offset, &offset);
  for (uint32_t word : arguments.words()) error |= device_.cl.clSetKernelArg(built.kernel, at++, sizeof word, &word);
  for (cl_int constant : compiled.constants)
    error |= device_.cl.clSetKernelArg(built.kernel, at++, sizeof constant, &constant);
  if (error != CL_SUCCESS) return failed("to set the arguments of a kernel", error);
  const auto local = static_cast<size_t>(program.text.group);
  const size_t sizes[3] = {static_cast<size_t>(groups.x) * local, static_cast<size_t>(groups.y),
                           static_cast<size_t>(groups.z)};
  const size_t group[3] = {local, 1, 1};
  error = device_.cl.clEnqueueNDRangeKernel(queue_, built.kernel, 3, nullptr, sizes, group, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok() : failed("to launch a kernel", error).at(program.text.name);
}

Status OpenClStream::upload(const void* host, void* device, int64_t bytes) {
  if (bytes == 0) return ok();
  cl_mem buffer = nullptr;
  int64_t offset = 0;
  MINNOW_RETURN_IF_ERROR(find(device, &buffer, &offset));
  const cl_int error = device_.cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, static_cast<size_t>(offset),
                                                       static_cast<size_t>(bytes), host, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok() : failed("to copy to the device", error);
}

Status OpenClStream::download(const void* device, void* host, int64_t bytes) {
  if (bytes == 0) return ok();
  cl_mem buffer = nullptr;
  int64_t offset = 0;
  MINNOW_RETURN_IF_ERROR(find(device, &buffer, &offset));
  const cl_int error = device_.cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, static_cast<size_t>(offset),
                                                      static_cast<size_t>(bytes), host, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok() : failed("to copy from the device", error);
}

Status OpenClStream::copy(const void* from, void* to, int64_t bytes) {
  if (bytes == 0) return ok();
  cl_mem source = nullptr, target = nullptr;
  int64_t read = 0, write = 0;
  MINNOW_RETURN_IF_ERROR(find(from, &source, &read));
  MINNOW_RETURN_IF_ERROR(find(to, &target, &write));
  const cl_int error =
      device_.cl.clEnqueueCopyBuffer(queue_, source, target, static_cast<size_t>(read), static_cast<size_t>(write),
                                     static_cast<size_t>(bytes), 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok() : failed("to copy on the device", error);
}

Status OpenClStream::finish() {
  MINNOW_RETURN_IF_ERROR(made_);
  const cl_int error = device_.cl.clFinish(queue_);
  if (error != CL_SUCCESS) return failed("to finish", error);
  return errors_.expected() ? errors_.collect(*this) : ok();
}

}  // namespace

int count_devices() { return static_cast<int>(all_devices().size()); }

Status open_device(int index, std::unique_ptr<gpu::Device>* out) {
  const Api* cl = nullptr;
  MINNOW_RETURN_IF_ERROR(find_api(&cl));
  const std::vector<cl_device_id> devices = all_devices();
  if (static_cast<size_t>(index) >= devices.size())
    return fail(Code::kDevice, "there are %d OpenCL devices", static_cast<int>(devices.size()));
  auto device = std::make_unique<OpenClDevice>(*cl, devices[static_cast<size_t>(index)]);
  MINNOW_RETURN_IF_ERROR(device->open());
  *out = std::move(device);
  return ok();
}

}  // namespace minnow::opencl
