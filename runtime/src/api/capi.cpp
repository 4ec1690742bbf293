// The C API: handles, and errors as codes.
#include "runtime/src/api/handles.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "minnow/minnow.h"
#include "runtime/src/backend/cpu.h"

namespace minnow {
namespace {

// Of the thread's last failed call. No std::string: glibc ends the process where it cannot note its destructor.
thread_local char last_error[4096] = "";

}  // namespace

minnow_code report(const Status& status) noexcept {
  if (status.ok()) return MINNOW_OK;
  const std::string& text = status.message();
  size_t length = std::min(text.size(), sizeof last_error - 1);
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;  // no part of a character
  std::memcpy(last_error, text.data(), length);
  last_error[length] = '\0';
  log_line(MINNOW_LOG_ERROR, last_error);
  switch (status.code()) {
    case Code::kNeedsValue:
      return MINNOW_INTERNAL;
    case Code::kCancelled:
      return MINNOW_STOPPED;
    default:
      return static_cast<minnow_code>(status.code());
  }
}

Status hold(minnow_session* session, std::unique_lock<std::mutex>* lock) {
  if (session == nullptr) return null_argument("session");
  MINNOW_RETURN_IF_ERROR(session->session->may_use());
  *lock = std::unique_lock<std::mutex>(session->mutex);
  return ok();
}

Status find(const std::vector<TensorInfo>& infos, const char* name, size_t place, const char* what, size_t* index) {
  *index = place;
  if (name == nullptr) {
    return place < infos.size() ? ok() : fail(Code::kUsage, "the model has no %s %zu", what, place);
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name != name) continue;
    *index = i;
    return ok();
  }
  std::string names;
  for (const TensorInfo& info : infos) names += (names.empty() ? "'" : ", '") + info.name + "'";
  return Status(Code::kUsage, std::string("the model has no ") + what + " '" + name + "'; it has " + names);
}

Status read_type(const minnow_tensor& given, const char* what, const std::string& name, TensorType* type) {
  if (given.rank < 0 || given.rank > kMaxRank || given.dtype < MINNOW_F32 || given.dtype >= kDTypes)
    return fail(Code::kUsage, "%s '%s' has rank %d and type %d", what, name.c_str(), given.rank, given.dtype);
  type->dtype = static_cast<DType>(given.dtype);
  for (int32_t d = 0; d < given.rank; ++d) {
    if (given.shape[d] < 0) return fail(Code::kUsage, "%s '%s' has a negative size", what, name.c_str());
    type->shape.push_back(given.shape[d]);
  }
  return ok();
}

Status read_inputs(minnow_session& session, const minnow_tensor* inputs, size_t n, bool needs_data) {
  const std::vector<TensorInfo>& infos = session.session->inputs();
  if (inputs == nullptr && n > 0) return null_argument("inputs");
  std::vector<bool>& given = session.given;
  session.inputs.assign(infos.size(), Tensor());
  given.assign(infos.size(), false);
  for (size_t k = 0; k < n; ++k) {
    const minnow_tensor& in = inputs[k];
    size_t i = 0;
    MINNOW_RETURN_IF_ERROR(find(infos, in.name, k, "input", &i));
    if (given[i]) return fail(Code::kUsage, "input '%s' is given twice", infos[i].name.c_str());
    Tensor& tensor = session.inputs[i];
    MINNOW_RETURN_IF_ERROR(read_type(in, "input", infos[i].name, &tensor.type));
    tensor.data = in.data;
    if (needs_data && in.data == nullptr && tensor.count() != 0) return null_argument("the data of an input");
    given[i] = true;
  }
  for (size_t i = 0; i < infos.size(); ++i)
    if (!given[i]) return fail(Code::kUsage, "input '%s' is missing", infos[i].name.c_str());
  return ok();
}

namespace {

// Fills what the caller's version of the header has of a struct, at whose beginning is its size. What only a later
// version has is 0.
template <typename Struct>
Status fill(Struct value, size_t least, const char* name, Struct* out) {
  constexpr size_t kMost = 4096;
  const size_t size = out->struct_size;
  if (size < least || size > kMost)
    return fail(Code::kUsage, "the struct_size is %zu: it must be sizeof(%s)", size, name);
  value.struct_size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof value));
  if (size > sizeof value) std::memset(reinterpret_cast<char*>(out) + sizeof value, 0, size - sizeof value);
  return ok();
}

Status read_options(const minnow_options* given, SessionOptions* out) {
  minnow_options options = MINNOW_OPTIONS;
  MINNOW_RETURN_IF_ERROR(take_known(given, offsetof(minnow_options, timeout_ms), "minnow_options", &options));
  if (options.precision < MINNOW_HIGH || options.precision > MINNOW_LOW)
    return fail(Code::kUsage, "there is no precision %d", options.precision);
  *out = {options.threads,
          static_cast<Precision>(options.precision),
          {static_cast<double>(options.timeout_ms) / 1000, options.max_memory, options.max_rounds},
          options.device == nullptr ? "cpu" : options.device,
          options.arena == nullptr ? nullptr : options.arena->arena};
  return ok();
}

}  // namespace

Status fill_info(const std::vector<TensorInfo>& infos, size_t index, const char* what, minnow_tensor_info* out) {
  if (out == nullptr) return null_argument("info");
  if (index >= infos.size()) return fail(Code::kUsage, "the model has no %s %zu", what, index);
  const TensorInfo& info = infos[index];
  minnow_tensor_info known{};
  known.name = info.name.c_str();
  if (!info.container.empty()) {  // its bytes
    known.dtype = MINNOW_U8;
    known.rank = 1;
    known.shape[0] = -1;
  } else {
    known.dtype = static_cast<minnow_dtype>(info.dtype);
    known.rank = info.has_rank && info.dims.size() <= MINNOW_MAX_RANK ? static_cast<int32_t>(info.dims.size()) : -1;
  }
  for (int32_t i = 0; info.container.empty() && i < known.rank; ++i) {
    const Dim& dim = info.dims[static_cast<size_t>(i)];
    known.shape[i] = dim.size;
    known.symbols[i] = dim.symbol.empty() ? nullptr : dim.symbol.c_str();
  }
  return fill(known, sizeof known, "minnow_tensor_info", out);
}

}  // namespace minnow

using minnow::answer;
using minnow::null_argument;
using minnow::ok;
using minnow::Status;

const char* minnow_version(void) { return MINNOW_VERSION; }
const char* minnow_isa(void) { return minnow::cpu_instruction_set(); }
const char* minnow_last_error(void) { return minnow::last_error; }

minnow_code minnow_load_file(const char* path, minnow_model** model) {
  return minnow_load_file_with(path, nullptr, model);
}

minnow_code minnow_load_file_with(const char* path, const minnow_load_options* options, minnow_model** model) {
  return answer([&]() -> Status {
    if (path == nullptr || model == nullptr) return null_argument(path == nullptr ? "path" : "model");
    minnow_load_options chosen = MINNOW_LOAD_OPTIONS;
    MINNOW_RETURN_IF_ERROR(minnow::take_known(options, sizeof chosen, "minnow_load_options", &chosen));
    auto loaded = std::make_unique<minnow_model>();
    MINNOW_RETURN_IF_ERROR(minnow::load_model(
        path, &loaded->model, chosen.copies == 0 ? minnow::FileAccess::kMapped : minnow::FileAccess::kCopied));
    if (minnow::is_logging()) minnow::log_line(MINNOW_LOG_INFO, (std::string("loaded ") + path).c_str());
    *model = loaded.release();
    return ok();
  });
}

minnow_code minnow_load_memory(const void* bytes, size_t size, minnow_model** model) {
  return answer([&]() -> Status {
    if (bytes == nullptr || model == nullptr) return null_argument(bytes == nullptr ? "bytes" : "model");
    auto loaded = std::make_unique<minnow_model>();
    MINNOW_RETURN_IF_ERROR(minnow::load_model(bytes, size, &loaded->model));
    *model = loaded.release();
    return ok();
  });
}

void minnow_free_model(minnow_model* model) { delete model; }

minnow_code minnow_create_session(const minnow_model* model, const minnow_options* options, minnow_session** session) {
  return answer([&]() -> Status {
    if (model == nullptr || session == nullptr) return null_argument(model == nullptr ? "model" : "session");
    minnow::SessionOptions chosen;
    MINNOW_RETURN_IF_ERROR(minnow::read_options(options, &chosen));
    auto made = std::make_unique<minnow_session>();
    MINNOW_RETURN_IF_ERROR(minnow::Session::create(model->model, chosen, &made->session));
    made->outputs = std::make_unique<minnow::BufferSink>(made->session->outputs().size(), made->session->memory());
    if (minnow::is_logging()) {
      minnow::SessionStats stats;
      MINNOW_RETURN_IF_ERROR(made->session->stats(&stats));
      const std::string text = "created a session on " + chosen.device + " with " + std::to_string(stats.threads);
      minnow::log_line(MINNOW_LOG_INFO, (text + " threads").c_str());
    }
    *session = made.release();
    return ok();
  });
}

void minnow_free_session(minnow_session* session) { delete session; }

minnow_code minnow_create_arena(minnow_arena** arena) {
  return answer([&]() -> Status {
    if (arena == nullptr) return null_argument("arena");
    *arena = new minnow_arena{std::make_shared<minnow::SharedArena>()};
    return ok();
  });
}

void minnow_free_arena(minnow_arena* arena) { delete arena; }

size_t minnow_num_inputs(const minnow_session* session) {
  return session == nullptr ? 0 : session->session->inputs().size();
}

size_t minnow_num_outputs(const minnow_session* session) {
  return session == nullptr ? 0 : session->session->outputs().size();
}

minnow_code minnow_input_info(const minnow_session* session, size_t index, minnow_tensor_info* info) {
  return answer([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return minnow::fill_info(session->session->inputs(), index, "input", info);
  });
}

minnow_code minnow_output_info(const minnow_session* session, size_t index, minnow_tensor_info* info) {
  return answer([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return minnow::fill_info(session->session->outputs(), index, "output", info);
  });
}

minnow_code minnow_run(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs, minnow_tensor* outputs,
                       size_t num_outputs) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (outputs == nullptr && num_outputs > 0) return null_argument("outputs");
    MINNOW_RETURN_IF_ERROR(minnow::read_inputs(*session, inputs, num_inputs));
    std::vector<size_t>& wanted = session->wanted;
    wanted.resize(num_outputs);
    for (size_t k = 0; k < num_outputs; ++k)
      MINNOW_RETURN_IF_ERROR(minnow::find(session->session->outputs(), outputs[k].name, k, "output", &wanted[k]));
    minnow::DeviceSink* on_device = minnow::kHasOtherDevices ? session->device_outputs.get() : nullptr;
    minnow::OutputSink& sink = on_device != nullptr ? static_cast<minnow::OutputSink&>(*on_device) : *session->outputs;
    MINNOW_RETURN_IF_ERROR(session->session->run(session->inputs, sink, session->options()));
    for (size_t k = 0; k < num_outputs; ++k) {
      const minnow::Tensor& tensor =
          (on_device != nullptr ? on_device->tensors() : session->outputs->tensors())[wanted[k]];
      outputs[k].name = session->session->outputs()[wanted[k]].name.c_str();
      minnow::describe(tensor, &outputs[k]);
    }
    return ok();
  });
}

minnow_code minnow_run_part(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs,
                            minnow_tensor* outputs, size_t num_outputs) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (outputs == nullptr && num_outputs > 0) return null_argument("outputs");
    MINNOW_RETURN_IF_ERROR(minnow::read_inputs(*session, inputs, num_inputs));
    std::vector<std::string> names;
    for (size_t k = 0; k < num_outputs; ++k) {
      if (outputs[k].name == nullptr) return null_argument("the name of an output");
      names.emplace_back(outputs[k].name);
    }
    if (minnow::kHasOtherDevices && session->device_outputs != nullptr) {
      auto& sink = session->device_fetched =
          std::make_unique<minnow::DeviceSink>(session->session->devices(), num_outputs);
      MINNOW_RETURN_IF_ERROR(session->session->run_part(session->inputs, names, *sink, session->options()));
      for (size_t k = 0; k < num_outputs; ++k) minnow::describe(sink->tensors()[k], &outputs[k]);
      return ok();
    }
    session->fetched = std::make_unique<minnow::BufferSink>(num_outputs, session->session->memory());
    MINNOW_RETURN_IF_ERROR(session->session->run_part(session->inputs, names, *session->fetched, session->options()));
    for (size_t k = 0; k < num_outputs; ++k) minnow::describe(session->fetched->tensors()[k], &outputs[k]);
    return ok();
  });
}

minnow_code minnow_set_device_outputs(minnow_session* session, int32_t on) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    session->device_outputs = nullptr;
    if (on == 0) return ok();
    const minnow::Devices& devices = session->session->devices();
    MINNOW_RETURN_IF_ERROR(minnow::DeviceSink::can_be_used(devices));
    if constexpr (minnow::kHasOtherDevices)
      session->device_outputs = std::make_unique<minnow::DeviceSink>(devices, session->session->outputs().size());
    return ok();
  });
}

minnow_code minnow_set_callback(minnow_session* session, minnow_callback callback, void* user) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    session->callback.function = callback;
    session->callback.user = user;
    return ok();
  });
}

void minnow_cancel(minnow_session* session) {
  if (session != nullptr) session->session->cancel();
}

minnow_code minnow_set_timeout(minnow_session* session, int64_t timeout_ms) {
  return answer([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (timeout_ms < 0)
      return minnow::fail(minnow::Code::kUsage, "a timeout of %lld ms", static_cast<long long>(timeout_ms));
    session->session->set_seconds(static_cast<double>(timeout_ms) / 1000);
    return ok();
  });
}

minnow_code minnow_reset(minnow_session* session) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    return session->session->reset();
  });
}

minnow_code minnow_profile(minnow_session* session, const minnow_tensor* inputs, size_t num_inputs, int32_t runs,
                           size_t row_size, const minnow_profile_row** rows, size_t* num_rows) {
  return answer([&]() -> Status {
    std::unique_lock<std::mutex> lock;
    MINNOW_RETURN_IF_ERROR(minnow::hold(session, &lock));
    if (rows == nullptr || num_rows == nullptr) return null_argument("rows");
    constexpr size_t kLeast = offsetof(minnow_profile_row, device), kMost = 4096;
    if (row_size < kLeast || row_size > kMost || row_size % sizeof(int64_t) != 0)
      return minnow::fail(minnow::Code::kUsage, "the row_size is %zu: it must be sizeof(minnow_profile_row)", row_size);
    MINNOW_RETURN_IF_ERROR(minnow::read_inputs(*session, inputs, num_inputs));
    session->profile.clear();
    session->rows.clear();
    MINNOW_RETURN_IF_ERROR(session->session->profile(session->inputs, runs, &session->profile));
    const size_t words = row_size / sizeof(int64_t);
    session->rows.assign(words * session->profile.size(), 0);
    for (size_t i = 0; i < session->profile.size(); ++i) {
      const minnow::ProfileRow& row = session->profile[i];
      const minnow_profile_row known = {row.name.c_str(), row.op.c_str(), row.scheme.c_str(), row.shape.c_str(), row.ms,
                                        row.macs,         row.bytes,      row.device.c_str(), row.why.c_str()};
      std::memcpy(&session->rows[words * i], &known, std::min(row_size, sizeof known));
    }
    *rows = reinterpret_cast<const minnow_profile_row*>(session->rows.data());
    *num_rows = session->profile.size();
    return ok();
  });
}

minnow_code minnow_get_stats(minnow_session* session, minnow_stats* stats) {
  return answer([&]() -> Status {
    if (session == nullptr || stats == nullptr) return null_argument(session == nullptr ? "session" : "stats");
    minnow::SessionStats now;
    MINNOW_RETURN_IF_ERROR(session->session->stats(&now));
    const minnow_stats known = {0, now.arena_bytes, now.weight_bytes, now.threads, now.least_arena_bytes};
    return minnow::fill(known, sizeof known, "minnow_stats", stats);
  });
}

minnow_code minnow_write_packed(minnow_session* session) {
  return answer([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->write_packed("");
  });
}
