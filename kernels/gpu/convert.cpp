// Conversion of elements, as copies from and to the host need it.
#include <algorithm>

#include "kernels/gpu/device.h"

namespace minnow::gpu {

Status Device::convert(Stream& stream, const void* from, DType from_type, void* to, DType to_type, int64_t n) {
  if (n == 0) return ok();
  const Program* program = nullptr;
  MINNOW_RETURN_IF_ERROR(this->program(
      "convert", {{"TYPE_X", static_cast<int>(from_type)}, {"TYPE_Y", static_cast<int>(to_type)}}, &program));
  Arguments arguments;
  arguments.buffer(from).buffer(to).add(static_cast<int32_t>(n));
  return stream.launch(*program, arguments, {std::min<int64_t>(groups_for(n, program->text.group), 65535)});
}

}  // namespace minnow::gpu
