// A plugin: a kernel for Softmax on the CPU that comes before Minnow's own, and a device, "example".
//
// The device is the simplest there can be: its memory is the host's, and its queue does everything at once, with the
// kernels of the CPU. One for real hardware would have its own table of kernels, memory and queue.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/src/backend/user_plugins.h"

namespace {

using namespace minnow;

// Softmax along the last axis, of f32 in plain layout.
class ExampleSoftmax final : public Kernel {
 public:
  void run(const RunContext& context) override {
    const float* x = context.in[0]->as<float>();
    float* y = context.out[0]->as<float>();
    const int64_t length = context.in[0]->shape().at(-1), n = context.in[0]->count();
    for (int64_t row = 0; row < n; row += length, x += length, y += length) {
      const float most = *std::max_element(x, x + length);
      float sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += y[i] = std::exp(x[i] - most);
      for (int64_t i = 0; i < length; ++i) y[i] /= sum;
    }
  }
  Profile profile() const override { return {"example_softmax"}; }
};

std::unique_ptr<Kernel> create_softmax(const NodeContext&) { return std::make_unique<ExampleSoftmax>(); }

// What it does not compute stays with Minnow's own kernel.
bool supports_softmax(const NodeContext& node, std::string* why) {
  const TensorType& x = *node.in[0];
  const int64_t axis = node.attrs.i("axis", -1);
  *why = "computes f32 along the last axis";
  return x.dtype == DType::kF32 && x.shape.rank() > 0 && x.count() > 0 && (axis == -1 || axis == x.shape.rank() - 1);
}

class ExampleMemory final : public Memory {
 public:
  explicit ExampleMemory(int64_t bytes) {
    bytes_ = bytes;
    data_ = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(bytes / 64 + 1) * 64));
  }
  ~ExampleMemory() override { std::free(data_); }
};

class ExampleQueue final : public Queue {
 public:
  explicit ExampleQueue(const QueueOptions& options) : pool_(options.pool) {}
  Status run(Kernel& kernel, const RunContext& context) override {
    RunContext own = context;
    own.pool = pool_;
    kernel.run(own);
    return ok();
  }
  Status copy(const Tensor& from, Tensor* to) override {
    std::memcpy(to->data, from.data, static_cast<size_t>(from.type.bytes()));
    return ok();
  }
  Status finish() override { return ok(); }

 private:
  ThreadPool* pool_;
};

class Example final : public Backend {
 public:
  explicit Example(Backend& host) : host_(host) {}
  std::string name() const override { return "example:0"; }
  const KernelRow* find(const OpSpec& op) const override { return host_.find(op); }
  double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const override {
    return host_.seconds(op, node, why);
  }
  double copy_seconds(int64_t) const override { return 1e-7; }
  int64_t bytes(const TensorType& type) const override { return host_.bytes(type); }
  int channel_block() const override { return host_.channel_block(); }
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const override {
    return host_.create_conversion(from, to);
  }
  Status allocate(int64_t bytes, MemoryAccount*, std::unique_ptr<Memory>* out) override {
    *out = std::make_unique<ExampleMemory>(bytes);
    return (*out)->data() != nullptr ? ok() : fail(Code::kUnsupported, "no memory is left");
  }
  std::unique_ptr<Queue> create_queue(const QueueOptions& options) override {
    return std::make_unique<ExampleQueue>(options);
  }

 private:
  Backend& host_;
};

Status open_example(int, Backend& host, std::unique_ptr<Backend>* out) {
  *out = std::make_unique<Example>(host);
  return ok();
}

PluginKernel softmax() {
  KernelRow row;
  row.create = create_softmax;
  row.supports = supports_softmax;
  return {"cpu", "Softmax", row};
}

const PluginKernel kKernels[] = {softmax()};
const BackendPlugin kBackend = {BackendPlugin::kVersion, MINNOW_VERSION, [] { return 1; }, open_example};
const Plugin kPlugin = {Plugin::kVersion, MINNOW_VERSION, "example", kKernels, 1, "example", &kBackend};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Plugin* minnow_plugin() { return &kPlugin; }
