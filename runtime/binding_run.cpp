#include "runtime/binding_run.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>

#include "runtime/src/api/caller_sink.h"
#include "runtime/src/api/device_sink.h"

namespace minnow {
namespace {

// Outputs in buffers of their own, which become arrays.
class ArraySink final : public OutputSink {
 public:
  explicit ArraySink(size_t n) : buffers_(n), types_(n) {}
  void* memory(int index, const TensorType& type) override {
    const auto i = static_cast<size_t>(index);
    types_[i] = type;
    return Buffer::make(type.bytes(), &buffers_[i]).ok() ? buffers_[i].data() : nullptr;
  }
  // Those that become arrays.
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all;
    for (size_t i = 0; i < buffers_.size(); ++i) all.push_back({types_[i], buffers_[i].data()});
    return all;
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

// Rows of dtype, shape and memory that others can take.
nb::list device_arrays(const Session& session, DeviceSink& sink) {
  const std::string name = session.devices()[1].backend->name();
  const int number = std::atoi(name.c_str() + name.find(':') + 1);
  nb::list list;
  for (size_t i = 0; i < sink.tensors().size(); ++i) {
    const TensorType& type = sink.tensors()[i].type;
    list.append(nb::make_tuple(numpy_name(type.dtype), shape_tuple(type.shape),
                               to_device_array(type, sink.take(i), nb::device::cuda::value, number)));
  }
  return list;
}

// Calls functions of Python: before(name, op, inputs) and after(name, op, inputs, outputs); either may be None.
class PythonObserver final : public Observer {
 public:
  PythonObserver(const nb::object& before, const nb::object& after) : before_(before), after_(after) {}

  Status see(const NodeEvent& event) override {
    const nb::object& function = event.outputs == nullptr ? before_ : after_;
    if (function.is_none()) return ok();
    nb::gil_scoped_acquire lock;
    const auto arrays = [](const std::vector<Tensor>& tensors) {
      nb::list list;
      for (const Tensor& tensor : tensors) list.append(tensor.data == nullptr ? nb::none() : copy_of(tensor));
      return list;
    };
    try {
      const nb::object name = text_of(event.name), op = text_of(event.op);
      const nb::object answer = event.outputs == nullptr
                                    ? function(name, op, arrays(event.inputs))
                                    : function(name, op, arrays(event.inputs), arrays(*event.outputs));
      if (answer.ptr() != Py_False) return ok();
    } catch (nb::python_error& error) {
      error.restore();  // raise_if() finds it
    }
    return fail(Code::kCancelled, "the callback has stopped the run");
  }

 private:
  const nb::object &before_, &after_;
};

}  // namespace

bool run_handlers() {
  nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

bool is_main_thread() {
  static const auto ident =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == ident;
}

nb::list run_session(Session& session, const nb::list& arrays, double seconds, const nb::object& before,
                     const nb::object& after, const nb::object& names, bool on_device) {
  std::vector<nb::ndarray<>> held;
  const std::vector<Tensor> inputs = to_tensors(arrays, &held);
  std::vector<std::string> fetched;
  if (!names.is_none()) fetched = nb::cast<std::vector<std::string>>(names);
  const size_t n = names.is_none() ? session.outputs().size() : fetched.size();
  ArraySink host(n);
  DeviceSink device(session.devices(), n);
  if (on_device) raise_if(DeviceSink::can_be_used(session.devices()));
  OutputSink& sink = on_device ? static_cast<OutputSink&>(device) : host;
  PythonObserver python(before, after);
  Observer* observer = before.is_none() && after.is_none() ? nullptr : &python;
  const bool all = names.is_none();
  const Status status = without_lock([&](Watch::Poll poll) {
    const RunOptions options{seconds, poll, observer, on_device};
    return all ? session.run(inputs, sink, options) : session.run_part(inputs, fetched, sink, options);
  });
  raise_if(status);
  return on_device ? device_arrays(session, device) : host.arrays();
}

BoundRun::BoundRun(Session& session, const nb::list& arrays, bool on_device)
    : session_(session), arrays_(arrays), inputs_(to_tensors(arrays, &held_)), on_device_(on_device) {
  if (on_device) raise_if(DeviceSink::can_be_used(session.devices()));
}

nb::list BoundRun::run(double seconds) {
  const size_t n = session_.outputs().size();
  const auto run_to = [&](OutputSink& sink) {
    return without_lock([&](Watch::Poll poll) {
      return session_.run(inputs_, sink, {seconds, poll, nullptr, on_device_});
    });
  };
  if (tensors_.size() == n) {
    CallerSink sink(n, on_device_ ? 1 : 0);
    for (size_t i = 0; i < n; ++i) sink.want(i, &tensors_[i]);
    const Status status = run_to(sink);
    raise_if(sink.misfit(session_.outputs()));
    raise_if(status);
    return outputs_;
  }
  ArraySink host(n);
  DeviceSink device(session_.devices(), n);
  raise_if(run_to(on_device_ ? static_cast<OutputSink&>(device) : host));
  tensors_ = on_device_ ? device.tensors() : host.tensors();
  outputs_ = on_device_ ? device_arrays(session_, device) : host.arrays();
  return outputs_;
}

nb::list to_device(Session& session, const nb::list& arrays) {
  const std::vector<Tensor> tensors = to_tensors(arrays);
  raise_if(DeviceSink::can_be_used(session.devices()));
  DeviceSink sink(session.devices(), tensors.size());
  raise_if(without_lock([&](Watch::Poll) { return session.to_device(tensors, sink); }));
  return device_arrays(session, sink);
}

nb::object to_host(Session& session, const nb::object& capsule) {
  std::vector<nb::ndarray<>> held;
  nb::list one;
  one.append(capsule);
  const Tensor tensor = to_tensors(one, &held)[0];
  Buffer buffer;
  raise_if(Buffer::make(tensor.type.bytes(), &buffer));
  Tensor host{tensor.type, buffer.data()};
  raise_if(without_lock([&](Watch::Poll) { return session.to_host(tensor, &host); }));
  return to_array(tensor.type, std::move(buffer));
}

}  // namespace minnow
