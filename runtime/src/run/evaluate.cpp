#include "runtime/src/run/evaluate.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/region.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

constexpr int64_t kGuard = 256;
constexpr char kGuardByte = static_cast<char>(0xA5);
constexpr int64_t kMaxElements = int64_t{1} << 46;  // times 8 bytes, times a few, stays far from overflow

// A buffer with guard zones before and after.
struct Guarded {
  Buffer buffer;
  int64_t bytes = 0;
  int64_t margin = 0;

  Status make(int64_t size, const Evaluation& how) {
    const bool guarded = how.guarded;
    bytes = size;
    margin = guarded ? kGuard : 0;
    MINNOW_RETURN_IF_ERROR(Buffer::make(size + 2 * margin, &buffer, how.account));
    if (guarded) std::memset(buffer.data(), kGuardByte, static_cast<size_t>(size + 2 * margin));
    return ok();
  }
  char* data() const { return buffer.data() + margin; }
  bool intact() const {
    const auto untouched = [](const char* p, int64_t n) {
      return std::all_of(p, p + n, [](char c) { return c == kGuardByte; });
    };
    return untouched(buffer.data(), margin) && untouched(data() + bytes, margin);
  }
};

}  // namespace

TensorType unset_type() {
  TensorType type;
  type.shape.resize(kMaxRank + 1);
  type.shape.resize(0);
  return type;
}

Status check_type(const TensorType& type) {
  if (is_unset(type)) return fail(Code::kFormat, "is none that the op has");
  if (!type.shape.fits()) return fail(Code::kUnsupported, "has more than %d dimensions", kMaxRank);
  int64_t count = 1;
  for (int64_t d : type.shape) {
    if (d < 0) return fail(Code::kFormat, "has a negative size: %s", type.shape.str().c_str());
    if (d > kMaxElements || (d > 0 && count > kMaxElements / d))
      return fail(Code::kFormat, "is too large: %s", type.shape.str().c_str());
    count *= std::max<int64_t>(d, 1);
  }
  return ok();
}

Status infer_types(const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs, int num_outputs,
                   std::vector<TensorType>* types) {
  std::vector<const TensorType*> in;
  for (const Tensor* t : inputs) in.push_back(t == nullptr ? nullptr : &t->type);
  types->assign(static_cast<size_t>(num_outputs), unset_type());
  InferContext context(attrs, std::move(in), inputs, types);
  MINNOW_RETURN_IF_ERROR(op.infer(context));
  for (const TensorType& type : *types)
    if (!is_unset(type)) MINNOW_RETURN_IF_ERROR(check_type(type));
  return ok();
}

Status evaluate(Backend& backend, const OpSpec& op, const Attrs& attrs, const std::vector<const Tensor*>& inputs,
                const std::vector<TensorType>& types, ThreadPool* pool, Precision precision, const Evaluation& how,
                std::vector<Buffer>* outputs) {
  std::vector<const TensorType*> plain_types;
  for (const Tensor* t : inputs) plain_types.push_back(t == nullptr ? nullptr : &t->type);
  const KernelRow* row = backend.find(op);
  if (row == nullptr) return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for it");
  const LayoutRule rule = row->layout_of(plain_types, attrs);
  const bool packed = (how.packed || rule == LayoutRule::kPacked || rule == LayoutRule::kPacks ||
                       rule == LayoutRule::kLast || rule == LayoutRule::kMakesLast || rule == LayoutRule::kReadsLast) &&
                      !types.empty() && (rule != LayoutRule::kFollowLast || types.size() == 1) &&
                      can_be_packed(*row, attrs, plain_types, std::vector<bool>(inputs.size(), true), types[0],
                                    backend.channel_block());

  std::vector<Guarded> memory(inputs.size() + types.size() + 1);
  std::vector<Tensor> in(inputs.size()), out(types.size());
  NodeContext node{attrs, {}, {}, {}, pool->threads(), precision};
  RunContext run;
  run.pool = pool;
  Status reported;
  run.error = &reported;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* given = inputs[i];
    if (given != nullptr) {
      in[i] = *given;
      in[i].type.layout = operand_layout(rule, i, given->type, packed);
      if (given->data != nullptr && (how.guarded || in[i].type.layout != Layout::kPlain)) {
        MINNOW_RETURN_IF_ERROR(memory[i].make(backend.bytes(in[i].type), how));
        in[i].data = memory[i].data();
        convert_layout(backend, *given, &in[i], pool);
      }
    }
    node.in.push_back(given == nullptr ? nullptr : &in[i].type);
    node.constant.push_back(given != nullptr && how.with_constants && i > 0 ? &in[i] : nullptr);
    run.in.push_back(given == nullptr ? nullptr : &in[i]);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    out[i].type = types[i];
    if (packed && i == 0) out[i].type.layout = layout_of_result(rule);
    Guarded& m = memory[inputs.size() + i];
    MINNOW_RETURN_IF_ERROR(m.make(backend.bytes(out[i].type), how));
    out[i].data = m.data();
    node.out.push_back(&out[i].type);
    run.out.push_back(&out[i]);
  }
  std::unique_ptr<Kernel> kernel = row->create(node);
  if (kernel == nullptr) return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for these types");
  int64_t workspace = 0;
  MINNOW_RETURN_IF_ERROR(kernel->reshape(node, &workspace));
  MINNOW_RETURN_IF_ERROR(memory.back().make(workspace, how));
  run.workspace = memory.back().data();
  std::vector<Tensor> type_only = in;
  for (size_t i = 0; i < in.size(); ++i) {
    if (node.constant[i] == nullptr || kernel->reads(static_cast<int>(i))) continue;
    type_only[i].data = nullptr;
    run.in[i] = &type_only[i];
  }
  kernel->run(run);
  MINNOW_RETURN_IF_ERROR(reported);
  for (const Guarded& m : memory)
    if (m.buffer.data() != nullptr && !m.intact()) return fail(Code::kInternal, "wrote outside of its memory");
  outputs->clear();
  for (size_t i = 0; i < types.size(); ++i) {
    if (out[i].type.layout == Layout::kPlain && !how.guarded) {
      outputs->push_back(std::move(memory[inputs.size() + i].buffer));
      continue;
    }
    Buffer plain;
    MINNOW_RETURN_IF_ERROR(Buffer::make(types[i].bytes(), &plain, how.account));
    Tensor target{types[i], plain.data()};
    convert_layout(backend, out[i], &target, pool);
    outputs->push_back(std::move(plain));
  }
  return ok();
}

}  // namespace minnow
