// What the functions of the C API share: handles, and errors as codes.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/core/status_guard.h"
#include "minnow/minnow.h"
#include "runtime/src/api/device_sink.h"
#include "runtime/src/api/session.h"
#include "runtime/src/run/control.h"

namespace minnow {

inline void describe(const Tensor& tensor, minnow_tensor* out) {
  out->dtype = static_cast<minnow_dtype>(tensor.type.dtype);
  out->rank = tensor.rank();
  std::copy(tensor.shape().begin(), tensor.shape().end(), out->shape);
  out->data = tensor.data;
}

class Callback final : public Observer {
 public:
  Status see(const NodeEvent& event) override {
    const auto describe_all = [](const std::vector<Tensor>& tensors, std::vector<minnow_tensor>* out) {
      out->assign(tensors.size(), minnow_tensor{});
      for (size_t i = 0; i < tensors.size(); ++i) describe(tensors[i], &(*out)[i]);
    };
    minnow_node node{sizeof node, event.name.c_str(), event.op.c_str(), event.inputs.size(), 0, nullptr, nullptr};
    describe_all(event.inputs, &inputs_);
    node.inputs = inputs_.data();
    if (event.outputs != nullptr) {
      describe_all(*event.outputs, &outputs_);
      node.num_outputs = outputs_.size();
      node.outputs = outputs_.empty() ? &none_ : outputs_.data();
    }
    return function(user, &node) == 0 ? ok() : fail(Code::kCancelled, "the callback has stopped the run");
  }

  minnow_callback function = nullptr;
  void* user = nullptr;

 private:
  std::vector<minnow_tensor> inputs_, outputs_;
  const minnow_tensor none_{};
};

}  // namespace minnow

struct minnow_model {
  std::shared_ptr<const minnow::Model> model;
};

struct minnow_arena {
  std::shared_ptr<minnow::SharedArena> arena;
};

struct minnow_session {
  std::unique_ptr<minnow::Session> session;
  std::mutex mutex;  // of what follows
  // Of the latest run; kept, so that the next one allocates nothing.
  std::vector<minnow::Tensor> inputs;
  std::vector<bool> given;
  std::vector<size_t> wanted;
  std::unique_ptr<minnow::BufferSink> outputs;
  std::unique_ptr<minnow::BufferSink> fetched;                         // by the latest run of a part
  std::unique_ptr<minnow::DeviceSink> device_outputs, device_fetched;  // in their place, where they are asked for
  std::vector<minnow::ProfileRow> profile;
  std::vector<int64_t> rows;  // of the caller's size
  minnow::Callback callback;

  minnow::RunOptions options() {
    return {-1, nullptr, callback.function == nullptr ? nullptr : &callback, device_outputs != nullptr};
  }
};

namespace minnow {

// The code of a call; its message is kept for minnow_last_error and given to the logger.
minnow_code report(const Status& status) noexcept;
// Tells the logger, if there is one. A message that takes time to write is written only then.
void log_line(int32_t level, const char* text);
bool is_logging();

template <typename Function>
minnow_code answer(Function function) noexcept {
  return report(guarded(function));
}

inline Status null_argument(const char* name) { return fail(Code::kUsage, "%s is NULL", name); }

// How each function begins that uses what belongs to a session: waits for the others. An error where there is no
// session, and in a callback of its own run, which would wait for itself.
Status hold(minnow_session* session, std::unique_lock<std::mutex>* lock);

// What the caller's version of the header has of options; the rest of `options` stays as it is. `least`: bytes of the
// first version.
template <typename Options>
Status take_known(const Options* given, size_t least, const char* name, Options* options) {
  if (given == nullptr) return ok();
  constexpr size_t kMost = 4096;
  const size_t size = given->struct_size, known = sizeof *options;
  const char* bytes = reinterpret_cast<const char*>(given);
  if (size < least || size > kMost ||
      (size > known && std::any_of(bytes + known, bytes + size, [](char c) { return c != 0; })))
    return fail(Code::kUsage, "the options' struct_size is %zu: it must be sizeof(%s)%s", size, name,
                size > known ? ", and this library is older than what is set there" : "");
  std::memcpy(static_cast<void*>(options), given, std::min(size, known));
  return ok();
}

// The place of a tensor by its name, or `place` where it has none.
Status find(const std::vector<TensorInfo>& infos, const char* name, size_t place, const char* what, size_t* index);
// The type of a tensor as a caller describes it.
Status read_type(const minnow_tensor& given, const char* what, const std::string& name, TensorType* type);
// Reads the inputs of a run into session.inputs; without `needs_data` only their types.
Status read_inputs(minnow_session& session, const minnow_tensor* inputs, size_t n, bool needs_data = true);
Status fill_info(const std::vector<TensorInfo>& infos, size_t index, const char* what, minnow_tensor_info* out);

}  // namespace minnow
