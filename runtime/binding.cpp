// The Python module `_engine`: runs the engine on numpy arrays. `session.py` is the public interface to it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "kernels/core/activation.h"
#include "runtime/src/backend/cpu.h"
#include "runtime/src/run/evaluate.h"
#include "runtime/src/plan/layout.h"
#include "runtime/src/plan/arena.h"
#include "runtime/src/plan/unify.h"
#include "runtime/src/api/session.h"

namespace nb = nanobind;

namespace minnow {
namespace {

// In the order of DType.
constexpr const char* kNumpyNames[] = {"float32",
                                       "float64",
                                       "float16",
                                       "bfloat16",
                                       "int8",
                                       "uint8",
                                       "int16",
                                       "uint16",
                                       "int32",
                                       "uint32",
                                       "int64",
                                       "uint64",
                                       "bool",
                                       "float8_e4m3fn",
                                       "float8_e4m3fnuz",
                                       "float8_e5m2",
                                       "float8_e5m2fnuz",
                                       "float8_e8m0fnu",
                                       "float6_e2m3fn",
                                       "float6_e3m2fn",
                                       "float4_e2m1fn",
                                       "int4",
                                       "uint4",
                                       "int2",
                                       "uint2"};
static_assert(std::size(kNumpyNames) == kDTypes);

const char* numpy_name(DType t) { return kNumpyNames[static_cast<size_t>(t)]; }

// Names come from files, and may be invalid UTF-8.
nb::object text_of(const std::string& s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

// Raises the error of schema.errors for the code. An invalid model is a FormatError while it is loaded, a ModelError
// later.
void raise_if(const Status& status, const char* invalid = "ModelError") {
  if (status.ok()) return;
  const char* name = "InternalError";
  switch (status.code()) {
    case Code::kUsage:
      name = "UsageError";
      break;
    case Code::kUnsupported:
      name = "UnsupportedError";
      break;
    case Code::kFormat:
      name = invalid;
      break;
    case Code::kDevice:
      name = "DeviceError";
      break;
    case Code::kWrite:
      name = "WriteError";
      break;
    case Code::kStopped:
      name = "DeadlineError";
      break;
    case Code::kCancelled:
      if (PyErr_Occurred() != nullptr) throw nb::python_error();  // the reason, such as KeyboardInterrupt
      name = "CancelledError";
      break;
    default:
      break;
  }
  nb::object type = nb::module_::import_("minnow.schema.errors").attr(name);
  std::string text = status.message();
  nb::dict fields;
  if (status.code() == Code::kUnsupported) {
    // The first line, then one line per item.
    nb::list items;
    size_t at = text.find("\n  - ");
    const size_t end = at;
    while (at != std::string::npos) {
      const size_t next = text.find("\n  - ", at + 5);
      items.append(text_of(text.substr(at + 5, next == std::string::npos ? next : next - at - 5)));
      at = next;
    }
    if (end != std::string::npos) text.resize(end);
    fields["items"] = items;
  }
  nb::object error = type(text_of(text), **fields);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

DType dtype_of(nb::handle array) {
  const auto name = nb::cast<std::string>(array.attr("dtype").attr("name"));
  for (size_t i = 0; i < std::size(kNumpyNames); ++i)
    if (name == kNumpyNames[i]) return static_cast<DType>(i);
  raise_if(fail(Code::kUsage, "there are no tensors of %s", name.c_str()));
  return DType::kF32;
}

// What the buffer protocol calls an element; false where it has another name, such as that of another byte order.
bool dtype_of_format(const char* format, Py_ssize_t size, DType* out) {
  static constexpr DType kSigned[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
  static constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  if (format == nullptr || format[0] == '\0' || format[1] != '\0') return false;
  const int power = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
  switch (format[0]) {
    case 'f':
      *out = DType::kF32;
      return true;
    case 'd':
      *out = DType::kF64;
      return true;
    case 'e':
      *out = DType::kF16;
      return true;
    case '?':
      *out = DType::kBool;
      return true;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      *out = kSigned[power];
      return true;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      *out = kUnsigned[power];
      return true;
    default:
      return false;
  }
}

// The array must outlive the tensor.
Tensor to_tensor(nb::handle array) {
  Tensor tensor;
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) {
    const bool known = view.ndim <= kMaxRank && dtype_of_format(view.format, view.itemsize, &tensor.type.dtype);
    for (int i = 0; known && i < view.ndim; ++i) tensor.type.shape.push_back(view.shape[i]);
    tensor.data = view.buf;
    PyBuffer_Release(&view);
    if (known) return tensor;
  } else {
    PyErr_Clear();  // a type of ml_dtypes, or not contiguous
  }
  tensor.type.dtype = dtype_of(array);
  nb::object shape = array.attr("shape");
  if (nb::len(shape) > kMaxRank) raise_if(fail(Code::kUsage, "%zu dims, more than %d", nb::len(shape), kMaxRank));
  tensor.type.shape = Shape();
  for (nb::handle d : shape) tensor.type.shape.push_back(nb::cast<int64_t>(d));
  if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous")))
    raise_if(fail(Code::kUsage, "an array is not contiguous"));
  nb::object data = array.attr("__array_interface__")["data"];
  tensor.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data[0]));
  return tensor;
}

nb::object shape_tuple(const Shape& shape) {
  nb::list dims;
  for (int64_t d : shape) dims.append(d);
  return nb::tuple(dims);
}

nb::dlpack::dtype dlpack_dtype(DType t) {
  const auto bits = static_cast<uint8_t>(8 * dtype_size(t));
  auto code = nb::dlpack::dtype_code::UInt;
  if (t == DType::kBool) code = nb::dlpack::dtype_code::Bool;
  if (is_float(t)) code = nb::dlpack::dtype_code::Float;
  if (t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64) code = nb::dlpack::dtype_code::Int;
  return {static_cast<uint8_t>(code), bits, 1};
}

// A numpy array that owns the buffer.
nb::object to_array(const TensorType& type, Buffer buffer) {
  // numpy does not know the types of ml_dtypes by itself: they are made as bytes, then seen as what they are.
  const bool bytes = type.dtype == DType::kBF16 || is_storage(type.dtype);
  std::vector<size_t> shape(type.shape.begin(), type.shape.end());
  if (bytes) shape = {static_cast<size_t>(type.bytes())};
  auto* owned = new Buffer(std::move(buffer));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  nb::ndarray<nb::numpy> array(owned->data(), shape.size(), shape.data(), owner, nullptr,
                               dlpack_dtype(bytes ? DType::kU8 : type.dtype));
  nb::object result = nb::cast(array);
  if (!bytes) return result;
  nb::object dtype = nb::module_::import_("ml_dtypes").attr(numpy_name(type.dtype));
  if (type.count() == 0) return nb::module_::import_("numpy").attr("empty")(shape_tuple(type.shape), dtype);
  return result.attr("view")(dtype).attr("reshape")(shape_tuple(type.shape));
}

// Outputs in buffers of their own, which become arrays.
class ArraySink final : public OutputSink {
 public:
  explicit ArraySink(size_t n) : buffers_(n), types_(n) {}
  void* memory(int index, const TensorType& type) override {
    const auto i = static_cast<size_t>(index);
    types_[i] = type;
    return Buffer::make(type.bytes(), &buffers_[i]).ok() ? buffers_[i].data() : nullptr;
  }
  nb::list arrays() {
    nb::list list;
    for (size_t i = 0; i < buffers_.size(); ++i) list.append(to_array(types_[i], std::move(buffers_[i])));
    return list;
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<TensorType> types_;
};

std::vector<Tensor> to_tensors(const nb::list& arrays) {
  std::vector<Tensor> tensors;
  for (nb::handle array : arrays) tensors.push_back(to_tensor(array));
  return tensors;
}

nb::list info_rows(const std::vector<TensorInfo>& infos) {
  nb::list rows;
  for (const TensorInfo& info : infos) {
    nb::object shape = nb::none();
    if (info.has_rank) {
      nb::list dims;
      for (const Dim& dim : info.dims) {
        if (dim.size >= 0) {
          dims.append(dim.size);
        } else {
          dims.append(dim.symbol.empty() ? nb::object(nb::str("?")) : text_of(dim.symbol));
        }
      }
      shape = nb::tuple(dims);
    }
    rows.append(nb::make_tuple(text_of(info.name), numpy_name(info.dtype), shape, info.container));
  }
  return rows;
}

// Runs pending signal handlers, as the interpreter does between two lines of Python. Only the main thread runs them;
// other threads would wait for the interpreter lock for nothing.
bool run_handlers() {
  nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}
unsigned long main_thread = 0;

template <typename Function>
Status without_lock(Function function) {
  const bool is_main = PyThread_get_thread_ident() == main_thread;
  nb::gil_scoped_release release;
  return function(is_main ? run_handlers : nullptr);
}

nb::list run_session(Session& session, const nb::list& arrays, double seconds) {
  const std::vector<Tensor> inputs = to_tensors(arrays);
  ArraySink sink(session.outputs().size());
  const Status status = without_lock([&](Watch::Poll poll) { return session.run(inputs, sink, {seconds, poll}); });
  raise_if(status);
  return sink.arrays();
}

nb::list profile_session(Session& session, const nb::list& arrays, int runs) {
  const std::vector<Tensor> inputs = to_tensors(arrays);
  std::vector<ProfileRow> rows;
  const Status status = without_lock([&](Watch::Poll poll) {
    return session.profile(inputs, runs, &rows, {-1, poll});
  });
  raise_if(status);
  nb::list list;
  for (const ProfileRow& row : rows) {
    nb::dict d;
    d["name"] = text_of(row.name);
    d["op"] = row.op;
    d["scheme"] = row.scheme;
    d["shape"] = row.shape;
    d["considered"] = row.considered;
    d["ms"] = row.ms;
    d["macs"] = row.macs;
    d["bytes"] = row.bytes;
    d["group"] = row.group;
    d["chain"] = row.chain;
    list.append(d);
  }
  return list;
}

// --- single ops

Attr to_attr(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  // The Python class DType is a subclass of str.
  const auto type_name = nb::cast<std::string>(value.type().attr("__name__"));
  if (type_name == "DType") {
    const auto name = nb::cast<std::string>(value.attr("value"));
    DType dtype;
    if (dtype_of_name(name, &dtype)) return dtype;
  }
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  bool all_ints = true;
  for (nb::handle item : value) {
    if (nb::isinstance<nb::str>(item)) {
      strings.push_back(nb::cast<std::string>(item));
      continue;
    }
    all_ints = all_ints && nb::isinstance<nb::int_>(item);
    floats.push_back(nb::cast<double>(item));
    if (all_ints) ints.push_back(nb::cast<int64_t>(item));
  }
  if (!strings.empty()) return strings;
  if (all_ints) return ints;
  return floats;
}

struct OpCall {
  const OpSpec* op = nullptr;
  Attrs attrs;
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> inputs;
  std::vector<TensorType> types;
};

std::unique_ptr<OpCall> prepare_op(const std::string& name, const nb::dict& attrs, const nb::list& arrays,
                                   int outputs) {
  auto call = std::make_unique<OpCall>();
  call->op = find_op(name);
  if (call->op == nullptr) raise_if(fail(Code::kUnsupported, "this build has no kernel for %s", name.c_str()));
  for (const auto& [key, value] : attrs)
    if (!value.is_none()) call->attrs.set(nb::cast<std::string>(key), to_attr(value));
  for (nb::handle array : arrays) call->tensors.push_back(array.is_none() ? Tensor() : to_tensor(array));
  for (size_t i = 0; i < call->tensors.size(); ++i)
    call->inputs.push_back(arrays[i].is_none() ? nullptr : &call->tensors[i]);
  raise_if(infer_types(*call->op, call->attrs, call->inputs, outputs, &call->types).at(name));
  return call;
}

nb::list infer_op(const std::string& name, const nb::dict& attrs, const nb::list& arrays, int outputs) {
  nb::list rows;
  const std::unique_ptr<OpCall> call = prepare_op(name, attrs, arrays, outputs);
  for (const TensorType& type : call->types)
    rows.append(nb::make_tuple(numpy_name(type.dtype), shape_tuple(type.shape)));
  return rows;
}

nb::list run_op(const std::string& name, const nb::dict& attrs, const nb::list& arrays, int n_outputs, int threads,
                bool packed, bool constants, int precision) {
  const std::unique_ptr<OpCall> call = prepare_op(name, attrs, arrays, n_outputs);
  std::vector<Buffer> buffers;
  Status status;
  {
    nb::gil_scoped_release release;
    ThreadPool pool(threads);
    Evaluation how;
    how.packed = packed;
    how.with_constants = constants;
    how.guarded = true;
    status = evaluate(Cpu::instance(), *call->op, call->attrs, call->inputs, call->types, &pool,
                      static_cast<Precision>(precision), how, &buffers);
  }
  raise_if(status.at(name));
  nb::list list;
  for (size_t i = 0; i < buffers.size(); ++i) list.append(to_array(call->types[i], std::move(buffers[i])));
  return list;
}

struct LoadedModel {
  std::shared_ptr<const Model> model;
};

std::unique_ptr<LoadedModel> load_file(const std::string& path) {
  auto loaded = std::make_unique<LoadedModel>();
  Status status;
  {
    nb::gil_scoped_release release;
    status = load_model(path, &loaded->model);
  }
  raise_if(status, "FormatError");
  return loaded;
}

std::unique_ptr<LoadedModel> load_bytes(const nb::bytes& bytes) {
  auto loaded = std::make_unique<LoadedModel>();
  Status status;
  {
    nb::gil_scoped_release release;
    status = load_model(bytes.c_str(), bytes.size(), &loaded->model);
  }
  raise_if(status, "FormatError");
  return loaded;
}

std::unique_ptr<Session> make_session(const LoadedModel& loaded, int threads, int precision, double seconds,
                                      int64_t memory, int64_t rounds, const std::string& device) {
  std::unique_ptr<Session> session;
  const SessionOptions options{threads, static_cast<Precision>(precision), {seconds, memory, rounds}, device};
  const Status status =
      without_lock([&](Watch::Poll poll) { return Session::create(loaded.model, options, &session, poll); });
  raise_if(status);
  return session;
}

nb::tuple plan_arena(const std::vector<std::vector<int64_t>>& lifetimes) {
  std::vector<Lifetime> pieces;
  for (const auto& row : lifetimes)
    pieces.push_back({static_cast<int>(row.at(0)), static_cast<int>(row.at(1)), row.at(2)});
  std::vector<int64_t> offsets;
  const int64_t size = plan_memory(pieces, &offsets);
  return nb::make_tuple(offsets, size);
}

// Copies of the states of the session.
nb::list states_of(Session& session) {
  const std::vector<Tensor>* tensors = nullptr;
  // Waiting for a run must not hold the interpreter lock, which the run may need.
  raise_if(without_lock([&](Watch::Poll) { return session.states(&tensors); }));
  nb::list list;
  for (const Tensor& tensor : *tensors) {
    Buffer copy;
    raise_if(Buffer::make(tensor.type.bytes(), &copy));
    if (tensor.type.bytes() > 0) std::memcpy(copy.data(), tensor.data, static_cast<size_t>(tensor.type.bytes()));
    list.append(to_array(tensor.type, std::move(copy)));
  }
  return list;
}

void reset_session(Session& session, const nb::object& arrays) {
  if (arrays.is_none()) return raise_if(without_lock([&](Watch::Poll) { return session.reset(); }));
  const std::vector<Tensor> tensors = to_tensors(nb::cast<nb::list>(arrays));
  raise_if(without_lock([&](Watch::Poll) { return session.reset(&tensors); }));
}

}  // namespace
}  // namespace minnow

NB_MODULE(_engine, m) {
  using namespace minnow;
  m.doc() = "The engine of Minnow. Use minnow.load.";
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  nb::class_<Session>(m, "Session")
      .def_prop_ro(
          "inputs", [](Session& s) { return info_rows(s.inputs()); }, "List of (name, dtype, shape, container).")
      .def_prop_ro(
          "outputs", [](Session& s) { return info_rows(s.outputs()); }, "List of (name, dtype, shape, container).")
      .def_prop_ro(
          "state_infos",
          [](Session& s) {
            std::vector<TensorInfo> infos;
            for (const State& state : s.model().states) infos.push_back(state.info);
            return info_rows(infos);
          },
          "List of (name, dtype, shape, container).")
      .def("states", &states_of, "Arrays of the states.")
      .def("reset", &reset_session, nb::arg("arrays").none(),
           "Sets the states to their initial values, or to the given arrays, in order.")
      .def("run", &run_session, nb::arg("arrays"), nb::arg("seconds") = -1.0,
           "Outputs for contiguous arrays, both in the model's order. `seconds`: the timeout; 0: none, below 0: that "
           "of the "
           "session.")
      .def("cancel", &Session::cancel, "Ends the current run.")
      .def("profile", &profile_session, nb::arg("arrays"), nb::arg("runs"))
      .def_prop_ro("stats",
                   [](Session& s) {
                     SessionStats stats;
                     raise_if(without_lock([&](Watch::Poll) {
                       stats = s.stats();
                       return ok();
                     }));
                     nb::dict d;
                     d["arena_bytes"] = stats.arena_bytes;
                     d["least_arena_bytes"] = stats.least_arena_bytes;
                     d["weight_bytes"] = stats.weight_bytes;
                     d["packed_bytes"] = stats.packed_bytes;
                     d["mapped_bytes"] = stats.mapped_bytes;
                     d["threads"] = stats.threads;
                     return d;
                   })
      .def(
          "write_packed",
          [](Session& s, const std::string& path) {
            Status status;
            {
              nb::gil_scoped_release release;
              status = s.write_packed(path);
            }
            raise_if(status);
          },
          nb::arg("path"), "Writes the weights packed so far; an empty path means the default one beside the model.");
  nb::class_<LoadedModel>(m, "Model")
      .def("session", &make_session, nb::arg("threads"), nb::arg("precision"), nb::arg("seconds") = 0.0,
           nb::arg("memory") = 0, nb::arg("rounds") = 0, nb::arg("device") = "cpu",
           "A new session; sessions share the weights. 0 means the default.");
  m.def("load_file", &load_file, nb::arg("path"));
  m.def("load_bytes", &load_bytes, nb::arg("bytes"));
  m.def("run_op", &run_op, nb::arg("name"), nb::arg("attrs"), nb::arg("inputs"), nb::arg("n_outputs") = 1,
        nb::arg("threads") = 1, nb::arg("packed") = false, nb::arg("constants") = false, nb::arg("precision") = 0,
        "Runs one kernel with guard zones around all buffers. `packed`: in the packed layout, if the op supports it. "
        "`constants`: marks all inputs but the first as constant, like weights.");
  m.def("infer_op", &infer_op, nb::arg("name"), nb::arg("attrs"), nb::arg("inputs"), nb::arg("n_outputs") = 1,
        "List of (dtype, shape) of the outputs.");
  m.def(
      "op_traits",
      [] {
        constexpr std::pair<OpTrait, const char*> kTraits[] = {
            {kRandom, "random"}, {kView, "view"}, {kTypeOnly, "type_only"}, {kElementwise, "elementwise"}};
        nb::dict ops;
        for (const OpSpec* op : all_ops()) {
          nb::list traits;
          for (const auto& [trait, name] : kTraits)
            if (op->has(trait)) traits.append(name);
          ops[op->name] = traits;
        }
        return ops;
      },
      "All ops, with what holds of each wherever it is computed.");
  m.def(
      "activations",
      [] {
        nb::list rows;
        for (const ActivationOp* row = begin_activations(); row != end_activations(); ++row)
          rows.append(
              nb::make_tuple(row->name, row->op, row->alpha, row->beta, row->fixed, row->alpha_value, row->beta_value));
        return rows;
      },
      "What layers apply to their results: name, op, what the op calls alpha and beta, whether these are fixed, "
      "values.");
  m.def(
      "common_types",
      [] {
        nb::list rows;
        for (const CommonType* row = begin_common_types(); row != end_common_types(); ++row)
          rows.append(nb::make_tuple(row->op, row->operands, row->numbers));
        return rows;
      },
      "Op, which operands are of one type (a bit each), and whether bool is none of its types.");
  m.def(
      "hash_bytes",
      [](const nb::bytes& bytes) { return hash_bytes(bytes.c_str(), static_cast<int64_t>(bytes.size())); },
      nb::arg("bytes"), "The hash by which files of packed weights identify their parts.");
  m.def("plan_memory", &plan_arena, nb::arg("lifetimes"),
        "Offsets and size of the arena, for rows of (first step, last step, bytes).");
  m.def(
      "measure_peak",
      [](int threads) {
        CpuPeak peak;
        {
          nb::gil_scoped_release release;
          ThreadPool pool(threads);
          peak = measure_cpu(pool);
        }
        return nb::make_tuple(peak.flops, peak.bytes);
      },
      nb::arg("threads"), "Peak floating-point operations, and peak bytes read from memory, per second.");
  m.def("isa", [] { return std::string(cpu_instruction_set()); });
  m.def("pack_width", [] { return Cpu::instance().channel_block(); });
}
