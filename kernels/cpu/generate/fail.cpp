// What stands in a branch of control flow that is invalid: whoever takes the branch is told why.
#include "kernels/core/kernel.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

Status infer_fail(InferContext& c) { return fail(Code::kFormat, "%s", c.attrs.s("message").c_str()); }

std::unique_ptr<Kernel> create(const NodeContext&) { return nullptr; }

MINNOW_OP("Fail", infer_fail);
MINNOW_KERNEL("Fail", create);

}  // namespace
}  // namespace minnow
