"""Models with all element types of ONNX, from the file to the session: packed weights, movement, quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import minnow
from minnow.converter import read
from minnow.schema.errors import FormatError, MinnowError
from minnow.schema.ir import DType
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]

SMALL = [t for t in DType if t.is_storage]
PACKED = [t for t in SMALL if t.bits < 8]
# What the package `onnx` knows.
CODE = {t: helper.np_dtype_to_tensor_dtype(t.numpy) for t in DType}
I64 = TensorProto.INT64


def some(dtype: DType, *shape: int, seed: int = 0) -> Array:
    """Any bits that the type has."""
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    drawn = rng.integers(0, 2**dtype.bits, shape, np.uint64)
    return np.asarray(drawn).astype(f"u{dtype.size}").view(dtype.numpy)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Mapping[str, int],
    constants: Mapping[str, Array] | Sequence[onnx.TensorProto] = (),
    opset: int = 25,
) -> onnx.ModelProto:
    if isinstance(constants, Mapping):
        constants = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info(n, code, None) for n, code in outputs.items()],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def ran(model: onnx.ModelProto, inputs: Mapping[str, Array], folder: Path) -> dict[str, Array]:
    path = folder / "m.onnx"
    onnx.save(model, path)
    minnow.convert(path, output=folder / "m.mnn", verify=False)
    return minnow.load(folder / "m.mnn", threads=1).run(inputs)


def assert_same_bits(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


# ---- packed weights


def copy_of(tensor: onnx.TensorProto, path: Path) -> Array:
    """A constant as it is read."""
    node = helper.make_node("Identity", [tensor.name], ["y"])
    model = model_of([node], {}, {"y": tensor.data_type}, [tensor])
    if tensor.data_location == TensorProto.EXTERNAL:
        path.write_bytes(model.SerializeToString())
    else:
        onnx.save(model, path)
    return evaluate(read(path).graph, [])[0]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 9, 130])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_weights_are_unpacked(dtype, count, tmp_path):
    want = some(dtype, count)
    tensor = numpy_helper.from_array(want, "w")
    assert len(tensor.raw_data) == -(-count * dtype.bits // 8)
    assert_same_bits(copy_of(tensor, tmp_path / "raw.onnx"), want)

    fields = onnx.TensorProto(name="w", data_type=CODE[dtype], dims=[count])
    fields.int32_data.extend(want.view(np.uint8).tolist() if dtype.bits == 6 else tensor.raw_data)
    assert_same_bits(copy_of(fields, tmp_path / "fields.onnx"), want)

    (tmp_path / "w.bin").write_bytes(b"abc" + tensor.raw_data)
    outside = onnx.TensorProto(name="w", data_type=CODE[dtype], dims=[count], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "3"), ("length", str(len(tensor.raw_data)))):
        outside.external_data.add(key=key, value=value)
    assert_same_bits(copy_of(outside, tmp_path / "outside.onnx"), want)


@pytest.mark.parametrize("dtype", [t for t in DType if not t.is_storage], ids=str)
def test_weights_in_fields_of_their_own(dtype, tmp_path):
    want = some(dtype, 2, 5)
    tensor = numpy_helper.from_array(want, "w")
    assert_same_bits(copy_of(tensor, tmp_path / "raw.onnx"), want)
    if dtype in (DType.F16, DType.BF16):
        numbers: list[Any] = want.view(np.uint16).reshape(-1).tolist()
    else:
        numbers = want.reshape(-1).tolist()
    fields = helper.make_tensor("w", CODE[dtype], [2, 5], want.reshape(-1))
    assert not fields.raw_data or dtype in (DType.F16, DType.BF16)
    if fields.raw_data:
        fields.ClearField("raw_data")
        fields.int32_data.extend(numbers)
    assert_same_bits(copy_of(fields, tmp_path / "fields.onnx"), want)


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packed_weights_of_a_wrong_length_are_refused(dtype, tmp_path):
    tensor = numpy_helper.from_array(some(dtype, 9), "w")
    for data in (tensor.raw_data[:-1], tensor.raw_data + b"\0"):
        tensor.raw_data = data
        with pytest.raises(FormatError, match="does not fit its shape") as caught:
            copy_of(tensor, tmp_path / "m.onnx")
        assert f"of {dtype}" in caught.value.why
        assert "tensor 'w'" in caught.value.where


# ---- movement


N = helper.make_node
MOVEMENT: dict[str, tuple[list[onnx.NodeProto], dict[str, Array | str]]] = {
    "Identity": ([N("Identity", ["x"], ["y"])], {}),
    "Reshape": ([N("Reshape", ["x", "s"], ["y"])], {"s": ints(4, -1)}),
    "Flatten": ([N("Flatten", ["x"], ["y"], axis=2)], {}),
    "Squeeze": ([N("Unsqueeze", ["x", "a"], ["t"]), N("Squeeze", ["t", "a"], ["y"])], {"a": ints(1)}),
    "Transpose": ([N("Transpose", ["x"], ["y"], perm=[2, 0, 1])], {}),
    "Concat": ([N("Concat", ["x", "c", "x"], ["y"], axis=1)], {"c": "like x"}),
    "Slice": (
        [N("Slice", ["x", "a", "b", "c", "d"], ["y"])],
        {"a": ints(2, 0), "b": ints(-9, 4), "c": ints(1, 2), "d": ints(-1, 3)},
    ),
    "Split": ([N("Split", ["x"], ["t", "y"], axis=2, num_outputs=2)], {}),
    "Gather": ([N("Gather", ["x", "i"], ["y"], axis=1)], {"i": ints(2, 0, -1, 1)}),
    "GatherND": ([N("GatherND", ["x", "i"], ["y"])], {"i": np.array([[0, 1], [1, 2]])}),
    "ScatterND": ([N("ScatterND", ["x", "i", "c"], ["y"])], {"i": np.array([[1], [0]]), "c": "like x"}),
    "Where": ([N("Where", ["k", "x", "c"], ["y"])], {"k": np.array([[[True], [False], [True]]]), "c": "like x"}),
    "Expand": ([N("Expand", ["x", "s"], ["y"])], {"s": ints(3, 2, 3, 4)}),
    "Tile": ([N("Tile", ["x", "s"], ["y"])], {"s": ints(1, 2, 3)}),
    "Pad": ([N("Pad", ["x", "p", "v"], ["y"])], {"p": ints(0, 1, 2, 1, 0, 1), "v": "a number"}),
    "Pad edge": ([N("Pad", ["x", "p"], ["y"], mode="edge")], {"p": ints(0, 1, 2, 1, 0, 1)}),
    "Compress": ([N("Compress", ["x", "k"], ["y"], axis=1)], {"k": np.array([True, False, True])}),
    "Equal": ([N("Equal", ["x", "c"], ["y"])], {"c": "like x"}),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MOVEMENT)
@pytest.mark.parametrize("dtype", DType, ids=str)
def test_movement_keeps_the_bits(dtype, name, tmp_path):
    nodes, operands = MOVEMENT[name]
    x = some(dtype, 2, 3, 4)
    if name == "Equal":
        operands = {"c": np.concatenate([x[:1], some(dtype, 1, 3, 4, seed=1)])}
    made = {"like x": some(dtype, 2, 3, 4, seed=1), "a number": some(dtype, seed=2)}
    constants = {n: made[a] if isinstance(a, str) else a for n, a in operands.items()}
    model = model_of(nodes, {"x": x}, {"y": TensorProto.BOOL if name == "Equal" else CODE[dtype]}, constants)
    with np.errstate(all="ignore"):
        want = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert_same_bits(ran(model, {"x": x}, tmp_path)["y"], np.asarray(want))


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_subgraphs_take_and_give_every_type(dtype, tmp_path):
    x, code = some(dtype, 3, 4), CODE[dtype]

    def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("r", code, None)])

    both = {
        "then_branch": branch(N("Concat", ["x", "c"], ["r"], axis=0)),
        "else_branch": branch(N("Identity", ["x"], ["r"])),
    }
    inputs = {"k": np.array(True), "x": x}
    model = model_of([N("If", ["k"], ["y"], **both)], inputs, {"y": code}, {"c": some(dtype, 1, 4, seed=1)})
    for k in (True, False):
        inputs["k"] = np.array(k)
        assert_same_bits(ran(model, inputs, tmp_path)["y"], ReferenceEvaluator(model).run(None, inputs)[0])

    state = helper.make_tensor_value_info("s", code, [4])
    body = helper.make_graph(
        [N("Identity", ["v"], ["s1"]), N("Identity", ["s"], ["o"])],
        "b",
        [state, helper.make_tensor_value_info("v", code, [4])],
        [helper.make_tensor_value_info("s1", code, [4]), helper.make_tensor_value_info("o", code, [4])],
    )
    inputs = {"x0": x[0], "x": x}
    model = model_of([N("Scan", ["x0", "x"], ["f", "y"], body=body, num_scan_inputs=1)], inputs, {"f": code, "y": code})
    got, want = ran(model, inputs, tmp_path), ReferenceEvaluator(model).run(None, inputs)
    for name, array in zip(("f", "y"), want, strict=True):
        assert_same_bits(got[name], array)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_no_op_computes_in_them(dtype, tmp_path):
    x = some(dtype, 2, 3)
    for node in (N("Add", ["x", "x"], ["y"]), N("Relu", ["x"], ["y"]), N("ReduceMax", ["x"], ["y"])):
        with pytest.raises(MinnowError, match=str(dtype)):
            ran(model_of([node], {"x": x}, {"y": CODE[dtype]}), {"x": x}, tmp_path)


@pytest.mark.parametrize("dtype", [DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ], ids=str)
def test_nan_and_infinity_are_told(dtype, tmp_path):
    x = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    nodes = [N("IsNaN", ["x"], ["n"]), N("IsInf", ["x"], ["i"])]
    got = ran(model_of(nodes, {"x": x}, {"n": TensorProto.BOOL, "i": TensorProto.BOOL}), {"x": x}, tmp_path)
    np.testing.assert_array_equal(got["n"], np.isnan(x.astype(np.float32)))
    np.testing.assert_array_equal(got["i"], np.isinf(x.astype(np.float32)))


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_conversion_is_verified(dtype, tmp_path):
    """By onnxruntime, where it can be given arrays of that type."""
    x = some(dtype, 3, 8)
    nodes = [N("Cast", ["x"], ["c"], to=TensorProto.FLOAT), N("Transpose", ["x"], ["y"])]
    onnx.save(model_of(nodes, {"x": x}, {"c": TensorProto.FLOAT, "y": CODE[dtype]}, opset=23), tmp_path / "m.onnx")
    verification = minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn").verification
    assert verification is not None
    assert verification.passed
    judge = "numpy reference" if dtype.bits < 8 or dtype is DType.F8E8M0 else "onnxruntime"
    assert verification.reference.startswith(judge)


# ---- bits


PAIRS = [
    (DType.I16, DType.F16), (DType.F16, DType.U16), (DType.BF16, DType.I16), (DType.F16, DType.BF16),
    (DType.I16, DType.U16), (DType.F32, DType.U32), (DType.U32, DType.I32), (DType.F64, DType.I64),
    (DType.U64, DType.F64), (DType.I64, DType.U64), (DType.I4, DType.U4), (DType.F4E2M1, DType.U4),
    (DType.I2, DType.U2), (DType.F8E5M2, DType.U8), (DType.I8, DType.F8E8M0),
]  # fmt: skip


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=str)
def test_bits_are_taken_for_another_type(source, to, tmp_path):
    """NaN with bits of its own included, on the way through other ops, and from constants."""
    x, c = some(source, 3, 70), some(source, 2, 70, seed=1)
    nodes = [
        N("BitCast", ["x"], ["y"], to=CODE[to]),
        N("BitCast", ["c"], ["z"], to=CODE[to]),
        N("Transpose", ["x"], ["t"]),
        N("BitCast", ["t"], ["u"], to=CODE[to]),
        N("BitCast", ["u"], ["v"], to=CODE[source]),
    ]
    outputs = {"y": CODE[to], "z": CODE[to], "v": CODE[source]}
    inputs = {"x": x}
    if source is DType.I64:  # inputs beyond 32 bits may be refused, not changed
        inputs["x"] = x = x >> 33
    got = ran(model_of(nodes, inputs, outputs, {"c": c}, opset=26), inputs, tmp_path)
    assert_same_bits(got["y"], x.view(to.numpy))
    assert_same_bits(got["z"], c.view(to.numpy))
    assert_same_bits(got["v"], np.ascontiguousarray(x.T))


# ---- quantization, judged by onnxruntime


def onnxruntime_runs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(None, dict(inputs))]


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("block", [1, 3, 16, 100])
@pytest.mark.parametrize("dtype", [DType.I4, DType.U4, DType.I8, DType.U8], ids=str)
def test_weights_quantized_by_blocks(dtype, block, zero, tmp_path):
    """As language models have them: a matrix multiplied with weights of 4 bits, a scale for each block of rows."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 37)).astype(np.float32)
    blocks = -(-37 // block)
    constants = {"w": some(dtype, 37, 11), "s": rng.random((blocks, 11)).astype(np.float32)}
    names = ["w", "s"]
    if zero:
        constants["z"] = some(dtype, blocks, 11, seed=1)
        names.append("z")
    nodes = [N("DequantizeLinear", names, ["d"], axis=0, block_size=block), N("MatMul", ["x", "d"], ["y"])]
    model = model_of(nodes, {"x": x}, {"y": TensorProto.FLOAT}, constants, opset=21)
    want = onnxruntime_runs(model, {"x": x})[0]
    np.testing.assert_allclose(ran(model, {"x": x}, tmp_path)["y"], want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("to", [t for t in DType if t in (DType.I8, DType.U8, DType.I16, DType.U16, DType.I4, DType.U4,
                         DType.F8E4M3FN, DType.F8E5M2, DType.F8E4M3FNUZ, DType.F8E5M2FNUZ)], ids=str)  # fmt: skip
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_there_and_back(to, axis, tmp_path):
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((7, 5)) * 30).astype(np.float32)
    shape = () if axis is None else (x.shape[axis],)
    zero = np.asarray(some(to, *shape)) if to.is_int else np.zeros(shape, to.numpy)
    constants = {"s": np.asarray(rng.random(shape) + 0.5, np.float32), "z": zero}
    attrs = {} if axis is None else {"axis": axis}
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"], **attrs),
        N("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs),
    ]
    model = model_of(nodes, {"x": x}, {"y": TensorProto.FLOAT}, constants, opset=21)
    want = onnxruntime_runs(model, {"x": x})[0]
    np.testing.assert_allclose(ran(model, {"x": x}, tmp_path)["y"], want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_quotients_are_rounded_to_16_bits(dtype, tmp_path):
    x = (np.random.default_rng(5).standard_normal((50, 40)) * 50).astype(dtype.numpy)
    constants = {"s": np.asarray(0.3, dtype.numpy), "z": np.uint16(700)}
    for node in (N("QuantizeLinear", ["x", "s", "z"], ["y"]), N("QuantizeLinear", ["x", "s", "z"], ["y"], precision=1)):
        model = model_of([node], {"x": x}, {"y": TensorProto.UINT16}, constants)
        want = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_array_equal(ran(model, {"x": x}, tmp_path)["y"], want)


def test_scales_that_are_powers_of_two(tmp_path):
    """Microscaling: blocks of 32 numbers of 4 bits with a scale of 8 bits."""
    w = some(DType.F4E2M1, 3, 64)
    s = np.array([[0.25, 4], [1, 2.0**-20], [2.0**30, 8]]).astype(ml_dtypes.float8_e8m0fnu)
    node = N("DequantizeLinear", ["w", "s"], ["y"], axis=1, block_size=32, output_dtype=TensorProto.FLOAT)
    model = model_of([node], {"w": w}, {"y": TensorProto.FLOAT}, {"s": s})
    want = w.astype(np.float32) * np.repeat(s.astype(np.float32), 32, 1)
    np.testing.assert_array_equal(ran(model, {"w": w}, tmp_path)["y"], want)


def test_blocks_that_do_not_fit_are_refused(tmp_path):
    node = N("DequantizeLinear", ["w", "s"], ["y"], axis=0, block_size=4)
    for shape in ((2, 5), (4, 5), (3, 4)):
        constants = {"w": some(DType.I4, 9, 5), "s": np.ones(shape, np.float32)}
        with pytest.raises(MinnowError, match="blocks"):
            ran(model_of([node], {}, {"y": TensorProto.FLOAT}, constants), {}, tmp_path)
