// Lowering of attention and rotary embeddings of MNN's files.
#include <cmath>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

// Without a mask, an element sees no later one.
Status expand_attention(Expansion& e) {
  const auto fits = [&](int i) { return e.rank(i) == 4 && e.shape(i)[0] == e.shape(0)[0]; };
  if (!fits(0) || !fits(1) || !fits(2) || e.shape(1)[1] != e.shape(2)[1] || e.shape(1)[2] < 1 ||
      e.shape(1)[2] != e.shape(2)[2] || e.shape(0)[2] % e.shape(1)[2] != 0 || e.shape(0)[3] != e.shape(1)[3])
    return fail(Code::kFormat, "queries of shape %s, keys of shape %s and values of shape %s", e.shape(0).str().c_str(),
                e.shape(1).str().c_str(), e.shape(2).str().c_str());
  if (e.shape(1)[1] != e.shape(0)[1])
    return fail(Code::kUnsupported, "%lld keys for %lld queries", static_cast<long long>(e.shape(1)[1]),
                static_cast<long long>(e.shape(0)[1]));
  if (e.has(3) && (e.rank(3) < 2 || e.type(3).dtype != DType::kF32))
    return fail(Code::kUnsupported, "a mask of shape %s and type %s", e.shape(3).str().c_str(),
                dtype_name(e.type(3).dtype));
  const int64_t heads = e.shape(0)[2], size = e.shape(0)[3];
  std::vector<int> in;
  for (int i = 0; i < 3; ++i) in.push_back(e.add("Transpose", {e.in(i)}, {{"perm", Ints{0, 2, 1, 3}}}));
  if (e.has(3)) in.insert(in.end(), {-1, -1, e.in(3)});
  const AttrList attrs = {{"num_heads", heads},
                          {"num_kv_heads", e.shape(1)[2]},
                          {"scale", 1 / std::sqrt(static_cast<double>(size))},
                          {"causal", !e.has(3)},
                          {"merge_heads", true}};
  if (!e.attrs().b("packed")) {
    e.finish("Attention", in, attrs);
    return ok();
  }
  const int rows = e.add("Attention", in, attrs);
  e.finish("Reshape", {rows, e.ints({e.shape(0)[0] * e.shape(0)[1], heads * e.shape(2)[3], 1, 1})});
  return ok();
}
MINNOW_LOWERING("mnn.Attention", expand_attention);

// As many features are turned as the tables have numbers.
Status expand_rope(Expansion& e) {
  const int64_t rows = e.shape(0)[1], size = e.rank(1) < 1 ? 0 : e.shape(1)[e.rank(1) - 1];
  if (size < 2 || size % 2 != 0 || size > e.shape(0)[3] || e.shape(1) != e.shape(2) ||
      e.shape(1).count() != rows * size)
    return fail(Code::kFormat, "tables of shape %s and %s for %s", e.shape(1).str().c_str(), e.shape(2).str().c_str(),
                e.shape(0).str().c_str());
  std::vector<int> in = {e.in(0)};
  for (int i = 1; i < 3; ++i) in.push_back(e.add("Reshape", {e.in(i), e.ints({1, rows, 1, size})}));
  e.finish("RotaryEmbedding", in, {{"interleaved", false}, {"size", size}});
  return ok();
}
MINNOW_LOWERING("mnn.RoPE", expand_rope);

}  // namespace
}  // namespace minnow
