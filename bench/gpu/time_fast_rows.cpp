// Times softmax, norms and attention, beside a copy of memory.
#include "bench/gpu/time_fast.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/rows.h"

namespace minnow::cuda::bench {
namespace {

void time_copy() {
  const size_t bytes = size_t{1} << 29;
  Memory a(bytes), b(bytes);
  line("cudaMemcpyAsync 512 MiB on the device",
       time_of(2,
               [&](int, const Target& t) {
                 return cudaMemcpyAsync(b.at(), a.at(), bytes, cudaMemcpyDeviceToDevice, t.stream);
               }),
       2.0 * static_cast<double>(bytes));
}

void time_softmax(int64_t rows, int64_t length) {
  Memory x(static_cast<size_t>(rows * length) * 2), y(x.bytes());
  Softmax s;
  s.dtype = DType::kF16, s.outer = rows, s.length = length, s.x = x.at(), s.y = y.at();
  line("softmax " + std::to_string(rows) + "x" + std::to_string(length),
       time_of(10, [&](int, const Target& t) { return softmax(s, t); }), 2.0 * static_cast<double>(x.bytes()));
}

void time_norm(int64_t rows, int64_t length, bool centered) {
  Memory x(static_cast<size_t>(rows * length) * 2), y(x.bytes()), p(static_cast<size_t>(length) * 4);
  RowNorm n;
  n.dtype = DType::kF16, n.rows = rows, n.length = length, n.centered = centered, n.x = x.at(), n.y = y.at();
  n.constant_parameters = true;
  n.scale = p.at();
  n.bias = centered ? p.at() : nullptr;
  line((centered ? "LayerNorm " : "RMSNorm ") + std::to_string(rows) + "x" + std::to_string(length),
       time_of(20, [&](int, const Target& t) { return row_norm(n, t); }), 2.0 * static_cast<double>(x.bytes()));
}

// q, k and v of [batch, length, heads, size]; `copies` of them in turn, so that the L2 cache does not hold them.
void time_attention(int batch, int kv, int group, int rows, int keys, int size, int causal, DType dtype = DType::kF16) {
  const int heads = kv * group;
  const size_t element = dtype == DType::kF32 ? 4 : 2;
  const size_t q_count = static_cast<size_t>(batch) * heads * rows * size;
  const size_t k_count = static_cast<size_t>(batch) * kv * keys * size;
  const int copies = rows == 1 ? static_cast<int>(std::max<size_t>(1, (size_t{256} << 20) / (k_count * element))) : 1;
  Memory q(q_count * element), k(k_count * element * static_cast<size_t>(copies)), v(k.bytes()), y(q.bytes());
  Attention a;
  a.dtype = dtype, a.batch_rank = 3, a.batch[0] = batch, a.batch[1] = kv, a.batch[2] = group;
  a.rows = rows, a.keys = keys, a.depth = a.width = size, a.scale = 0.125f, a.causal = causal;
  const auto place = [&](int length, int all, int shared) {
    AttentionPlace p;
    p.row = all * size, p.column = 1;
    p.batch[0] = static_cast<int64_t>(length) * all * size, p.batch[1] = static_cast<int64_t>(shared) * size;
    p.batch[2] = shared == 1 ? 0 : size;
    return p;
  };
  a.q_place = a.out_place = place(rows, heads, group);
  a.k_place = a.v_place = place(keys, kv, 1);
  if (rows == 1) {  // a cache: [batch, heads, length, size]
    a.k_place.row = size, a.k_place.batch[1] = static_cast<int64_t>(keys) * size;
    a.v_place = a.k_place;
  }
  if (group == 1) a.q_place.batch[1] = size, a.out_place = a.q_place;
  Target target;
  Memory workspace(static_cast<size_t>(attention_workspace(a, target)) + 16);
  a.q = q.at(), a.out = y.at(), a.workspace = workspace.at();
  for (a.scheme = 0; a.scheme < attention_schemes(a, target); ++a.scheme) {
    const double us = time_of(std::max(copies, 6), [&](int i, const Target& t) {
      a.k = k.at(static_cast<size_t>(i % copies) * k_count * element);
      a.v = v.at(static_cast<size_t>(i % copies) * k_count * element);
      return attention(a, t);
    });
    const double pairs = causal >= 0 && rows > 1 ? 0.5 * rows * keys : static_cast<double>(rows) * keys;
    line(std::string("attention ") + (dtype == DType::kF32 ? "f32 " : "") + std::to_string(batch) + "x" +
             std::to_string(kv) + "x" + std::to_string(group) + " " + std::to_string(rows) + " on " +
             std::to_string(keys) + " of " + std::to_string(size) + (causal >= 0 ? " causal " : " ") +
             attention_scheme(a, target),
         us, static_cast<double>((q_count + k_count) * 2 * element), 4.0 * batch * heads * pairs * size);
  }
}

}  // namespace
}  // namespace minnow::cuda::bench

int main() {
  using namespace minnow::cuda::bench;
  time_copy();
  time_attention(1, 6, 1, 197, 197, 64, -1);
  time_attention(32, 6, 1, 197, 197, 64, -1);
  time_attention(1, 12, 1, 197, 197, 64, -1);
  time_attention(1, 8, 1, 4096, 4096, 40, -1);
  time_attention(1, 32, 1, 2048, 2048, 128, 0);
  time_attention(1, 8, 4, 2048, 2048, 128, 0);
  time_attention(4, 16, 1, 4096, 4096, 64, -1);
  time_attention(1, 8, 1, 1024, 1024, 256, -1);
  time_attention(1, 12, 1, 1, 1024, 64, -1);
  time_attention(1, 8, 4, 1, 1024, 128, -1);
  time_attention(1, 8, 4, 1, 8192, 128, -1);
  time_attention(1, 32, 1, 1, 8192, 128, -1);
  time_attention(8, 8, 4, 1, 8192, 128, -1);
  time_attention(1, 8, 4, 1, 131072, 128, -1);
  time_attention(1, 6, 1, 197, 197, 64, -1, minnow::DType::kF32);
  time_attention(32, 6, 1, 197, 197, 64, -1, minnow::DType::kF32);
  time_attention(1, 8, 4, 1, 8192, 128, -1, minnow::DType::kF32);
  for (const int64_t rows : {197, 6304}) {
    time_norm(rows, 384, true);
    time_norm(rows, 4096, false);
  }
  time_norm(1, 4096, false);
  time_norm(65536, 768, true);
  time_softmax(1182, 197);
  time_softmax(32768, 1024);
  time_softmax(8192, 8192);
  time_softmax(1, 128256);
  time_softmax(512, 50257);
  return 0;
}
