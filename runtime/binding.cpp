// The Python module `_engine`: runs the engine on numpy arrays. `session.py` is the public interface to it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <tuple>

#include "kernels/core/activation.h"
#include "runtime/binding_array.h"
#include "runtime/binding_picture.h"
#include "runtime/binding_run.h"
#include "runtime/binding_vision.h"
#include "runtime/src/backend/cpu.h"
#include "runtime/src/backend/devices.h"
#include "runtime/src/backend/plugin.h"
#include "runtime/src/run/evaluate.h"
#include "runtime/src/plan/layout.h"
#include "runtime/src/plan/arena.h"
#include "runtime/src/plan/unify.h"
#include "runtime/src/api/session.h"

namespace nb = nanobind;

namespace minnow {
namespace {

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

nb::dict placement_row(const Placement& row) {
  nb::dict d;
  d["name"] = text_of(row.name);
  d["op"] = text_of(row.op);
  d["device"] = row.device;
  d["why"] = row.why;
  return d;
}

// `shapes`: of the inputs, or None for those of the latest run.
nb::list placement_of(Session& session, const nb::object& shapes) {
  std::vector<Tensor> inputs;
  if (!shapes.is_none()) {
    for (nb::handle shape : shapes) {
      Tensor& tensor = inputs.emplace_back();
      const size_t i = inputs.size() - 1;
      if (i < session.inputs().size()) tensor.type.dtype = session.inputs()[i].dtype;
      if (nb::len(shape) > kMaxRank) raise_if(fail(Code::kUsage, "%zu dims, more than %d", nb::len(shape), kMaxRank));
      for (nb::handle d : shape) tensor.type.shape.push_back(nb::cast<int64_t>(d));
    }
  }
  std::vector<Placement> rows;
  const bool any = !shapes.is_none();
  raise_if(without_lock([&](Watch::Poll poll) {
    return session.placement(any ? &inputs : nullptr, &rows, {-1, poll});
  }));
  nb::list list;
  for (const Placement& row : rows) list.append(placement_row(row));
  return list;
}

nb::list profile_session(Session& session, const nb::list& arrays, int runs) {
  std::vector<nb::ndarray<>> held;
  const std::vector<Tensor> inputs = to_tensors(arrays, &held);
  std::vector<ProfileRow> rows;
  const Status status = without_lock([&](Watch::Poll poll) {
    return session.profile(inputs, runs, &rows, {-1, poll});
  });
  raise_if(status);
  nb::list list;
  for (const ProfileRow& row : rows) {
    nb::dict d = placement_row(row);
    d["scheme"] = row.scheme;
    d["shape"] = row.shape;
    d["considered"] = row.considered;
    d["ms"] = row.ms;
    d["macs"] = row.macs;
    d["bytes"] = row.bytes;
    d["copied"] = row.copied;
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
  if (call->op == nullptr) raise_if(fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for %s", name.c_str()));
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
                bool packed, bool constants, int precision, const std::string& device) {
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
    Backend* backend = nullptr;
    status = find_backend(device, &backend);
    if (status.ok() && backend == &Cpu::instance()) status = Cpu::can_run(static_cast<Precision>(precision));
    if (status.ok()) {
      const auto with = backend == &Cpu::instance() ? &evaluate : &evaluate_on;
      status = with(*backend, *call->op, call->attrs, call->inputs, call->types, &pool,
                    static_cast<Precision>(precision), how, &buffers);
    }
  }
  raise_if(status.at(name));
  nb::list list;
  for (size_t i = 0; i < buffers.size(); ++i) list.append(to_array(call->types[i], std::move(buffers[i])));
  return list;
}

// Begins to open the device on another thread, since a driver takes some tenths of a second to start. Who needs the
// device opens it as always, and is told what is wrong.
void start_device(const std::string& name) {
  const char* plugins = std::getenv("MINNOW_PLUGINS");  // they add kernels to the CPU's, which may be in use
  if (plugins != nullptr && *plugins != '\0') return;
  static std::mutex mutex;
  static std::future<void> opening;  // which the end of the process waits for
  const std::lock_guard<std::mutex> lock(mutex);
  if (opening.valid() && opening.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const auto open = [name] {
    Backend* backend = nullptr;
    static_cast<void>(find_backend(name, &backend).ok());
  };
  try {
    opening = std::async(std::launch::async, open);
  } catch (const std::system_error&) {  // no thread is to be had
  }
}

struct LoadedModel {
  std::shared_ptr<const Model> model;
};

std::unique_ptr<LoadedModel> load_file(const std::string& path, bool mapped, const std::string& packed) {
  auto loaded = std::make_unique<LoadedModel>();
  Status status;
  {
    nb::gil_scoped_release release;
    status = load_model(path, &loaded->model, mapped ? FileAccess::kMapped : FileAccess::kCopied, packed);
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

std::set<std::tuple<std::string, std::string, size_t>> node_ops(const LoadedModel& loaded) {
  std::set<std::tuple<std::string, std::string, size_t>> rows;
  const auto add = [&](const Graph& graph) {
    for (const Node& node : graph.nodes)
      rows.emplace(node.op, node.attrs.s("mnn.op"), node.attrs.ints("strides").size());
  };
  add(loaded.model->main);
  for (const Graph& graph : loaded.model->graphs) add(graph);
  return rows;
}

std::unique_ptr<Session> make_session(const LoadedModel& loaded, int threads, int precision, double seconds,
                                      int64_t memory, int64_t rounds, const std::string& device) {
  std::unique_ptr<Session> session;
  const SessionOptions options{threads, static_cast<Precision>(precision), {seconds, memory, rounds}, device, nullptr};
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
  std::vector<Buffer> copies;
  std::vector<Tensor> tensors;
  // Waiting for a run must not hold the interpreter lock, which the run may need.
  raise_if(without_lock([&](Watch::Poll) { return session.copy_states(&tensors, &copies); }));
  nb::list list;
  for (size_t i = 0; i < tensors.size(); ++i) list.append(to_array(tensors[i].type, std::move(copies[i])));
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
  is_main_thread();  // which one that is
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
      .def(
          "resize_states",
          [](Session& s, const std::string& dimension, int64_t size) {
            raise_if(without_lock([&](Watch::Poll) { return s.resize_states(dimension, size); }));
          },
          nb::arg("dimension"), nb::arg("size"), "Sets a dynamic dimension of the states.")
      .def(
          "copy_in_states",
          [](Session& s, const std::string& dimension, int64_t from, int64_t to) {
            raise_if(without_lock([&](Watch::Poll) { return s.copy_in_states(dimension, from, to); }));
          },
          nb::arg("dimension"), nb::arg("source"), nb::arg("target"), "Copies what is at a place of a dimension.")
      .def(
          "retype_states",
          [](Session& s, const std::vector<size_t>& states, const nb::list& arrays) {
            const std::vector<Tensor> tensors = to_tensors(arrays);
            for (size_t i = 0; i < tensors.size(); ++i)
              raise_if(without_lock([&](Watch::Poll) { return s.retype_state(states.at(i), tensors[i].type); }));
          },
          nb::arg("states"), nb::arg("arrays"), "Gives states, which are empty, the types of these arrays.")
      .def("run", &run_session, nb::arg("arrays"), nb::arg("seconds") = -1.0, nb::arg("before").none() = nb::none(),
           nb::arg("after").none() = nb::none(), nb::arg("fetch").none() = nb::none(), nb::arg("on_device") = false,
           "Outputs for contiguous arrays, both in the model's order. `seconds`: the timeout; 0: none, below 0: that "
           "of the "
           "session.")
      .def(
          "bind",
          [](Session& session, const nb::list& arrays, bool on_device) {
            return std::make_unique<BoundRun>(session, arrays, on_device);
          },
          nb::arg("arrays"), nb::arg("on_device"), nb::keep_alive<0, 1>(), "Runs on these arrays, which stay in use.")
      .def_prop_ro(
          "devices",
          [](Session& s) {
            nb::list names;
            for (size_t i = 0; i < s.devices().size(); ++i) names.append(s.devices()[i].backend->name());
            return names;
          },
          "Their names.")
      .def("to_device", &to_device, nb::arg("arrays"), "Rows of dtype, shape and memory of the device.")
      .def("to_host", &to_host, nb::arg("capsule"), "An array with what lies on the device.")
      .def("cancel", &Session::cancel, "Ends the current run.")
      .def("placement", &placement_of, nb::arg("shapes").none() = nb::none())
      .def("profile", &profile_session, nb::arg("arrays"), nb::arg("runs"))
      .def_prop_ro("stats",
                   [](Session& s) {
                     SessionStats stats;
                     raise_if(without_lock([&](Watch::Poll) { return s.stats(&stats); }));
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
  nb::class_<BoundRun>(m, "BoundRun")
      .def("run", &BoundRun::run, nb::arg("seconds") = -1.0,
           "The outputs, as those of Session.run: the same each time.");
  nb::class_<LoadedModel>(m, "Model")
      .def("session", &make_session, nb::arg("threads"), nb::arg("precision"), nb::arg("seconds") = 0.0,
           nb::arg("memory") = 0, nb::arg("rounds") = 0, nb::arg("device") = "cpu",
           "A new session; sessions share the weights. 0 means the default.")
      .def("node_ops", &node_ops,
           "The ops of all graphs as decoded: name, the op that it becomes where an attribute names one, number of "
           "spatial dimensions where it says them, else 0.");
  m.def("start_device", &start_device, nb::arg("name"),
        "Begins to open the device on another thread; errors are those of the session that needs it.");
  m.def("load_file", &load_file, nb::arg("path"), nb::arg("mapped") = true, nb::arg("packed") = "");
  m.def("load_bytes", &load_bytes, nb::arg("bytes"));
  m.def("run_op", &run_op, nb::arg("name"), nb::arg("attrs"), nb::arg("inputs"), nb::arg("n_outputs") = 1,
        nb::arg("threads") = 1, nb::arg("packed") = false, nb::arg("constants") = false, nb::arg("precision") = 0,
        nb::arg("device") = "cpu",
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
  m.def(
      "measure_devices",
      [](const std::string& devices, int threads) {
        std::vector<std::pair<std::string, DeviceSpeed>> measured;
        Status status;
        {
          nb::gil_scoped_release release;
          ThreadPool pool(threads);
          status = measure_devices(devices, pool, &measured);
        }
        raise_if(status);
        nb::dict all;
        for (const auto& [kind, speed] : measured) {
          nb::dict row;
          row["flops"] = speed.flops;
          row["bytes"] = speed.bytes;
          row["launch"] = speed.launch;
          row["copy"] = speed.copy;
          row["copy_bytes"] = speed.copy_bytes;
          all[nb::str(kind.c_str())] = row;
        }
        return all;
      },
      nb::arg("devices"), nb::arg("threads"), "The speed of each device that is not the CPU, by its kind.");
  bind_vision(m);
  m.def("isa", [] { return std::string(cpu_instruction_set()); });
  m.def("pack_width", [] { return Cpu::instance().channel_block(); });
  bind_drawing(m);
  bind_contours(m);
}
