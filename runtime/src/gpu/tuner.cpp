#include "runtime/src/gpu/tuner.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

namespace minnow {
namespace {

constexpr double kSeconds = 1.5;      // if MINNOW_TUNING does not say
constexpr double kAloneShare = 0.7;   // of the time, for what is timed alone
constexpr int kAloneTimes = 6;        // a scheme is run between two looks at the clock
constexpr int kWorse = 2;             // times the best so far: such a scheme is not timed a second time
constexpr size_t kTried = 4;          // schemes that are tried among all steps
constexpr double kTriedWithin = 1.5;  // times the fastest one
constexpr double kGain = 0.997;       // of the time of all, below which another choice is better

double allowed_seconds() {
  const char* value = std::getenv("MINNOW_TUNING");
  if (value == nullptr || *value == '\0') return kSeconds;
  return std::string(value) == "off" ? 0 : std::max(std::atof(value), 0.0);
}

}  // namespace

Tuner::Tuner(gpu::Device& device, gpu::Stream& stream)
    : device_(device), stream_(stream), left_(stream.can_time() ? allowed_seconds() : 0) {}

bool Tuner::has_time(double share) const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() < share * left_;
}

void Tuner::choose(std::vector<Tunable>& steps, const Group& group, int scheme) {
  for (size_t i : group.steps) {
    choose(*steps[i].kernel, scheme);
    steps[i].scheme = scheme;
  }
}

Status Tuner::tune(std::vector<Tunable>* steps) {
  std::map<std::string, Group> alike;
  for (size_t i = 0; i < steps->size(); ++i) {
    Tunable& step = (*steps)[i];
    const int schemes = static_cast<gpu::GpuKernel&>(*step.kernel).schemes();
    if (step.scheme >= schemes) step.scheme = -1;
    if (step.scheme >= 0) choose(*step.kernel, step.scheme);
    if (step.scheme < 0 && schemes > 1) alike[step.what + " " + std::to_string(schemes)].steps.push_back(i);
  }
  if (alike.empty() || left_ <= 0) return ok();
  start_ = std::chrono::steady_clock::now();
  MINNOW_RETURN_IF_ERROR(stream_.finish());
  std::vector<Group> groups;
  Status status;
  for (auto& [what, group] : alike) {
    if (!has_time(kAloneShare)) break;
    status = time_alone((*steps)[group.steps.front()], &group);
    if (!status.ok()) break;
    choose(*steps, group, group.best.front());
    groups.push_back(std::move(group));
  }
  if (status.ok()) status = choose_among(*steps, groups);
  // Whatever the kernels have found in what they were run on is no error of a run.
  const Status finished = stream_.finish();
  left_ -= std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  MINNOW_RETURN_IF_ERROR(status);
  return finished;
}

// Its results go to other memory, as it may read what it has in their place.
Status Tuner::time_alone(const Tunable& step, Group* group) {
  auto& kernel = static_cast<gpu::GpuKernel&>(*step.kernel);
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<Tensor> results;
  results.reserve(step.context->out.size());
  RunContext context = *step.context;
  Status ignored;
  context.error = &ignored;
  for (Tensor*& out : context.out) {
    if (out == nullptr) continue;
    MINNOW_RETURN_IF_ERROR(device_.allocate(device_.bytes(out->type), &memory.emplace_back()));
    out = &results.emplace_back(Tensor{out->type, memory.back()->data()});
  }
  const auto run = [&] { return kernel.enqueue(context, stream_); };
  const int schemes = kernel.schemes();
  group->seconds.assign(static_cast<size_t>(schemes), 0);
  double least = 0;
  for (int scheme = 0; scheme < schemes && (scheme == 0 || has_time()); ++scheme) {
    kernel.choose(scheme);
    double once = 0, seconds = 0;
    MINNOW_RETURN_IF_ERROR(run());  // its code is loaded
    MINNOW_RETURN_IF_ERROR(stream_.time(run, 1, &once));
    if (least > 0 && once > kWorse * least) continue;
    MINNOW_RETURN_IF_ERROR(stream_.time(run, kAloneTimes, &seconds));
    group->seconds[static_cast<size_t>(scheme)] = seconds;
    group->best.push_back(scheme);
    if (least == 0 || seconds < least) least = seconds;
  }
  std::stable_sort(group->best.begin(), group->best.end(), [&](int a, int b) {
    return group->seconds[static_cast<size_t>(a)] < group->seconds[static_cast<size_t>(b)];
  });
  return stream_.finish();  // it has used what is freed here
}

// All steps, as a recording if there are such.
Status Tuner::time_all(const std::vector<Tunable>& steps, double* seconds) {
  const auto run = [&]() -> Status {
    for (const Tunable& step : steps)
      MINNOW_RETURN_IF_ERROR(static_cast<gpu::GpuKernel&>(*step.kernel).enqueue(*step.context, stream_));
    return ok();
  };
  std::unique_ptr<Recording> recording;
  if (stream_.can_record()) {
    MINNOW_RETURN_IF_ERROR(stream_.begin_recording());
    const Status recorded = run();
    const Status ended = stream_.end_recording(&recording);
    MINNOW_RETURN_IF_ERROR(recorded);
    MINNOW_RETURN_IF_ERROR(ended);
  }
  const auto again = [&] { return recording != nullptr ? recording->replay() : run(); };
  MINNOW_RETURN_IF_ERROR(again());
  *seconds = 0;
  for (int i = 0; i < 3; ++i) {
    double now = 0;
    MINNOW_RETURN_IF_ERROR(stream_.time(again, 2, &now));
    *seconds = i == 0 ? now : std::min(*seconds, now);
  }
  return stream_.finish();
}

// A step that is timed alone finds its weights in the cache, and nothing beside it: so the best few are tried among
// all.
Status Tuner::choose_among(std::vector<Tunable>& steps, std::vector<Group>& groups) {
  const auto weight = [](const Group& group) {
    return group.seconds[static_cast<size_t>(group.best.front())] * static_cast<double>(group.steps.size());
  };
  std::sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) { return weight(a) > weight(b); });
  if (groups.empty() || !has_time()) return ok();
  double least = 0;
  MINNOW_RETURN_IF_ERROR(time_all(steps, &least));
  for (const Group& group : groups) {
    int chosen = group.best.front();
    const double limit = kTriedWithin * group.seconds[static_cast<size_t>(chosen)];
    for (size_t k = 1; k < std::min(group.best.size(), kTried) && has_time(); ++k) {
      const int scheme = group.best[k];
      if (group.seconds[static_cast<size_t>(scheme)] > limit) break;
      choose(steps, group, scheme);
      double seconds = 0;
      MINNOW_RETURN_IF_ERROR(time_all(steps, &seconds));
      if (seconds >= kGain * least) continue;
      least = seconds;
      chosen = scheme;
    }
    choose(steps, group, chosen);
  }
  return ok();
}

}  // namespace minnow
