// The tuner on a device that only counts: each scheme of a kernel takes a number of seconds, alone and among others.
#include <cstdio>
#include <cstdlib>

#include "runtime/src/gpu/tuner.h"

using namespace minnow;

namespace {

int failures = 0;
#define EXPECT(condition)                                   \
  if (!(condition)) {                                       \
    std::printf("line %d: not %s\n", __LINE__, #condition); \
    ++failures;                                             \
  }

class HostMemory final : public Memory {
 public:
  explicit HostMemory(int64_t bytes) : memory_(static_cast<size_t>(bytes)) {
    data_ = memory_.data();
    bytes_ = bytes;
  }

 private:
  std::vector<char> memory_;
};

class CountingStream final : public gpu::Stream {
 public:
  Status launch(const gpu::Program&, const gpu::Arguments&, const gpu::Groups&) override { return ok(); }
  bool owns(const void*) const override { return true; }
  Status upload(const void*, void*, int64_t) override { return ok(); }
  Status download(const void*, void*, int64_t) override { return ok(); }
  Status copy(const void*, void*, int64_t) override { return ok(); }
  Status finish() override { return ok(); }
  Status error_slot(const RunContext&, gpu::ErrorFunction, void**) override { return ok(); }
  bool can_time() const override { return true; }
  Status time(const std::function<Status()>& enqueue, int times, double* seconds) override {
    const double begin = clock;
    for (int i = 0; i < times; ++i) MINNOW_RETURN_IF_ERROR(enqueue());
    *seconds = (clock - begin) / times;
    return ok();
  }
  double clock = 0;
};

class CountingDevice final : public gpu::Device {
 public:
  std::string name() const override { return "counting"; }
  const gpu::Limits& limits() const override { return limits_; }
  const gpu::Speed& speed() const override { return speed_; }
  Status program(const char*, std::initializer_list<gpu::Constant>, const gpu::Program**) override {
    return fail(Code::kInternal, "no programs");
  }
  Status allocate(int64_t bytes, std::unique_ptr<Memory>* out) override {
    *out = std::make_unique<HostMemory>(bytes);
    return ok();
  }
  Status upload(const void*, int64_t bytes, std::unique_ptr<Memory>* out) override { return allocate(bytes, out); }
  std::unique_ptr<gpu::Stream> create_stream() override { return std::make_unique<CountingStream>(); }

 private:
  gpu::Limits limits_;
  gpu::Speed speed_;
};

class TimedKernel final : public gpu::GpuKernel {
 public:
  TimedKernel(std::vector<double> alone, std::vector<double> among)
      : alone_(std::move(alone)), among_(std::move(among)) {}
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const bool is_alone = context.out[0]->data != own;  // elsewhere than in the plan
    const auto i = static_cast<size_t>(chosen < 0 ? 0 : chosen);
    static_cast<CountingStream&>(stream).clock += is_alone ? alone_[i] : among_[i];
    alone_runs += is_alone;
    return ok();
  }
  int schemes() const override { return static_cast<int>(alone_.size()); }
  void choose(int scheme) override { chosen = scheme; }

  int chosen = -1, alone_runs = 0;
  const void* own = nullptr;

 private:
  std::vector<double> alone_, among_;
};

// A kernel in a plan.
struct Step {
  explicit Step(std::vector<double> alone, std::vector<double> among, std::string what)
      : kernel(std::move(alone), std::move(among)) {
    y.type.shape = {2};
    y.data = memory;
    kernel.own = memory;
    context.out = {&y};
    tunable = {&kernel, &context, std::move(what), -1};
  }
  float memory[2] = {};
  Tensor y;
  RunContext context;
  TimedKernel kernel;
  Tunable tunable;
};

void tune(std::vector<Step*> steps) {
  CountingDevice device;
  CountingStream stream;
  Tuner tuner(device, stream);
  std::vector<Tunable> all;
  for (Step* step : steps) all.push_back(step->tunable);
  EXPECT(tuner.tune(&all).ok());
  for (size_t i = 0; i < steps.size(); ++i) steps[i]->tunable = all[i];
}

}  // namespace

int main() {
  // Timed alone, 1 is the fastest; among the others 2 is. 3 is too slow to be tried there.
  Step a({5, 1, 1.2, 3}, {5, 2, 1, 0.1}, "a"), same({5, 1, 1.2, 3}, {5, 2, 1, 0.1}, "a"), only({1}, {1}, "b");
  tune({&a, &only, &same});
  EXPECT(a.kernel.chosen == 2 && a.tunable.scheme == 2);
  EXPECT(same.kernel.chosen == 2 && same.tunable.scheme == 2);
  EXPECT(a.kernel.alone_runs > 0 && same.kernel.alone_runs == 0);  // one of two that are alike
  EXPECT(only.kernel.chosen == -1 && only.tunable.scheme == -1);

  // What is known is chosen, and nothing is tried; what does not exist here is tried again.
  Step known({5, 1}, {5, 1}, "a"), other({5, 1}, {5, 1}, "c");
  known.tunable.scheme = 0;
  other.tunable.scheme = 7;
  tune({&known, &other});
  EXPECT(known.kernel.chosen == 0 && known.kernel.alone_runs == 0);
  EXPECT(other.kernel.chosen == 1 && other.tunable.scheme == 1);

  // The best one alone stays where no other gains.
  Step best({1, 1.1}, {1, 1.1}, "a");
  tune({&best});
  EXPECT(best.kernel.chosen == 0);

  setenv("MINNOW_TUNING", "off", 1);
  Step off({5, 1}, {5, 1}, "a");
  tune({&off});
  EXPECT(off.kernel.chosen == -1 && off.kernel.alone_runs == 0);
  return failures == 0 ? 0 : 1;
}
