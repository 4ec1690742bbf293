// Locks that another thread may hold for long, such as while it packs weights.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "kernels/core/interrupt.h"
#include "kernels/core/status_guard.h"

namespace minnow {

// Waits for the thread that has the lock, but no longer than the interrupt of the calling thread allows: StatusError.
inline std::unique_lock<std::mutex> wait_for(std::mutex* mutex) {
  if (Interrupt::current() == nullptr) return std::unique_lock<std::mutex>(*mutex);
  std::unique_lock<std::mutex> lock(*mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    throw_unless(is_whole());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.try_lock();
  }
  return lock;
}

}  // namespace minnow
