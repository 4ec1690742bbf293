// One node on a device other than the CPU, for the tests of its kernels.
#include <algorithm>
#include <cstring>

#include "runtime/src/plan/layout.h"
#include "runtime/src/run/evaluate.h"

namespace minnow {
namespace {

constexpr int64_t kZone = 256;  // guard zone before and after a tensor
constexpr char kZoneByte = static_cast<char>(0xA5);

// Tensors on the device, and their guard zones. What it was told to copy stays until the queue is finished.
class OnDevice {
 public:
  OnDevice(Backend& backend, Queue& queue, bool guarded)
      : backend_(backend), queue_(queue), margin_(guarded ? kZone : 0) {}

  // Memory for a tensor, with garbage in it.
  Status make(const TensorType& type, Tensor* out) {
    out->type = type;
    return make(backend_.bytes(type), &out->data);
  }
  Status make(int64_t bytes, void** out) {
    Piece& piece = pieces_.emplace_back();
    piece.bytes = bytes;
    MINNOW_RETURN_IF_ERROR(backend_.allocate(bytes + 2 * margin_, nullptr, &piece.memory));
    *out = piece.memory->data() + margin_;
    return bytes + 2 * margin_ == 0 ? ok() : move(piece, true);
  }
  // Fails if something has been written outside of the tensors.
  Status check() {
    for (Piece& piece : pieces_) {
      if (margin_ == 0) continue;
      MINNOW_RETURN_IF_ERROR(move(piece, false));
      const char* host = piece.host.data();
      const auto untouched = [&](const char* p) {
        return std::all_of(p, p + margin_, [](char c) { return c == kZoneByte; });
      };
      if (!untouched(host) || !untouched(host + margin_ + piece.bytes))
        return fail(Code::kInternal, "wrote outside of its memory");
    }
    return ok();
  }

 private:
  struct Piece {
    std::unique_ptr<Memory> memory;
    Buffer host;
    int64_t bytes = 0;
  };
  // All bytes of the piece, to the device or from it.
  Status move(Piece& piece, bool to_device) {
    const int64_t all = piece.bytes + 2 * margin_;
    if (piece.host.data() == nullptr) MINNOW_RETURN_IF_ERROR(Buffer::make(all, &piece.host));
    if (to_device) std::memset(piece.host.data(), kZoneByte, static_cast<size_t>(all));
    TensorType type;
    type.dtype = DType::kU8;
    type.shape = {all};
    Tensor host{type, piece.host.data()}, device{type, piece.memory->data()};
    MINNOW_RETURN_IF_ERROR(to_device ? queue_.copy(host, &device) : queue_.copy(device, &host));
    return queue_.finish();
  }

  Backend& backend_;
  Queue& queue_;
  const int64_t margin_;
  std::vector<Piece> pieces_;
};

}  // namespace

Status evaluate_on(Backend& backend, const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs,
                   const std::vector<TensorType>& types, ThreadPool* pool, Precision precision, const Evaluation& how,
                   std::vector<Buffer>* outputs) {
  NodeContext node{attrs, {}, {}, {}, pool->threads(), precision};
  node.pool = pool;
  node.accelerator = backend.accelerator();
  std::vector<const TensorType*> plain_types;
  for (const Tensor* t : inputs) plain_types.push_back(t == nullptr ? nullptr : &t->type);
  node.in = plain_types;
  node.constant.resize(inputs.size());
  for (size_t i = 1; how.with_constants && i < inputs.size(); ++i) node.constant[i] = inputs[i];
  for (const TensorType& type : types) node.out.push_back(&type);
  std::string why = std::string("has no kernel for ") + op.name;
  const KernelRow* row = backend.row_for(op, node, &why);
  if (row == nullptr || backend.seconds(op, node, &why) < 0)
    return Status(Code::kUnsupported, backend.name() + " " + why);

  const LayoutRule rule = row->layout_of(plain_types, attrs);
  const bool packed = (how.packed || rule == LayoutRule::kPacked || rule == LayoutRule::kPacks ||
                       rule == LayoutRule::kLast || rule == LayoutRule::kMakesLast) &&
                      !types.empty() && (rule != LayoutRule::kFollowLast || types.size() == 1) &&
                      can_be_packed(*row, attrs, plain_types, std::vector<bool>(inputs.size(), true), types[0],
                                    backend.channel_block());
  QueueOptions options;
  options.pool = pool;
  options.precision = precision;
  const std::unique_ptr<Queue> queue = backend.create_queue(options);
  OnDevice memory(backend, *queue, how.guarded);
  std::vector<Tensor> in(inputs.size()), out(types.size());
  // Copies are in plain layout: for the other one a tensor is converted on the device.
  const auto convert = [&](const Tensor& from, Tensor* to) {
    RunContext context;
    context.in = {&from};
    context.out = {to};
    context.pool = pool;
    const std::unique_ptr<Kernel> kernel = backend.create_conversion(from.type, to->type);
    if (kernel == nullptr) return fail(Code::kInternal, "%s converts no layouts", backend.name().c_str());
    MINNOW_RETURN_IF_ERROR(queue->run(*kernel, context));
    return queue->finish();
  };
  RunContext run;
  run.pool = pool;
  Status reported;
  run.error = &reported;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* given = inputs[i];
    node.in[i] = given == nullptr ? nullptr : &in[i].type;
    run.in.push_back(given == nullptr ? nullptr : &in[i]);
    if (given == nullptr) continue;
    TensorType type = given->type;
    type.dtype = backend.stored(type.dtype, precision);
    MINNOW_RETURN_IF_ERROR(memory.make(type, &in[i]));
    MINNOW_RETURN_IF_ERROR(queue->copy(*given, &in[i]));
    MINNOW_RETURN_IF_ERROR(queue->finish());
    if (operand_layout(rule, i, given->type, packed) == Layout::kPlain) continue;
    node.constant[i] = nullptr;  // contents are known in the plain layout only
    const Tensor plain = in[i];
    type.layout = layout_by(rule);
    MINNOW_RETURN_IF_ERROR(memory.make(type, &in[i]));
    MINNOW_RETURN_IF_ERROR(convert(plain, &in[i]));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    TensorType type = types[i];
    type.dtype = backend.stored(type.dtype, precision);
    if (packed && i == 0) type.layout = layout_of_result(rule);
    MINNOW_RETURN_IF_ERROR(memory.make(type, &out[i]));
    node.out[i] = &out[i].type;
    run.out.push_back(&out[i]);
  }
  const std::unique_ptr<Kernel> kernel = row->create(node);
  if (kernel == nullptr) return fail(Code::kUnsupported, "%s has no kernel for these types", backend.name().c_str());
  int64_t workspace = 0;
  MINNOW_RETURN_IF_ERROR(kernel->reshape(node, &workspace));
  if (workspace > 0) MINNOW_RETURN_IF_ERROR(memory.make(workspace, &run.workspace));
  std::vector<Tensor> type_only = in;
  for (size_t i = 0; i < in.size(); ++i) {
    if (node.constant[i] == nullptr || kernel->reads(static_cast<int>(i))) continue;
    type_only[i].data = nullptr;
    run.in[i] = &type_only[i];
  }
  MINNOW_RETURN_IF_ERROR(queue->run(*kernel, run));
  MINNOW_RETURN_IF_ERROR(queue->finish());
  MINNOW_RETURN_IF_ERROR(reported);
  outputs->clear();
  for (size_t i = 0; i < types.size(); ++i) {
    Tensor result = out[i];
    if (out[i].type.layout != Layout::kPlain) {
      TensorType type = out[i].type;
      type.layout = Layout::kPlain;
      MINNOW_RETURN_IF_ERROR(memory.make(type, &result));
      MINNOW_RETURN_IF_ERROR(convert(out[i], &result));
    }
    Buffer& host = outputs->emplace_back();
    MINNOW_RETURN_IF_ERROR(Buffer::make(types[i].bytes(), &host));
    Tensor target{types[i], host.data()};
    MINNOW_RETURN_IF_ERROR(queue->copy(result, &target));
    MINNOW_RETURN_IF_ERROR(queue->finish());
  }
  return memory.check();
}

}  // namespace minnow
