#include "runtime/binding_array.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>

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

}  // namespace

const char* numpy_name(DType t) { return kNumpyNames[static_cast<size_t>(t)]; }

nb::object text_of(const std::string& s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

void raise_if(const Status& status, const char* invalid) {
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

namespace {

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

}  // namespace

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

namespace {

nb::dlpack::dtype dlpack_dtype(DType t) {
  const auto bits = static_cast<uint8_t>(8 * dtype_size(t));
  auto code = nb::dlpack::dtype_code::UInt;
  if (t == DType::kBool) code = nb::dlpack::dtype_code::Bool;
  if (is_float(t)) code = nb::dlpack::dtype_code::Float;
  if (t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64) code = nb::dlpack::dtype_code::Int;
  return {static_cast<uint8_t>(code), bits, 1};
}

}  // namespace

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

std::vector<Tensor> to_tensors(const nb::list& arrays) {
  std::vector<Tensor> tensors;
  for (nb::handle array : arrays) tensors.push_back(to_tensor(array));
  return tensors;
}

namespace {

// -1: none of ours.
int dtype_of_dlpack(nb::dlpack::dtype type) {
  if (type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16 && type.lanes == 1)
    return static_cast<int>(DType::kBF16);
  for (int t = 0; t <= static_cast<int>(DType::kBool); ++t) {
    const nb::dlpack::dtype known = dlpack_dtype(static_cast<DType>(t));
    if (static_cast<DType>(t) != DType::kBF16 && known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return t;
  }
  return -1;
}

}  // namespace

std::vector<Tensor> to_tensors(const nb::list& arrays, std::vector<nb::ndarray<>>* held) {
  std::vector<Tensor> tensors;
  for (nb::handle array : arrays) {
    if (PyCapsule_CheckExact(array.ptr()) == 0) {
      tensors.push_back(to_tensor(array));
      continue;
    }
    const auto& given = held->emplace_back(nb::cast<nb::ndarray<>>(array));
    const int dtype = dtype_of_dlpack(given.dtype());
    if (dtype < 0) raise_if(fail(Code::kUsage, "a tensor has elements of a type that models do not have"));
    if (given.ndim() > kMaxRank) raise_if(fail(Code::kUsage, "%zu dims, more than %d", given.ndim(), kMaxRank));
    Tensor& tensor = tensors.emplace_back();
    tensor.type.dtype = static_cast<DType>(dtype);
    int64_t step = 1;
    bool contiguous = true;
    for (size_t i = given.ndim(); i-- > 0;) {
      contiguous = contiguous && (given.shape(i) == 1 || given.size() == 0 || given.stride(i) == step);
      step *= static_cast<int64_t>(given.shape(i));
    }
    if (!contiguous) raise_if(fail(Code::kUsage, "a tensor on the device is not contiguous in row-major order"));
    for (size_t i = 0; i < given.ndim(); ++i) tensor.type.shape.push_back(static_cast<int64_t>(given.shape(i)));
    tensor.data = given.data();
  }
  return tensors;
}

nb::object to_device_array(const TensorType& type, std::unique_ptr<Memory> memory, int kind, int number) {
  const std::vector<size_t> shape(type.shape.begin(), type.shape.end());
  Memory* owned = memory.release();
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Memory*>(p); });
  nb::dlpack::dtype dtype = dlpack_dtype(type.dtype);
  if (type.dtype == DType::kBF16) dtype.code = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
  // An object with __dlpack__, which gives a capsule each time it is asked: a capsule can be taken once.
  return nb::cast(
      nb::ndarray<nb::array_api>(owned->data(), shape.size(), shape.data(), owner, nullptr, dtype, kind, number));
}

nb::object copy_of(const Tensor& tensor) {
  const int64_t bytes = tensor.type.bytes();
  Buffer copy;
  raise_if(Buffer::make(bytes, &copy));
  if (bytes > 0) std::memcpy(copy.data(), tensor.data, static_cast<size_t>(bytes));
  return to_array(tensor.type, std::move(copy));
}

}  // namespace minnow
