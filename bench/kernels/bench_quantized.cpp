// Products with weights of 2 to 8 bits: one row and few rows in percent of the bandwidth with which the same bytes are
// read, and many rows in GFLOP/s. Several matrices take turns, so that weights come from beyond the caches of a core;
// products and reading take turns, too, and a quartile of the times counts.
//
//   bench_quantized [THREADS [part of a name]]
#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/float_buffer.h"
#include "kernels/core/thread_pool.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/machine/simd.h"

namespace {

using namespace minnow;

constexpr int64_t kColumns = 2048, kRows = 2048, kBytes = int64_t{48} << 20;

// Of a single thread, so that others may compute meanwhile.
clockid_t clock_in_use = CLOCK_MONOTONIC;

double seconds() {
  timespec now;
  clock_gettime(clock_in_use, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

volatile float kept;

__attribute__((target("avx2"))) void read_pages(const float* at, int64_t begin, int64_t end) {
  __m256 sum[8] = {};
  for (int64_t i = 1024 * begin; i < 1024 * end; i += 64)
    for (int64_t k = 0; k < 8; ++k) sum[k] = _mm256_xor_ps(sum[k], _mm256_loadu_ps(at + i + 8 * k));
  for (int64_t k = 1; k < 8; ++k) sum[0] = _mm256_xor_ps(sum[0], sum[k]);
  kept = _mm256_cvtss_f32(sum[0]);
}

// Few of the times are of a thread that others have interrupted.
double typical(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

class Random final : public QuantizedMatrix {
 public:
  Random(int width, int64_t length, bool asymmetric, bool half) {
    rows = kRows;
    columns = kColumns;
    block = length == 0 ? kColumns : length;
    bits = width;
    has_offset = offset_of_least = asymmetric;
    half_scales = half;
  }
  void codes(int64_t first, int64_t count, int8_t* to) const override {
    const int half = 1 << (bits - 1);
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>((first + i) * 7919 % 4093 % (2 * half) - half);
  }
  void stored_scales(int64_t, int64_t count, float* scale, float* offset) const override {
    std::fill_n(scale, count, 0.0625f);
    std::fill_n(offset, count, -0.5f);
  }
};

struct Case {
  std::string name;
  int bits;
  int64_t block;
  bool asymmetric, half;
  int64_t m;
  Precision precision;
};

struct Bench {
  explicit Bench(const Case& c, int threads)
      : form(Random(c.bits, c.block, c.asymmetric, c.half)),
        gemm(c.m, form, Activation(), threads, c.precision),
        m(c.m) {
    copies = std::max<int64_t>(1, kBytes / form.bytes());
    packed.allocate(copies * form.bytes() / 4);
    form.pack(Random(c.bits, c.block, c.asymmetric, c.half), nullptr, packed.data(), nullptr);
    for (int64_t i = 1; i < copies; ++i)
      std::memcpy(packed.data() + i * form.bytes() / 4, packed.data(), static_cast<size_t>(form.bytes()));
    a.allocate(m * kColumns);
    for (int64_t i = 0; i < m * kColumns; ++i) a.data()[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
    out.allocate(m * kRows);
    workspace.allocate(gemm.workspace_bytes() / 4 + 16);
  }
  // Seconds for matrix i.
  double run(ThreadPool* pool, int64_t i) {
    const double begin = seconds();
    gemm.run({a.data(), kColumns, false, packed.data() + i * form.bytes() / 4, nullptr, out.data(), kRows,
              workspace.data(), pool});
    return seconds() - begin;
  }
  double read(ThreadPool* pool, int64_t i) {
    const int64_t n = form.bytes() / 4096;
    const float* at = packed.data() + i * form.bytes() / 4;
    const double begin = seconds();
    pool->parallel_for(n, 1 + n / 16, [&](int64_t first, int64_t end, int) { read_pages(at, first, end); });
    return seconds() - begin;
  }

  QuantizedForm form;
  QuantizedGemm gemm;
  int64_t m, copies;
  FloatBuffer packed, a, out, workspace;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string part = argc > 2 ? argv[2] : "";
  if (threads == 1) clock_in_use = CLOCK_THREAD_CPUTIME_ID;
  std::vector<Case> cases;
  const char* const names[] = {"high", "normal", "low"};
  for (const int bits : {4, 8, 5, 2})
    for (const int64_t block : {32, 64, 128, 0})
      for (const bool asymmetric : {false, true})
        for (const bool half : {true, false})
          for (const int64_t m : {1, 2, 4, 8, 16, 512})
            for (int p = 0; p < 3; ++p) {
              const std::string length = block == 0 ? "channel" : std::to_string(block);
              cases.push_back({"q" + std::to_string(bits) + "/" + length + (asymmetric ? "/asym" : "/sym") +
                                   (half ? "/f16" : "/f32") + "/m" + std::to_string(m) + "/" + names[p],
                               bits, block, asymmetric, half, m, static_cast<Precision>(p)});
            }
  ThreadPool pool(threads);
  std::printf("%s, %d threads, [%d, %d]\n", isa_name(), threads, static_cast<int>(kRows), static_cast<int>(kColumns));
  for (const Case& c : cases) {
    if ((c.name + "/").find(part) == std::string::npos) continue;
    Bench bench(c, threads);
    std::vector<double> runs, reads;
    const int64_t most = c.m > 16 ? 3 : 12 * bench.copies;
    for (int64_t i = 0; i < most; ++i) {
      runs.push_back(bench.run(&pool, i % bench.copies));
      // Those that have not been read for long.
      reads.push_back(bench.read(&pool, (i + bench.copies / 2) % bench.copies));
    }
    const double run = typical(runs), read = typical(reads);
    const double bytes = static_cast<double>(bench.form.bytes());
    std::printf("%-28s %-16s %8.1f us  %6.2f GB/s  %5.1f %% of %.1f GB/s  %7.1f GFLOP/s\n", c.name.c_str(),
                bench.gemm.scheme(), 1e6 * run, 1e-9 * bytes / run, 100 * read / run, 1e-9 * bytes / read,
                2e-9 * static_cast<double>(c.m * kRows * kColumns) / run);
    std::fflush(stdout);
  }
  return 0;
}
