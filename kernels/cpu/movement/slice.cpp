// Copies that the contents of operands describe: Slice, ReverseSequence.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/convert/operand.h"
#include "kernels/core/slice.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// --- Slice

Status infer_slice(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  std::vector<int64_t> operands[5];
  for (int i = 1; i < 5; ++i)
    if (c.has(i)) {
      MINNOW_RETURN_IF_ERROR(c.ints(i, &operands[i]));
      if (operands[i].size() != operands[1].size())
        return fail(Code::kFormat, "starts has %zu numbers, input %d has %zu", operands[1].size(), i,
                    operands[i].size());
    }
  std::array<AxisCut, kMaxRank> cuts;
  const auto at = [&](int i, int64_t k) { return operands[i][static_cast<size_t>(k)]; };
  MINNOW_RETURN_IF_ERROR(
      resolve_cuts(c.shape(0), static_cast<int64_t>(operands[1].size()), c.has(3), c.has(4), at, &cuts));
  Shape y = c.shape(0);
  for (int k = 0; k < y.rank(); ++k) y[k] = cuts[static_cast<size_t>(k)].count;
  c.set(0, c.in(0).dtype, y);
  return ok();
}

void run_slice(const Attrs&, const RunContext& c) {
  const Tensor& x = *c.in[0];
  const auto has = [&](size_t i) { return c.in.size() > i && c.in[i] != nullptr; };
  const auto at = [&](int i, int64_t k) { return IntView(*c.in[static_cast<size_t>(i)])[k]; };
  std::array<AxisCut, kMaxRank> cuts;
  const Status status = resolve_cuts(x.shape(), c.in[1]->count(), has(3), has(4), at, &cuts);
  if (!status.ok()) return c.report(status);
  const auto src = strides_of(x.shape()), dst = strides_of(c.out[0]->shape());
  Region r;
  for (int k = 0; k < x.rank(); ++k) {
    const size_t i = static_cast<size_t>(k);
    if (cuts[i].count != c.out[0]->shape()[k])
      return c.report(fail(Code::kInternal, "the operands changed after the shapes were inferred"));
    // A step beyond the dim is taken once at most: no need to multiply by it, which could overflow.
    const int64_t step = cuts[i].count > 1 ? cuts[i].step : 0;
    r.src_offset += cuts[i].start * src[i];
    r.add(cuts[i].count, step * src[i], dst[i]);
  }
  copy_region(r, x.data, c.out[0]->data, dtype_size(x.type.dtype), c.pool);
}

MINNOW_OP("Slice", infer_slice);
MINNOW_KERNEL("Slice", create_simple<run_slice>);

// --- ReverseSequence

Status sequence_axes(const Attrs& attrs, int rank, int* batch, int* time) {
  MINNOW_RETURN_IF_ERROR(normalize_axis(attrs.i("batch_axis", 1), rank, batch));
  MINNOW_RETURN_IF_ERROR(normalize_axis(attrs.i("time_axis", 0), rank, time));
  if (*batch == *time) return fail(Code::kFormat, "batch_axis and time_axis are both %d", *batch);
  return ok();
}

Status infer_reverse_sequence(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  int batch = 0, time = 0;
  MINNOW_RETURN_IF_ERROR(sequence_axes(c.attrs, c.shape(0).rank(), &batch, &time));
  if (c.shape(1).rank() != 1 || c.shape(1)[0] != c.shape(0)[batch])
    return fail(Code::kFormat, "lengths must have the shape [%lld], not %s", static_cast<long long>(c.shape(0)[batch]),
                c.shape(1).str().c_str());
  return infer_same(c);
}

void run_reverse_sequence(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  int batch = 0, time = 0;
  const Status status = sequence_axes(attrs, x.rank(), &batch, &time);
  if (!status.ok()) return c.report(status);
  const IntView lengths(*c.in[1]);
  const int64_t steps = x.dim(time);
  for (int64_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] >= 0 && lengths[b] <= steps) continue;
    return c.report(fail(Code::kUsage, "length %lld of sequence %lld is outside [0, %lld]",
                         static_cast<long long>(lengths[b]), static_cast<long long>(b), static_cast<long long>(steps)));
  }
  const auto stride = strides_of(x.shape());
  const size_t element = dtype_size(x.type.dtype);
  const int64_t along = stride[static_cast<size_t>(time)];
  for (int64_t b = 0; b < lengths.size(); ++b) {
    Region rest;
    rest.src_offset = rest.dst_offset = b * stride[static_cast<size_t>(batch)];
    for (int k = 0; k < x.rank(); ++k) {
      const int64_t s = stride[static_cast<size_t>(k)];
      if (k != batch && k != time) rest.add(x.dim(k), s, s);
    }
    Region reversed = rest;
    const int64_t n = lengths[b];
    reversed.src_offset += (n - 1) * along;
    reversed.add(n, -along, along);
    rest.src_offset += n * along;
    rest.dst_offset += n * along;
    rest.add(steps - n, along, along);
    copy_region(reversed, x.data, c.out[0]->data, element, c.pool);
    copy_region(rest, x.data, c.out[0]->data, element, c.pool);
  }
}

MINNOW_OP("ReverseSequence", infer_reverse_sequence);
MINNOW_KERNEL("ReverseSequence", create_simple<run_reverse_sequence>);

}  // namespace
}  // namespace minnow
