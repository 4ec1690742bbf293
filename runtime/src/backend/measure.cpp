// How fast a device is: its kernels and copies, timed.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>

#include "runtime/src/backend/calibration.h"
#include "runtime/src/backend/plugin.h"

namespace minnow {
namespace {

constexpr double kSeconds = 0.2;        // for a device that nothing is kept of
constexpr int64_t kFew = 256;           // elements
constexpr int64_t kMany = 4 << 20;      // elements
constexpr int64_t kMostProduct = 4096;  // rows and columns of a matrix
constexpr double kLongEnough = 2e-3;    // seconds: what is measured in less is not exact

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Measurement {
 public:
  Measurement(Backend& backend, ThreadPool& pool) : backend_(backend), pool_(pool) {
    QueueOptions options;
    options.pool = &pool;
    queue_ = backend.create_queue(options);
  }

  // Of a copy to the device and one from it, the mean.
  Status time_copy(int64_t elements, double* seconds) {
    Tensor there;
    MINNOW_RETURN_IF_ERROR(make({elements}, &there));
    Buffer memory;
    MINNOW_RETURN_IF_ERROR(Buffer::make(there.type.bytes(), &memory));
    Tensor here{there.type, memory.data()};
    std::fill_n(here.as<float>(), elements, 0.0f);
    return fastest(seconds, 1, 2, [&] {
      MINNOW_RETURN_IF_ERROR(queue_->copy(here, &there));
      MINNOW_RETURN_IF_ERROR(queue_->finish());
      return queue_->copy(there, &here);
    });
  }

  // Of one run of a kernel among several, after which the host waits once.
  Status time_op(const char* name, const std::vector<Shape>& in, const Shape& out, double* seconds) {
    const OpSpec* op = find_op(name);
    if (op == nullptr || backend_.find(*op) == nullptr)
      return fail(Code::kUnsupported, "%s has no kernel for %s", backend_.name().c_str(), name);
    const Attrs attrs;
    std::vector<Tensor> tensors(in.size() + 1);
    for (size_t i = 0; i <= in.size(); ++i) MINNOW_RETURN_IF_ERROR(make(i < in.size() ? in[i] : out, &tensors[i]));
    NodeContext node{attrs, {}, std::vector<const Tensor*>(in.size()), {&tensors.back().type}, pool_.threads()};
    node.pool = &pool_;
    node.accelerator = backend_.accelerator();
    RunContext context;
    context.pool = &pool_;
    context.out = {&tensors.back()};
    for (size_t i = 0; i < in.size(); ++i) {
      node.in.push_back(&tensors[i].type);
      context.in.push_back(&tensors[i]);
    }
    std::string why;
    const KernelRow* row = backend_.row_for(*op, node, &why);
    if (row == nullptr || backend_.seconds(*op, node, &why) < 0) return Status(Code::kUnsupported, why);
    const std::unique_ptr<Kernel> kernel = row->create(node);
    if (kernel == nullptr) return fail(Code::kUnsupported, "no kernel of %s", name);
    int64_t workspace = 0;
    MINNOW_RETURN_IF_ERROR(kernel->reshape(node, &workspace));
    Tensor space;
    if (workspace > 0) MINNOW_RETURN_IF_ERROR(make({(workspace + 3) / 4}, &space));
    context.workspace = space.data;
    Status reported;
    context.error = &reported;
    // Its memory holds any numbers: those of a product must not be slow ones.
    for (size_t i = 0; i < in.size(); ++i) {
      Buffer zeros;
      MINNOW_RETURN_IF_ERROR(Buffer::make(tensors[i].type.bytes(), &zeros));
      Tensor here{tensors[i].type, zeros.data()};
      std::fill_n(here.as<float>(), tensors[i].count(), 0.0f);
      MINNOW_RETURN_IF_ERROR(queue_->copy(here, &tensors[i]));
      MINNOW_RETURN_IF_ERROR(queue_->finish());
    }
    return fastest(seconds, 8, 8, [&] {
      for (int i = 0; i < 8; ++i) MINNOW_RETURN_IF_ERROR(queue_->run(*kernel, context));
      return ok();
    });
  }

 private:
  // The fastest of `times` calls of `work`, which does so many `parts`; one more comes before, for what is made once.
  template <typename Work>
  Status fastest(double* seconds, int times, int parts, Work work) {
    times = std::max(times / 2, 3);
    for (int i = 0; i <= times; ++i) {
      const Stopwatch watch;
      MINNOW_RETURN_IF_ERROR(work());
      MINNOW_RETURN_IF_ERROR(queue_->finish());
      const double one = watch.seconds() / parts;
      if (i > 0) *seconds = i == 1 ? one : std::min(*seconds, one);
      if (i > 0 && one * parts > 20 * kLongEnough) break;
    }
    return ok();
  }

  Status make(const Shape& shape, Tensor* out) {
    out->type = {DType::kF32, Layout::kPlain, shape};
    std::unique_ptr<Memory>& memory = memories_.emplace_back();
    MINNOW_RETURN_IF_ERROR(backend_.allocate(backend_.bytes(out->type), nullptr, &memory));
    out->data = memory->data();
    return ok();
  }

  Backend& backend_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::unique_ptr<Queue> queue_;  // ends before the memory does
};

}  // namespace

Status measure_device(Backend& backend, ThreadPool& pool, double seconds, DeviceSpeed* out) {
  const Stopwatch watch;
  DeviceSpeed speed;
  double few = 0, many = 0;
  {
    Measurement copies(backend, pool);
    MINNOW_RETURN_IF_ERROR(copies.time_copy(kFew, &few));
    MINNOW_RETURN_IF_ERROR(copies.time_copy(kMany, &many));
  }
  speed.copy = few;
  speed.copy_bytes = static_cast<double>(4 * kMany) / std::max(many - few, 1e-9);
  // What most devices have first.
  const char* simple = nullptr;
  for (const char* name : {"Relu", "Add", "Identity"}) {
    const OpSpec* op = find_op(name);
    if (op != nullptr && backend.find(*op) != nullptr && simple == nullptr) simple = name;
  }
  if (simple == nullptr) return fail(Code::kUnsupported, "%s has no kernel to measure", backend.name().c_str());
  const size_t operands = std::string(simple) == "Add" ? 2 : 1;
  Measurement kernels(backend, pool);
  MINNOW_RETURN_IF_ERROR(kernels.time_op(simple, std::vector<Shape>(operands, {kFew}), {kFew}, &few));
  MINNOW_RETURN_IF_ERROR(kernels.time_op(simple, std::vector<Shape>(operands, {kMany}), {kMany}, &many));
  speed.launch = few;
  speed.bytes = static_cast<double>(4 * kMany) * static_cast<double>(operands + 1) / std::max(many - few, 1e-9);
  for (int64_t n = 128; n <= kMostProduct; n *= 2) {
    double one = 0;
    Measurement product(backend, pool);
    MINNOW_RETURN_IF_ERROR(product.time_op("MatMul", {{n, n}, {n, n}}, {n, n}, &one));
    speed.flops = std::max(speed.flops, 2.0 * static_cast<double>(n) * static_cast<double>(n * n) / one);
    if (one > kLongEnough || watch.seconds() + 8 * 8 * one * 4 > seconds) break;
  }
  *out = speed;
  return speed.is_known() ? ok() : fail(Code::kDevice, "%s was measured to take no time", backend.name().c_str());
}

DeviceSpeed speed_of(Backend& backend, ThreadPool& pool) {
  static std::mutex mutex;
  static std::map<const Backend*, DeviceSpeed> known;  // backends live as long as the process
  const std::lock_guard<std::mutex> lock(mutex);
  const auto it = known.find(&backend);
  if (it != known.end()) return it->second;
  DeviceSpeed speed = kept_speed(backend);
  if (!speed.is_known() && !measure_device(backend, pool, kSeconds, &speed).ok()) speed = DeviceSpeed();
  return known[&backend] = speed;
}

}  // namespace minnow
