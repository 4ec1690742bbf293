"""LogSoftmax is one node in the engine, though files spell it out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from engine_oracle import model_of

import minnow
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder


def answers(write: Callable[[Builder, Value], Value], x: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """What the engine gives, and the ops it runs."""
    graph = Graph()
    graph.outputs = [write(Builder(graph), graph.add_param(TensorType(DType.F32, x.shape)))]
    session = minnow.load(encode(model_of(graph)), threads=1)
    ops = [row["op"] for row in session.profile({"in0": x}, 1)]
    return next(iter(session.run({"in0": x}).values())), ops


def spelled(b: Builder, x: Value, axis: int, other: int) -> Value:
    shifted = b.Sub(x, b.ReduceMax(x, axes=(axis,)))
    return b.Sub(shifted, b.Log(b.ReduceSum(b.Exp(shifted), axes=(other,))))


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    x = x.astype(np.float64)
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 37), -1), ((3, 37), 1), ((2, 5, 7, 19), 1), ((2, 5, 33), 0), ((1, 1), 1)]
)
def test_is_one_node(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(2).normal(0, 20, shape).astype(np.float32)
    got, ops = answers(lambda b, v: spelled(b, v, axis, axis % len(shape)), x)
    assert ops == ["LogSoftmax"]
    assert np.allclose(got, log_softmax(x, axis), rtol=1e-5, atol=1e-5)


def test_other_axes_are_left_alone() -> None:
    x = np.random.default_rng(2).normal(0, 2, (4, 6)).astype(np.float32)
    got, ops = answers(lambda b, v: spelled(b, v, 1, 0), x)
    shifted = x - x.max(1, keepdims=True)
    assert "LogSoftmax" not in ops
    assert np.allclose(got, shifted - np.log(np.exp(shifted).sum(0, keepdims=True)), rtol=1e-5, atol=1e-5)


def test_what_others_read_is_left_alone() -> None:
    def write(b: Builder, x: Value) -> Value:
        shifted = b.Sub(x, b.ReduceMax(x, axes=(1,)))
        exp = b.Exp(shifted)
        return b.Add(b.Sub(shifted, b.Log(b.ReduceSum(exp, axes=(1,)))), exp)

    x = np.random.default_rng(2).normal(0, 2, (4, 6)).astype(np.float32)
    got, ops = answers(write, x)
    assert "LogSoftmax" not in ops
    assert np.allclose(got, log_softmax(x, 1) + np.exp(x - x.max(1, keepdims=True)), rtol=1e-5, atol=1e-5)
