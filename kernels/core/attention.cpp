#include "kernels/core/attention.h"

#include <algorithm>
#include <string>

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

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

}  // namespace

Status read_attention_sizes(const Attrs& attrs, const std::vector<const TensorType*>& in, DType number,
                            AttentionSizes* out) {
  const auto has = [&](size_t i) { return i < in.size() && in[i] != nullptr; };
  AttentionSizes& s = *out;
  s.heads = attrs.i("num_heads", 1);
  s.kv = attrs.i("num_kv_heads", 0) == 0 ? s.heads : attrs.i("num_kv_heads");
  s.packed = !has(1);
  if (!has(0) || has(1) != has(2) || has(3) != has(4)) return fail(Code::kFormat, "an operand is missing");
  if (s.heads < 1 || s.kv < 1 || s.heads % s.kv != 0 || s.heads > int64_t{1} << 30)
    return fail(Code::kFormat, "%lld heads of queries cannot share %lld of keys and values",
                static_cast<long long>(s.heads), static_cast<long long>(s.kv));
  for (size_t i = 0; i < std::min(in.size(), kAttentionOperands); ++i)
    if (in[i] != nullptr && in[i]->dtype != number)
      return fail(Code::kUnsupported, "operands that are not %s", dtype_name(number));
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
  for (size_t i = kAttentionOperands; i < in.size(); ++i) {
    if (in[i] == nullptr) continue;
    if (in[i]->dtype != number && in[i]->dtype != DType::kBool)
      return fail(Code::kUnsupported, "a mask that is neither %s nor bool", dtype_name(number));
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

namespace {

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

Ints mask_places(const Shape& mask, int64_t group) {
  Ints strides(4);
  int64_t stride = 1;
  for (int k = 1; k <= mask.rank(); stride *= mask.at(-k), ++k)
    strides[static_cast<size_t>(4 - k)] = mask.at(-k) == 1 ? 0 : stride;
  return {0, strides[2], strides[3], strides[0], strides[1] * group, strides[1]};
}

}  // namespace

Status AttentionPlan::make(const NodeContext& node, DType number) {
  MINNOW_RETURN_IF_ERROR(read_attention_sizes(node.attrs, node.in, number, &sizes));
  const auto rank = [&](size_t i) { return node.in[i]->shape.rank(); };
  const bool has_past = node.in.size() > 3 && node.in[3] != nullptr;
  keeps = has_past || node.out.size() > 1;
  const int64_t group = sizes.heads / sizes.kv;
  const int64_t q_features = sizes.packed ? (sizes.heads + 2 * sizes.kv) * sizes.depth : sizes.heads * sizes.depth;
  const Ints q = places(rank(0) == 3, 0, sizes.heads, sizes.q, q_features, group);
  for (int i : {0, 1}) {
    const std::array<int64_t, 3>& kept = i == 0 ? sizes.k : sizes.v;
    const int64_t offset = sizes.packed ? (sizes.heads + i * sizes.kv) * sizes.depth : 0;
    const bool joined = rank(sizes.packed ? 0 : 1 + i) == 3;
    fresh[i] = places(joined, offset, sizes.kv, {kept[0], kept[1] - sizes.past, kept[2]},
                      sizes.packed ? q_features : sizes.kv * kept[2], 0);
    present[i] = places(false, 0, sizes.kv, kept, 0, 0);
    missing[i] = keeps && (node.out.size() < 2U + i || node.out[1 + i] == nullptr);
    present_types[i] = {number, Layout::kPlain, sizes.present(kept)};
  }
  const bool joined = rank(0) == 3 || node.attrs.b("merge_heads");
  attrs = Attrs();
  attrs.merge(node.attrs);
  attrs.set("batch", Ints{sizes.batch, sizes.kv, group});
  attrs.set("rows", sizes.rows);
  attrs.set("keys", sizes.keys);
  attrs.set("depth", sizes.depth);
  attrs.set("width", sizes.width);
  attrs.set("q", q);
  attrs.set("k", keeps ? present[0] : fresh[0]);
  attrs.set("v", keeps ? present[1] : fresh[1]);
  attrs.set("out",
            places(joined, 0, sizes.heads, {sizes.batch, sizes.rows, sizes.width}, sizes.heads * sizes.width, group));
  attrs.set("causal", node.attrs.b("causal") ? sizes.past : int64_t{-1});
  if (!node.attrs.has("fill")) attrs.set("fill", -static_cast<double>(__builtin_inff()));
  masks.clear();
  for (size_t i = kAttentionOperands; i < node.in.size(); ++i) {
    if (node.in[i] == nullptr) continue;
    attrs.set("mask" + std::to_string(masks.size()), mask_places(node.in[i]->shape, group));
    masks.push_back(i);
  }
  return ok();
}

}  // namespace minnow
