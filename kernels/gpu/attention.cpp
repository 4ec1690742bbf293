// Attention, and what the planner makes of the nodes around one: see kernels/core/attention.h and, for the attributes
// of FusedAttention, kernels/cpu/attention/fused.cpp.
#include "kernels/core/attention.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/core/rounding.h"
#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

constexpr size_t kMostMasks = 2;
constexpr int64_t kRows = 16, kLanes = 4, kMostColumns = 32;  // as in attention.gpu

bool supports_operands(const NodeContext& node, size_t masks, std::string* why) {
  for (size_t i = 0; i < node.in.size(); ++i) {
    const TensorType* type = node.in[i];
    if (type == nullptr) continue;
    if (type->dtype != DType::kF32 && !(i >= masks && type->dtype == DType::kBool)) {
      *why = std::string("computes no ") + dtype_name(type->dtype);
      return false;
    }
    if (type->count() >= int64_t{1} << 31) {
      *why = "computes tensors of less than 2^31 elements";
      return false;
    }
  }
  size_t count = 0;
  for (size_t i = masks; i < node.in.size(); ++i) count += node.in[i] != nullptr ? 1 : 0;
  if (count > kMostMasks) *why = "computes attention with two masks at most";
  return count <= kMostMasks;
}

bool supports_fused(const NodeContext& node, std::string* why) { return supports_operands(node, 3, why); }
bool supports_attention(const NodeContext& node, std::string* why) {
  return supports_operands(node, kAttentionOperands, why);
}

// The work itself: q, k, v and masks at these addresses.
class Core {
 public:
  Status reshape(const NodeContext& node, const Attrs& a, DType number, std::vector<DType> masks) {
    device_ = &device_of(node);
    dtype_ = number;
    mask_types_ = std::move(masks);
    const std::vector<int64_t> batch = a.ints("batch");
    rows_ = a.i("rows");
    keys_ = a.i("keys");
    depth_ = a.i("depth");
    width_ = a.i("width");
    scale_ = static_cast<float>(a.f("scale", 1));
    mask_scale_ = static_cast<float>(a.f("mask_scale", 1));
    fill_ = static_cast<float>(a.f("fill", 0));
    keep_ = a.b("keep", true);
    causal_ = a.i("causal", -1);
    const std::string zero_rows = a.s("zero_rows");
    zero_rows_ = zero_rows == "empty" ? 1 : zero_rows == "nan" ? 2 : 0;
    const char* const names[] = {"q", "k", "v", "out", "mask0", "mask1"};
    batches_ = 1;
    for (int64_t n : batch) batches_ *= n;
    std::vector<int32_t> places(static_cast<size_t>(6 * batches_));
    for (size_t p = 0; p < 6; ++p) {
      if (p >= 4 + mask_types_.size()) continue;
      places_[p] = OperandPlace(a.ints(names[p]));
      for (int64_t i = 0; i < batches_; ++i)
        places[static_cast<size_t>(6 * i) + p] = static_cast<int32_t>(places_[p].at(i, batch));
    }
    if (places_[3].column != 1 && width_ > 1) return fail(Code::kInternal, "attention whose result is not in rows");
    columns_ = std::clamp<int64_t>(round_up(groups_for(width_, kLanes), 8), 8, kMostColumns);
    if (columns_ == 24) columns_ = kMostColumns;
    return table_.make(*device_, places);
  }

  Status enqueue(Stream& stream, const void* q, const void* k, const void* v, std::vector<const void*> masks, void* y) {
    const auto mask_type = [&](size_t i) { return i < masks.size() ? static_cast<int>(mask_types_[i]) : -1; };
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("attention",
                                            {{"TYPE", static_cast<int>(dtype_)},
                                             {"MASK0", mask_type(0)},
                                             {"MASK1", mask_type(1)},
                                             {"COLUMNS", static_cast<int>(columns_)},
                                             {"KEEP", keep_ ? 1 : 0},
                                             {"ZERO_ROWS", zero_rows_},
                                             {"CAUSAL", causal_ >= 0 ? 1 : 0}},
                                            &program));
    masks.resize(kMostMasks, q);
    Arguments arguments;
    arguments.buffer(q).buffer(k).buffer(v).buffer(y).buffer(masks[0]).buffer(masks[1]).buffer(table_.data());
    const auto add = [&](std::initializer_list<int64_t> numbers) {
      for (int64_t n : numbers) arguments.add(static_cast<int32_t>(n));
    };
    add({rows_, keys_, depth_, width_, std::max<int64_t>(causal_, 0)});
    for (size_t p = 0; p < 3; ++p) add({places_[p].row, places_[p].column});
    add({places_[3].row, places_[4].row, places_[4].column, places_[5].row, places_[5].column});
    arguments.add(scale_).add(mask_scale_).add(fill_);
    return stream.launch(*program, arguments,
                         {groups_for(rows_, kRows), batches_, groups_for(width_, kLanes * columns_)});
  }

  Profile profile() const { return {"tiled", batches_ * rows_ * keys_ * (depth_ + width_)}; }

 private:
  Device* device_ = nullptr;
  DType dtype_ = DType::kF32;
  std::vector<DType> mask_types_;
  int64_t rows_ = 0, keys_ = 0, depth_ = 0, width_ = 0, batches_ = 0, causal_ = -1, columns_ = 8;
  float scale_ = 1, mask_scale_ = 1, fill_ = 0;
  bool keep_ = true;
  int zero_rows_ = 0;
  OperandPlace places_[6];
  Uploaded table_;
};

class FusedAttention final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    std::vector<DType> masks;
    for (size_t i = 3; i < node.in.size(); ++i) masks.push_back(node.in[i]->dtype);
    empty_ = node.out[0]->count() == 0;
    return empty_ ? ok() : core_.reshape(node, node.attrs, node.in[0]->dtype, std::move(masks));
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (empty_) return ok();
    std::vector<const void*> masks;
    for (size_t i = 3; i < context.in.size(); ++i) masks.push_back(context.in[i]->data);
    return core_.enqueue(stream, context.in[0]->data, context.in[1]->data, context.in[2]->data, std::move(masks),
                         context.out[0]->data);
  }
  Profile profile() const override { return empty_ ? Profile() : core_.profile(); }

 private:
  Core core_;
  bool empty_ = false;
};

class Attention final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const DType number = node.in[0]->dtype;
    MINNOW_RETURN_IF_ERROR(plan_.make(node, number));
    for (int i : {0, 1})
      if (plan_.missing[i]) *workspace += round_up(plan_.present_types[i].bytes(), 64);
    std::vector<DType> masks;
    for (size_t i : plan_.masks) masks.push_back(node.in[i]->dtype);
    nothing_ = node.out[0]->count() == 0;
    zeros_ = !nothing_ && plan_.sizes.keys == 0;
    if (zeros_) {
      const std::vector<char> zeros(static_cast<size_t>(node.out[0]->bytes()));
      return zero_.make(*device_, zeros);
    }
    return nothing_ ? ok() : core_.reshape(node, plan_.attrs, number, std::move(masks));
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const AttentionSizes& s = plan_.sizes;
    const void* operands[3];
    for (size_t i = 0; i < 3; ++i) operands[i] = context.in[s.packed ? 0 : i]->data;
    char* space = static_cast<char*>(context.workspace);
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (!plan_.keeps) break;
      void* kept = plan_.missing[i] ? space : context.out[1 + i]->data;
      if (plan_.missing[i]) space += round_up(plan_.present_types[i].bytes(), 64);
      const void* past = s.past == 0 ? operands[1 + i] : context.in[3 + i]->data;
      MINNOW_RETURN_IF_ERROR(keep(stream, i, past, operands[1 + i], kept));
      operands[1 + i] = kept;
    }
    if (nothing_) return ok();
    if (zeros_) return stream.copy(zero_.data(), context.out[0]->data, context.out[0]->type.bytes());
    std::vector<const void*> masks;
    for (size_t i : plan_.masks) masks.push_back(context.in[i]->data);
    return core_.enqueue(stream, operands[0], operands[1], operands[2], std::move(masks), context.out[0]->data);
  }

  Profile profile() const override { return nothing_ || zeros_ ? Profile() : core_.profile(); }

 private:
  // Past and new keys, or values, one behind the other.
  Status keep(Stream& stream, size_t i, const void* past, const void* fresh, void* to) {
    const TensorType& type = plan_.present_types[i];
    const int64_t n = type.count();
    if (n == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("attention_keep", {{"TYPE", static_cast<int>(type.dtype)}}, &program));
    Arguments arguments;
    arguments.buffer(past).buffer(fresh).buffer(to);
    const std::vector<int64_t>& place = plan_.fresh[i];
    for (int64_t number :
         {n, type.shape[2], plan_.sizes.past, type.shape[3], plan_.sizes.kv, place[0], place[1], place[3], place[4]})
      arguments.add(static_cast<int32_t>(number));
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

  Device* device_ = nullptr;
  AttentionPlan plan_;
  Core core_;
  bool nothing_ = false, zeros_ = false;
  Uploaded zero_;
};

template <typename Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

}  // namespace

MINNOW_GPU_KERNEL("FusedAttention", create<FusedAttention>, supports_fused);
MINNOW_GPU_KERNEL("Attention", create<Attention>, supports_attention);

}  // namespace minnow::gpu
