// Attention and FusedAttention. What their attributes mean is said in schema/ops/attention.py and
// kernels/cpu/attention/fused.cpp.
#include <array>
#include <string>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"

namespace minnow::cuda {
namespace {

using Ints = std::vector<int64_t>;

constexpr size_t kFirstMask = 5;  // of Attention: after q, k, v and the past
constexpr int64_t kMostSize = 256;

// For plans made before there is a stream.
Target planning_target(const NodeContext& node) {
  const Machine& machine = machine_of(node);
  Target target;
  target.capability = machine.compiled;
  target.multiprocessors = machine.multiprocessors;
  return target;
}

bool fail_with(const char* text, std::string* why) {
  *why = text;
  return false;
}

// Of operands that are floats of one type; masks may also be bool.
bool has_attention_types(const NodeContext& node, size_t first_mask, std::string* why) {
  size_t masks = 0;
  for (size_t i = 0; i < node.in.size(); ++i) {
    if (node.in[i] == nullptr) continue;
    const DType dtype = node.in[i]->dtype, own = node.in[0]->dtype;
    if (node.in[i]->count() >= int64_t{1} << 31) return fail_with("computes tensors of less than 2^31 elements", why);
    if (i < first_mask && (dtype != own || !is_kernel_float(dtype)))
      return fail_with("computes attention of f32, f16 or bf16", why);
    if (i < first_mask) continue;
    if (dtype != DType::kBool && dtype != DType::kF32 && dtype != own)
      return fail_with("takes masks of f32, bool, or the type of the operands", why);
    if (++masks > kMostMasks) return fail_with("takes two masks at the most", why);
  }
  return true;
}

// The memory that a plan takes, whatever the operands' addresses: those of the arena are aligned to 16 bytes.
struct Launch {
  Attention p;
  int64_t offsets[4] = {};  // of q, k, v and out, in elements
  int64_t mask_offsets[kMostMasks] = {};
  bool is_empty = false, has_no_keys = false;
  int64_t reserved = 0;
  int schemes = 1;
  Target planned;

  std::string name() const { return is_empty || has_no_keys ? "" : attention_scheme(p, planned); }
  Status reshape(const NodeContext& node, int64_t* workspace) {
    is_empty = node.out[0]->count() == 0;
    has_no_keys = p.keys == 0;
    *workspace = 0;
    if (is_empty || has_no_keys) return ok();
    Attention placed = p;
    place(&placed, nullptr, nullptr, nullptr, nullptr);
    planned = planning_target(node);
    if (!attention_fits(placed, planned)) return fail(Code::kUnsupported, "attention of this size");
    *workspace = reserved = attention_workspace(placed, planned);  // of the first way: the others take none
    schemes = attention_schemes(placed, planned);
    return ok();
  }
  void place(Attention* to, const void* q, const void* k, const void* v, void* out) const {
    const auto size = static_cast<int64_t>(dtype_size(to->dtype));
    const auto at = [&](const void* data, int i) { return reinterpret_cast<uintptr_t>(data) + offsets[i] * size; };
    to->q = reinterpret_cast<const void*>(at(q, 0));
    to->k = reinterpret_cast<const void*>(at(k, 1));
    to->v = reinterpret_cast<const void*>(at(v, 2));
    to->out = reinterpret_cast<void*>(at(out, 3));
  }
  Status enqueue(const void* q, const void* k, const void* v, const std::vector<const Tensor*>& masks, Tensor* out,
                 void* workspace, gpu::Stream& stream) const {
    if (is_empty) return ok();
    const Target target = target_of(stream);
    if (has_no_keys)
      return check(cudaMemsetAsync(out->data, 0, static_cast<size_t>(out->type.bytes()), target.stream),
                   "to write zeros");
    Attention placed = p;
    place(&placed, q, k, v, out->data);
    placed.masks = static_cast<int>(masks.size());
    for (size_t m = 0; m < masks.size(); ++m) {
      const DType dtype = masks[m]->type.dtype;
      placed.mask[m].dtype = dtype;
      placed.mask[m].data =
          static_cast<const char*>(masks[m]->data) + mask_offsets[m] * static_cast<int64_t>(dtype_size(dtype));
    }
    placed.workspace = workspace;
    if (attention_workspace(placed, target) > reserved)
      return fail(Code::kInternal, "operands of attention do not lie where they were expected");
    return check(attention(placed, target), "to compute attention");
  }
};

AttentionPlace place_of(const Ints& numbers, int64_t* offset) {
  AttentionPlace place;
  *offset = numbers[0];
  place.row = numbers[1];
  place.column = numbers[2];
  for (size_t d = 0; d < kMostAttentionBatch && d + 3 < numbers.size(); ++d) place.batch[d] = numbers[d + 3];
  return place;
}

// What both ops have as attributes.
void read_options(const Attrs& attrs, Attention* p) {
  p->scale = static_cast<float>(attrs.f("scale", 1));
  p->mask_scale = static_cast<float>(attrs.f("mask_scale", 1));
  p->keep = attrs.b("keep", true);
  const std::string zero_rows = attrs.s("zero_rows");
  p->zero_rows = zero_rows == "empty" ? Attention::ZeroRows::kEmpty
                 : zero_rows == "nan" ? Attention::ZeroRows::kNan
                                      : Attention::ZeroRows::kNone;
}

bool supports_fused(const NodeContext& node, std::string* why) {
  if (!has_attention_types(node, 3, why)) return false;
  if (std::max(node.attrs.i("depth"), node.attrs.i("width")) > kMostSize)
    return fail_with("computes attention of heads of 256 features or fewer", why);
  if (node.attrs.ints("batch").size() > kMostAttentionBatch)
    return fail_with("computes attention over four dimensions of a batch or fewer", why);
  return true;
}

class FusedAttention final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Attrs& attrs = node.attrs;
    launch_ = Launch();
    Attention& p = launch_.p;
    p.dtype = node.in[0]->dtype;
    const Ints batch = attrs.ints("batch");
    p.batch_rank = static_cast<int>(batch.size());
    for (size_t d = 0; d < batch.size(); ++d) p.batch[d] = static_cast<int>(batch[d]);
    p.rows = static_cast<int>(attrs.i("rows"));
    p.keys = static_cast<int>(attrs.i("keys"));
    p.depth = static_cast<int>(attrs.i("depth"));
    p.width = static_cast<int>(attrs.i("width"));
    p.q_place = place_of(attrs.ints("q"), &launch_.offsets[0]);
    p.k_place = place_of(attrs.ints("k"), &launch_.offsets[1]);
    p.v_place = place_of(attrs.ints("v"), &launch_.offsets[2]);
    p.out_place = place_of(attrs.ints("out"), &launch_.offsets[3]);
    read_options(attrs, &p);
    p.fill = static_cast<float>(attrs.f("fill", 0));
    p.causal = static_cast<int>(attrs.i("causal", -1));
    for (size_t m = 0; m + 3 < node.in.size(); ++m)
      p.mask[m].place = place_of(attrs.ints(("mask" + std::to_string(m)).c_str()), &launch_.mask_offsets[m]);
    p.masks = static_cast<int>(node.in.size()) - 3;
    masks_.resize(static_cast<size_t>(p.masks));
    macs_ = int64_t{1} * p.rows * p.keys * (p.depth + p.width);
    for (int64_t n : batch) macs_ *= n;
    return launch_.reshape(node, workspace);
  }
  int schemes() const override { return launch_.schemes; }
  void choose(int scheme) override { launch_.p.scheme = scheme; }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    for (size_t m = 0; m < masks_.size(); ++m) masks_[m] = context.in[3 + m];
    return launch_.enqueue(context.in[0]->data, context.in[1]->data, context.in[2]->data, masks_, context.out[0],
                           context.workspace, stream);
  }
  Profile profile() const override { return {launch_.name(), macs_}; }

 private:
  Launch launch_;
  std::vector<const Tensor*> masks_;
  int64_t macs_ = 0;
};

// Batch, length and size of an operand of so many heads.
std::array<int64_t, 3> split(const Shape& shape, int64_t heads) {
  if (shape.rank() == 4) return {shape[0], shape[2], shape[3]};
  return {shape[0], shape[1], shape[2] / heads};
}

// Strides of rows, columns, batch, heads of keys, and heads that share these (`group`; 0 in keys and values), in an
// operand of [batch, heads, length, size] or of [batch, length, features].
AttentionPlace place_of(bool joined, int64_t heads, const std::array<int64_t, 3>& sizes, int64_t features,
                        int64_t group) {
  const int64_t length = sizes[1], size = sizes[2], head = joined ? size : length * size;
  AttentionPlace place;
  place.row = length == 1 ? 0 : joined ? features : size;
  place.column = 1;
  place.batch[0] = sizes[0] == 1 ? 0 : joined ? length * features : heads * length * size;
  place.batch[1] = std::max<int64_t>(group, 1) * head;
  place.batch[2] = group == 0 ? 0 : head;
  return place;
}

bool supports_attention(const NodeContext& node, std::string* why) {
  if (!has_attention_types(node, kFirstMask, why)) return false;
  const int64_t heads = node.attrs.i("num_heads", 1);
  const int64_t kv = node.attrs.i("num_kv_heads", 0) == 0 ? heads : node.attrs.i("num_kv_heads");
  const bool packed = !has_input(node, 1);
  const int64_t depth = split(node.in[0]->shape, packed ? heads + 2 * kv : heads)[2];
  const int64_t width = packed ? depth : split(node.in[2]->shape, kv)[2];
  return std::max(depth, width) <= kMostSize || fail_with("computes attention of heads of 256 features or fewer", why);
}

class AttentionOp final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Attrs& attrs = node.attrs;
    const int64_t heads = attrs.i("num_heads", 1);
    const int64_t kv = attrs.i("num_kv_heads", 0) == 0 ? heads : attrs.i("num_kv_heads"), group = heads / kv;
    packed_ = !has_input(node, 1);
    const bool has_past = has_input(node, 3);
    keeps_ = has_past || node.out.size() > 1;
    const auto shape = [&](size_t i) -> const Shape& { return node.in[i]->shape; };
    const std::array<int64_t, 3> q = split(shape(0), packed_ ? heads + 2 * kv : heads);
    std::array<int64_t, 3> fresh[2] = {q, q};
    if (!packed_) fresh[0] = split(shape(1), kv), fresh[1] = split(shape(2), kv);
    const int64_t past = has_past ? shape(3)[2] : 0;
    launch_ = Launch();
    Attention& p = launch_.p;
    p.dtype = node.in[0]->dtype;
    const Shape& y = node.out[0]->shape;
    const bool joined = shape(0).rank() == 3 || attrs.b("merge_heads");
    const int64_t rows = joined ? y[1] : y[2];
    p.batch_rank = 3;
    p.batch[0] = static_cast<int>(y[0]), p.batch[1] = static_cast<int>(kv), p.batch[2] = static_cast<int>(group);
    p.rows = static_cast<int>(rows);
    p.keys = static_cast<int>(std::max(fresh[0][1], fresh[1][1]) + past);
    p.depth = static_cast<int>(q[2]);
    p.width = static_cast<int>(fresh[1][2]);
    for (size_t i = kFirstMask; i < node.in.size(); ++i)
      if (node.in[i] != nullptr && node.in[i]->shape.rank() > 0)
        p.keys = std::max(p.keys, static_cast<int>(shape(i).at(-1)));
    if (fresh[0][1] + past == 0 || fresh[1][1] + past == 0) p.keys = 0;
    read_options(attrs, &p);
    p.fill = attrs.has("fill") ? static_cast<float>(attrs.f("fill")) : -__builtin_inff();
    p.causal = attrs.b("causal") ? static_cast<int>(past) : -1;
    const int64_t q_features = (packed_ ? heads + 2 * kv : heads) * q[2];
    p.q_place = place_of(shape(0).rank() == 3, heads, q, q_features, group);
    p.out_place = place_of(joined, heads, {y[0], rows, p.width}, heads * p.width, group);
    *workspace = 0;
    for (size_t i : {size_t{0}, size_t{1}}) {
      Kept& kept = kept_[i];
      const std::array<int64_t, 3>& own = fresh[i];
      const bool is_joined = shape(packed_ ? 0 : 1 + i).rank() == 3;
      const AttentionPlace place = place_of(is_joined, kv, own, packed_ ? q_features : kv * own[2], 0);
      const int64_t offset = packed_ ? (heads + static_cast<int64_t>(i) * kv) * q[2] : 0;
      AttentionPlace& of_product = i == 0 ? p.k_place : p.v_place;
      launch_.offsets[1 + i] = keeps_ ? 0 : offset;
      of_product = keeps_ ? place_of(false, kv, {own[0], own[1] + past, own[2]}, 0, 0) : place;
      kept.append = CacheAppend();
      kept.append.element_size = static_cast<int>(dtype_size(p.dtype));
      kept.append.images = static_cast<int>(own[0]), kept.append.heads = static_cast<int>(kv);
      kept.append.past = static_cast<int>(past), kept.append.fresh = static_cast<int>(own[1]);
      kept.append.size = static_cast<int>(own[2]);
      kept.append.fresh_row = is_joined ? (packed_ ? q_features : kv * own[2]) : own[2];
      kept.append.fresh_head = place.batch[1];
      kept.append.fresh_image = place.batch[0];
      kept.offset = offset * kept.append.element_size;
      kept.missing = keeps_ && (node.out.size() < 2 + i || node.out[1 + i] == nullptr);
      kept.bytes = own[0] * kv * (own[1] + past) * own[2] * kept.append.element_size;
    }
    masks_.clear();
    indices_.clear();
    for (size_t i = kFirstMask; i < node.in.size(); ++i) {
      if (node.in[i] == nullptr) continue;
      p.mask[indices_.size()].place = mask_place(shape(i), group);
      indices_.push_back(i);
    }
    p.masks = static_cast<int>(indices_.size());
    masks_.resize(indices_.size());
    macs_ = y[0] * heads * rows * p.keys * (p.depth + p.width);
    MINNOW_RETURN_IF_ERROR(launch_.reshape(node, workspace));
    own_bytes_ = (*workspace + 63) / 64 * 64;
    *workspace = own_bytes_;
    for (const Kept& kept : kept_)
      if (kept.missing) *workspace += (kept.bytes + 63) / 64 * 64;
    return ok();
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const void* operands[2] = {context.in[packed_ ? 0 : 1]->data, context.in[packed_ ? 0 : 2]->data};
    char* space = static_cast<char*>(context.workspace) + own_bytes_;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Kept& kept = kept_[i];
      if (!keeps_) break;
      CacheAppend append = kept.append;
      append.past_data = data_of(context, 3 + i);
      append.fresh_data = static_cast<const char*>(operands[i]) + kept.offset;
      append.out = kept.missing ? space : context.out[1 + i]->data;
      if (kept.missing) space += (kept.bytes + 63) / 64 * 64;
      MINNOW_RETURN_IF_ERROR(check(append_cache(append, target_of(stream)), "to keep keys and values"));
      operands[i] = append.out;
    }
    for (size_t m = 0; m < masks_.size(); ++m) masks_[m] = context.in[indices_[m]];
    return launch_.enqueue(context.in[0]->data, operands[0], operands[1], masks_, context.out[0], context.workspace,
                           stream);
  }
  int schemes() const override { return launch_.schemes; }
  void choose(int scheme) override { launch_.p.scheme = scheme; }
  Profile profile() const override { return {launch_.name() + (keeps_ ? "_with_cache" : ""), macs_}; }

 private:
  struct Kept {  // keys or values, with those of the past
    CacheAppend append;
    int64_t offset = 0, bytes = 0;
    bool missing = false;  // the output is unused
  };

  static AttentionPlace mask_place(const Shape& mask, int64_t group) {
    int64_t strides[4] = {};
    int64_t stride = 1;
    for (int k = 1; k <= mask.rank(); stride *= mask.at(-k), ++k) strides[4 - k] = mask.at(-k) == 1 ? 0 : stride;
    AttentionPlace place;
    place.row = strides[2], place.column = strides[3];
    place.batch[0] = strides[0], place.batch[1] = strides[1] * group, place.batch[2] = strides[1];
    return place;
  }

  Launch launch_;
  Kept kept_[2];
  bool packed_ = false, keeps_ = false;
  std::vector<size_t> indices_;  // of the masks
  std::vector<const Tensor*> masks_;
  int64_t own_bytes_ = 0, macs_ = 0;
};

template <class Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

// ---- rotary positions

bool supports_rotary(const NodeContext& node, std::string* why) {
  const DType dtype = node.in[0]->dtype;
  for (size_t i = 0; i < 3; ++i)
    if (node.in[i]->dtype != dtype || !is_kernel_float(dtype))
      return fail_with("turns f32, f16 or bf16 by tables of that type", why);
  if (node.in[0]->shape.rank() - 1 > Rotary::kMostDims) return fail_with("turns tensors of rank 7 or less", why);
  return node.in[0]->count() < int64_t{1} << 31 || fail_with("computes tensors of less than 2^31 elements", why);
}

class RotaryKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    const int64_t size = node.attrs.i("size");
    p_ = Rotary();
    p_.dtype = node.in[0]->dtype;
    p_.interleaved = node.attrs.b("interleaved");
    p_.length = static_cast<int>(x.at(-1));
    p_.turned = size == 0 ? p_.length : static_cast<int>(size);
    p_.rank = x.rank() - 1;
    for (int d = 0; d < p_.rank; ++d) p_.dims[d] = static_cast<int>(x[d]);
    const auto read = [&](const Shape& table, bool* full, int64_t* strides) {
      *full = table.at(-1) == p_.turned;
      int64_t stride = table.at(-1);
      for (int k = 2; k <= table.rank(); stride *= table.at(-k), ++k)
        strides[p_.rank + 1 - k] = table.at(-k) == 1 ? 0 : stride;
    };
    read(node.in[1]->shape, &p_.full_cos, p_.cos_strides);
    read(node.in[2]->shape, &p_.full_sin, p_.sin_strides);
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Rotary p = p_;
    p.x = context.in[0]->data;
    p.cos = context.in[1]->data;
    p.sin = context.in[2]->data;
    p.y = context.out[0]->data;
    return check(rotary(p, target_of(stream)), "to turn features");
  }

 private:
  Rotary p_;
};

}  // namespace

MINNOW_CUDA_KERNEL("FusedAttention", create<FusedAttention>, supports_fused);
MINNOW_CUDA_KERNEL("Attention", create<AttentionOp>, supports_attention);
MINNOW_CUDA_KERNEL("RotaryEmbedding", create<RotaryKernel>, supports_rotary, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace minnow::cuda
