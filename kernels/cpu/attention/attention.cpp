// Attention as models have it: where its operands lie is what FusedAttention (fused.cpp) is told. With a past, keys
// and values are first brought together in the outputs that hold them.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "kernels/core/rounding.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

constexpr int kOperands = 5;  // q, k, v and the past; then come masks

// What the operands say together. Batch, rows and keys are broadcast: an operand may have 1 of them.
struct Sizes {
  int64_t batch = 0, rows = 0, keys = 0, past = 0, depth = 0, width = 0;
  int64_t heads = 1, kv = 1;
  std::array<int64_t, 3> q{}, k{}, v{};  // batch, length with that of the past, and size
  bool packed = false;
};

bool broadcast(int64_t n, int64_t* with) {
  if (*with == 1) *with = n;
  return n == 1 || n == *with;
}

// Batch, length and size of an operand of that many heads.
Status split(const Shape& shape, int64_t heads, const char* what, std::array<int64_t, 3>* out) {
  if (shape.rank() == 4 && shape[1] == heads) {
    *out = {shape[0], shape[2], shape[3]};
  } else if (shape.rank() == 3 && shape[2] % heads == 0) {
    *out = {shape[0], shape[1], shape[2] / heads};
  } else {
    return fail(Code::kFormat, "%s of shape %s for %lld heads", what, shape.str().c_str(),
                static_cast<long long>(heads));
  }
  return ok();
}

Status read_sizes(const Attrs& attrs, const std::vector<const TensorType*>& in, Sizes* out) {
  const auto has = [&](size_t i) { return i < in.size() && in[i] != nullptr; };
  Sizes& s = *out;
  s.heads = attrs.i("num_heads", 1);
  s.kv = attrs.i("num_kv_heads", 0) == 0 ? s.heads : attrs.i("num_kv_heads");
  s.packed = !has(1);
  if (!has(0) || has(1) != has(2) || has(3) != has(4)) return fail(Code::kFormat, "an operand is missing");
  if (s.heads < 1 || s.kv < 1 || s.heads % s.kv != 0 || s.heads > int64_t{1} << 30)
    return fail(Code::kFormat, "%lld heads of queries cannot share %lld of keys and values",
                static_cast<long long>(s.heads), static_cast<long long>(s.kv));
  for (size_t i = 0; i < std::min<size_t>(in.size(), kOperands); ++i)
    if (in[i] != nullptr && in[i]->dtype != DType::kF32)
      return fail(Code::kUnsupported, "operands that are not float32");
  if (s.packed && in[0]->shape.rank() != 3) return fail(Code::kFormat, "packed operands of rank other than 3");
  MINNOW_RETURN_IF_ERROR(split(in[0]->shape, s.packed ? s.heads + 2 * s.kv : s.heads, "queries", &s.q));
  s.k = s.v = s.q;
  if (!s.packed) {
    MINNOW_RETURN_IF_ERROR(split(in[1]->shape, s.kv, "keys", &s.k));
    MINNOW_RETURN_IF_ERROR(split(in[2]->shape, s.kv, "values", &s.v));
  }
  bool fits = s.k[2] == s.q[2] && s.k[2] > 0 && s.v[2] > 0;
  s.past = 0;
  if (has(3)) {
    const Shape &past_k = in[3]->shape, &past_v = in[4]->shape;
    if (past_k.rank() != 4 || past_v.rank() != 4) return fail(Code::kFormat, "a past of rank other than 4");
    s.past = past_k[2];
    fits = fits && past_k == Shape{s.k[0], s.kv, s.past, s.k[2]} && past_v == Shape{s.v[0], s.kv, s.past, s.v[2]};
    s.k[1] += s.past;
    s.v[1] += s.past;
  }
  s.batch = s.q[0], s.rows = s.q[1], s.keys = s.k[1], s.depth = s.q[2], s.width = s.v[2];
  fits = fits && broadcast(s.k[0], &s.batch);
  for (size_t i = kOperands; i < in.size(); ++i) {
    if (in[i] == nullptr) continue;
    if (in[i]->dtype != DType::kF32 && in[i]->dtype != DType::kBool)
      return fail(Code::kUnsupported, "a mask that is neither float32 nor bool");
    Shape mask;  // with all four axes
    if (in[i]->shape.rank() > 4) return fail(Code::kFormat, "a mask of rank %d", in[i]->shape.rank());
    mask.resize(4 - in[i]->shape.rank());
    for (int64_t n : in[i]->shape) mask.push_back(n);
    fits = fits && broadcast(mask[0], &s.batch) && (mask[1] == 1 || mask[1] == s.heads) &&
           broadcast(mask[2], &s.rows) && broadcast(mask[3], &s.keys);
  }
  fits = fits && broadcast(s.v[0], &s.batch) && s.keys == s.v[1];
  return fits ? ok() : fail(Code::kFormat, "operands that do not fit each other");
}

Shape present(const Sizes& s, const std::array<int64_t, 3>& kept) { return {kept[0], s.kv, kept[1], kept[2]}; }

Status infer_attention_op(InferContext& c) {
  std::vector<const TensorType*> in;
  for (int i = 0; i < c.num_inputs(); ++i) in.push_back(c.has(i) ? &c.in(i) : nullptr);
  Sizes s;
  MINNOW_RETURN_IF_ERROR(read_sizes(c.attrs, in, &s));
  const bool joined = in[0]->shape.rank() == 3 || c.attrs.b("merge_heads");
  const Shape y = joined ? Shape{s.batch, s.rows, s.heads * s.width} : Shape{s.batch, s.heads, s.rows, s.width};
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set(i, DType::kF32, i == 0 ? y : i == 1 ? present(s, s.k) : present(s, s.v));
  return ok();
}

// Strides of rows, columns, batch, heads of keys, and heads that share these (`group`, 0 in keys and values): in an
// operand of [batch, heads, length, size] or of [batch, length, features].
Ints places(bool joined, int64_t offset, int64_t heads, const std::array<int64_t, 3>& sizes, int64_t features,
            int64_t group) {
  const int64_t batch = sizes[0], length = sizes[1], size = sizes[2];
  const int64_t head = joined ? size : length * size;
  const int64_t image = joined ? length * features : heads * length * size;
  return {offset,
          length == 1 ? 0
          : joined    ? features
                      : size,
          1,
          batch == 1 ? 0 : image,
          std::max<int64_t>(group, 1) * head,
          group == 0 ? 0 : head};
}

class AttentionOp final : public Kernel {
 public:
  explicit AttentionOp(const NodeContext& node) : core_(cpu_kernels().find(*find_op("FusedAttention"))->create(node)) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_sizes(node.attrs, node.in, &s_));
    const auto rank = [&](size_t i) { return node.in[i]->shape.rank(); };
    const bool has_past = node.in.size() > 3 && node.in[3] != nullptr;
    keeps_ = has_past || node.out.size() > 1;
    const int64_t group = s_.heads / s_.kv;
    const int64_t q_features = s_.packed ? (s_.heads + 2 * s_.kv) * s_.depth : s_.heads * s_.depth;
    const Ints q = places(rank(0) == 3, 0, s_.heads, s_.q, q_features, group);
    for (int i : {0, 1}) {
      const std::array<int64_t, 3>& kept = i == 0 ? s_.k : s_.v;
      const int64_t offset = s_.packed ? (s_.heads + i * s_.kv) * s_.depth : 0;
      const bool joined = rank(s_.packed ? 0 : 1 + i) == 3;
      fresh_[i] = places(joined, offset, s_.kv, {kept[0], kept[1] - s_.past, kept[2]},
                         s_.packed ? q_features : s_.kv * kept[2], 0);
      present_[i] = places(false, 0, s_.kv, kept, 0, 0);
      missing_[i] = keeps_ && (node.out.size() < 2U + i || node.out[1 + i] == nullptr);
      present_types_[i] = {DType::kF32, Layout::kPlain, present(s_, kept)};
    }
    const bool joined = rank(0) == 3 || node.attrs.b("merge_heads");
    attrs_ = Attrs();
    attrs_.merge(node.attrs);
    attrs_.set("batch", Ints{s_.batch, s_.kv, group});
    attrs_.set("rows", s_.rows);
    attrs_.set("keys", s_.keys);
    attrs_.set("depth", s_.depth);
    attrs_.set("width", s_.width);
    attrs_.set("q", q);
    attrs_.set("k", keeps_ ? present_[0] : fresh_[0]);
    attrs_.set("v", keeps_ ? present_[1] : fresh_[1]);
    attrs_.set("out", places(joined, 0, s_.heads, {s_.batch, s_.rows, s_.width}, s_.heads * s_.width, group));
    attrs_.set("causal", node.attrs.b("causal") ? s_.past : int64_t{-1});
    if (!node.attrs.has("fill")) attrs_.set("fill", -static_cast<double>(__builtin_inff()));
    std::vector<const TensorType*> in = {node.in[0], node.in[s_.packed ? 0 : 1], node.in[s_.packed ? 0 : 2]};
    masks_.clear();
    for (size_t i = kOperands; i < node.in.size(); ++i) {
      if (node.in[i] == nullptr) continue;
      attrs_.set("mask" + std::to_string(masks_.size()), mask_places(node.in[i]->shape, group));
      masks_.push_back(i);
      in.push_back(node.in[i]);
    }
    inner_ = RunContext();
    inner_.in.resize(in.size());
    inner_.out.resize(1);
    *workspace = 0;
    empty_ = node.out[0]->count() == 0 || s_.keys == 0;
    if (!empty_) {
      const NodeContext inside = {attrs_,        in,           std::vector<const Tensor*>(in.size()),
                                  {node.out[0]}, node.threads, node.precision};
      MINNOW_RETURN_IF_ERROR(core_->reshape(inside, workspace));
    }
    inner_bytes_ = round_up(*workspace, 64);
    *workspace = inner_bytes_;
    for (int i : {0, 1})
      if (missing_[i]) *workspace += round_up(present_types_[i].bytes(), 64);
    return ok();
  }

  void run(const RunContext& context) override {
    char* space = static_cast<char*>(context.workspace) + inner_bytes_;
    for (size_t i = 0; i < 3; ++i) inner_.in[i] = context.in[s_.packed ? 0 : i];
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (!keeps_) break;
      kept_[i] = {present_types_[i], missing_[i] ? space : context.out[1 + i]->data};
      if (missing_[i]) space += round_up(present_types_[i].bytes(), 64);
      inner_.in[1 + i] = &kept_[i];
    }
    if (keeps_) keep(context);
    if (empty_) {
      std::fill_n(context.out[0]->as<float>(), context.out[0]->count(), 0.0f);
      return;
    }
    for (size_t m = 0; m < masks_.size(); ++m) inner_.in[3 + m] = context.in[masks_[m]];
    inner_.out[0] = context.out[0];
    inner_.workspace = context.workspace;
    inner_.pool = context.pool;
    inner_.error = context.error;
    core_->run(inner_);
  }

  [[gnu::cold]] Profile profile() const override { return empty_ ? Profile() : core_->profile(); }

 private:
  Ints mask_places(const Shape& mask, int64_t group) const {
    Ints strides(4);
    int64_t stride = 1;
    for (int k = 1; k <= mask.rank(); stride *= mask.at(-k), ++k)
      strides[static_cast<size_t>(4 - k)] = mask.at(-k) == 1 ? 0 : stride;
    return {0, strides[2], strides[3], strides[0], strides[1] * group, strides[1]};
  }

  // Past and new keys and values, one behind the other.
  void keep(const RunContext& context) const {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const std::array<int64_t, 3>& kept = i == 0 ? s_.k : s_.v;
      const int64_t length = kept[1], size = kept[2];
      const Ints& place = fresh_[i];
      const size_t row_bytes = static_cast<size_t>(size) * sizeof(float);
      const auto* past = s_.past == 0 ? nullptr : static_cast<const float*>(context.in[3 + i]->data);
      const auto* fresh = static_cast<const float*>(context.in[s_.packed ? 0 : 1 + i]->data) + place[0];
      auto* to = static_cast<float*>(kept_[i].data);
      context.pool->parallel_for(kept[0] * s_.kv, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t head = begin; head < end; ++head) {
          float* row = to + head * length * size;
          if (past != nullptr) std::memcpy(row, past + head * s_.past * size, static_cast<size_t>(s_.past) * row_bytes);
          row += s_.past * size;
          const float* from = fresh + head / s_.kv * place[3] + head % s_.kv * place[4];
          for (int64_t r = s_.past; r < length; ++r, row += size, from += place[1]) std::memcpy(row, from, row_bytes);
        }
      });
    }
  }

  std::unique_ptr<Kernel> core_;
  Attrs attrs_;  // of the core
  Sizes s_;
  Ints fresh_[2], present_[2];  // where new keys and values lie, and all of them
  TensorType present_types_[2];
  Tensor kept_[2];
  bool missing_[2] = {false, false};  // the output is unused
  bool keeps_ = false, empty_ = false;
  std::vector<size_t> masks_;
  int64_t inner_bytes_ = 0;
  RunContext inner_;
};

std::unique_ptr<Kernel> create_attention_op(const NodeContext& node) { return std::make_unique<AttentionOp>(node); }

MINNOW_OP("Attention", infer_attention_op);
MINNOW_KERNEL("Attention", create_attention_op);

}  // namespace
}  // namespace minnow
