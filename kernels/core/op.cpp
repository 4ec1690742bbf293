#include "kernels/core/op.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace minnow {
namespace {

// A function's static, because rows are added while other statics are initialized, in any order.
std::map<std::string, Op>& registry() {
  static std::map<std::string, Op> ops;
  return ops;
}

class SimpleKernel final : public Kernel {
 public:
  SimpleKernel(SimpleFunction run, const Attrs& attrs) : run_(run), attrs_(attrs) {}
  void run(const RunContext& context) override { run_(attrs_, context); }

 private:
  SimpleFunction run_;
  const Attrs& attrs_;
};

}  // namespace

std::unique_ptr<Kernel> simple_kernel(SimpleFunction run, const NodeContext& node) {
  return std::make_unique<SimpleKernel>(run, node.attrs);
}

void add_op(const char* name, InferFunction infer, CreateFunction create, OpTraits traits, LayoutFunction layout_for) {
  if (!registry().emplace(name, Op{traits, name, infer, create, layout_for}).second) {
    std::fprintf(stderr, "minnow: op %s is registered twice\n", name);
    std::abort();
  }
}

const Op* find_op(const std::string& name) {
  const auto it = registry().find(name);
  return it == registry().end() ? nullptr : &it->second;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& [name, op] : registry()) ops.push_back(&op);
  return ops;
}

Status InferContext::ints(int i, std::vector<int64_t>* out) const {
  if (!has(i)) return fail(Code::kFormat, "input %d is missing", i);
  const DType dtype = in(i).dtype;
  if (dtype != DType::kI32 && dtype != DType::kI64)
    return fail(Code::kFormat, "input %d must be i32 or i64, not %s", i, dtype_name(dtype));
  const Tensor* tensor = value(i);
  if (tensor == nullptr) return needs_value(i);
  const int64_t n = tensor->count();
  if (dtype == DType::kI32) {
    out->assign(tensor->as<int32_t>(), tensor->as<int32_t>() + n);
  } else {
    out->assign(tensor->as<int64_t>(), tensor->as<int64_t>() + n);
  }
  return ok();
}

}  // namespace minnow
