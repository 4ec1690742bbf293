// The op Concat, of elements of any type, in both layouts.
#include "kernels/core/infer.h"
#include "kernels/cuda/concat.h"
#include "kernels/cuda/device.h"

namespace minnow::cuda {
namespace {

constexpr int64_t kMostBytes = 2'000'000'000;

// Of a tensor as it lies in memory: how many bytes of it follow each other for the indices of an axis and those behind
// it. Along the channels of the packed layout that is a pixel.
struct Run {
  int64_t bytes = 0;   // that count
  int64_t stride = 0;  // to the next one
  int64_t rows = 1;    // how many there are
};

Run run_of(const TensorType& t, int axis) {
  const Shape& shape = t.shape;
  const auto size = static_cast<int64_t>(dtype_size(t.dtype));
  Run run;
  if (t.layout == Layout::kPlain) {
    run.bytes = run.stride = shape.count(axis, shape.rank()) * size;
    run.rows = shape.count(0, axis);
    return run;
  }
  const int64_t pixel = round_channels(shape[1]) * size;
  if (axis == 1) {
    run.bytes = shape[1] * size;
    run.stride = pixel;
    run.rows = shape[0] * shape.count(2, shape.rank());
  } else if (axis == 0) {
    run.bytes = run.stride = shape[0] * shape.count(2, shape.rank()) * pixel;
  } else {
    run.bytes = run.stride = shape.count(axis, shape.rank()) * pixel;
    run.rows = shape[0] * shape.count(2, axis);
  }
  return run;
}

class ConcatKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    runs_.clear();
    const TensorType& y = *node.out[0];
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis"), y.shape.rank(), &axis));
    to_ = run_of(y, axis);
    for (const TensorType* x : node.in) {
      runs_.push_back(x->count() == 0 ? Run() : run_of(*x, axis));
      if (runs_.back().bytes == 0) runs_.back() = Run();
    }
    empty_ = y.count() == 0;
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    if (empty_) return ok();
    const Target target = target_of(stream);
    char* const to = static_cast<char*>(context.out[0]->data);
    Concat next;
    next.rows = to_.rows;
    next.stride = to_.stride;
    const auto flush = [&] {
      const cudaError_t error = next.parts == 0 ? cudaSuccess : concat(next, target);
      next.parts = 0;
      return check(error, "to concatenate");
    };
    int64_t offset = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      const char* const from = static_cast<const char*>(context.in[i]->data);
      char* const there = to + offset;
      offset += run.bytes;
      const bool lies_there = from == there && to_.rows == 1;
      if (run.bytes == 0 || lies_there || next.parts == Concat::kMostParts) MINNOW_RETURN_IF_ERROR(flush());
      if (run.bytes == 0 || lies_there) continue;
      if (next.parts == 0) next.to = there;
      next.part[next.parts++] = {from, run.bytes, run.stride};
    }
    return flush();
  }
  Profile profile() const override { return {"rows"}; }

 private:
  std::vector<Run> runs_;
  Run to_;
  bool empty_ = false;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<ConcatKernel>(); }

bool supports(const NodeContext& node, std::string* why) {
  for (const TensorType* type : node.in)
    if (type == nullptr || type->dtype != node.out[0]->dtype) {
      *why = "concatenates elements of one type";
      return false;
    }
  if (node.out[0]->bytes() <= kMostBytes) return true;
  *why = "concatenates at most 2e9 bytes in one launch";
  return false;
}

}  // namespace

MINNOW_CUDA_KERNEL("Concat", create, supports, LayoutRule::kConcat);

}  // namespace minnow::cuda
