"""What a user may say of the inputs of a model, in every form that is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from caffe_one import definition, layer
from onnx import TensorProto, helper, save
from tflite_one import Tensor, file_of

import minnow
from minnow.converter import read
from minnow.converter.inputs.given import Given, Inputs, parsed, text_of
from minnow.converter.tensorflow.message import GraphDef
from minnow.errors import UsageError
from minnow.schema.ir import DType

FORMATS = ("onnx", "tflite", "caffe", "tensorflow")


def graph(folder, declared=(("x", [2, 3]),)):
    """The sum of the inputs, in ONNX."""
    names = [name for name, _ in declared]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in declared]
    made = helper.make_graph([helper.make_node("Sum", names, ["y"])], "g", inputs,
                             [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])  # fmt: skip
    path = folder / "m.onnx"
    save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@pytest.fixture(params=FORMATS)
def model(request, tmp_path):
    """The path of a model of one float input [2, 3], and the name of that."""
    if request.param == "onnx":
        return graph(tmp_path), "x"
    if request.param == "tflite":
        path = tmp_path / "m.tflite"
        path.write_bytes(file_of("ABS", [Tensor((2, 3))], [Tensor((2, 3))], {}, "AbsOptions"))
        return path, "t0"
    if request.param == "caffe":
        path = tmp_path / "m.prototxt"
        path.write_text(definition({"x": (2, 3)}, layer("AbsVal", "", ["x"], ["y"])))
        return path, "x"
    net = GraphDef()
    node = net.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = 1
    for n in (2, 3):
        node.attr["shape"].shape.dim.add(size=n)
    net.node.add(name="y", op="Abs", input=["x"]).attr["T"].type = 1
    path = tmp_path / "m.pb"
    path.write_bytes(net.SerializeToString())
    return path, "x"


class Foreign:
    """What is no array of numpy, but can become one."""

    dtype = np.dtype(np.float32)

    def __array__(self, dtype=None, copy=None):
        return np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@pytest.mark.sampled(3)
def test_an_array_is_what_a_conversion_is_compared_on(model):
    path, name = model
    numbers = np.arange(6.0).reshape(2, 3) - 2  # of float64, which becomes what the model declares
    for inputs in ({name: numbers}, {name: Foreign()}, [numbers], (Foreign(),), numbers):
        report = minnow.convert(path, inputs=inputs)
        assert report.verification.passed, str(report.verification)
        assert [c.shapes for c in report.verification.cases] == [{name: (2, 3)}]
        assert report.verification.cases[0].outputs[0].scale == 3
        assert minnow.check(path, inputs=inputs).convertible
        again = minnow.verify(path, report.output, inputs=inputs)
        assert (again.passed, len(again.cases)) == (True, 1)


def test_shapes_and_types_fit_by_name_and_by_position(model):
    path, name = model
    info = minnow.TensorInfo(dtype="float32", shape=(2, 3))
    for one in ((2, 3), info, ("float32", (2, 3)), "float32[2,3]", "2x3", np.zeros((2, 3), np.int64)):
        for inputs in ({name: one}, [one]):
            assert dict(read(path, inputs=inputs).inputs)[name].shape == (2, 3)
    assert read(path, inputs=[minnow.TensorInfo(name, "float32", (2, 3))]).inputs


def test_another_type_than_the_declared_one_is_refused(model):
    path, name = model
    for one in (("int64", (2, 3)), minnow.TensorInfo(dtype="float64", shape=(2, 3)), "bool[2,3]"):
        with pytest.raises(UsageError, match="declares float32"):
            minnow.convert(path, inputs={name: one})
        with pytest.raises(UsageError, match="declares float32"):
            minnow.check(path, inputs=[one])


def test_more_by_position_than_there_are(model):
    with pytest.raises(UsageError, match="2 inputs are given by position, but the model has 1"):
        read(model[0], inputs=[(2, 3), (2, 3)])


def test_arrays_of_some_inputs_leave_the_others_random(tmp_path):
    path = graph(tmp_path, (("x", ["N", 3]), ("z", ["N", 3])))
    report = minnow.convert(path, inputs={"z": np.full((4, 3), 1000.0)})
    cases = report.verification.cases
    assert report.verification.passed
    assert len(cases) == 3
    assert all(1000 <= c.outputs[0].scale < 1001 for c in cases)
    assert cases[0].shapes == {"x": (4, 3), "z": (4, 3)}


def test_an_array_for_a_mnn_file_is_compared_on(tmp_path):
    first = minnow.convert(graph(tmp_path), output=tmp_path / "a.mnn").output
    report = minnow.convert(first, output=tmp_path / "b.mnn", inputs=[np.full((2, 3), 7.0)])
    assert [c.outputs[0].scale for c in report.verification.cases] == [7]
    with pytest.raises(UsageError, match="read as it is"):
        minnow.convert(first, output=tmp_path / "b.mnn", inputs={"x": (2, 3)})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": 3}, "is given as int"),
        ({"x": np.array(["a"])}, "not an array of numbers"),
        ({"x": np.array([None])}, "not an array of numbers"),
        ({"x": [np.zeros(2), np.zeros(2)]}, "a list of arrays"),
        ({"x": (2, -1)}, r"\[2, -1\]"),
        ({"x": (2, 1.5)}, "is given as"),
        ({"x": ("int63", (2, 3))}, "no element type 'int63'"),
        ({"x": (2, 4)}, r"it is \[2,4\], and the model declares"),
        ({"x": np.zeros((2, 4))}, "does not fit"),
        ({"y": np.zeros((2, 4))}, "no input 'y'"),
        ({0: (2, 3)}, "name of an input is 0"),
        ((2, 3), "given as numbers"),
        (7, "given as int"),
    ],
)
def test_anything_else_is_a_wrong_call(tmp_path, inputs: Any, message: str):
    path = graph(tmp_path)
    for call in (minnow.convert, minnow.check):
        with pytest.raises(UsageError, match=message):
            call(path, inputs=inputs)
    with pytest.raises(UsageError, match=message):
        minnow.verify(path, path, inputs=inputs)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("1x3x?", Given((1, 3, "?"))),
        ("1,3", Given((1, 3))),
        ("", Given(())),
        ("int64[1,128]", Given((1, 128), DType.I64)),
        ("i64[1x128]", Given((1, 128), DType.I64)),
        ("float32[]", Given((), DType.F32)),
        ("bool", Given(None, DType.BOOL)),
        ("bfloat16[...]", Given(None, DType.BF16)),
    ],
)
def test_text_says_shape_and_type(text: str, given: Given):
    assert parsed(text) == given
    assert parsed(text_of(given)) == given


@pytest.mark.parametrize("text", ["1x", "x3", "1x-3", "a", "int64[", "int64[1,]", "int64[[1]]", "float[1]", "1.5", "²"])
def test_other_text_is_refused(text: str):
    with pytest.raises(UsageError):
        parsed(text)


def test_names_are_bound_once():
    inputs = Inputs([None, (1, 2)])
    assert inputs
    assert dict(inputs.named(["a", "b", "c"])) == {"b": Given((1, 2))}
    assert dict(inputs.named(["p", "q"])) == {"b": Given((1, 2))}
    assert not Inputs()
