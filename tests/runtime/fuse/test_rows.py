"""Chains of nodes that make rows of rows are one node in the plan: against the numpy references of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]


def meaning(b: Builder, x: Any, scale: float, zero: int, to: DType = DType.U8) -> Value:
    return b.DequantizeLinear(x, np.float32(scale), np.asarray(zero, to.numpy))


def bytes_of(b: Builder, x: Any, scale: float, zero: int, to: DType = DType.U8) -> Value:
    return b.QuantizeLinear(x, np.float32(scale), np.asarray(zero, to.numpy), to=to)


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def projection(graph: Graph, b: Builder, rng: np.random.Generator) -> list[Value]:
    """The bias of a product, between two quantizations, and the heads."""
    x = graph.add_param(TensorType(DType.U8, (1, 77, 264)), "x")
    y = b.Reshape(b.Add(meaning(b, x, 0.02, 120), numbers(rng, 264)), np.asarray([1, 77, 4, 66]))
    return [bytes_of(b, y, 0.031, 7, DType.I8)]


def residual(graph: Graph, b: Builder, rng: np.random.Generator) -> list[Value]:
    """A sum, its normalization and the way back, where the normalized numbers are asked for, too."""
    x = graph.add_param(TensorType(DType.U8, (2, 53, 200)), "x")
    y = b.Add(meaning(b, x, 0.02, 120), graph.add_param(TensorType(DType.F32, (2, 53, 200)), "y"))
    z = b.LayerNorm(y, numbers(rng, 200), numbers(rng, 200), axis=2)
    return [bytes_of(b, z, 0.05, 128), z]


def weights(graph: Graph, b: Builder, rng: np.random.Generator) -> list[Value]:
    """Scores of attention: a mask for all heads, and the softmax."""
    x = graph.add_param(TensorType(DType.U8, (1, 3, 67, 131)), "x")
    mask = graph.add_param(TensorType(DType.F32, (1, 1, 1, 131)), "mask")
    return [bytes_of(b, b.Softmax(b.Add(meaning(b, x, 0.05, 120), mask)), 1 / 255, 0)]


def root_mean_square(graph: Graph, b: Builder, rng: np.random.Generator) -> list[Value]:
    x = graph.add_param(TensorType(DType.F32, (300, 96)), "x")
    return [b.Mul(b.RMSNorm(b.Softmax(b.Mul(x, x)), numbers(rng, 96)), numbers(rng, 96))]


def feeds(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    return {
        v.name: rng.integers(0, 256, v.type.static_shape).astype(np.uint8)
        if v.type.dtype is DType.U8
        else numbers(rng, *v.type.static_shape)
        for v in graph.params
    }


CHAINS = {projection: 3, residual: 4, weights: 4, root_mean_square: 4}


@pytest.mark.parametrize("build", CHAINS, ids=lambda f: f.__name__)
def test_one_node_computes_them_all(build: Any) -> None:
    rng = np.random.default_rng(3)
    graph = Graph()
    graph.outputs = build(graph, Builder(graph), rng)
    model = Model(
        graph, [(v.name, v.type) for v in graph.params], [(f"o{i}", v.type) for i, v in enumerate(graph.outputs)]
    )
    feed, data = feeds(graph, rng), encode(model)
    wants = evaluate(graph, list(feed.values()))
    first: dict[str, Array] = {}
    for threads in (1, 2, 5, 16):
        session = minnow.load(data, threads=threads)
        got = session.run(feed)
        for want, y in zip(wants, got.values(), strict=True):
            assert (y.dtype, y.shape) == (want.dtype, want.shape)
            if want.dtype == np.float32:
                np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
                continue
            # A number between two bytes may become the other one.
            off = np.abs(y.astype(np.int32) - want)
            assert off.max() <= 1, off.max()
            assert (off > 0).mean() < 1e-3
        first = first or got
        assert all(np.array_equal(y, first[name]) for name, y in got.items()), threads
        assert [(r["op"], r["scheme"].count("+") + 1) for r in session.profile(feed, 1)] == [
            ("FusedRows", CHAINS[build])
        ]


def test_short_ones_and_images_stay_as_they_are() -> None:
    for shape, op in (((4, 100), "LayerNorm"), ((1, 8, 40, 60), "QuantizeLinear")):
        graph = Graph()
        b = Builder(graph)
        x = graph.add_param(TensorType(DType.F32, shape), "x")
        y = b.Relu(x)
        graph.outputs = [b.LayerNorm(y) if op == "LayerNorm" else bytes_of(b, y, 0.1, 3)]
        model = Model(graph, [("x", x.type)], [("y", graph.outputs[0].type)])
        feed = feeds(graph, np.random.default_rng(1))
        ops = [row["op"] for row in minnow.load(encode(model)).profile(feed, 1)]
        assert "FusedRows" not in ops
        assert op in ops


def test_what_is_read_between_them_ends_a_chain() -> None:
    graph = Graph()
    b = Builder(graph)
    rng = np.random.default_rng(2)
    x = graph.add_param(TensorType(DType.U8, (90, 250)), "x")
    y = b.LayerNorm(meaning(b, x, 0.02, 120))
    z = b.ReduceMax(y, axes=(0,))
    graph.outputs = [b.Mul(b.Softmax(y), z)]
    model = Model(graph, [("x", x.type)], [("y", graph.outputs[0].type)])
    feed = feeds(graph, rng)
    session = minnow.load(encode(model), threads=2)
    (want,) = evaluate(graph, list(feed.values()))
    np.testing.assert_allclose(session.run(feed)["y"], want, rtol=1e-4, atol=1e-6)
    assert [r["op"] for r in session.profile(feed, 1)].count("FusedRows") == 2
