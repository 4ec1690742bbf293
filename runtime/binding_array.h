// What the binding needs of Python: arrays and tensors, text, errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/accelerator.h"
#include "kernels/core/status.h"
#include "kernels/core/tensor.h"
#include "runtime/src/model/buffer.h"

namespace nb = nanobind;

namespace minnow {

const char* numpy_name(DType t);
// Names come from files, and may be invalid UTF-8.
nb::object text_of(const std::string& s);
// Raises the error of schema.errors for the code. An invalid model is a FormatError while it is loaded, a ModelError
// later.
void raise_if(const Status& status, const char* invalid = "ModelError");

nb::object shape_tuple(const Shape& shape);
// The array must outlive the tensor.
Tensor to_tensor(nb::handle array);
std::vector<Tensor> to_tensors(const nb::list& arrays);
// Arrays, or capsules of DLPack with what lies in the memory of a device. `held` keeps these alive.
std::vector<Tensor> to_tensors(const nb::list& arrays, std::vector<nb::ndarray<>>* held);
// What Python may give on as DLPack: memory of the device of this kind and number.
nb::object to_device_array(const TensorType& type, std::unique_ptr<Memory> memory, int kind, int number);
// A numpy array that owns the buffer.
nb::object to_array(const TensorType& type, Buffer buffer);
nb::object copy_of(const Tensor& tensor);

}  // namespace minnow
