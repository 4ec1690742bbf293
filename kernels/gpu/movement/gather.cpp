// Elements found by indices, and written to where indices say.
#include <algorithm>

#include "kernels/core/int_view.h"
#include "kernels/gpu/movement/moves.h"

namespace minnow::gpu {

// An index outside of its axis: see REPORT_INDEX of text/movement.inc.
static Status wrong_index(const int32_t* words) {
  const auto low = static_cast<uint32_t>(words[2]), high = static_cast<uint32_t>(words[3]);
  const auto index = static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | low);
  const long long dim = words[0] - 1;
  return fail(Code::kUsage, "index %lld, element %d of the indices, is outside [%lld, %lld)",
              static_cast<long long>(index), words[1], -dim, dim);
}

namespace {

class IndexKernel : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    device_ = &device_of(node);
    return plan(node);
  }

 protected:
  virtual Status plan(const NodeContext&) { return ok(); }

  // One item for each element of y, by a text that takes x, the indices, y, where errors go, and the table of dims;
  // then the number of items, and what `add` appends.
  template <typename Add>
  Status launch(const char* text, const RunContext& context, Stream& stream, const Add& add) {
    const Tensor &x = *context.in[0], &index = *context.in[1];
    Tensor& y = *context.out[0];
    const int64_t n = y.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program(text, {{"SIZE", size_of(x)}, {"TYPE", type_of(index)}}, &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_index, &error));
    Arguments arguments;
    arguments.buffer(x.data).buffer(index.data).buffer(y.data).buffer(error).buffer(code_.data());
    arguments.add(as_int(n));
    add(x.shape(), index.shape(), &arguments);
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

  Device* device_ = nullptr;
  Uploaded code_;
};

// The dims that a tuple of GatherND and ScatterND has indices for, and their strides.
std::vector<uint32_t> tuple_dims(const Shape& x, int first, int width) {
  const auto stride = strides_of(x);
  std::vector<uint32_t> words;
  for (int k = first; k < first + width; ++k) {
    words.push_back(static_cast<uint32_t>(x[k]));
    words.push_back(static_cast<uint32_t>(stride[static_cast<size_t>(k)]));
  }
  return words;
}

class Gather final : public IndexKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor &x = *context.in[0], &index = *context.in[1];
    Tensor& y = *context.out[0];
    if (y.count() == 0) return ok();
    int64_t inner = x.shape().count(axis_ + 1, x.rank()), size = size_of(x);
    const int64_t factor = widest_factor(size, inner, {x.data, y.data});
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(
        device_->program("movement_gather", {{"SIZE", as_int(size * factor)}, {"TYPE", type_of(index)}}, &program));
    void* error = y.data;  // to which nothing is written by indices that are known to be right
    if (!is_checked_) MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_index, &error));
    const int64_t n = y.count() / factor;
    Arguments arguments;
    arguments.buffer(x.data).buffer(index.data).buffer(y.data).buffer(error);
    arguments.add(as_int(n)).add(as_int(x.dim(axis_)));
    add_divisor(&arguments, inner / factor);
    add_divisor(&arguments, index.count());
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Status plan(const NodeContext& node) override {
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", 0), node.in[0]->shape.rank(), &axis_));
    is_checked_ = 1 < node.constant.size() && node.constant[1] != nullptr &&
                  are_within(*node.constant[1], node.in[0]->shape[axis_]);
    return ok();
  }
  // Whether constant indices lie within the axis: a stream need not look for errors then.
  static bool are_within(const Tensor& indices, int64_t dim) {
    const IntView all(indices);
    for (int64_t k = 0; k < all.size(); ++k)
      if (all[k] < -dim || all[k] >= dim) return false;
    return true;
  }
  int axis_ = 0;
  bool is_checked_ = false;
};

class GatherElements final : public IndexKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    return launch("movement_gather_elements", context, stream, [this](const Shape& x, const Shape&, Arguments* out) {
      out->add(x.rank()).add(as_int(x[axis_])).add(as_int(strides_of(x)[static_cast<size_t>(axis_)]));
    });
  }

 private:
  Status plan(const NodeContext& node) override {
    const Shape &x = node.in[0]->shape, &index = node.in[1]->shape;
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", 0), x.rank(), &axis_));
    const auto stride = strides_of(x);
    DimRows dims;
    for (int k = x.rank() - 1; k >= 0; --k) dims.add(index[k], k == axis_ ? 0 : stride[static_cast<size_t>(k)], 0);
    return code_.make(*device_, dims.words());
  }
  int axis_ = 0;
};

class GatherNd final : public IndexKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    return launch("movement_gather_nd", context, stream, [this](const Shape& x, const Shape& index, Arguments* out) {
      out->add(width_).add(as_int(x.count(batch_, x.rank())));
      add_divisor(out, x.count(batch_ + width_, x.rank()));
      add_divisor(out, index.count(batch_, index.rank() - 1));
    });
  }

 private:
  Status plan(const NodeContext& node) override {
    batch_ = static_cast<int>(node.attrs.i("batch_dims", 0));
    width_ = static_cast<int>(node.in[1]->shape.at(-1));
    return code_.make(*device_, tuple_dims(node.in[0]->shape, batch_, width_));
  }
  int batch_ = 0;
  int32_t width_ = 0;
};

// Scatters write into a copy of the data.
class Scatter : public IndexKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) final {
    const Tensor &x = *context.in[0], &index = *context.in[1], &updates = *context.in[2];
    Tensor& y = *context.out[0];
    if (y.count() == 0 && updates.count() == 0) return ok();
    if (x.data != y.data && y.count() > 0) MINNOW_RETURN_IF_ERROR(stream.copy(x.data, y.data, y.type.bytes()));
    if (updates.count() == 0) return ok();
    const Program* program = nullptr;
    // Without arithmetic an element is its bits.
    MINNOW_RETURN_IF_ERROR(device_->program(text_,
                                            {{"SIZE", size_of(y)},
                                             {"TYPE", reduction_ == 0 ? static_cast<int>(DType::kU8) : type_of(y)},
                                             {"TYPE_INDEX", type_of(index)},
                                             {"REDUCTION", reduction_}},
                                            &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_index, &error));
    Arguments arguments;
    arguments.buffer(index.data).buffer(updates.data).buffer(y.data).buffer(error).buffer(code_.data());
    const int64_t items = add_arguments(y.shape(), index.shape(), &arguments);
    return stream.launch(*program, arguments, groups_of(*program, items));
  }

 protected:
  explicit Scatter(const char* text) : text_(text) {}
  virtual int64_t add_arguments(const Shape& y, const Shape& index, Arguments* arguments) const = 0;
  virtual Status plan_scatter(const NodeContext& node) = 0;

 private:
  Status plan(const NodeContext& node) final {
    const std::string name = node.attrs.s("reduction", "none");
    const char* const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < 5; ++i)
      if (name == names[i]) reduction_ = i;
    return plan_scatter(node);
  }
  const char* text_;
  int reduction_ = 0;
};

class ScatterElements final : public Scatter {
 public:
  ScatterElements() : Scatter("movement_scatter_elements") {}

 private:
  Status plan_scatter(const NodeContext& node) override {
    const Shape &x = node.in[0]->shape, &index = node.in[1]->shape;
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", 0), x.rank(), &axis_));
    const auto from = strides_of(index), to = strides_of(x);
    DimRows dims;
    for (int k = x.rank() - 1; k >= 0; --k)
      if (const auto u = static_cast<size_t>(k); k != axis_) dims.add(index[k], from[u], to[u]);
    rank_ = dims.rank();
    return code_.make(*device_, dims.words());
  }
  int64_t add_arguments(const Shape& y, const Shape& index, Arguments* arguments) const override {
    const auto axis = static_cast<size_t>(axis_);
    const int64_t lines = index.count() / index[axis_];
    arguments->add(as_int(lines)).add(rank_).add(as_int(index[axis_])).add(as_int(strides_of(index)[axis]));
    arguments->add(as_int(y[axis_])).add(as_int(strides_of(y)[axis]));
    return lines;
  }
  int axis_ = 0;
  int32_t rank_ = 0;
};

class ScatterNd final : public Scatter {
 public:
  ScatterNd() : Scatter("movement_scatter_nd") {}

 private:
  Status plan_scatter(const NodeContext& node) override {
    return code_.make(*device_, tuple_dims(node.in[0]->shape, 0, static_cast<int>(node.in[1]->shape.at(-1))));
  }
  int64_t add_arguments(const Shape& y, const Shape& index, Arguments* arguments) const override {
    const auto width = static_cast<int>(index.at(-1));
    const int64_t inner = y.count(width, y.rank()), count = index.count(0, index.rank() - 1);
    // More shares keep more of the device busy, each of which goes through all indices.
    const int64_t shares = std::clamp<int64_t>(4096 / std::max<int64_t>(inner, 1), 1, std::min<int64_t>(count, 256));
    arguments->add(as_int(shares * inner)).add(as_int(shares)).add(as_int(count)).add(width).add(as_int(inner));
    return shares * inner;
  }
};

// ---- ReverseSequence

Status wrong_length(const int32_t* words) {
  const auto low = static_cast<uint32_t>(words[2]), high = static_cast<uint32_t>(words[3]);
  return fail(Code::kUsage, "length %lld of sequence %d is outside [0, %d]",
              static_cast<long long>(static_cast<uint64_t>(high) << 32 | low), words[1], words[0] - 1);
}

class ReverseSequence final : public IndexKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor &x = *context.in[0], &lengths = *context.in[1];
    const int64_t n = x.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(
        device_->program("movement_reverse", {{"SIZE", size_of(x)}, {"TYPE", type_of(lengths)}}, &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_length, &error));
    Arguments arguments;
    arguments.buffer(x.data).buffer(lengths.data).buffer(context.out[0]->data).buffer(error);
    const auto stride = strides_of(x.shape());
    arguments.add(as_int(n)).add(as_int(x.dim(time_)));
    add_divisor(&arguments, stride[static_cast<size_t>(time_)]);
    arguments.add(as_int(x.dim(batch_)));
    add_divisor(&arguments, stride[static_cast<size_t>(batch_)]);
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

 private:
  Status plan(const NodeContext& node) override {
    const int rank = node.in[0]->shape.rank();
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("batch_axis", 1), rank, &batch_));
    return normalize_axis(node.attrs.i("time_axis", 0), rank, &time_);
  }
  int batch_ = 0, time_ = 0;
};

template <typename T>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<T>();
}

bool supports_scatter(const NodeContext& node, std::string* why) {
  const DType type = node.in[0]->dtype;
  const bool reduces = node.attrs.s("reduction", "none") != "none";
  if (reduces && (type == DType::kF64 || is_storage(type))) {
    *why = std::string("computes no ") + dtype_name(type);
    return false;
  }
  return can_move(node, why);
}

}  // namespace

MINNOW_GPU_KERNEL("Gather", create<Gather>, can_move);
MINNOW_GPU_KERNEL("GatherElements", create<GatherElements>, can_move);
MINNOW_GPU_KERNEL("GatherND", create<GatherNd>, can_move);
MINNOW_GPU_KERNEL("ScatterElements", create<ScatterElements>, supports_scatter, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("ScatterND", create<ScatterNd>, supports_scatter, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("ReverseSequence", create<ReverseSequence>, can_move);

}  // namespace minnow::gpu
