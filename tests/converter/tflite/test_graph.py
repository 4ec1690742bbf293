"""Graphs of several TFLite operators: control flow, variables, complex numbers, MediaPipe's pairs of operators."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as fbs
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import flexbuffers
from tflite_one import by_litert, by_us

import minnow
from minnow.converter import read
from minnow.optimizer.pipeline import optimize
from minnow.schema.errors import UsageError

F = np.float32


class File:
    """Puts a file together; tensors are numbers, in each subgraph from 0."""

    def __init__(self) -> None:
        self.model = fbs.ModelT()
        self.model.version, self.model.buffers = 3, [fbs.BufferT()]
        self.model.operatorCodes, self.model.subgraphs = [], []

    def graph(self) -> Graph:
        made = Graph(self)
        self.model.subgraphs.append(made.it)
        return made

    def packed(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


class Graph:
    """One subgraph."""

    def __init__(self, file: File) -> None:
        self.file, self.it = file, fbs.SubGraphT()
        self.it.tensors, self.it.operators, self.it.inputs, self.it.outputs = [], [], [], []

    def tensor(self, kind: str = "FLOAT32", *shape: int, data: Any = None) -> int:
        made = fbs.TensorT()
        made.name, made.type = f"t{len(self.it.tensors)}".encode(), int(getattr(fbs.TensorType, kind))
        made.shape = list(np.shape(data)) if data is not None else list(shape)
        if data is not None:
            buffer = fbs.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(self.file.model.buffers)
            self.file.model.buffers.append(buffer)
        self.it.tensors.append(made)
        return len(self.it.tensors) - 1

    def input(self, kind: str = "FLOAT32", *shape: int) -> int:
        self.it.inputs.append(self.tensor(kind, *shape))
        return int(self.it.inputs[-1])

    def op(
        self, name: str, inputs: list[int], *outputs: int, kind: str = "", custom: bytes = b"", **options: Any
    ) -> int:
        code, made = fbs.OperatorCodeT(), fbs.OperatorT()
        code.builtinCode = int(getattr(fbs.BuiltinOperator, name, fbs.BuiltinOperator.CUSTOM))
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        if code.builtinCode == fbs.BuiltinOperator.CUSTOM:
            code.customCode, made.customOptions = name, np.frombuffer(custom, np.uint8)
        made.opcodeIndex = len(self.file.model.operatorCodes)
        self.file.model.operatorCodes.append(code)
        made.inputs, made.outputs = inputs, list(outputs)
        if kind:
            table = getattr(fbs, f"{kind}T")()
            for key, value in options.items():
                assert hasattr(table, key), key
                setattr(table, key, value)
            made.builtinOptionsType, made.builtinOptions = int(getattr(fbs.BuiltinOptions, kind)), table
        self.it.operators.append(made)
        return outputs[0] if outputs else -1


def same(content: bytes, inputs: list[Any], folder: Path, runs: int = 1) -> None:
    want = by_litert(content, inputs, reference=False, runs=runs)
    got = by_us(content, inputs, folder, runs=runs)
    for w, g in zip(want, got, strict=True):
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_while(times: int, tmp_path: Path) -> None:
    file = File()
    main, cond, body = file.graph(), file.graph(), file.graph()
    count, x, w = main.input("INT32"), main.input("FLOAT32", 2, 3), main.tensor(data=np.full((2, 3), 0.5, F))
    outs = [main.tensor("INT32"), main.tensor("FLOAT32", 2, 3), main.tensor("FLOAT32", 2, 3)]
    main.op("WHILE", [count, x, w], *outs, kind="WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    main.it.outputs = outs[:2]
    n, *_ = cond.input("INT32"), cond.input("FLOAT32", 2, 3), cond.input("FLOAT32", 2, 3)
    yes = cond.tensor("BOOL")
    cond.op("GREATER", [n, cond.tensor("INT32", data=np.array(0, np.int32))], yes)
    cond.it.outputs = [yes]
    n, y, v = body.input("INT32"), body.input("FLOAT32", 2, 3), body.input("FLOAT32", 2, 3)
    less, more = body.tensor("INT32"), body.tensor("FLOAT32", 2, 3)
    body.op("SUB", [n, body.tensor("INT32", data=np.array(1, np.int32))], less, kind="SubOptions")
    body.op("MUL", [y, v], more, kind="MulOptions")
    body.it.outputs = [less, more, v]
    same(file.packed(), [np.array(times, np.int32), np.arange(6, dtype=F).reshape(2, 3)], tmp_path)


@pytest.mark.parametrize("chosen", [True, False])
def test_if(chosen: bool, tmp_path: Path) -> None:
    file = File()
    main = file.graph()
    cond, x, y = main.input("BOOL"), main.input("FLOAT32", 3), main.tensor("FLOAT32", 3)
    main.op("IF", [cond, x], y, kind="IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    main.it.outputs = [y]
    for op in ("EXP", "NEG"):
        branch = file.graph()
        branch.it.outputs = [branch.op(op, [branch.input("FLOAT32", 3)], branch.tensor("FLOAT32", 3))]
    same(file.packed(), [np.array(chosen), np.array([1, -2, 3], F)], tmp_path)


def variable(file: File, graph: Graph) -> int:
    """A handle of the one variable of the file."""
    return graph.op("VAR_HANDLE", [], graph.tensor("RESOURCE"), kind="VarHandleOptions", sharedName=b"v")


def adding(file: File, first: bool) -> bytes:
    """y = v += x; with `first` it is y = v, v += x."""
    main, once = file.graph(), file.graph()
    main.op("CALL_ONCE", [], kind="CallOnceOptions", initSubgraphIndex=1)
    x, old, new = main.input("FLOAT32", 3), main.tensor("FLOAT32", 3), main.tensor("FLOAT32", 3)
    at = variable(file, main)
    main.op("READ_VARIABLE", [at], old, kind="ReadVariableOptions")
    main.op("ADD", [old, x], new, kind="AddOptions")
    main.op("ASSIGN_VARIABLE", [at, new], kind="AssignVariableOptions")
    main.it.outputs = [old if first else new]
    start = once.tensor(data=np.array([1, 2, 3], F))
    once.op("ASSIGN_VARIABLE", [variable(file, once), start], kind="AssignVariableOptions")
    return file.packed()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("runs", [1, 3])
def test_variables(first: bool, runs: int, tmp_path: Path) -> None:
    same(adding(File(), first), [np.array([10, 20, 30], F)], tmp_path, runs)


@pytest.mark.parametrize("chosen", [True, False])
def test_variables_in_branches(chosen: bool, tmp_path: Path) -> None:
    file = File()
    main, once, then, other = (file.graph() for _ in range(4))
    main.op("CALL_ONCE", [], kind="CallOnceOptions", initSubgraphIndex=1)
    cond, x, y = main.input("BOOL"), main.input("FLOAT32", 3), main.tensor("FLOAT32", 3)
    main.op("IF", [cond, x], y, kind="IfOptions", thenSubgraphIndex=2, elseSubgraphIndex=3)
    after = main.tensor("FLOAT32", 3)
    main.op("READ_VARIABLE", [variable(file, main)], after, kind="ReadVariableOptions")
    main.it.outputs = [y, after]
    start = once.tensor(data=np.array([1, 2, 3], F))
    once.op("ASSIGN_VARIABLE", [variable(file, once), start], kind="AssignVariableOptions")
    v = then.input("FLOAT32", 3)
    then.op("ASSIGN_VARIABLE", [variable(file, then), v], kind="AssignVariableOptions")
    then.it.outputs = [then.op("NEG", [v], then.tensor("FLOAT32", 3))]
    v, old = other.input("FLOAT32", 3), other.tensor("FLOAT32", 3)
    other.op("READ_VARIABLE", [variable(file, other)], old, kind="ReadVariableOptions")
    other.it.outputs = [other.op("ADD", [v, old], other.tensor("FLOAT32", 3), kind="AddOptions")]
    same(file.packed(), [np.array(chosen), np.array([7, 8, 9], F)], tmp_path, 2)


@pytest.mark.parametrize("length", [(1, 8), (4, 8), (8, 16), (2, 4)])
def test_spectra(length: tuple[int, int], tmp_path: Path) -> None:
    file = File()
    main = file.graph()
    x, n = main.input("FLOAT32", 2, 4, 8), main.tensor("INT32", data=np.array(length, np.int32))
    y = main.tensor("COMPLEX64", 2, length[0], length[1] // 2 + 1)
    main.op("RFFT2D", [x, n], y, kind="Rfft2dOptions")
    for op in ("COMPLEX_ABS", "REAL", "IMAG"):
        main.it.outputs.append(main.op(op, [y], main.tensor("FLOAT32", 2, length[0], length[1] // 2 + 1)))
    same(file.packed(), [np.random.default_rng(0).normal(size=(2, 4, 8)).astype(F)], tmp_path)


def test_pooling_and_back(tmp_path: Path) -> None:
    """The largest elements, each put back to where it was, and 0 elsewhere."""
    file = File()
    main = file.graph()
    x = main.input("FLOAT32", 2, 4, 6, 3)
    y, at, back = (
        main.tensor("FLOAT32", 2, 2, 3, 3),
        main.tensor("FLOAT32", 2, 2, 3, 3),
        main.tensor("FLOAT32", 2, 4, 6, 3),
    )
    options = struct.pack("<6i", 1, 2, 2, 2, 2, 0)
    main.op("MaxPoolingWithArgmax2D", [x], y, at, custom=options)
    main.op("MaxUnpooling2D", [y, at], back, custom=options)
    main.it.outputs = [y, at, back]
    given = np.random.default_rng(1).normal(size=(2, 4, 6, 3)).astype(F)
    values, places, restored = by_us(file.packed(), [given], tmp_path)
    windows = given.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 3, 3, 4)
    largest = windows.max(-1)
    np.testing.assert_array_equal(values, largest)
    spread = np.repeat(np.repeat(largest, 2, 1), 2, 2)
    np.testing.assert_array_equal(restored, np.where(given == spread, given, 0))
    flat = given.reshape(2, 24, 3)
    found = np.take_along_axis(flat, places.astype(np.int64).reshape(2, 6, 3), 1)
    np.testing.assert_array_equal(found.reshape(largest.shape), largest)


@pytest.mark.parametrize(
    ("pads", "crops", "depthwise"),
    [
        ([[2, 2], [3, 4]], [[0, 0], [0, 1]], False),
        ([[2, 2], [3, 4]], [[0, 0], [0, 0]], True),
        ([[0, 0], [0, 1]], [[0, 0], [0, 0]], False),
        ([[0, 0], [0, 1]], [[1, 0], [0, 2]], False),
    ],
)
def test_convolutions_over_blocks(pads: Any, crops: Any, depthwise: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = File()
    main = file.graph()
    x, block = main.input("FLOAT32", 1, 8, 11, 5), main.tensor("INT32", data=np.array([2, 3], np.int32))
    ends, cut = (main.tensor("INT32", data=np.array(v, np.int32)) for v in (pads, crops))
    blocks = main.tensor("FLOAT32", 6, 1, 1, 5)
    main.op("SPACE_TO_BATCH_ND", [x, block, ends], blocks, kind="SpaceToBatchNDOptions")
    weights = rng.normal(size=(1, 3, 3, 5) if depthwise else (7, 3, 3, 5)).astype(F)
    outs = weights.shape[-1 if depthwise else 0]
    w, bias = main.tensor(data=weights), main.tensor(data=rng.normal(size=outs).astype(F))
    made = main.tensor("FLOAT32", 6, 1, 1, outs)
    name, kind = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    more = {"depthMultiplier": 1} if depthwise else {}
    main.op(
        name, [blocks, w, bias], made, kind=kind, padding=1, strideW=1, strideH=1, fusedActivationFunction=1, **more
    )
    y = main.tensor("FLOAT32", 1, 1, 1, outs)
    main.it.outputs = [main.op("BATCH_TO_SPACE_ND", [made, block, cut], y, kind="BatchToSpaceNDOptions")]
    content = file.packed()
    same(content, [rng.normal(size=(1, 8, 11, 5)).astype(F)], tmp_path)
    model = read(tmp_path / "one.tflite")
    optimize(model)
    assert [n.attrs["dilations"] for n in model.graph if n.op == "Conv"] == [(2, 3)]


def test_regions_of_landmarks(tmp_path: Path) -> None:
    """The three operators with each other, against what they are defined to be, point by point."""
    rng = np.random.default_rng(6)
    file = File()
    main = file.graph()
    points, image = main.input("FLOAT32", 1, 6, 3), main.input("FLOAT32", 1, 9, 11, 2)
    matrix, crop, back = (main.tensor("FLOAT32", *s) for s in ((1, 4, 4), (1, 5, 4, 2), (1, 6, 3)))
    options = {
        "subset_idxs": [0, 1, 2, 4], "left_rotation_idx": 3, "right_rotation_idx": 5, "scale_x": 1.5, "scale_y": 0.75,
        "target_rotation_radians": 0.3, "output_height": 5, "output_width": 4,
    }  # fmt: skip
    size = {k: v for k, v in options.items() if k.startswith("output")}
    main.op("Landmarks2TransformMatrix", [points], matrix, custom=bytes(flexbuffers.Dumps(options)))
    main.op("TransformTensorBilinear", [image, matrix], crop, custom=bytes(flexbuffers.Dumps(size)))
    main.op("TransformLandmarks", [points, matrix], back, custom=bytes(flexbuffers.Dumps({"dimensions": 3})))
    for code in file.model.operatorCodes:
        code.version = 2
    main.it.outputs = [matrix, crop, back]
    marks = rng.uniform(1, 8, (1, 6, 3)).astype(F)
    pixels = rng.normal(size=(1, 9, 11, 2)).astype(F)
    got = by_us(file.packed(), [marks, pixels], tmp_path)

    p = marks[0].astype(float)
    angle = 0.3 - np.arctan2(p[5, 1] - p[3, 1], p[5, 0] - p[3, 0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = p[[0, 1, 2, 4], :2] @ turn.T
    low, high = turned.min(0), turned.max(0)
    center = turn.T @ ((low + high) / 2)
    scaled = turn.T @ np.diag((high - low) * [1.5, 0.75] / [4, 5])
    want = np.eye(4)
    want[:2, :2], want[:2, 3] = scaled, center - scaled @ [2, 2.5]
    np.testing.assert_allclose(got[0][0], want, atol=1e-5)
    moved = np.concatenate([p[:, :2] @ scaled.T + want[:2, 3], p[:, 2:]], 1)
    np.testing.assert_allclose(got[2][0], moved, atol=1e-4)
    expected = np.zeros((5, 4, 2))
    for row, column in np.ndindex(5, 4):
        x, y = scaled @ [column + 0.5, row + 0.5] + want[:2, 3] - 0.5
        if 0 <= x <= 10 and 0 <= y <= 8:
            i, j = int(min(y, 7.999)), int(min(x, 9.999))
            v, u = y - i, x - j
            square = pixels[0, i : i + 2, j : j + 2].astype(float)
            expected[row, column] = np.einsum("i,j,ijc->c", [1 - v, v], [1 - u, u], square)
    assert np.count_nonzero(expected) > 8
    np.testing.assert_allclose(got[1][0], expected, atol=1e-4)


def test_coefficients_of_sound(tmp_path: Path) -> None:
    file = File()
    main = file.graph()
    signal, rate = main.input("FLOAT32", 700, 1), main.tensor("INT32", data=np.array(8000, np.int32))
    spectrum, heard = main.tensor("FLOAT32", 1, 6, 129), main.tensor("FLOAT32", 1, 6, 13)
    options = {"window_size": 200, "stride": 90, "magnitude_squared": True}
    main.op("AudioSpectrogram", [signal], spectrum, custom=bytes(flexbuffers.Dumps(options)))
    options = {
        "upper_frequency_limit": 3900.0, "lower_frequency_limit": 30.0, "filterbank_channel_count": 30,
        "dct_coefficient_count": 13,
    }  # fmt: skip
    main.op("Mfcc", [spectrum, rate], heard, custom=bytes(flexbuffers.Dumps(options)))
    main.it.outputs = [spectrum, heard]
    sound = np.random.default_rng(0).normal(size=(700, 1)).astype(F)
    content = file.packed()
    want, got = by_litert(content, [sound], reference=False), by_us(content, [sound], tmp_path)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-4 * np.abs(w).max())


# ---- parts


def chain(quantized: bool = False) -> bytes:
    """t0 -> EXP t2 -> NEG t3 -> t3 + t1 = t4, of floats or of 8 bits."""
    file, kind = File(), "INT8" if quantized else "FLOAT32"
    main = file.graph()
    x, y = main.input(kind, 2, 3), main.input(kind, 2, 3)
    a = main.op("LOGISTIC" if quantized else "EXP", [x], main.tensor(kind, 2, 3))
    b = main.op("TANH" if quantized else "NEG", [a], main.tensor(kind, 2, 3))
    main.it.outputs = [main.op("ADD", [b, y], main.tensor(kind, 2, 3), kind="AddOptions")]
    scales = {0: (0.05, 3), 1: (0.03, -5), 2: (1 / 256, -128), 3: (1 / 128, 0), 4: (0.04, 7)}
    for i, (scale, zero) in scales.items() if quantized else ():
        how = main.it.tensors[i].quantization = fbs.QuantizationParametersT()
        how.scale, how.zeroPoint = [scale], [zero]
    return file.packed()


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    ("cut", "inputs", "outputs"),
    [
        ({"cut_outputs": ["t3"]}, ["t0"], ["t3"]),
        ({"cut_outputs": ["t2", "t4"]}, ["t0", "t1"], ["t2", "t4"]),
        ({"cut_inputs": ["t3"]}, ["t3", "t1"], ["t4"]),
        ({"cut_inputs": ["t2"], "cut_outputs": ["t3", "t2"]}, ["t2"], ["t3", "t2"]),
    ],
)
def test_parts(quantized: bool, cut: dict[str, Any], inputs: list[str], outputs: list[str], tmp_path: Path) -> None:
    """LiteRT runs the same part, and the numbers are those of the whole."""
    path, content = tmp_path / "m.tflite", chain(quantized)
    path.write_bytes(content)
    result = minnow.convert(path, **cut)
    assert "LiteRT" in result.verification.reference
    session = minnow.load(tmp_path / "m.mnn")
    assert [i.name for i in session.inputs] == inputs
    assert [o.name for o in session.outputs] == outputs
    interpreter = Interpreter(model_content=content, experimental_preserve_all_tensors=True,
                              experimental_op_resolver_type=OpResolverType.BUILTIN_REF)  # fmt: skip
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for i in (0, 1):
        given = rng.integers(-128, 128, (2, 3)).astype(np.int8) if quantized else rng.normal(size=(2, 3)).astype(F)
        interpreter.set_tensor(i, given)
    interpreter.invoke()
    got = session.run({n: interpreter.get_tensor(int(n[1:])) for n in inputs})
    for name in outputs:
        np.testing.assert_allclose(got[name], interpreter.get_tensor(int(name[1:])), 1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_parts_keep_what_a_variable_is_given(first: bool, tmp_path: Path) -> None:
    """The sum that is left behind for the next run is computed, also where the part ends in front of it."""
    path = tmp_path / "m.tflite"
    path.write_bytes(adding(File(), not first))
    minnow.convert(path, cut_outputs=["t1" if first else "t2"])
    session = minnow.load(tmp_path / "m.mnn")
    for run in range(3):
        (got,) = session.run({"t0": np.array([10, 20, 30], F)}).values()
        np.testing.assert_array_equal(got, np.array([1, 2, 3]) + (run + (not first)) * np.array([10, 20, 30]))


def test_parts_at_no_tensor(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(chain())
    with pytest.raises(UsageError, match="has no tensor 't9'") as caught:
        minnow.convert(tmp_path / "m.tflite", cut_outputs=["t9"])
    assert "t3, t4" in caught.value.hint
