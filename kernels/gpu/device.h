// What the portable kernels see of a GPU, whichever API it is driven by. Their code on the GPU is a text of
// kernels/gpu/text, of which the build makes OpenCL C, SPIR-V and CUDA (cmake/gpu_texts.py describes the language).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/accelerator.h"
#include "kernels/core/kernel_table.h"

namespace minnow::gpu {

// What the build knows of a text.
struct TextInfo {
  const char* name;
  int group;               // work-items of a work-group
  int buffers;             // arguments that are addresses
  const char* parameters;  // one letter each: 'i' int, 'u' uint, 'f' float
  const char* constants;   // "NAME=value NAME=value ..." with the values that they have unless a program gives others
  bool needs_int64;        // arithmetic with 64-bit integers
};
const TextInfo* find_text(const std::string& name);  // null: there is none

// A number that a program is compiled with, such as an element type: int(DType).
struct Constant {
  const char* name;
  int32_t value;
};

// A text, compiled for a device.
class Program {
 public:
  explicit Program(const TextInfo& text) : text(text) {}
  virtual ~Program() = default;
  const TextInfo& text;
};

// The arguments of a launch, in the order of the text.
class Arguments {
 public:
  Arguments& buffer(const void* address) {
    buffers_.push_back(address);
    return *this;
  }
  Arguments& add(int32_t value) { return word(&value, 'i'); }
  Arguments& add(uint32_t value) { return word(&value, 'u'); }
  Arguments& add(float value) { return word(&value, 'f'); }

  const std::vector<const void*>& buffers() const { return buffers_; }
  const std::vector<uint32_t>& words() const { return words_; }
  // Whether they are those of the text, by number and type.
  bool fit(const TextInfo& text) const {
    return static_cast<int>(buffers_.size()) == text.buffers && kinds_ == text.parameters;
  }

 private:
  Arguments& word(const void* value, char kind) {
    uint32_t bits;
    std::memcpy(&bits, value, sizeof bits);
    words_.push_back(bits);
    kinds_.push_back(kind);
    return *this;
  }

  std::vector<const void*> buffers_;
  std::vector<uint32_t> words_;
  std::string kinds_;
};

// Work-groups in each direction.
struct Groups {
  int64_t x = 1, y = 1, z = 1;
};

struct Limits {
  int64_t shared_bytes = 16384;  // of a work-group
  int64_t groups[3] = {65535, 65535, 65535};
  bool int64 = true;  // arithmetic with 64-bit integers
  bool bytes = true;  // buffers of elements of 8 and 16 bits
  // It is worth compiling a large text again for other constants: not where a processor does what a GPU would.
  bool specializes = true;
  int64_t tensor_bytes = std::numeric_limits<int64_t>::max();  // of a buffer that a kernel sees
};

// For the estimates by which nodes are placed.
struct Speed {
  double flops = 1e11;      // multiply-adds count twice
  double bytes = 1e10;      // of its memory, per second
  double launch = 1e-5;     // seconds
  double copy = 2e-5;       // seconds for a copy from or to the host, beside its bytes
  double copy_bytes = 5e9;  // per second
};

// What a kernel has found in the contents of its inputs: `words` is what it has written to its error slot, 4 numbers,
// the first of which is not 0.
using ErrorFunction = Status (*)(const int32_t* words);

// What kernels and copies are enqueued on: they run in this order. All calls come from one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status launch(const Program& program, const Arguments& arguments, const Groups& groups) = 0;
  // Whether the address is one of the device's memory.
  virtual bool owns(const void* address) const = 0;
  virtual bool gives_addresses() const { return false; }  // see Queue
  // See Queue.
  virtual Status follow(uintptr_t stream) {
    (void)stream;
    return fail(Code::kUsage, "the device has no streams of others");
  }
  // The host's bytes are read, or there, at finish(); until then they stay.
  virtual Status upload(const void* host, void* device, int64_t bytes) = 0;
  virtual Status download(const void* device, void* host, int64_t bytes) = 0;
  virtual Status copy(const void* from, void* to, int64_t bytes) = 0;  // both on the device; they do not overlap
  virtual Status finish() = 0;
  // The address of an error slot: 16 bytes that are 0, for the buffer of a launch that may set them. At finish(), what
  // it has set is reported to `context` through `function`. 0 stays 0 in a recording that is run again.
  virtual Status error_slot(const RunContext& context, ErrorFunction function, void** address) = 0;

  virtual bool can_record() const { return false; }
  virtual Status begin_recording() { return fail(Code::kInternal, "this stream records nothing"); }
  virtual Status end_recording(std::unique_ptr<Recording>*) {
    return fail(Code::kInternal, "this stream records nothing");
  }
  // Whether time() tells anything.
  virtual bool can_time() const { return false; }
  // The seconds that the device takes for what `enqueue` enqueues, on average over so many times.
  virtual Status time(const std::function<Status()>& enqueue, int times, double* seconds) {
    (void)enqueue;
    (void)times;
    *seconds = 0;
    return fail(Code::kInternal, "this stream measures nothing");
  }
  // Everything enqueued later begins after what `other`, a stream of the same device, was given so far.
  virtual Status wait(Stream& other) { return other.finish(); }
};

struct ElementProgram;
class CompiledElements;

class Device : public Accelerator {
 public:
  virtual std::string name() const = 0;               // "NVIDIA H200"
  virtual std::string driver() const { return ""; }   // its version
  virtual bool is_software() const { return false; }  // a processor that pretends to be a GPU
  virtual const Limits& limits() const = 0;
  virtual const Speed& speed() const = 0;
  // The text, compiled with these constants; kept as long as the device. Any thread may call it.
  virtual Status program(const char* text, std::initializer_list<Constant> constants, const Program** out) = 0;
  virtual Status allocate(int64_t bytes, std::unique_ptr<Memory>* out) = 0;  // not initialized
  virtual Status allocate_result(int64_t bytes, std::unique_ptr<Memory>* out) { return allocate(bytes, out); }
  virtual std::unique_ptr<Stream> create_stream() = 0;
  // to[i] = from[i] for n elements. Programs are compiled at the first use of two types: not while a stream records.
  virtual Status convert(Stream& stream, const void* from, DType from_type, void* to, DType to_type, int64_t n);
  // A program on elements as code of its own, for operands and results of these types. Null where there is none, and a
  // text runs it step by step.
  virtual std::unique_ptr<CompiledElements> compile(const ElementProgram& program, const NodeContext& node);

  // The rows for an op, of which the first that supports a node computes it: of its own table, and the portable one.
  std::vector<const KernelRow*> rows(const OpSpec& op) const;
  // Null: only the portable kernels.
  virtual const KernelTable* own_kernels() const { return nullptr; }
  // Of its packed layout, as Backend::channel_block().
  virtual int channel_block() const { return 1; }
  // The memory that a tensor takes.
  virtual int64_t bytes(const TensorType& type) const { return type.bytes(); }
  // A kernel (a GpuKernel) that converts between layouts, of tensors of one element type.
  virtual std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to);
};

// A kernel on a GPU.
class GpuKernel : public Kernel {
 public:
  // No allocation, no waiting: it may be recorded.
  virtual Status enqueue(const RunContext& context, Stream& stream) = 0;
  void run(const RunContext&) final {}  // a queue of a GPU calls enqueue()
  bool reads(int) const override { return true; }

  // In how many ways it can compute the shapes of the latest reshape(), of which choose() takes one, by its number.
  // Before it is called the kernel takes one by itself. The workspace is large enough for each of them.
  virtual int schemes() const { return 1; }
  virtual void choose(int scheme) { (void)scheme; }
};

// The device that a kernel is created and put in shape for.
inline Device& device_of(const NodeContext& node) { return static_cast<Device&>(*node.accelerator); }

// A table of kernels; an object of this type adds a row to it. `Owner` tells the tables apart.
template <class Owner>
struct KernelsOf {
  // A function's static, because rows are added while other statics are initialized, in any order.
  static KernelTable& table() {
    static KernelTable table;
    return table;
  }

  KernelsOf(const char* op, CreateFunction create, SupportsFunction supports, LayoutRule layout = LayoutRule::kPlain,
            bool in_place = false) {
    table().add(op, {create, layout, nullptr, in_place, Pieces::kNone, supports});
  }
  KernelsOf(const char* op, CreateFunction create, SupportsFunction supports, LayoutFunction layout_for) {
    table().add(op, {create, LayoutRule::kPlain, layout_for, false, Pieces::kNone, supports});
  }
};

// The portable kernels: a row for each op, beside the code, in kernels/gpu/.
//
//   MINNOW_GPU_KERNEL("Softmax", create_softmax, supports_softmax);
using PortableKernels = KernelsOf<struct Portable>;

#define MINNOW_GPU_KERNEL(...) \
  MINNOW_REGISTER(::minnow::gpu::PortableKernels, MINNOW_UNIQUE(gpu_registrar_), __VA_ARGS__)

// For `supports` functions: every input and output is of one of these types, and has less than 2^31 elements. `why`
// names the first that is not.
bool has_types(const NodeContext& node, std::initializer_list<DType> types, std::string* why);
constexpr std::initializer_list<DType> kFloats = {DType::kF32, DType::kF16, DType::kBF16};

// How many work-groups of `group` items it takes for n of them.
constexpr int64_t groups_for(int64_t n, int64_t group) { return (n + group - 1) / group; }

}  // namespace minnow::gpu
