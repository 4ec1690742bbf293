// TfIdf: counts of known n-grams.
#include <algorithm>
#include <map>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

struct Pool {
  int64_t shortest = 1, longest = 1, most_skipped = 0;
  std::vector<int64_t> values, starts, places;

  int64_t end(size_t n) const { return n < starts.size() ? starts[n] : static_cast<int64_t>(values.size()); }
};

Status read_pool(const Attrs& attrs, const Tensor& values, const Tensor& starts, const Tensor& places, Pool* pool) {
  const auto read = [](const Tensor& t, std::vector<int64_t>* out) {
    out->resize(static_cast<size_t>(t.count()));
    convert(t.type.dtype, t.data, DType::kI64, out->data(), t.count());
  };
  read(values, &pool->values);
  read(starts, &pool->starts);
  read(places, &pool->places);
  pool->shortest = attrs.i("shortest", 1);
  pool->longest = attrs.i("longest", 1);
  pool->most_skipped = attrs.i("most_skipped", 0);
  if (pool->shortest < 1 || pool->longest < pool->shortest || pool->most_skipped < 0)
    return fail(Code::kFormat, "lengths of n-grams that make no sense");
  int64_t grams = 0, last = 0;
  for (size_t n = 1; n <= pool->starts.size(); ++n) {
    const int64_t begin = pool->starts[n - 1], end = pool->end(n);
    if ((n == 1 && begin != 0) || begin < last || end < begin || end > static_cast<int64_t>(pool->values.size()))
      return fail(Code::kFormat, "the places where n-grams of each length start must ascend within the pool");
    grams += (end - begin) / static_cast<int64_t>(n);
    last = begin;
  }
  if (grams > static_cast<int64_t>(pool->places.size()))
    return fail(Code::kFormat, "%lld n-grams have %zu places", static_cast<long long>(grams), pool->places.size());
  for (int64_t place : pool->places)
    if (place < 0 || place > INT32_MAX)
      return fail(Code::kFormat, "an n-gram has the place %lld", static_cast<long long>(place));
  if (pool->places.empty()) return fail(Code::kFormat, "the n-grams have no places");
  return ok();
}

// A tree of the n-grams: a node and the next element lead to another node.
class Tree {
 public:
  explicit Tree(const Pool& pool) : grams_{-1} {
    int64_t gram = 0;
    for (size_t n = 1; n <= pool.starts.size(); ++n) {
      const auto length = static_cast<int64_t>(n);
      const bool wanted = length >= pool.shortest && length <= pool.longest;
      for (int64_t i = pool.starts[n - 1]; i + length <= pool.end(n); i += length, ++gram)
        if (wanted) add(&pool.values[static_cast<size_t>(i)], length, gram);
    }
  }
  // The node behind this one, or -1.
  int64_t next(int64_t node, int64_t value) const {
    const auto it = next_.find({node, value});
    return it == next_.end() ? -1 : it->second;
  }
  // The n-gram that ends at the node, or -1.
  int64_t gram(int64_t node) const { return grams_[static_cast<size_t>(node)]; }

 private:
  void add(const int64_t* values, int64_t n, int64_t gram) {
    int64_t node = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto [it, is_new] = next_.emplace(std::make_pair(node, values[i]), static_cast<int64_t>(grams_.size()));
      if (is_new) grams_.push_back(-1);
      node = it->second;
    }
    grams_[static_cast<size_t>(node)] = gram;
  }

  std::map<std::pair<int64_t, int64_t>, int64_t> next_;
  std::vector<int64_t> grams_;
};

Status infer_tf_idf(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 4));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 0, 2));
  if (is_float(c.in(0).dtype) || c.in(0).dtype == DType::kBool)
    return fail(Code::kFormat, "takes integers, not %s", dtype_name(c.in(0).dtype));
  for (int i = 1; i < 4; ++i) {
    MINNOW_RETURN_IF_ERROR(require_int(c, i));
    MINNOW_RETURN_IF_ERROR(require_rank(c, i, 1, 1));
    if (c.value(i) == nullptr) return c.needs_value(i);
  }
  Pool pool;
  MINNOW_RETURN_IF_ERROR(read_pool(c.attrs, *c.value(1), *c.value(2), *c.value(3), &pool));
  if (c.has(4)) {
    MINNOW_RETURN_IF_ERROR(require_dtype(c, 4, DType::kF32));
    if (c.shape(4) != c.shape(3))
      return fail(Code::kFormat, "weights of shape %s for %zu n-grams", c.shape(4).str().c_str(), pool.places.size());
  }
  Shape out;
  if (c.shape(0).rank() == 2) out.push_back(c.shape(0)[0]);
  out.push_back(*std::max_element(pool.places.begin(), pool.places.end()) + 1);
  MINNOW_RETURN_IF_ERROR(check_shape(out));
  c.set(0, DType::kF32, out);
  return ok();
}

void run_tf_idf(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  Pool pool;
  Status status = read_pool(attrs, *c.in[1], *c.in[2], *c.in[3], &pool);
  const int64_t length = x.rank() == 0 ? 1 : x.dim(-1), words = c.pool->threads() * length;
  if (status.ok()) status = room_for(words * static_cast<int64_t>(sizeof(int64_t)));
  if (!status.ok()) return c.report(status);
  const Tree tree(pool);
  const std::string mode = attrs.s("mode", "TF");
  const float* weights = mode != "TF" && c.in.size() > 4 && c.in[4] != nullptr ? c.in[4]->as<float>() : nullptr;
  const int64_t columns = c.out[0]->dim(-1), rows = x.rank() == 2 ? x.dim(0) : 1;
  std::fill_n(c.out[0]->as<float>(), rows * columns, 0.0f);
  const bool sums = mode != "IDF";
  std::vector<int64_t> space(static_cast<size_t>(words));
  c.pool->parallel_for(rows, std::max<int64_t>(1, 4096 / (length + 1)), [&](int64_t begin, int64_t end, int worker) {
    int64_t* row = space.data() + worker * length;
    LongLoop loop;
    for (int64_t r = begin; r < end; ++r) {
      convert(x.type.dtype, offset(x.data, r * length, dtype_size(x.type.dtype)), DType::kI64, row, length);
      float* out = c.out[0]->as<float>() + r * columns;
      for (int64_t step = 1; step <= std::min(pool.most_skipped, length - 1) + 1 && loop.goes_on(); ++step) {
        for (int64_t first = 0; first < length && loop.goes_on(32); ++first) {
          int64_t node = 0;
          for (int64_t n = 1, i = first; n <= pool.longest && i < length; ++n, i += step) {
            node = tree.next(node, row[i]);
            if (node < 0) break;
            const int64_t gram = tree.gram(node);
            if (gram < 0 || (n == 1 && step > 1)) continue;  // what has one element skips none
            float& at = out[pool.places[static_cast<size_t>(gram)]];
            at = (weights == nullptr ? 1 : weights[gram]) + (sums ? at : 0);
          }
        }
      }
    }
  });
}

MINNOW_OP("TfIdf", infer_tf_idf);
MINNOW_KERNEL("TfIdf", create_simple<run_tf_idf>);

}  // namespace
}  // namespace minnow
