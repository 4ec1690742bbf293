// States that stay in a device's memory from run to run, where a plan takes them from there and puts them there.
#pragma once

#include <memory>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class DeviceStates {
 public:
  // The model, the devices and the account must outlive it.
  DeviceStates(const Model& model, const Devices& devices, MemoryAccount* account)
      : model_(model), devices_(devices), account_(account), entries_(model.states.size()) {}

  // Before a run by the plan of `executor`: sets the addresses and places of the states that it uses on a device, which
  // are behind the inputs of the model; the others are in the memory of `host`.
  Status place(const Executor& executor, const std::vector<Tensor>& host, std::vector<const void*>* data,
               std::vector<int>* places);
  // The device of state `i` in this run; 0: the host.
  int device(size_t i) const { return entries_[i].device; }
  void* next(size_t i) const { return entries_[i].memory[model_.states[i].in_place ? 0 : 1]->data(); }
  // After a successful run: the next values become the current ones.
  void advance();
  // Brings all to the memory of `host`, which may be changed then: the next run takes them from there.
  Status fetch(const std::vector<Tensor>& host);
  // The host has other values.
  void forget();

 private:
  struct Entry {
    int device = 0;
    TensorType type;
    std::unique_ptr<Memory> memory[2];  // of the present values, and of the next if these are not in place
    bool valid = false;                 // it has the present values,
    bool newer = false;                 // which the host has not
    bool stays_on_host = false;         // the device cannot copy from and to its own memory
  };

  Status fetch(Entry* entry, const Tensor& host);
  Status upload(Entry* entry, int device, const Tensor& host, bool in_place);

  const Model& model_;
  const Devices& devices_;
  MemoryAccount* account_;
  std::vector<Entry> entries_;
};

}  // namespace minnow
