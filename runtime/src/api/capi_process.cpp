// The C API: what belongs to the process, its threads and its logger.
#include <atomic>
#include <cstring>
#include <new>

#include "kernels/core/worker_placement.h"
#include "runtime/src/api/handles.h"

namespace minnow {
namespace {

struct Logger {
  std::mutex mutex;
  minnow_logger function = nullptr;
  void* user = nullptr;
  std::atomic<bool> is_set{false};
};

Logger& logger() {
  // Never destroyed: calls may come late. In memory of its own: where there is none, errors are told, too.
  alignas(Logger) static char memory[sizeof(Logger)];
  static Logger* const one = new (memory) Logger;
  return *one;
}

}  // namespace

bool is_logging() { return logger().is_set.load(std::memory_order_acquire); }

void log_line(int32_t kind, const char* text) {
  if (!is_logging()) return;
  minnow_logger function = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard<std::mutex> lock(logger().mutex);
    function = logger().function;
    user = logger().user;
  }
  if (function != nullptr) function(user, kind, text);
}

}  // namespace minnow

void minnow_set_logger(minnow_logger function, void* user) {
  const std::lock_guard<std::mutex> lock(minnow::logger().mutex);
  minnow::logger().function = function;
  minnow::logger().user = user;
  minnow::logger().is_set.store(function != nullptr, std::memory_order_release);
}

minnow_code minnow_set_allocator(const minnow_allocator* given) {
  return minnow::answer([&]() -> minnow::Status {
    minnow_allocator functions = MINNOW_ALLOCATOR;
    MINNOW_RETURN_IF_ERROR(minnow::take_known(given, sizeof functions, "minnow_allocator", &functions));
    if ((functions.allocate == nullptr) != (functions.free == nullptr))
      return minnow::null_argument(functions.free == nullptr ? "free" : "allocate");
    const minnow::Allocator chosen{functions.allocate, functions.free, functions.user};
    minnow::set_allocator(functions.allocate == nullptr ? nullptr : &chosen);
    return minnow::ok();
  });
}

minnow_code minnow_set_workers(const minnow_workers* given) {
  return minnow::answer([&]() -> minnow::Status {
    if (given == nullptr) return minnow::null_argument("workers");
    minnow_workers workers = MINNOW_WORKERS;
    MINNOW_RETURN_IF_ERROR(minnow::take_known(given, sizeof workers, "minnow_workers", &workers));
    if (workers.cpus == nullptr && workers.num_cpus > 0) return minnow::null_argument("cpus");
    if (workers.nice < -20 || workers.nice > 19)
      return minnow::fail(minnow::Code::kUsage, "the priority is %d: it is from -20 to 19", workers.nice);
    return minnow::place_workers({workers.cpus, workers.cpus + workers.num_cpus}, workers.nice);
  });
}
