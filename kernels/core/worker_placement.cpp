#include "kernels/core/worker_placement.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

namespace minnow {
namespace {

struct Place {
  std::mutex mutex;
  cpu_set_t cpus;
  int nice = 0;
  std::atomic<uint64_t> version{0};  // 0: as the system has it
};

Place& place() {
  static Place* const one = new Place;  // never destroyed: workers may outlive the statics
  return *one;
}

Status apply(const cpu_set_t& cpus, int nice) {
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
    return fail(Code::kUsage, "the threads cannot run on these processors: %s", std::strerror(errno));
  // On Linux the priority is one of each thread.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), nice) != 0)
    return fail(Code::kUsage, "the threads cannot have the priority %d: %s", nice, std::strerror(errno));
  return ok();
}

}  // namespace

Status place_workers(const std::vector<int>& cpus, int nice) {
  cpu_set_t allowed, chosen;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return fail(Code::kUsage, "the processors of this process are not known: %s", std::strerror(errno));
  CPU_ZERO(&chosen);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))
      return fail(Code::kUsage, "this process may not run on processor %d", cpu);
    CPU_SET(cpu, &chosen);
  }
  if (cpus.empty()) chosen = allowed;
  errno = 0;
  const int base = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  if (errno != 0) return fail(Code::kUsage, "the priority of this process is not known: %s", std::strerror(errno));
  Status status;
  std::thread([&] { status = apply(chosen, base + nice); }).join();  // a thread that ends takes its place with it
  MINNOW_RETURN_IF_ERROR(status);
  const std::lock_guard<std::mutex> lock(place().mutex);
  place().cpus = chosen;
  place().nice = base + nice;
  place().version.fetch_add(1, std::memory_order_release);
  return ok();
}

void take_place() {
  thread_local uint64_t taken = 0;
  const uint64_t version = place().version.load(std::memory_order_acquire);
  if (version == taken) return;
  taken = version;
  const std::lock_guard<std::mutex> lock(place().mutex);
  (void)apply(place().cpus, place().nice);  // which was possible
}

}  // namespace minnow
