#include "kernels/cuda/stream.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/delay.h"

namespace minnow::cuda {
namespace {

constexpr int64_t kLaunchNanoseconds = 6000;  // that a launch takes, at most
constexpr int64_t kBlockBytes = 1 << 20, kMostStaged = 4 << 20;

class Graph final : public Recording {
 public:
  Graph(CudaStream& stream, cudaGraphExec_t graph, bool reports) : stream_(stream), graph_(graph), reports_(reports) {}
  ~Graph() override { cudaGraphExecDestroy(graph_); }
  Status replay() override { return stream_.replay(graph_, reports_); }

 private:
  CudaStream& stream_;
  cudaGraphExec_t graph_;
  bool reports_;  // some of its kernels have error slots
};

// Whether memory of the host is pinned: by us, or by the caller.
bool is_pinned(const void* host) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, host) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return ok();
  cudaGetLastError();  // an error that does not stay is forgotten
  const cudaError_t now = cudaPeekAtLastError();
  const char *name = cudaGetErrorName(error), *text = cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) {
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) cudaGetLastError();
    return fail(Code::kDevice, "CUDA: %s: the device is out of memory; %lld of its %lld MB are free", what,
                static_cast<long long>(left >> 20), static_cast<long long>(all >> 20));
  }
  // After an error of a kernel every call fails, until the process ends.
  const bool stays = now != cudaSuccess || (error >= cudaErrorIllegalAddress && error <= cudaErrorLaunchFailure) ||
                     error == cudaErrorECCUncorrectable || error == cudaErrorLaunchTimeout ||
                     error == cudaErrorAssert || error == cudaErrorContextIsDestroyed;
  return fail(Code::kDevice, "CUDA: %s: %s (%s)%s", what, text, name,
              stays ? "; this process can no longer use the device: start it again" : "");
}

Status use_device(int index) { return check(cudaSetDevice(index), "to use the device"); }

PinnedMemory::~PinnedMemory() {
  for (const Block& block : blocks_) cudaFreeHost(block.data);
}

char* PinnedMemory::take(int64_t bytes) {
  if (bytes > kMostStaged) return nullptr;
  bytes = (bytes + 255) / 256 * 256;
  while (block_ < blocks_.size() && blocks_[block_].bytes - used_ < bytes) ++block_, used_ = 0;
  if (block_ == blocks_.size()) {
    Block block;
    block.bytes = std::max(bytes, kBlockBytes);
    void* data = nullptr;
    if (cudaHostAlloc(&data, static_cast<size_t>(block.bytes), cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    block.data = static_cast<char*>(data);
    blocks_.push_back(block);
    used_ = 0;
  }
  char* at = blocks_[block_].data + used_;
  used_ += bytes;
  return at;
}

CudaStream::CudaStream(gpu::Device& device, int index, bool overlap) : device_(device), index_(index), errors_(device) {
  target_.overlap = overlap;
  made_ = use_device(index);
  if (made_.ok())
    made_ = check(cudaStreamCreateWithFlags(&target_.stream, cudaStreamNonBlocking), "to create a stream");
  if (made_.ok()) made_ = check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "to create an event");
}

CudaStream::~CudaStream() {
  if (target_.stream == nullptr || !use_device(index_).ok()) return;
  cudaStreamSynchronize(target_.stream);
  for (cudaEvent_t event : {event_, begin_, end_})
    if (event != nullptr) cudaEventDestroy(event);
  cudaStreamDestroy(target_.stream);
}

Status CudaStream::launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) {
  const auto& text = static_cast<const TextProgram&>(program);
  if (!arguments.fit(program.text))
    return fail(Code::kInternal, "wrong arguments for the kernel text %s", program.text.name);
  if (groups.x <= 0 || groups.y <= 0 || groups.z <= 0) return ok();
  MINNOW_RETURN_IF_ERROR(made_);
  std::vector<const void*> addresses = arguments.buffers();
  std::vector<uint32_t> words = arguments.words();
  std::vector<int32_t> constants = text.constants;
  std::vector<void*> values;
  values.reserve(addresses.size() + words.size() + constants.size());
  for (const void*& address : addresses) values.push_back(&address);
  for (int32_t& constant : constants) values.push_back(&constant);
  for (uint32_t& word : words) values.push_back(&word);
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(groups.x), static_cast<unsigned>(groups.y), static_cast<unsigned>(groups.z));
  config.blockDim = dim3(static_cast<unsigned>(program.text.group));
  config.stream = target_.stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = target_.overlap ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, text.code, values.data()), program.text.name);
}

bool CudaStream::owns(const void* address) const {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged) &&
         attributes.device == index_;
}

Status CudaStream::follow(uintptr_t stream) {
  MINNOW_RETURN_IF_ERROR(made_);
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  const cudaStream_t other = stream == 0 ? cudaStreamLegacy : reinterpret_cast<cudaStream_t>(stream);
  MINNOW_RETURN_IF_ERROR(check(cudaEventRecord(event_, other), "to record an event"));
  return check(cudaStreamWaitEvent(target_.stream, event_, 0), "to wait for an event");
}

Status CudaStream::upload(const void* host, void* device, int64_t bytes) {
  MINNOW_RETURN_IF_ERROR(made_);
  if (bytes == 0) return ok();
  char* staged = is_pinned(host) ? nullptr : pinned_.take(bytes);
  if (staged != nullptr) std::memcpy(staged, host, static_cast<size_t>(bytes));
  return check(cudaMemcpyAsync(device, staged != nullptr ? staged : host, static_cast<size_t>(bytes),
                               cudaMemcpyHostToDevice, target_.stream),
               "to copy to the device");
}

Status CudaStream::download(const void* device, void* host, int64_t bytes) {
  MINNOW_RETURN_IF_ERROR(made_);
  if (bytes == 0) return ok();
  char* staged = is_pinned(host) ? nullptr : pinned_.take(bytes);
  if (staged != nullptr) arrivals_.push_back({staged, host, bytes});
  return check(cudaMemcpyAsync(staged != nullptr ? staged : host, device, static_cast<size_t>(bytes),
                               cudaMemcpyDeviceToHost, target_.stream),
               "to copy from the device");
}

Status CudaStream::copy(const void* from, void* to, int64_t bytes) {
  MINNOW_RETURN_IF_ERROR(made_);
  if (bytes == 0) return ok();
  return check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, target_.stream),
               "to copy on the device");
}

Status CudaStream::finish() {
  MINNOW_RETURN_IF_ERROR(made_);
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  const bool reports = errors_.expected();
  if (reports) MINNOW_RETURN_IF_ERROR(errors_.request(*this));
  const Status status = check(cudaStreamSynchronize(target_.stream), "to finish");
  if (status.ok())
    for (const Arrival& arrival : arrivals_) std::memcpy(arrival.to, arrival.from, static_cast<size_t>(arrival.bytes));
  arrivals_.clear();
  pinned_.give_back_all();
  MINNOW_RETURN_IF_ERROR(status);
  return reports ? errors_.report(*this) : ok();
}

Status CudaStream::error_slot(const RunContext& context, gpu::ErrorFunction function, void** address) {
  return errors_.find(context, function, address);
}

Status CudaStream::begin_recording() {
  MINNOW_RETURN_IF_ERROR(made_);
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  expected_before_ = errors_.expected();
  errors_.forget();
  // Relaxed: what other threads do with the device meanwhile is no part of it.
  return check(cudaStreamBeginCapture(target_.stream, cudaStreamCaptureModeRelaxed), "to record");
}

Status CudaStream::end_recording(std::unique_ptr<Recording>* out) {
  const bool reports = errors_.expected();
  if (expected_before_) errors_.expect();
  cudaGraph_t graph = nullptr;
  MINNOW_RETURN_IF_ERROR(check(cudaStreamEndCapture(target_.stream, &graph), "to end a recording"));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  MINNOW_RETURN_IF_ERROR(check(error, "to make a graph"));
  *out = std::make_unique<Graph>(*this, executable, reports);
  return ok();
}

Status CudaStream::replay(cudaGraphExec_t graph, bool reports) {
  if (reports) errors_.expect();
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  return check(cudaGraphLaunch(graph, target_.stream), "to launch a graph");
}

// While a first kernel keeps the device busy, all is enqueued: so what it takes to launch is not measured.
Status CudaStream::time(const std::function<Status()>& enqueue, int times, double* seconds) {
  MINNOW_RETURN_IF_ERROR(made_);
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  if (begin_ == nullptr) {
    MINNOW_RETURN_IF_ERROR(check(cudaEventCreate(&begin_), "to create an event"));
    MINNOW_RETURN_IF_ERROR(check(cudaEventCreate(&end_), "to create an event"));
  }
  MINNOW_RETURN_IF_ERROR(check(delay(kLaunchNanoseconds * (times + 2), target_), "to begin a measurement"));
  MINNOW_RETURN_IF_ERROR(check(cudaEventRecord(begin_, target_.stream), "to record an event"));
  for (int i = 0; i < times; ++i) MINNOW_RETURN_IF_ERROR(enqueue());
  MINNOW_RETURN_IF_ERROR(check(cudaEventRecord(end_, target_.stream), "to record an event"));
  MINNOW_RETURN_IF_ERROR(check(cudaEventSynchronize(end_), "to measure"));
  float milliseconds = 0;
  MINNOW_RETURN_IF_ERROR(check(cudaEventElapsedTime(&milliseconds, begin_, end_), "to measure"));
  *seconds = 1e-3 * static_cast<double>(milliseconds) / times;
  return ok();
}

Status CudaStream::wait(gpu::Stream& other) {
  auto* stream = dynamic_cast<CudaStream*>(&other);
  if (stream == nullptr) return other.finish();
  MINNOW_RETURN_IF_ERROR(made_);
  MINNOW_RETURN_IF_ERROR(stream->made_);
  MINNOW_RETURN_IF_ERROR(use_device(stream->index_));
  MINNOW_RETURN_IF_ERROR(check(cudaEventRecord(stream->event_, stream->target_.stream), "to record an event"));
  MINNOW_RETURN_IF_ERROR(use_device(index_));
  return check(cudaStreamWaitEvent(target_.stream, stream->event_, 0), "to wait for an event");
}

Target target_of(gpu::Stream& stream) { return static_cast<CudaStream&>(stream).target(); }

}  // namespace minnow::cuda
