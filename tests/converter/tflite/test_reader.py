"""Files of TFLite: what is read, what is refused, and that damaged ones end with an error that says so."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as fbs
from tflite_one import Tensor, by_litert, by_us, constant, file_of

import minnow
from minnow.converter import read
from minnow.converter.formats import detect
from minnow.converter.tflite.description import describe
from minnow.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.mnn import encode

F = np.float32
SHARED = Path(__file__).resolve().parents[4] / "shared" / "models" / "tflite"


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpacked(content: bytes) -> Any:
    return fbs.ModelT.InitFromPackedBuf(content, 0)


def adding() -> bytes:
    """y = x + w"""
    return file_of("ADD", [Tensor((2, 3)), constant(np.arange(6, dtype=F).reshape(2, 3))], [Tensor((2, 3))])


def dense() -> bytes:
    """y = x w"""
    weights = constant(np.arange(12, dtype=F).reshape(4, 3))
    return file_of("FULLY_CONNECTED", [Tensor((2, 3)), weights, None], [Tensor((2, 4))], {}, "FullyConnectedOptions")


def write(content: bytes, folder: Path) -> Path:
    path = folder / "m.tflite"
    path.write_bytes(content)
    return path


def test_is_found_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(adding())
    assert detect(path).name == "tflite"
    found = describe(path)
    assert found.operators == {"ADD": 1}
    assert [str(p) for p in found.inputs] == ["t0: float32[2, 3]"]


def test_names_and_open_extents(tmp_path: Path) -> None:
    model = unpacked(adding())
    graph = model.subgraphs[0]
    graph.tensors[0].shapeSignature = [-1, 3]
    graph.tensors[1].shape, model.buffers[graph.tensors[1].buffer].data = (
        [3],
        np.frombuffer(np.ones(3, F).tobytes(), np.uint8),
    )
    graph.tensors[2].name = b""
    path = write(packed(model), tmp_path)
    made = read(path)
    assert [(n, t.shape) for n, t in made.inputs] == [("t0", ("?", 3))]
    assert [n for n, _ in made.outputs] == ["0"]
    assert read(path, inputs={"t0": (5, "?")}).outputs[0][1].shape == (5, 3)
    session = minnow.load(encode(made))
    np.testing.assert_array_equal(session.run({"t0": np.zeros((4, 3), F)})["0"], np.ones((4, 3), F))


def test_signatures(tmp_path: Path) -> None:
    model = unpacked(adding())
    second = unpacked(dense()).subgraphs[0]
    shift = len(model.buffers)
    for tensor in second.tensors:
        tensor.buffer += shift
    model.buffers += unpacked(dense()).buffers
    second.operators[0].opcodeIndex = 1
    model.operatorCodes += unpacked(dense()).operatorCodes
    model.subgraphs.append(second)
    model.signatureDefs = []
    for index, key in enumerate(("add", "multiply")):
        signature = fbs.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key, index
        model.signatureDefs.append(signature)
    path = write(packed(model), tmp_path)
    assert read(path).outputs[0][1].shape == (2, 3)
    assert read(path, signature="multiply").outputs[0][1].shape == (2, 4)
    with pytest.raises(UsageError, match="add, multiply"):
        read(path, signature="divide")


def test_weights_behind_the_tables(tmp_path: Path) -> None:
    model = unpacked(dense())
    buffer = model.buffers[2]
    data, buffer.data = bytes(buffer.data), None
    buffer.offset, buffer.size = 1 << 20, len(data)  # of the final size, so that nothing moves
    start = len(packed(model)) + 32
    buffer.offset = start
    content = packed(model).ljust(start, b"\0") + data
    x = np.arange(6, dtype=F).reshape(2, 3)
    np.testing.assert_array_equal(by_us(content, [x], tmp_path)[0], by_us(dense(), [x], tmp_path)[0])
    with pytest.raises(FormatError):
        read(write(content[:-1], tmp_path))


def test_half_weights_are_constants(tmp_path: Path) -> None:
    model = unpacked(dense())
    graph = model.subgraphs[0]
    half = fbs.TensorT()
    half.name, half.type, half.shape, half.buffer = b"half", int(fbs.TensorType.FLOAT16), [4, 3], len(model.buffers)
    buffer = fbs.BufferT()
    buffer.data = np.frombuffer(np.arange(12, dtype=np.float16).tobytes(), np.uint8)
    model.buffers.append(buffer)
    graph.tensors[1].buffer = 0
    graph.tensors.append(half)
    code, operator = fbs.OperatorCodeT(), fbs.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = int(fbs.BuiltinOperator.DEQUANTIZE)
    code.version, operator.opcodeIndex = 3, 1
    operator.inputs, operator.outputs = [len(graph.tensors) - 1], [1]
    model.operatorCodes.append(code)
    graph.operators.insert(0, operator)
    content = packed(model)
    assert [n.op for n in read(write(content, tmp_path)).graph] == ["Linear"]
    x = np.arange(6, dtype=F).reshape(2, 3)
    np.testing.assert_array_equal(by_us(content, [x], tmp_path)[0], by_litert(content, [x])[0])


def _sparse(levels: list[Any], order: list[int], blocks: list[int], data: np.ndarray[Any, Any]) -> Any:
    model = unpacked(file_of("DENSIFY", [constant(np.zeros((4, 6), F))], [Tensor((4, 6))], {}, "DensifyOptions"))
    graph = model.subgraphs[0]
    s = fbs.SparsityParametersT()
    s.traversalOrder, s.blockMap, s.dimMetadata = order, blocks, []
    for level in levels:
        meta = fbs.DimensionMetadataT()
        if isinstance(level, int):
            meta.format, meta.denseSize = 0, level
        else:
            meta.format = 1
            for field, values in (("arraySegments", level[0]), ("arrayIndices", level[1])):
                vector = fbs.Uint8VectorT()
                vector.values = list(values)
                setattr(meta, f"{field}Type", int(fbs.SparseIndexVector.Uint8Vector))
                setattr(meta, field, vector)
        s.dimMetadata.append(meta)
    graph.tensors[0].sparsity = s
    model.buffers[graph.tensors[0].buffer].data = np.frombuffer(data.astype(F).tobytes(), np.uint8)
    return model


ROWS = ([4, ([0, 2, 2, 3, 5], [1, 4, 0, 2, 5])], [0, 1], [], np.arange(1, 6))
COLUMNS = ([6, ([0, 1, 1, 2, 2, 4, 5], [3, 0, 1, 2, 1])], [1, 0], [], np.arange(1, 6))
BLOCKS = ([2, ([0, 1, 3], [2, 0, 1]), 2, 2], [0, 1, 2, 3], [0, 1], np.arange(1, 13))


@pytest.mark.parametrize("given", [ROWS, BLOCKS, COLUMNS], ids=["rows", "blocks", "columns"])
def test_sparse_weights(given: Any, tmp_path: Path) -> None:
    content = packed(_sparse(*given))
    (value,) = read(write(content, tmp_path)).graph.outputs
    assert value.array is not None
    np.testing.assert_array_equal(value.array, by_litert(content, [])[0])


@pytest.mark.parametrize("change", ["segments", "index", "order", "blocks", "data", "shape"])
def test_damaged_sparse_weights(change: str, tmp_path: Path) -> None:
    model = _sparse(*BLOCKS)
    tensor = model.subgraphs[0].tensors[0]
    s = tensor.sparsity
    if change == "segments":
        s.dimMetadata[1].arraySegments.values = [0, 3, 2]
    elif change == "index":
        s.dimMetadata[1].arrayIndices.values = [2, 0, 3]
    elif change == "order":
        s.traversalOrder = [0, 1, 2, 2]
    elif change == "blocks":
        s.blockMap = [0, 7]
    elif change == "data":
        model.buffers[tensor.buffer].data = model.buffers[tensor.buffer].data[:-4]
    else:
        tensor.shape = [1 << 15, 1 << 15]
    with pytest.raises(FormatError):
        read(write(packed(model), tmp_path))


def test_refuses_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(write(file_of("FlexErf", [Tensor((3,))], [Tensor((3,))], b""), tmp_path))
    assert "FlexErf" in str(caught.value)
    assert "tensorflow" in str(caught.value)
    with pytest.raises(UnsupportedError, match=r"(?s)Unheard"):
        read(write(file_of("Unheard", [Tensor((3,))], [Tensor((3,))], b""), tmp_path))


def test_other_versions_are_refused(tmp_path: Path) -> None:
    model = unpacked(adding())
    model.version = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        read(write(packed(model), tmp_path))


@pytest.mark.parametrize("change", ["cycle", "buffer", "missing", "twice", "short", "calls", "signature"])
def test_invalid_models(change: str, tmp_path: Path) -> None:
    model = unpacked(adding())
    graph = model.subgraphs[0]
    operator = graph.operators[0]
    if change == "cycle":
        operator.inputs = [0, 2]
    elif change == "buffer":
        graph.tensors[1].buffer = 99
    elif change == "missing":
        graph.tensors[1].buffer = 0
    elif change == "twice":
        graph.operators.append(operator)
    elif change == "short":
        model.buffers[graph.tensors[1].buffer].data = np.zeros(5, np.uint8)
    elif change == "signature":
        signature = fbs.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "x", 7
        model.signatureDefs = [signature]
    else:
        code, call = fbs.OperatorCodeT(), fbs.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = int(fbs.BuiltinOperator.WHILE)
        call.opcodeIndex, call.inputs, call.outputs = 1, [0], [2]
        call.builtinOptionsType, call.builtinOptions = int(fbs.BuiltinOptions.WhileOptions), fbs.WhileOptionsT()
        model.operatorCodes.append(code)
        graph.operators = [call]
    with pytest.raises((FormatError, ModelError)):
        read(write(packed(model), tmp_path))


def damaged(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    kind = rng.random()
    if kind < 0.2:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data))
        if kind < 0.6:
            data[at] ^= 1 << rng.randrange(8)
        else:
            at = min(at & ~3, len(data) - 4)
            struct.pack_into("<I", data, at, rng.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, rng.getrandbits(32)]))
    return bytes(data)


def test_damaged_files_end_with_an_error(tmp_path: Path) -> None:
    rng = random.Random(8)
    sources = [adding(), dense(), packed(_sparse(*BLOCKS))]
    shared = ("hello_world/hello_world_int8", "micro_speech/micro_speech_quantized", "mnist_lstm/trained_lstm_int8")
    sources += [p.read_bytes() for p in (SHARED / f"{n}.tflite" for n in shared) if p.exists()]
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        path = write(damaged(rng, rng.choice(sources)), tmp_path)
        begin = time.process_time()
        try:
            read(path, "tflite")
            outcomes["read"] += 1
        except (FormatError, ModelError, UnsupportedError):
            outcomes["refused"] += 1
        assert time.process_time() - begin < 10
    assert outcomes["read"] > 20
    assert outcomes["refused"] > 100
