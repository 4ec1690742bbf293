"""Sums and products of two tensors of bytes that are one node: the bytes are those of the reference."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

SHAPES = [
    ((2, 5, 7, 9), (2, 5, 7, 9)),
    ((1, 40, 8, 8), (1, 40, 1, 1)),
    ((3, 1, 70), (5, 1)),
    ((2, 3, 131), (131,)),
    ((1,), (4, 65)),
    ((129,), ()),
    ((0, 3), (3,)),
]


def numbers(b: Builder, x: Any, scale: float, zero: int) -> Any:
    return b.DequantizeLinear(x, np.float32(scale), np.asarray(zero, x.type.dtype.numpy))


def wide(b: Builder, x: Any, scale: float, to: DType = DType.F32) -> Any:
    y = b.Cast(x, to=to)
    return y if scale == 1 else b.Mul(y, np.float32(scale))


def build(kind: str, b: Builder, x: Any, y: Any, scales: list[float], zeros: list[int], to: DType) -> Any:
    """The graph as the frontends make it of QDQ models, onnxruntime's QLinearAdd and QLinearMul, and TFLite's MUL."""
    s, t, u = scales
    zero = np.asarray(zeros[2], to.numpy)
    if kind == "qdq add":
        return b.QuantizeLinear(
            b.Add(numbers(b, x, s, zeros[0]), numbers(b, y, t, zeros[1])), np.float32(u), zero, to=to
        )
    if kind == "qdq mul":
        return b.QuantizeLinear(
            b.Mul(numbers(b, x, s, zeros[0]), numbers(b, y, t, zeros[1])), np.float32(u), zero, to=to
        )
    if kind == "sum":
        total = b.Add(wide(b, x, s / u), b.Add(wide(b, y, t / u), np.float32(zeros[2] - zeros[0])))
        return b.QuantizeLinear(total, np.float32(1), to=to)
    if kind == "fixed product":
        factor = abs(s * t / u)
        exponent = int(np.ceil(np.log2(factor)))
        info: Any = np.iinfo(to.numpy)
        p, q = (
            b.LookUp(v, (np.arange(256) + np.iinfo(v.type.dtype.numpy).min - z).astype(np.int32))
            for v, z in ((x, zeros[0]), (y, zeros[1]))
        )
        fixed = np.int32(min(factor * 2.0 ** (31 - exponent), 2**31 - 1)), np.int32(exponent)
        return b.Requantize(b.Mul(p, q), *fixed, zero=zeros[2], to=to, min=info.min + 3, max=info.max)
    p, q = (b.Sub(b.Cast(v, to=DType.I32), np.int32(z)) for v, z in ((x, zeros[0]), (y, zeros[1])))
    product = b.Mul(b.Cast(b.Mul(p, q), to=DType.F32), np.float32(s * t / u))
    return b.QuantizeLinear(b.Add(product, np.float32(zeros[2])), np.float32(1), to=to)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["qdq add", "qdq mul", "sum", "product", "fixed product"])
@pytest.mark.parametrize("types", ["u8 u8 u8", "i8 u8 i8", "u8 i8 i8", "i8 i8 u8"])
def test_bytes_are_those_of_the_reference(
    types: str, kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{kind} {types} {shapes}".encode()))
    first, second, to = (DType[t.upper()] for t in types.split())
    # The last scales make halves, which are rounded to even; some sums go far beyond bytes.
    for scales in ([0.02, 0.031, 0.047], [0.5, 0.25, 1.0], [3.0, 700.0, 0.01], [-0.1, 0.3, -0.2]):
        zeros = [int(rng.integers(np.iinfo(t.numpy).min, np.iinfo(t.numpy).max + 1)) for t in (first, second, to)]
        if kind == "sum" and to is DType.U8:
            zeros[0] = 0
        graph = Graph()
        b = Builder(graph)
        x, y = (
            graph.add_param(TensorType(t, s), name)
            for t, s, name in zip((first, second), shapes, ("x", "y"), strict=True)
        )
        out = build(kind, b, x, y, scales, zeros, to)
        graph.outputs = [out]
        model = Model(graph, [(v.name, v.type) for v in graph.params], [("out", out.type)])
        feed = {
            v.name: np.asarray(rng.integers(np.iinfo(v.type.dtype.numpy).min, np.iinfo(v.type.dtype.numpy).max + 1,
                                            v.type.shape), v.type.dtype.numpy)
            for v in graph.params
        }  # fmt: skip
        with np.errstate(over="ignore"):
            (want,) = evaluate(graph, list(feed.values()))
        session = minnow.load(encode(model), threads=2)
        (got,) = session.run(feed).values()
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, str(scales))
        assert [row["op"] for row in session.profile(feed, 1)] == ["ByteArithmetic"]


def test_what_others_read_stays() -> None:
    graph = Graph()
    b = Builder(graph)
    x, y = (graph.add_param(TensorType(DType.U8, (3, 50)), name) for name in "xy")
    total = b.Add(numbers(b, x, 0.1, 3), numbers(b, y, 0.2, 4))
    graph.outputs = [b.QuantizeLinear(total, np.float32(0.3), to=DType.U8), total]
    model = Model(
        graph, [(v.name, v.type) for v in graph.params], [(n, v.type) for n, v in zip("ab", graph.outputs, strict=True)]
    )
    feed = {v.name: np.random.default_rng(1).integers(0, 256, v.type.shape).astype(np.uint8) for v in graph.params}
    got = minnow.load(encode(model)).run(feed)
    for name, want in zip("ab", evaluate(graph, list(feed.values())), strict=True):
        np.testing.assert_array_equal(got[name], want)
