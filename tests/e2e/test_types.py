"""Element types from the ONNX file to the session: judged by numpy, and by onnxruntime where it has the type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.errors import UsageError

Array = np.ndarray[Any, Any]

BEYOND = 2**40 + 12345


def save(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **constants: Array) -> Path:
    """A model; inputs and outputs by name as (element type, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, *v) for n, v in inputs.items()],
        [helper.make_tensor_value_info(n, *v) for n, v in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def session(path: Path, **options: Any) -> tuple[Any, minnow.Session]:
    report = minnow.convert(path, output=path.with_suffix(".mnn"), verify=False, **options)
    return report, minnow.load(path.with_suffix(".mnn"), threads=1)


def by_onnxruntime(path: Path, feeds: dict[str, Array]) -> list[Array]:
    done = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(done.run(None, feeds))


I64, F32, F64, F16 = TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16


@pytest.mark.parametrize("level", [0, 2])
def test_int64_keeps_its_width(level: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Add", ["x", "one"], ["next"]),
        helper.make_node("Div", ["x", "seven"], ["seventh"]),
        helper.make_node("Mod", ["x", "seven"], ["rest"]),
        helper.make_node("Less", ["x", "one"], ["less"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["x"], ["float"], to=F64),
        helper.make_node("Clip", ["x", "one", "most"], ["clipped"]),
    ]
    outputs = {n: (I64, [4]) for n in ("square", "next", "seventh", "rest", "clipped")}
    outputs |= {"less": (TensorProto.BOOL, [4]), "sum": (I64, []), "float": (F64, [4])}
    path = save(
        tmp_path / "m.onnx", nodes, {"x": (I64, [4])}, outputs,
        one=np.int64(1), seven=np.int64(-7), most=np.int64(2**53 + 1),
    )  # fmt: skip
    x = np.array([BEYOND, -BEYOND, np.iinfo(np.int64).min, 2**62 + 1])
    report, runner = session(path, optimize=level)
    got = runner.run({"x": x})
    wants = dict(zip(outputs, by_onnxruntime(path, {"x": x}), strict=True))
    assert got["sum"] == x.sum() == 1 - 2**62
    wants["sum"] = x.sum()  # which onnxruntime gives as a double has it: without the 1
    for name, want in wants.items():
        assert got[name].dtype == want.dtype
        np.testing.assert_array_equal(got[name], want, err_msg=name)
    assert any("i64" in text and "x" in text for text in report.notices)


def test_an_index_that_has_no_place_is_an_error_and_does_not_wrap(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Gather", ["table", "i"], ["y"])], {"i": (I64, ["N"])},
        {"y": (F32, ["N", 2])}, table=np.arange(10, dtype=np.float32).reshape(5, 2),
    )  # fmt: skip
    report, runner = session(path)
    assert not report.notices, "MNN can run it"
    assert runner.inputs[0].dtype == "int64"
    np.testing.assert_array_equal(runner.run({"i": np.array([4, -5])})["y"], [[8, 9], [0, 1]])
    with pytest.raises(UsageError, match="'i' holds 4294967297"):
        runner.run({"i": np.array([0, 2**32 + 1])})


def test_a_mask_stays_wide_unless_it_is_narrowed_by_order(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["mask"], ["y"], to=F32)
    path = save(tmp_path / "m.onnx", [node], {"mask": (I64, [2])}, {"y": (F32, [2])})
    report, runner = session(path)
    assert any("--int64 narrow" in text for text in report.notices)
    np.testing.assert_array_equal(runner.run({"mask": np.array([1, BEYOND])})["y"], np.float32([1, BEYOND]))
    report, runner = session(path, int64="narrow")
    assert not any("MNN's own" in text for text in report.notices)
    assert any("mask" in text for text in report.notices), "what is not proven is named"
    np.testing.assert_array_equal(runner.run({"mask": np.array([1, 7])})["y"], np.float32([1, 7]))
    with pytest.raises(UsageError, match="--int64 keep"):
        runner.run({"mask": np.array([1, BEYOND])})
    _, runner = session(path, int64="keep")
    np.testing.assert_array_equal(runner.run({"mask": np.array([1, BEYOND])})["y"], np.float32([1, BEYOND]))
    with pytest.raises(UsageError, match="int64"):
        session(path, int64="maybe")


@pytest.mark.parametrize("int64", ["auto", "narrow", "keep"])
def test_shape_arithmetic_in_all_widths(int64: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["m"]),
        helper.make_node("Concat", ["m", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, {"x": (F32, ["N", 4])}, {"y": (F32, ["A", "B"]), "s": (I64, [2])},
        zero=np.array([0]), two=np.array([2]), rest=np.array([-1]),
    )  # fmt: skip
    report, runner = session(path, int64=int64)
    got = runner.run({"x": np.arange(12, dtype=np.float32).reshape(3, 4)})
    assert got["y"].shape == (6, 2)
    assert got["s"].dtype == np.int64
    assert bool(report.notices) is (int64 == "keep")


def test_doubles_are_not_floats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Max", ["c", "low"], ["d"]),
        helper.make_node("Min", ["d", "high"], ["e"]),
        helper.make_node("Softmax", ["e"], ["f"], axis=-1),
        helper.make_node("ReduceMean", ["f"], ["g"], axes=[0], keepdims=0),
        helper.make_node("Clip", ["a", "low", "high"], ["h"]),
        helper.make_node("Sigmoid", ["a"], ["i"]),
        helper.make_node("Mul", ["a", "i"], ["j"]),
    ]
    nodes[5] = helper.make_node("ReduceMean", ["f", "first"], ["g"], keepdims=0)
    path = save(
        tmp_path / "m.onnx", nodes, {"x": (F64, [3, 5])}, {"g": (F64, [4]), "h": (F64, [3, 4]), "j": (F64, [3, 4])},
        w=rng.standard_normal((5, 4)), b=rng.standard_normal(4), low=np.float64(-0.7), high=np.float64(1.3),
        first=np.array([0]),
    )  # fmt: skip
    x = rng.standard_normal((3, 5))
    report, runner = session(path)
    assert any("f64" in text for text in report.notices)
    for got, want in zip(runner.run({"x": x}).values(), by_onnxruntime(path, {"x": x}), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_cast_to_f16_rounds_and_overflows(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=F16),
        helper.make_node("Cast", ["h"], ["y"], to=F32),
        helper.make_node("Mul", ["h", "h"], ["p"]),
        helper.make_node("Cast", ["p"], ["z"], to=F32),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": (F32, [6])}, {"y": (F32, [6]), "z": (F32, [6]), "p": (F16, [6])})
    x = np.array([0.1, 2049, 2051, 65520, 300, 1e-8], np.float32)
    _, runner = session(path)
    got, wants = runner.run({"x": x}), by_onnxruntime(path, {"x": x})
    for name, want in zip(("y", "z", "p"), wants, strict=True):
        assert got[name].dtype == want.dtype
        np.testing.assert_array_equal(got[name], want, err_msg=name)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_all_integers_wrap_from_file_to_session(kind: str, tmp_path: Path) -> None:
    dtype = np.dtype(kind)
    code = helper.np_dtype_to_tensor_dtype(dtype)
    info = np.iinfo(dtype)
    nodes = [
        helper.make_node(op, ["x", "k"], [op.lower()]) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod")
    ]  # fmt: skip
    nodes.append(helper.make_node("Greater", ["x", "k"], ["greater"]))
    outputs = {n.output[0]: (code, [5]) for n in nodes[:-1]} | {"greater": (TensorProto.BOOL, [5])}
    x = np.array([info.min, info.max, info.max - 1, 0, 5], dtype)
    for k in (dtype.type(3), dtype.type(info.max), dtype.type(info.min) if info.min else dtype.type(1)):
        path = save(tmp_path / "m.onnx", nodes, {"x": (code, [5])}, outputs, k=np.asarray(k))
        _, runner = session(path)
        got = runner.run({"x": x})
        with np.errstate(all="ignore"):
            wide = x.astype(object), int(k)
            quotient = [abs(v) // abs(wide[1]) * (1 if (v < 0) == (wide[1] < 0) else -1) for v in wide[0].tolist()]
            wants = {
                "add": x + k, "sub": x - k, "mul": x * k, "max": np.maximum(x, k), "min": np.minimum(x, k),
                "mod": np.mod(x, k), "greater": x > k,
                "div": np.array([q % 2 ** (8 * dtype.itemsize) for q in quotient], np.uint64).astype(dtype),
            }  # fmt: skip
        for name, want in wants.items():
            assert got[name].dtype == want.dtype
            np.testing.assert_array_equal(got[name], want, err_msg=f"{name} {k}")
