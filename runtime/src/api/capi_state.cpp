// The C API: states of sessions, preparation, and results in the caller's memory.
#include <cstring>

#include "kernels/core/registrar.h"
#include "runtime/src/api/caller_sink.h"
#include "runtime/src/api/handles.h"

namespace minnow {
namespace {

constexpr bool kStatesGrow = is_kept("growing states");

// A change of states whose dimensions are dynamic. Most slim builds are for models without them.
template <typename Function>
minnow_code change_growing(minnow_session* session, Function change) {
  if constexpr (kStatesGrow) {
    return answer([&]() -> Status {
      std::unique_lock<std::mutex> lock;
      MINNOW_RETURN_IF_ERROR(hold(session, &lock));
      return change();
    });
  } else {
    return answer([] { return fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no growing states"); });
  }
}

std::vector<TensorInfo> state_infos(const Session& session) {
  std::vector<TensorInfo> infos;
  for (const State& state : session.model().states) infos.push_back(state.info);
  return infos;
}

// Saved states: "MNNSTATE", a version, how many; then of each its name, type, and bytes. Numbers are of 8 bytes.
constexpr char kMagic[8] = {'M', 'N', 'N', 'S', 'T', 'A', 'T', 'E'};
constexpr int64_t kStatesVersion = 1;

class Writer {
 public:
  Writer(void* bytes, size_t capacity) : bytes_(static_cast<char*>(bytes)), capacity_(capacity) {}
  void put(const void* data, size_t n) {
    if (bytes_ != nullptr && size_ + n <= capacity_) std::memcpy(bytes_ + size_, data, n);
    size_ += n;
  }
  void put(int64_t number) { put(&number, sizeof number); }
  size_t size() const { return size_; }

 private:
  char* bytes_;
  size_t capacity_, size_ = 0;
};

class Reader {
 public:
  Reader(const void* bytes, size_t size) : at_(static_cast<const char*>(bytes)), left_(size) {}
  // The next n bytes; null where there are less.
  const char* take(int64_t n) {
    if (n < 0 || static_cast<uint64_t>(n) > left_) return nullptr;
    const char* taken = at_;
    at_ += n;
    left_ -= static_cast<size_t>(n);
    return taken;
  }
  bool number(int64_t* out) {
    const char* bytes = take(sizeof *out);
    if (bytes != nullptr) std::memcpy(out, bytes, sizeof *out);
    return bytes != nullptr;
  }
  bool is_done() const { return left_ == 0; }

 private:
  const char* at_;
  size_t left_;
};

void write_states(const Session& session, const std::vector<Tensor>& states, Writer* out) {
  out->put(kMagic, sizeof kMagic);
  out->put(kStatesVersion);
  out->put(static_cast<int64_t>(states.size()));
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = session.model().states[i].info.name;
    const Tensor& state = states[i];
    out->put(static_cast<int64_t>(name.size()));
    out->put(name.data(), name.size());
    out->put(static_cast<int64_t>(state.type.dtype));
    out->put(state.rank());
    for (const int64_t size : state.shape()) out->put(size);
    out->put(state.type.bytes());
    if (state.type.bytes() > 0) out->put(state.data, static_cast<size_t>(state.type.bytes()));
  }
}

// The states in their order, as tensors whose data is that of `bytes`: a copy of it where it is not aligned.
Status read_states(const Session& session, const std::vector<Tensor>& now, Reader reader, std::vector<Tensor>* out) {
  const auto damaged = [] { return fail(Code::kFormat, "these are no saved states, or not all of their bytes"); };
  const char* magic = reader.take(sizeof kMagic);
  int64_t version = 0, count = 0;
  if (magic == nullptr || std::memcmp(magic, kMagic, sizeof kMagic) != 0 || !reader.number(&version)) return damaged();
  if (version != kStatesVersion)
    return fail(Code::kFormat, "the saved states have version %lld, this library reads %lld",
                static_cast<long long>(version), static_cast<long long>(kStatesVersion));
  if (!reader.number(&count)) return damaged();
  if (count != static_cast<int64_t>(now.size()))
    return fail(Code::kUsage, "%lld states were saved, the model has %zu", static_cast<long long>(count), now.size());
  *out = now;
  for (size_t i = 0; i < now.size(); ++i) {
    const std::string& name = session.model().states[i].info.name;
    int64_t length = 0, dtype = 0, rank = 0, bytes = 0;
    const char* text = reader.number(&length) ? reader.take(length) : nullptr;
    if (text == nullptr || !reader.number(&dtype) || !reader.number(&rank)) return damaged();
    bool same = name == std::string(text, static_cast<size_t>(length)) && rank == now[i].rank() &&
                dtype == static_cast<int64_t>(now[i].type.dtype);
    for (int64_t d = 0, size = 0; same && d < rank; ++d) {
      if (!reader.number(&size)) return damaged();
      same = size == now[i].dim(static_cast<int>(d)) || (d == 0 && session.model().states[i].grows() && size >= 0);
      (*out)[i].type.shape[static_cast<int>(d)] = size;
    }
    if (!same)
      return fail(Code::kUsage,
                  "the state '%s' was not saved here, or with another type or shape: they are of another "
                  "model",
                  name.c_str());
    const char* data = reader.number(&bytes) ? reader.take(bytes) : nullptr;
    if (data == nullptr || bytes != (*out)[i].type.bytes()) return damaged();
    (*out)[i].data = const_cast<char*>(data);  // which is only read
  }
  return reader.is_done() ? ok() : damaged();
}

}  // namespace
}  // namespace minnow

using minnow::answer;
using minnow::null_argument;
using minnow::ok;
using minnow::Status;

minnow_code minnow_run_into(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                            const minnow_tensor* outputs, size_t num_outputs) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (outputs == nullptr && num_outputs > 0) return null_argument("outputs");
    MINNOW_RETURN_IF_ERROR(minnow::read_inputs(*session, inputs, num_inputs));
    const std::vector<minnow::TensorInfo>& infos = session->session->outputs();
    minnow::CallerSink sink(infos.size());
    std::vector<minnow::Tensor> into(num_outputs);
    for (size_t k = 0; k < num_outputs; ++k) {
      size_t i = 0;
      MINNOW_RETURN_IF_ERROR(minnow::find(infos, outputs[k].name, k, "output", &i));
      if (sink.is_wanted(i))
        return minnow::fail(minnow::Code::kUsage, "output '%s' is named twice", infos[i].name.c_str());
      MINNOW_RETURN_IF_ERROR(minnow::read_type(outputs[k], "output", infos[i].name, &into[k].type));
      into[k].data = outputs[k].data;
      if (into[k].data == nullptr && into[k].count() != 0) return null_argument("the data of an output");
      sink.want(i, &into[k]);
    }
    minnow::RunOptions options = session->options();
    options.gives_on_device = false;
    const Status status = session->session->run(session->inputs, sink, options);
    const Status misfit = sink.misfit(infos);
    return misfit.ok() ? status : misfit;
  });
}

minnow_code minnow_prepare(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    MINNOW_RETURN_IF_ERROR(minnow::read_inputs(*session, inputs, num_inputs, false));
    for (minnow::Tensor& input : session->inputs) input.data = nullptr;
    std::vector<minnow::Placement> rows;
    return session->session->placement(&session->inputs, &rows, session->options());
  });
}

size_t minnow_num_states(const minnow_session* session) {
  return session == nullptr ? 0 : session->session->model().states.size();
}

minnow_code minnow_state_info(const minnow_session* session, size_t index, minnow_tensor_info* info) {
  return answer([&]() -> Status {
    if (session == nullptr || info == nullptr) return null_argument(session == nullptr ? "session" : "info");
    const auto& states = session->session->model().states;
    if (index >= states.size()) return minnow::fail(minnow::Code::kUsage, "the model has no state %zu", index);
    MINNOW_RETURN_IF_ERROR(minnow::fill_info({states[index].info}, 0, "state", info));
    info->name = states[index].info.name.c_str();  // not of the copy
    for (size_t k = 0; k < sizeof info->symbols / sizeof info->symbols[0]; ++k) {
      const bool grows = k == 0 && states[index].grows();
      info->symbols[k] = grows ? states[index].info.dims[0].symbol.c_str() : nullptr;
    }
    return ok();
  });
}

minnow_code minnow_get_states(minnow_session* session, minnow_tensor* states, size_t num_states) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (states == nullptr && num_states > 0) return null_argument("states");
    std::vector<minnow::Tensor> now;
    MINNOW_RETURN_IF_ERROR(session->session->states(&now));
    const std::vector<minnow::TensorInfo> infos = minnow::state_infos(*session->session);
    for (size_t k = 0; k < num_states; ++k) {
      size_t i = 0;
      MINNOW_RETURN_IF_ERROR(minnow::find(infos, states[k].name, k, "state", &i));
      states[k].name = session->session->model().states[i].info.name.c_str();
      minnow::describe(now[i], &states[k]);
    }
    return ok();
  });
}

minnow_code minnow_set_states(minnow_session* session, const minnow_tensor* states, size_t num_states) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (states == nullptr && num_states > 0) return null_argument("states");
    std::vector<minnow::Tensor> now;
    MINNOW_RETURN_IF_ERROR(session->session->states(&now));
    const std::vector<minnow::TensorInfo> infos = minnow::state_infos(*session->session);
    for (size_t k = 0; k < num_states; ++k) {
      size_t i = 0;
      MINNOW_RETURN_IF_ERROR(minnow::find(infos, states[k].name, k, "state", &i));
      minnow::Tensor given;
      MINNOW_RETURN_IF_ERROR(minnow::read_type(states[k], "state", infos[i].name, &given.type));
      given.data = states[k].data;
      if (given.data == nullptr && given.count() != 0) return null_argument("the data of a state");
      now[i] = given;
    }
    return session->session->reset(&now);
  });
}

minnow_code minnow_resize_states(minnow_session* session, const char* dimension, int64_t size) {
  return minnow::change_growing(session, [&]() -> Status {
    if (dimension == nullptr) return null_argument("dimension");
    return session->session->resize_states(dimension, size);
  });
}

minnow_code minnow_copy_in_states(minnow_session* session, const char* dimension, int64_t from, int64_t to) {
  return minnow::change_growing(session, [&]() -> Status {
    if (dimension == nullptr) return null_argument("dimension");
    return session->session->copy_in_states(dimension, from, to);
  });
}

minnow_code minnow_retype_states(minnow_session* session, const minnow_tensor* states, size_t num_states) {
  return minnow::change_growing(session, [&]() -> Status {
    if (states == nullptr && num_states > 0) return null_argument("states");
    const std::vector<minnow::TensorInfo> infos = minnow::state_infos(*session->session);
    for (size_t k = 0; k < num_states; ++k) {
      size_t i = 0;
      minnow::TensorType type;
      MINNOW_RETURN_IF_ERROR(minnow::find(infos, states[k].name, k, "state", &i));
      MINNOW_RETURN_IF_ERROR(minnow::read_type(states[k], "state", infos[i].name, &type));
      MINNOW_RETURN_IF_ERROR(session->session->retype_state(i, type));
    }
    return ok();
  });
}

minnow_code minnow_save_states(minnow_session* session, void* bytes, size_t capacity, size_t* size) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (size == nullptr) return null_argument("size");
    std::vector<minnow::Tensor> now;
    MINNOW_RETURN_IF_ERROR(session->session->states(&now));
    minnow::Writer counted(nullptr, 0);
    minnow::write_states(*session->session, now, &counted);
    *size = counted.size();
    if (bytes == nullptr) return ok();
    if (capacity < *size)
      return minnow::fail(minnow::Code::kUsage, "the states take %zu bytes, and there is room for %zu", *size,
                          capacity);
    minnow::Writer out(bytes, capacity);
    minnow::write_states(*session->session, now, &out);
    return ok();
  });
}

minnow_code minnow_restore_states(minnow_session* session, const void* bytes, size_t size) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (bytes == nullptr) return null_argument("bytes");
    std::vector<minnow::Tensor> now, next;
    MINNOW_RETURN_IF_ERROR(session->session->states(&now));
    MINNOW_RETURN_IF_ERROR(minnow::read_states(*session->session, now, minnow::Reader(bytes, size), &next));
    return session->session->reset(&next);
  });
}
