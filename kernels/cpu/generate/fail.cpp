// Takes the place of an invalid branch of control flow: a run that takes the branch ends with the error.
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
