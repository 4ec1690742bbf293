// A device that is none: it computes with the CPU's kernels, but as a GPU would look to the engine. The host must not
// touch its memory: an address of it is one of pages that nobody may read. Its queue works on a thread of its own,
// some time later. Tensors take more memory than they need, it runs only some of the ops, and it may record.
//
// Environment: MINNOW_FAKE_OPS is "all", a list of ops "Conv,Relu", or the seed of a random half of all ops.
// MINNOW_FAKE_SECONDS is what it says that a node takes. MINNOW_FAKE_DELAY is the longest time in microseconds before
// the queue does the next thing. MINNOW_FAKE_LOG names a file that gets a line for each thing it has done. With
// MINNOW_FAKE_KERNEL_US it computes nothing, and only takes so long for each kernel. With MINNOW_FAKE_TOUCH the host
// reads a byte of the device's memory, as a defect of the engine would: the process must not survive that. With
// MINNOW_FAKE_KERNELS it says that it has the kernels of another kind of device, "cuda", as far as fusions go.
#include <sys/mman.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/src/backend/plugin.h"

namespace minnow {
namespace {

constexpr int kDevices = 2;
constexpr int64_t kPage = 4096;
constexpr int64_t kPadding = 192;  // bytes behind each tensor
constexpr unsigned char kGarbage = 0xA5;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// From addresses of the device to where its bytes really are.
class AddressSpace {
 public:
  static AddressSpace& instance() {
    static auto* space = new AddressSpace;
    return *space;
  }
  void add(char* address, char* real, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_[address] = {real, bytes};
  }
  // Some address of the device; null when it has given none.
  const volatile char* any() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ranges_.empty() ? nullptr : ranges_.begin()->first;
  }
  void remove(char* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_.erase(address);
  }
  // Null where the address is the host's.
  char* real(const void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    char* at = static_cast<char*>(const_cast<void*>(address));
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return nullptr;
    --it;
    const int64_t offset = at - it->first;
    return offset > it->second.second ? nullptr : it->second.first + offset;
  }

 private:
  std::mutex mutex_;
  std::map<char*, std::pair<char*, int64_t>> ranges_;
};

class FakeMemory final : public Memory {
 public:
  static Status make(int64_t bytes, std::unique_ptr<Memory>* out) {
    auto memory = std::make_unique<FakeMemory>();
    memory->size_ = (bytes / kPage + 1) * kPage;
    void* forbidden = mmap(nullptr, static_cast<size_t>(memory->size_), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (forbidden == MAP_FAILED) return fail(Code::kUnsupported, "the fake device has no address left");
    memory->data_ = static_cast<char*>(forbidden);
    memory->bytes_ = bytes;
    memory->real_ = static_cast<char*>(std::aligned_alloc(kPage, static_cast<size_t>(memory->size_)));
    if (memory->real_ == nullptr) return fail(Code::kUnsupported, "the fake device has no memory left");
    std::memset(memory->real_, kGarbage, static_cast<size_t>(memory->size_));
    AddressSpace::instance().add(memory->data_, memory->real_, bytes);
    *out = std::move(memory);
    return ok();
  }
  ~FakeMemory() override {
    AddressSpace::instance().remove(data_);
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
    std::free(real_);
  }

 private:
  char* real_ = nullptr;
  int64_t size_ = 0;
};

// What the queue is to do, and a line for the log.
struct Command {
  std::function<Status()> work;
  std::string text;
};

class FakeQueue final : public Queue {
 public:
  FakeQueue(std::string name, const QueueOptions& options)
      : name_(std::move(name)),
        pool_(options.pool->threads()),
        longest_(std::atoi(variable("MINNOW_FAKE_DELAY", "30").c_str())),
        kernel_us_(std::atoi(variable("MINNOW_FAKE_KERNEL_US", "0").c_str())),
        log_(variable("MINNOW_FAKE_LOG", "")),
        thread_([this] { work(); }) {}
  ~FakeQueue() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status run(Kernel& kernel, const RunContext& context) override {
    return put({[this, &kernel, &context] { return compute(kernel, context); }, "run"});
  }

  Status copy(const Tensor& from, Tensor* to) override {
    const int64_t bytes = from.type.bytes();
    const bool uploads = !owns(from.data), downloads = !owns(to->data);
    if (recording_ != nullptr && (uploads || downloads))
      return fail(Code::kInternal, "a copy from or to the host while the queue records");
    return put({[&from, to, bytes] {
                  if (bytes == 0) return ok();
                  char* source = AddressSpace::instance().real(from.data);
                  char* target = AddressSpace::instance().real(to->data);
                  if (source == nullptr && target == nullptr)
                    return fail(Code::kInternal, "a copy between two places of the host");
                  std::memcpy(target == nullptr ? to->data : target, source == nullptr ? from.data : source,
                              static_cast<size_t>(bytes));
                  return ok();
                },
                uploads     ? "upload"
                : downloads ? "download"
                            : "copy"});
  }
  bool owns(const void* address) const override { return AddressSpace::instance().real(address) != nullptr; }

  Status finish() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return commands_.empty() && !busy_; });
    log("finish");
    const volatile char* forbidden =
        variable("MINNOW_FAKE_TOUCH", "").empty() ? nullptr : AddressSpace::instance().any();
    if (forbidden != nullptr) (void)*forbidden;
    return std::move(error_);
  }

  bool can_record() const override { return true; }
  Status begin_recording() override {
    recording_ = std::make_shared<std::vector<Command>>();
    return ok();
  }
  Status end_recording(std::unique_ptr<Recording>* out) override;

  Status put(Command command) {
    if (recording_ != nullptr) {
      recording_->push_back(std::move(command));
      return ok();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      commands_.push_back(std::move(command));
    }
    changed_.notify_all();
    return ok();
  }

 private:
  void work() {
    std::mt19937 random(7);
    for (;;) {
      Command next;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        busy_ = false;
        changed_.notify_all();
        changed_.wait(lock, [this] { return ends_ || !commands_.empty(); });
        if (commands_.empty()) return;
        next = std::move(commands_.front());
        commands_.pop_front();
        busy_ = true;
      }
      if (longest_ > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(longest_ + 1)));
      const Status status = next.work();
      const std::lock_guard<std::mutex> lock(mutex_);
      log(next.text.c_str());
      if (error_.ok()) error_ = status;
    }
  }

  // The kernel sees the real addresses, all of which have to be the device's.
  Status compute(Kernel& kernel, const RunContext& context) {
    Status wrong;
    const auto real = [&wrong](const Tensor& tensor) {
      Tensor seen = tensor;
      if (tensor.data == nullptr) return seen;  // a constant of which the kernel has its own copy
      seen.data = AddressSpace::instance().real(tensor.data);
      if (seen.data == nullptr && tensor.type.bytes() > 0)
        wrong = fail(Code::kInternal, "the device was given memory of the host");
      return seen;
    };
    std::vector<Tensor> in(context.in.size()), out(context.out.size());
    RunContext own;
    for (size_t i = 0; i < in.size(); ++i) {
      if (context.in[i] != nullptr) in[i] = real(*context.in[i]);
      own.in.push_back(context.in[i] == nullptr ? nullptr : &in[i]);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (context.out[i] != nullptr) out[i] = real(*context.out[i]);
      own.out.push_back(context.out[i] == nullptr ? nullptr : &out[i]);
    }
    if (context.workspace != nullptr) own.workspace = AddressSpace::instance().real(context.workspace);
    own.pool = &pool_;
    own.error = context.error;
    MINNOW_RETURN_IF_ERROR(wrong);
    if (kernel_us_ > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(kernel_us_));
      return ok();
    }
    kernel.run(own);
    return ok();
  }

  void log(const char* text) const {
    if (log_.empty()) return;
    if (FILE* file = std::fopen(log_.c_str(), "a")) {
      std::fprintf(file, "%s %s\n", name_.c_str(), text);
      std::fclose(file);
    }
  }

  const std::string name_;
  ThreadPool pool_;
  const int longest_, kernel_us_;
  const std::string log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  Status error_;
  bool busy_ = false, ends_ = false;
  std::shared_ptr<std::vector<Command>> recording_;
  std::thread thread_;
};

class FakeRecording final : public Recording {
 public:
  FakeRecording(FakeQueue& queue, std::shared_ptr<std::vector<Command>> commands)
      : queue_(queue), commands_(std::move(commands)) {}
  Status replay() override {
    const auto commands = commands_;
    return queue_.put({[commands] {
                         for (const Command& command : *commands) MINNOW_RETURN_IF_ERROR(command.work());
                         return ok();
                       },
                       "replay"});
  }

 private:
  FakeQueue& queue_;
  std::shared_ptr<std::vector<Command>> commands_;
};

Status FakeQueue::end_recording(std::unique_ptr<Recording>* out) {
  *out = std::make_unique<FakeRecording>(*this, std::move(recording_));
  recording_ = nullptr;
  return ok();
}

class Fake final : public Backend {
 public:
  Fake(int index, Backend& host) : index_(index), host_(host) {}

  std::string name() const override { return "fake:" + std::to_string(index_); }
  const KernelRow* find(const OpSpec& op) const override {
    const std::string ops = variable("MINNOW_FAKE_OPS", "all");
    // What its own fusions make, it runs.
    const std::string_view name = op.name;
    for (const char* made : {"Fused", "FusedRows", "BinaryRelu", "ByteArithmetic", "ConvPair"})
      if (ops == "all" || name == made) return host_.find(op);
    if (ops.find_first_not_of("0123456789") != std::string::npos)
      return ("," + ops + ",").find(std::string(",") + op.name + ",") != std::string::npos ? host_.find(op) : nullptr;
    uint32_t hash = 2166136261u;
    for (const char c : ops + op.name + std::to_string(index_))
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return (hash >> 13 & 1) != 0 ? host_.find(op) : nullptr;
  }
  double seconds(const OpSpec& op, const NodeContext& node, std::string* why) const override {
    if (find(op) == nullptr) {
      *why = "was not given this op";
      return -1;
    }
    for (const TensorType* type : node.in) {
      if (type == nullptr || type->dtype != DType::kF64) continue;
      *why = "computes no f64";
      return -1;
    }
    return std::atof(variable("MINNOW_FAKE_SECONDS", "1e-12").c_str());
  }
  double copy_seconds(int64_t) const override { return 0; }
  int64_t bytes(const TensorType& type) const override { return host_.bytes(type) + kPadding; }
  int channel_block() const override { return host_.channel_block(); }
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) const override {
    return host_.create_conversion(from, to);
  }
  std::string kernels() const override { return variable("MINNOW_FAKE_KERNELS", host_.kernels().c_str()); }
  Status allocate(int64_t bytes, MemoryAccount*, std::unique_ptr<Memory>* out) override {
    return FakeMemory::make(bytes, out);
  }
  std::unique_ptr<Queue> create_queue(const QueueOptions& options) override {
    return std::make_unique<FakeQueue>(name(), options);
  }

 private:
  const int index_;
  Backend& host_;
};

Status open_fake(int index, Backend& host, std::unique_ptr<Backend>* out) {
  *out = std::make_unique<Fake>(index, host);
  return ok();
}

const BackendPlugin kPlugin = {BackendPlugin::kVersion, MINNOW_VERSION, [] { return kDevices; }, open_fake};

}  // namespace
}  // namespace minnow

extern "C" __attribute__((visibility("default"))) const minnow::BackendPlugin* minnow_backend_plugin() {
  return &minnow::kPlugin;
}
