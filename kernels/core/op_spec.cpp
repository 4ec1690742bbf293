#include "kernels/core/op_spec.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace minnow {
namespace {

// A function's static, because ops are added while other statics are initialized, in any order.
std::map<std::string, OpSpec>& registry() {
  static std::map<std::string, OpSpec> ops;
  return ops;
}

}  // namespace

void add_op(const char* name, InferFunction infer, int traits, MacsFunction macs) {
  if (!registry().emplace(name, OpSpec{name, infer, static_cast<uint8_t>(traits), macs}).second) {
    std::fprintf(stderr, "minnow: op %s is registered twice\n", name);
    std::abort();
  }
}

const OpSpec* find_op(const std::string& name) {
  const auto it = registry().find(name);
  return it == registry().end() ? nullptr : &it->second;
}

std::vector<const OpSpec*> all_ops() {
  std::vector<const OpSpec*> ops;
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
