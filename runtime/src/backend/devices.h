// The devices of one session, each with its queue. Number 0 is the CPU, always.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/src/backend/calibration.h"

namespace minnow {

struct Device {
  Backend* backend = nullptr;
  std::unique_ptr<Queue> queue;
  PackedStore* store = nullptr;  // of the model
  DeviceSpeed speed;             // as far as it is known: better than what the backend guesses

  double copy_seconds(int64_t bytes) const {
    return speed.is_known() ? speed.copy + static_cast<double>(bytes) / speed.copy_bytes : backend->copy_seconds(bytes);
  }
};

// Measures all of them but the CPU, for a second each: by their kinds.
Status measure_devices(const std::string& names, ThreadPool& pool,
                       std::vector<std::pair<std::string, DeviceSpeed>>* out);

class Devices {
 public:
  // `name`: "cpu"; a device, beside which the CPU computes what the device cannot; several, "cpu,cuda:0,cuda:1"; or
  // "auto", which is all there are. With several, the time that nodes and copies take decides alone.
  static Status open(const std::string& name, const Model& model, const QueueOptions& options, Devices* out);

  size_t size() const { return kHasOtherDevices ? devices_.size() : 1; }
  const Device& operator[](size_t i) const { return devices_[i]; }
  const Backend& host() const { return *devices_[0].backend; }
  // Whether placements are to be tried, and the fastest kept: where several devices were given, and the user has not
  // named the one to use.
  bool has_choice() const { return kHasOtherDevices && choice_; }
  // How many times as long a node must take on another device than on the CPU before it is left to the CPU: a device
  // that was asked for by its name is to be used.
  double preference() const { return preference_; }
  // Whether each node goes to the first of the other devices that computes it, however long that takes: for tests.
  bool is_greedy() const { return greedy_; }

 private:
  std::vector<Device> devices_;
  double preference_ = 1;
  bool greedy_ = false, choice_ = false;
};

}  // namespace minnow
