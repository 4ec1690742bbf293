"""Equal weights are stored once and computed with once; and nobody reads a big weight that is only passed on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.effect import effect_of
from minnow.optimizer.passes.cleanup.unused import eliminate_common
from minnow.schema.ir import ArrayBlob, DType, Graph, LazyBlob, MappedBlob, Model, TensorType, Value
from minnow.schema.ir.text import parse
from minnow.schema.mnn import encode, save
from minnow.schema.ops import Builder

BIG = (200, 130)
"""104 kB: more than is compared number by number."""


class UnreadBlob:
    """Numbers that nobody may ask for."""

    def __init__(self, shape: tuple[int, ...], dtype: DType = DType.F32) -> None:
        self.shape, self.dtype = shape, dtype

    def numpy(self) -> Any:
        raise AssertionError("a big weight was read")


def _weights(*blobs: Any) -> Graph:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, BIG), "x")
    b = Builder(graph)
    for blob in blobs:
        x = b.Add(x, Value(TensorType(blob.dtype, tuple(blob.shape)), "w", blob))
    graph.outputs = [x]
    return graph


def _normal(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(BIG).astype(np.float32)


def test_big_constants_of_equal_numbers_become_one() -> None:
    graph = _weights(ArrayBlob(_normal(0)), ArrayBlob(_normal(1)), ArrayBlob(_normal(0)), ArrayBlob(_normal(1)))
    assert eliminate_common.apply(graph) == 2
    assert len(graph.constants()) == 2


@pytest.mark.parametrize("change", [0, 7777, 25999])
def test_one_other_number_makes_another_constant(change: int) -> None:
    other = _normal(0)
    other.flat[change] += 1
    graph = _weights(ArrayBlob(_normal(0)), ArrayBlob(other))
    assert eliminate_common.apply(graph) == 0


def test_bits_count_not_values() -> None:
    zeros, minus = np.zeros(BIG, np.float32), np.full(BIG, -0.0, np.float32)
    nan = np.full(BIG, np.nan, np.float32)
    graph = _weights(ArrayBlob(zeros), ArrayBlob(minus), ArrayBlob(nan), ArrayBlob(nan.copy()))
    assert eliminate_common.apply(graph) == 1
    assert len(graph.constants()) == 3
    assert (
        eliminate_common.apply(_weights(ArrayBlob(zeros), ArrayBlob(zeros.astype(np.float64).view("f4")[:, :130]))) == 0
    )


def test_mapped_constants_are_compared_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    path.write_bytes(_normal(0).tobytes() + _normal(1).tobytes() + _normal(0).tobytes())
    size = _normal(0).nbytes
    graph = _weights(*(MappedBlob(path, i * size, DType.F32, BIG) for i in range(3)))
    assert eliminate_common.apply(graph) == 1
    assert len(graph.constants()) == 2


def test_what_is_alone_of_its_type_or_computed_is_not_read() -> None:
    def refuse() -> Any:
        raise AssertionError("computed")

    lazy = [LazyBlob(refuse, DType.F32, BIG) for _ in range(2)]
    graph = _weights(UnreadBlob(BIG), UnreadBlob(BIG), *lazy)
    assert eliminate_common.apply(graph) == 0

    class Alone(ArrayBlob):
        numpy = UnreadBlob.numpy  # type: ignore[assignment]

    assert eliminate_common.apply(_weights(Alone(_normal(0)), UnreadBlob(BIG))) == 0


def test_equal_conditions_and_loops_become_one() -> None:
    text = """
        graph g(%x: f32[2], %c: bool[]) {{
          %a: f32[2] = If(%c, %x) {{then_branch=graph t(%p: f32[2]) {{
            %q: f32[2] = Exp(%p)
            return %q
          }}, else_branch=graph e(%p: f32[2]) {{
            %r: f32[2] = {first}
            return %r
          }}}}
          %b: f32[2] = If(%c, %x) {{then_branch=graph other(%k: f32[2]) {{
            %l: f32[2] = Exp(%k)
            return %l
          }}, else_branch=graph another(%k: f32[2]) {{
            %l: f32[2] = {second}
            return %l
          }}}}
          %y: f32[2] = Add(%a, %b)
          return %y
        }}
    """
    for first, second, changes in (
        ("Mul(%p, f32[](2.0))", "Mul(%k, f32[](2.0))", 1),
        ("Mul(%p, f32[](2.0))", "Mul(%k, f32[](3.0))", 0),
        ("Mul(%p, f32[](2.0))", "Add(%k, f32[](2.0))", 0),
        ("LeakyRelu(%p) {alpha=0.0}", "LeakyRelu(%k) {alpha=-0.0}", 0),
        ("RandomUniform(i64[1](2))", "RandomUniform(i64[1](2))", 0),
    ):
        graph = parse(text.format(first=first, second=second))
        assert eliminate_common.apply(graph) == changes, (first, second)
        assert len(graph) == 3 - changes


def _save(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any], path: Path) -> Path:
    tensors = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _info(name: str, shape: list[int], dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def test_a_siamese_net_keeps_its_weights_once_and_twins_become_one(tmp_path: Path) -> None:
    """Two towers that the exporter wrote with weights of their own; a third one reads what the first one reads."""
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal((64, 64, 3, 3)).astype(np.float32) / 20 for _ in range(2))
    nodes, weights = [], {}
    for tower, x in (("a", "x"), ("b", "y"), ("c", "x")):
        weights |= {f"{tower}w": w, f"{tower}v": v}
        nodes += [
            helper.make_node("Conv", [x, f"{tower}w"], [f"{tower}1"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"{tower}1"], [f"{tower}2"]),
            helper.make_node("Conv", [f"{tower}2", f"{tower}v"], [f"{tower}3"], pads=[1, 1, 1, 1]),
        ]
    nodes += [helper.make_node("Sub", ["a3", "b3"], ["d"]), helper.make_node("Mul", ["d", "c3"], ["z"])]
    ports = [_info(n, [1, 64, 5, 7]) for n in "xyz"]
    source = _save(nodes, ports[:2], ports[2:], weights, tmp_path / "m.onnx")
    report = minnow.convert(source, output=tmp_path / "m.mnn")
    assert report.verification is not None
    assert report.verification.passed
    assert report.nodes_after["Conv"] == 4
    assert report.after.weight_bytes < 2 * w.nbytes + 1000
    assert report.output_bytes < 2 * w.nbytes + 8000
    minnow.convert(source, output=tmp_path / "side.mnn", side_file=True)
    assert (tmp_path / "side.mnn.weight").stat().st_size < 2 * w.nbytes + 8000


def test_tied_embeddings_are_stored_once(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((300, 64)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("Tanh", ["x"], ["h"]),
        helper.make_node("Transpose", ["head"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "turned"], ["y"]),
    ]
    ids = _info("ids", [5], TensorProto.INT64)
    source = _save(nodes, [ids], [_info("y", [5, 300])], {"table": table, "head": table.copy()}, tmp_path / "m.onnx")
    report = minnow.convert(source, output=tmp_path / "m.mnn")
    assert report.verification is not None
    assert report.verification.passed
    assert report.output_bytes < table.nbytes + 8000


def test_equal_vectors_are_written_once_and_others_are_not(tmp_path: Path) -> None:
    a, b = _normal(0), _normal(0)
    b.flat[12345] += 1

    def size(*arrays: Any) -> int:
        graph = Graph()
        x = graph.add_param(TensorType(DType.F32, BIG), "x")
        for i, array in enumerate(arrays):
            x = Builder(graph).Add(x, Value.constant(array, f"w{i}"))
        graph.outputs = [x]
        model = Model(graph, [("x", graph.params[0].type)], [("y", x.type)])
        data = encode(model)
        given = np.ones(BIG, np.float32)
        want = given.copy()
        for array in arrays:
            want = want + array
        np.testing.assert_array_equal(minnow.load(data).run({"x": given})["y"], want)
        return len(data)

    one, same, other = size(a), size(a, a.copy()), size(a, b)
    assert same < one + 1000
    assert other > one + a.nbytes


def _linear(b: Builder, x: Value, weight: Callable[..., Value]) -> Value:
    h: Value = b.Add(b.MatMul(x, weight(64, 512)), weight(512))
    return b.MatMul(b.Mul(h, b.Sigmoid(h)), weight(512, 64))


def _convolution(b: Builder, x: Value, weight: Callable[..., Value]) -> Value:
    x = b.Reshape(x, np.array([1, 8, 8, 8]))
    plain: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1)}
    x = b.Relu(b.Conv(x, weight(256, 8, 3, 3), weight(256), **plain, pads=(1, 1, 1, 1)))
    x = b.Add(x, b.Clip(b.Conv(x, weight(256, 256, 3, 3), **plain, pads=(1, 1, 1, 1)), min=0.0, max=6.0))
    x = b.Conv(x, weight(256, 64, 3, 3), **plain | {"dilations": (2, 2)}, pads=(0, 0, 0, 0), group=4)
    turned: Value = b.Transpose(x, perm=(0, 1, 3, 2))
    return b.ConvTranspose(turned, weight(256, 16, 3, 3), **plain, pads=(0,) * 4, output_padding=(0, 0))  # type: ignore[no-any-return]


def _attention(b: Builder, x: Value, weight: Callable[..., Value]) -> Value:
    def heads(x: Value, perm: tuple[int, ...]) -> Value:
        return b.Transpose(b.Reshape(b.MatMul(x, weight(64, 384)), np.array([8, 12, 32])), perm=perm)  # type: ignore[no-any-return]

    q, k, v = heads(x, (1, 0, 2)), heads(x, (1, 2, 0)), heads(x, (1, 0, 2))
    a = b.Softmax(b.Div(b.MatMul(q, k), np.float32(5.65)), axis=-1)
    y = b.Reshape(b.Transpose(b.MatMul(a, v), perm=(1, 0, 2)), np.array([8, 384]))
    y = b.Add(x, b.MatMul(y, weight(384, 64)))
    return b.LayerNorm(y, weight(64), weight(64))


@pytest.mark.parametrize("target", ["mnn", "minnow"])
@pytest.mark.parametrize("build", [_linear, _convolution, _attention])
def test_no_pass_reads_big_weights(build: Any, target: Any) -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (8, 64)), "x")
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Value:
        if np.prod(shape) * 4 > 1 << 16:
            return Value(TensorType(DType.F32, shape), "w", UnreadBlob(shape))
        return Value.constant(rng.standard_normal(shape).astype(np.float32))

    y = build(Builder(graph), x, weight)
    graph.outputs = [y]
    model = Model(graph, [("x", x.type)], [("y", y.type)])
    big = [v for v in graph.constants() if isinstance(v.data, UnreadBlob)]
    assert len(big) >= 2
    inspect.unwrap(optimize)(model, 3, target=target)  # tests compare each step with the reference, which reads
    effect_of(model.graph)
    assert model.graph.outputs


def test_reading_and_optimizing_a_file_with_external_weights_maps_them_only(tmp_path: Path, monkeypatch: Any) -> None:
    w = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    source = _save(nodes, [_info("x", [3, 256])], [_info("y", [3, 256])], {"w": w}, tmp_path / "m.onnx")
    onnx.save(onnx.load(source), source, save_as_external_data=True, size_threshold=1000)
    numbers = MappedBlob.numpy
    monkeypatch.setattr(MappedBlob, "numpy", UnreadBlob.numpy)
    model = read(source)
    inspect.unwrap(optimize)(model)
    monkeypatch.setattr(MappedBlob, "numpy", numbers)
    save(model, tmp_path / "m.mnn")
    x = np.ones((3, 256), np.float32)
    np.testing.assert_allclose(minnow.load(tmp_path / "m.mnn").run({"x": x})["y"], np.maximum(x @ w, 0), atol=1e-4)
