#include "runtime/src/backend/custom_ops.h"

#include <dlfcn.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/op_spec.h"
#include "kernels/cpu/table.h"
#include "minnow/op.h"
#include "runtime/src/backend/user_plugins.h"

struct minnow_attrs {
  const minnow::Attrs& attrs;
  std::deque<std::string> texts;  // given during the call
  std::deque<std::vector<int64_t>> lists;
};

namespace minnow {
namespace {

int64_t attr_int(minnow_attrs* attrs, const char* name, int64_t fallback) { return attrs->attrs.i(name, fallback); }
double attr_float(minnow_attrs* attrs, const char* name, double fallback) {
  return attrs->attrs.get<double>(name, fallback);
}
const char* attr_text(minnow_attrs* attrs, const char* name, const char* fallback) {
  if (!attrs->attrs.has(name)) return fallback;
  attrs->texts.push_back(attrs->attrs.s(name, fallback == nullptr ? "" : fallback));
  return attrs->texts.back().c_str();
}
size_t attr_ints(minnow_attrs* attrs, const char* name, const int64_t** numbers) {
  attrs->lists.push_back(attrs->attrs.ints(name));
  *numbers = attrs->lists.back().data();
  return attrs->lists.back().size();
}

constexpr minnow_op_host kHost = {sizeof(minnow_op_host), attr_int, attr_float, attr_text, attr_ints};

struct CustomOps {
  std::mutex mutex;
  std::map<std::string, const minnow_op*> ops;  // their libraries stay open
};

CustomOps& custom_ops() {
  static CustomOps* const all = new CustomOps;  // never destroyed: a session may outlive the statics
  return *all;
}

const minnow_op* lookup(const std::string& name) {
  const std::lock_guard<std::mutex> lock(custom_ops().mutex);
  const auto it = custom_ops().ops.find(name);
  return it == custom_ops().ops.end() ? nullptr : it->second;
}

minnow_tensor described(const TensorType* type, void* data) {
  minnow_tensor tensor{};
  tensor.rank = -1;
  if (type == nullptr) return tensor;
  tensor.dtype = static_cast<minnow_dtype>(type->dtype);
  tensor.rank = type->shape.rank();
  std::copy(type->shape.begin(), type->shape.end(), tensor.shape);
  tensor.data = data;
  return tensor;
}

Status said(const char* message, const std::string& op) {
  return message == nullptr ? ok() : fail(Code::kFormat, "%s: %s", op.c_str(), message);
}

Status infer_custom(InferContext& c) {
  const std::string name = c.attrs.s(kCustomOp);
  const minnow_op* op = lookup(name);
  if (op == nullptr) return fail(Code::kUnsupported, "no library has the op %s", name.c_str());
  std::vector<minnow_tensor> inputs, outputs(static_cast<size_t>(c.num_outputs()));
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(described(c.has(i) ? &c.in(i) : nullptr, nullptr));
  for (minnow_tensor& output : outputs) output.rank = -1;
  minnow_attrs attrs{c.attrs, {}, {}};
  MINNOW_RETURN_IF_ERROR(said(op->infer(&attrs, inputs.data(), inputs.size(), outputs.data(), outputs.size()), name));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const minnow_tensor& output = outputs[i];
    if (output.rank < 0 || output.rank > kMaxRank || output.dtype < MINNOW_F32 || output.dtype >= kDTypes)
      return fail(Code::kFormat, "%s gives no type for output %zu", name.c_str(), i);
    Shape shape;
    for (int32_t d = 0; d < output.rank; ++d) {
      if (output.shape[d] < 0) return fail(Code::kFormat, "%s gives output %zu a negative size", name.c_str(), i);
      shape.push_back(output.shape[d]);
    }
    c.set(static_cast<int>(i), static_cast<DType>(output.dtype), shape);
  }
  return ok();
}
MINNOW_OP("Custom", infer_custom, kRandom);  // what it gives is not known to be the same every time

class CustomKernel final : public Kernel {
 public:
  explicit CustomKernel(const NodeContext& node) : name_(node.attrs.s(kCustomOp)), op_(lookup(name_)) {}
  ~CustomKernel() override { end(); }
  CustomKernel(const CustomKernel&) = delete;
  CustomKernel& operator=(const CustomKernel&) = delete;

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    end();
    inputs_.clear();
    outputs_.clear();
    for (size_t i = 0; i < node.in.size(); ++i)
      inputs_.push_back(described(node.in[i], node.constant[i] == nullptr ? nullptr : node.constant[i]->data));
    for (const TensorType* type : node.out) outputs_.push_back(described(type, nullptr));
    if (op_ == nullptr) return fail(Code::kUnsupported, "no library has the op %s", name_.c_str());
    if (std::count(node.out.begin(), node.out.end(), nullptr) != 0)
      return fail(Code::kUnsupported, "%s writes all of its outputs, and the model leaves one out", name_.c_str());
    if (op_->create == nullptr) return ok();
    minnow_attrs attrs{node.attrs, {}, {}};
    return said(op_->create(&attrs, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size(), &state_), name_);
  }

  void run(const RunContext& context) override {
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].data = context.in[i] == nullptr ? nullptr : context.in[i]->data;
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].data = context.out[i]->data;
    context.report(said(op_->run(state_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size()), name_));
  }

  Profile profile() const override { return {name_}; }

 private:
  void end() {
    if (op_ != nullptr && op_->destroy != nullptr && state_ != nullptr) op_->destroy(state_);
    state_ = nullptr;
  }

  std::string name_;
  const minnow_op* op_;
  void* state_ = nullptr;
  std::vector<minnow_tensor> inputs_, outputs_;
};

std::unique_ptr<Kernel> create_custom(const NodeContext& node) { return std::make_unique<CustomKernel>(node); }
MINNOW_KERNEL("Custom", create_custom);

}  // namespace

Status add_custom_ops(void* library, const std::string& path, bool* found) {
  const auto get = reinterpret_cast<const minnow_op_library* (*)(const minnow_op_host*)>(dlsym(library, "minnow_ops"));
  *found = get != nullptr;
  if (!*found) return ok();
  const minnow_op_library* ops = get(&kHost);
  if (ops == nullptr || ops->version != MINNOW_OP_VERSION)
    return fail(Code::kDevice, "the ops of the plugin %s are of another version of minnow/op.h", path.c_str());
  const std::lock_guard<std::mutex> lock(custom_ops().mutex);
  for (size_t i = 0; i < ops->num_ops; ++i) {
    const minnow_op& op = ops->ops[i];
    if (op.struct_size != sizeof op || op.name == nullptr || op.infer == nullptr || op.run == nullptr)
      return fail(Code::kDevice, "op %zu of the plugin %s has no name, `infer` or `run`, or another size", i,
                  path.c_str());
    if (find_op(op.name) != nullptr)
      return fail(Code::kDevice, "the plugin %s has an op %s, which Minnow has itself", path.c_str(), op.name);
    if (!custom_ops().ops.emplace(op.name, &op).second)
      return fail(Code::kDevice, "the plugin %s has an op %s, which another plugin has, too", path.c_str(), op.name);
  }
  return ok();
}

Status find_custom_op(const std::string& name, bool* found) {
  MINNOW_RETURN_IF_ERROR(open_user_plugins());
  *found = lookup(name) != nullptr;
  return ok();
}

}  // namespace minnow
