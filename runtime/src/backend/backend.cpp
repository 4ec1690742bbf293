#include "runtime/src/backend/backend.h"

#include "kernels/core/region.h"

namespace minnow {

void convert_layout(const Backend& host, const Tensor& from, Tensor* to, ThreadPool* pool) {
  if (from.data == to->data) return;
  if (from.type.layout == to->type.layout) return copy_bytes(from.data, to->data, host.bytes(from.type), pool);
  RunContext context;
  context.in = {&from};
  context.out = {to};
  context.pool = pool;
  host.create_conversion(from.type, to->type)->run(context);
}

}  // namespace minnow
