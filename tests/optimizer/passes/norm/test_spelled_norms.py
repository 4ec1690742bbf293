"""Normalizations as frameworks and people spell them become one node, which gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewriting import assert_same_numbers

from minnow.optimizer import optimize
from minnow.optimizer.pipeline import count_nodes
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder

Spelling = Callable[[Builder, Value], Value]
GAIN, BIAS = np.linspace(0.5, 2, 6, dtype=np.float32), np.linspace(-1, 1, 6, dtype=np.float32)
EPS = np.float32(1e-3)


def spelled(spelling: Spelling, shape: tuple[Any, ...], dtype: DType = DType.F32) -> Model:
    graph = Graph()
    x = graph.add_param(TensorType(dtype, shape), "x")
    y = spelling(Builder(graph), x)
    graph.outputs = [y]
    return Model(graph, [("x", x.type)], [("y", y.type)])


def check(spelling: Spelling, shape: tuple[Any, ...], ops: dict[str, int], target: Any = "mnn", level: int = 2,
          dtype: DType = DType.F32) -> None:  # fmt: skip
    model = spelled(spelling, shape, dtype)
    before = model.graph.clone()
    optimize(model, level, target=target)
    assert count_nodes(model.graph) == ops, model.graph
    assert_same_numbers(before, model.graph, 2e-3 if dtype is DType.F16 else 1e-5)


def mean(b: Builder, x: Value, axes: tuple[int, ...] = (-1,)) -> Value:
    return b.ReduceMean(x, axes=axes)


def square_mean(b: Builder, x: Value) -> Value:
    return mean(b, b.Pow(x, np.float32(2)))


def centered(b: Builder, x: Value, axes: tuple[int, ...] = (-1,)) -> Value:
    return b.Sub(x, mean(b, x, axes))


def keras(b: Builder, x: Value) -> Value:
    m = mean(b, x)
    factor = b.Mul(b.Rsqrt(b.Add(mean(b, b.SquaredDifference(x, m)), EPS)), GAIN)
    return b.Add(b.Mul(x, factor), b.Sub(BIAS, b.Mul(m, factor)))


def keras_plain(b: Builder, x: Value) -> Value:
    m = mean(b, x)
    factor = b.Rsqrt(b.Add(mean(b, b.Square(b.Sub(x, m))), EPS))
    return b.Sub(b.Mul(x, factor), b.Mul(m, factor))


def keras_negative(b: Builder, x: Value) -> Value:
    m = mean(b, x)
    factor = b.Rsqrt(b.Add(mean(b, b.SquaredDifference(x, m)), EPS))
    return b.Add(b.Mul(x, factor), b.Mul(b.Neg(m), factor))


LAYER: dict[str, Spelling] = {
    "pow, sqrt, div": lambda b, x: (
        lambda d: b.Div(d, b.Sqrt(b.Add(mean(b, b.Pow(d, np.float32(2))), EPS)))
    )(centered(b, x)),
    "computed twice": lambda b, x: b.Div(
        centered(b, x), b.Sqrt(b.Add(mean(b, b.Square(centered(b, x))), EPS))
    ),
    "mul, pow -0.5": lambda b, x: (
        lambda d: b.Mul(d, b.Pow(b.Add(mean(b, b.Mul(d, d)), EPS), np.float32(-0.5)))
    )(centered(b, x)),
    "pow 0.5": lambda b, x: (
        lambda d: b.Div(d, b.Pow(b.Add(mean(b, b.Mul(d, d)), EPS), np.float32(0.5)))
    )(centered(b, x)),
    "reciprocal": lambda b, x: (
        lambda d: b.Mul(b.Reciprocal(b.Sqrt(b.Add(EPS, mean(b, b.Mul(d, d))))), d)
    )(centered(b, x)),
    "one over": lambda b, x: (
        lambda d: b.Mul(b.Div(np.float32(1), b.Sqrt(b.Add(mean(b, b.Mul(d, d)), EPS))), d)
    )(centered(b, x)),
    "squared difference": lambda b, x: (
        lambda m: b.Mul(b.Sub(x, m), b.Rsqrt(b.Add(mean(b, b.SquaredDifference(x, m)), EPS)))
    )(mean(b, x)),
    "sum over n": lambda b, x: (
        lambda d: b.Div(d, b.Sqrt(b.Add(b.Div(b.ReduceSum(b.Mul(d, d), axes=(-1,)), np.float32(6)), EPS)))
    )(b.Sub(x, b.Mul(b.ReduceSum(x, axes=(-1,)), np.float32(1 / 6)))),
    "without deviations": keras_plain,
    "with a negative mean": keras_negative,
}  # fmt: skip
AFFINE: dict[str, Spelling] = {
    "gain, then bias": lambda b, x: b.Add(b.Mul(GAIN, LAYER["pow, sqrt, div"](b, x)), BIAS),
    "bias only": lambda b, x: b.Add(LAYER["reciprocal"](b, x), BIAS),
    "gain on the root": lambda b, x: (
        lambda d: b.Add(b.Mul(d, b.Mul(b.Rsqrt(b.Add(mean(b, b.Square(d)), EPS)), GAIN)), BIAS)
    )(centered(b, x)),
    "gain first": lambda b, x: (
        lambda d: b.Add(b.Div(b.Mul(d, GAIN), b.Sqrt(b.Add(mean(b, b.Square(d)), EPS))), BIAS)
    )(centered(b, x)),
    "as batches are normalized": keras,
}  # fmt: skip
RMS: dict[str, Spelling] = {
    "rsqrt": lambda b, x: b.Mul(x, b.Rsqrt(b.Add(square_mean(b, x), EPS))),
    "gain last": lambda b, x: b.Mul(GAIN, b.Mul(x, b.Rsqrt(b.Add(square_mean(b, x), EPS)))),
    "gain plus one": lambda b, x: b.Mul(
        b.Mul(x, b.Rsqrt(b.Add(square_mean(b, x), EPS))), b.Add(Value.constant(GAIN), np.float32(1))
    ),
    "gain first": lambda b, x: b.Mul(b.Mul(x, GAIN), b.Rsqrt(b.Add(square_mean(b, x), EPS))),
    "gain on the root": lambda b, x: b.Mul(x, b.Mul(GAIN, b.Rsqrt(b.Add(square_mean(b, x), EPS)))),
    "divided by the root": lambda b, x: b.Div(x, b.Sqrt(b.Add(square_mean(b, x), EPS))),
    "gain first, divided": lambda b, x: b.Div(b.Mul(GAIN, x), b.Sqrt(b.Add(square_mean(b, x), EPS))),
    "pow -0.5": lambda b, x: b.Mul(x, b.Pow(b.Add(square_mean(b, x), EPS), np.float32(-0.5))),
    "one over the root": lambda b, x: b.Mul(x, b.Div(np.float32(1), b.Sqrt(b.Add(square_mean(b, x), EPS)))),
    "sum over n": lambda b, x: b.Mul(
        x, b.Rsqrt(b.Add(b.Div(b.ReduceSum(b.Square(x), axes=(-1,)), np.float32(6)), EPS))
    ),
    "without epsilon": lambda b, x: b.Div(x, b.Sqrt(square_mean(b, x))),
}  # fmt: skip


@pytest.mark.parametrize("target", ["mnn", "minnow"])
@pytest.mark.parametrize("shape", [(2, 5, 6), ("N", "S", 6)], ids=str)
@pytest.mark.parametrize(
    ("op", "spelling"),
    [
        pytest.param(op, f, id=f"{op}-{name}")
        for op, table in (("LayerNorm", LAYER | AFFINE), ("RMSNorm", RMS))
        for name, f in table.items()
    ],
)
def test_rows(op: str, spelling: Spelling, shape: tuple[Any, ...], target: Any) -> None:
    check(spelling, shape, {op: 1}, target)


def halves(b: Builder, x: Value) -> Value:
    wide = b.Cast(x, to=DType.F32)
    return b.Mul(b.Cast(RMS["rsqrt"](b, wide), to=DType.F16), GAIN.astype(np.float16))


def test_rows_of_halves() -> None:
    check(halves, (2, 5, 6), {"RMSNorm": 1}, "minnow", dtype=DType.F16)


def per_channel(v: np.ndarray, rank: int = 4) -> np.ndarray:
    return v.reshape(-1, *(1,) * (rank - 2))


def over_pixels(b: Builder, x: Value) -> Value:
    rank = x.type.rank or 0
    axes = tuple(range(2, rank))
    d = centered(b, x, axes)
    y = b.Div(d, b.Sqrt(b.Add(mean(b, b.Mul(d, d), axes), EPS)))
    return b.Add(b.Mul(y, per_channel(GAIN, rank)), per_channel(BIAS, rank))


def over_rows(b: Builder, x: Value) -> Value:
    """A normalization of flattened channels."""
    shape = [0, *(int(d) for d in (x.type.shape or ())[1:])]
    y = b.Reshape(b.LayerNorm(b.Reshape(x, np.array([0, 0, -1])), epsilon=1e-3), np.array(shape))
    return b.Add(b.Mul(y, per_channel(GAIN, len(shape))), per_channel(BIAS, len(shape)))


def groups(count: int, norm: str, affine: bool = True) -> Spelling:
    def spelling(b: Builder, x: Value) -> Value:
        shape = [0, *(int(d) for d in (x.type.shape or ())[1:])]
        rows = b.Reshape(x, np.array([0, count, -1]))
        ones, zeros = np.ones(count, np.float32), np.zeros(count, np.float32)
        rows = b.LayerNorm(rows, epsilon=1e-3) if norm == "layer" else b.InstanceNorm(rows, ones, zeros, epsilon=1e-3)
        y = b.Reshape(rows, np.array(shape))
        rank = len(shape)
        return b.Add(b.Mul(y, per_channel(GAIN, rank)), per_channel(BIAS, rank)) if affine else y

    return spelling


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), ("N", 6, 5, 7), (2, 6, 5), (1, 6, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("spelling", [over_pixels, over_rows], ids=lambda f: f.__name__)
def test_channels(spelling: Spelling, shape: tuple[Any, ...]) -> None:
    check(spelling, shape, {"InstanceNorm": 1}, "minnow")
    # Channel blocks where the format has an op for factor and summand.
    wide = {"LayerNorm": 1, "Scale": 1, "ConvertLayout": 2} if len(shape) == 4 else {"LayerNorm": 1, "Mul": 1, "Add": 1}
    check(spelling, shape, wide, "mnn")


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("norm", ["layer", "instance"])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), ("N", 6, 5)], ids=str)
def test_groups_of_channels(shape: tuple[Any, ...], count: int, norm: str, affine: bool) -> None:
    spelling = groups(count, norm, affine)
    rows = count == 6 and len(shape) == 3 and norm == "layer" and not affine  # as layers have them, too
    check(spelling, shape, {"LayerNorm" if rows else "InstanceNorm" if count == 6 else "GroupNorm": 1}, "minnow")
    legal = "LayerNorm" if count in (1, 6) else "GroupNorm"
    more = {} if not affine else {"Scale": 1, "ConvertLayout": 2} if len(shape) == 4 else {"Mul": 1, "Add": 1}
    check(spelling, shape, {legal: 1, **more}, "mnn")
