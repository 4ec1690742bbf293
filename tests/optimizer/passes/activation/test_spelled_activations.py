"""Activations as frameworks and people spell them become one node, which gives the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewriting import assert_same_numbers

from minnow.optimizer import optimize
from minnow.optimizer.pipeline import count_nodes
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

Spelling = Callable[[Builder, Value], Value]
f = np.float32
SLOPES = np.array([0.5, 0.25, 0.125], np.float32).reshape(3, 1)


def sigmoid(b: Builder, x: Value) -> Value:
    return b.Add(b.Exp(b.Neg(x)), f(1))


def clip6(b: Builder, x: Value) -> Value:
    return b.Min(b.Max(b.Add(x, f(3)), f(0)), f(6))


def relu6(b: Builder, x: Value) -> Value:
    return b.Min(b.Relu(b.Add(f(3), x)), f(6))


def tanh_half(b: Builder, x: Value) -> Value:
    return b.Tanh(b.Mul(x, f(0.5)))


def cubic(b: Builder, x: Value, c: float = math.sqrt(2 / math.pi)) -> Value:
    return b.Mul(b.Add(x, b.Mul(b.Pow(x, f(3)), f(0.044715))), f(c))


def factored(b: Builder, x: Value) -> Value:
    inner = b.Add(b.Mul(b.Mul(x, f(0.044715)), x), f(1))
    return b.Mul(b.Mul(x, f(math.sqrt(2 / math.pi))), inner)


def relu_of_negative(b: Builder, x: Value) -> Value:
    return b.Relu(b.Neg(x))


ROOT2 = math.sqrt(2)
SPELLINGS: dict[str, list[Spelling]] = {
    "Sigmoid": [
        lambda b, x: b.Div(f(1), sigmoid(b, x)),
        lambda b, x: b.Reciprocal(sigmoid(b, x)),
        lambda b, x: b.Pow(sigmoid(b, x), f(-1)),
        lambda b, x: b.Add(b.Mul(tanh_half(b, x), f(0.5)), f(0.5)),
        lambda b, x: b.Mul(b.Add(f(1), tanh_half(b, x)), f(0.5)),
    ],
    "Silu": [
        lambda b, x: b.Mul(x, b.Sigmoid(x)),
        lambda b, x: b.Div(x, sigmoid(b, x)),
        lambda b, x: b.Mul(x, b.Div(f(1), sigmoid(b, x))),
    ],
    "Softsign": [lambda b, x: b.Div(x, b.Add(f(1), b.Abs(x))), lambda b, x: b.Div(x, b.Add(b.Abs(x), f(1)))],
    "Mish": [
        lambda b, x: b.Mul(x, b.Tanh(b.Softplus(x))),
        lambda b, x: b.Mul(b.Tanh(b.Log(b.Add(b.Exp(x), f(1)))), x),
        lambda b, x: b.Mul(x, b.Tanh(b.Log1p(b.Exp(x)))),
    ],
    "HardSwish": [
        lambda b, x: b.Div(b.Mul(x, clip6(b, x)), f(6)),
        lambda b, x: b.Mul(x, b.Div(clip6(b, x), f(6))),
        lambda b, x: b.Mul(x, b.Mul(relu6(b, x), f(1 / 6))),
        lambda b, x: b.Mul(b.Mul(x, relu6(b, x)), f(1 / 6)),
        lambda b, x: b.Mul(b.Mul(x, f(1 / 6)), relu6(b, x)),
        lambda b, x: b.Mul(x, b.HardSigmoid(x, alpha=1 / 6, beta=0.5)),
        lambda b, x: b.Mul(x, b.Clip(b.Add(b.Div(x, f(6)), f(0.5)), min=0.0, max=1.0)),
        lambda b, x: b.Mul(x, b.Clip(b.Add(b.Mul(x, f(1 / 6)), f(0.5)), min=0.0, max=1.0)),
    ],
    "HardSigmoid": [
        lambda b, x: b.Div(clip6(b, x), f(6)),
        lambda b, x: b.Mul(relu6(b, x), f(1 / 6)),
        lambda b, x: b.Clip(b.Add(b.Mul(x, f(0.2)), f(0.5)), min=0.0, max=1.0),
        lambda b, x: b.Max(b.Min(b.Add(b.Mul(x, f(0.2)), f(0.5)), f(1)), f(0)),
        lambda b, x: b.Clip(b.Add(b.Div(x, f(6)), f(0.5)), min=0.0, max=1.0),
    ],
    "Gelu": [
        lambda b, x: b.Mul(b.Mul(x, f(0.5)), b.Add(b.Erf(b.Div(x, f(ROOT2))), f(1))),
        lambda b, x: b.Mul(x, b.Add(b.Mul(b.Erf(b.Mul(x, f(1 / ROOT2))), f(0.5)), f(0.5))),
        lambda b, x: b.Mul(b.Mul(x, f(0.5)), b.Erfc(b.Mul(b.Neg(x), f(1 / ROOT2)))),
        lambda b, x: b.Mul(b.Mul(x, b.Erfc(b.Mul(x, f(-1 / ROOT2)))), f(0.5)),
        lambda b, x: b.Mul(b.Mul(x, f(0.5)), b.Add(f(1), b.Tanh(cubic(b, x)))),
        lambda b, x: b.Mul(b.Mul(x, f(0.5)), b.Add(f(1), b.Tanh(factored(b, x)))),
        lambda b, x: b.Mul(x, b.Add(b.Mul(b.Tanh(cubic(b, x)), f(0.5)), f(0.5))),
        lambda b, x: b.Mul(x, b.Sigmoid(cubic(b, x, 2 * math.sqrt(2 / math.pi)))),
    ],
    "Elu": [
        lambda b, x: b.Where(b.Greater(x, f(0)), x, b.Sub(b.Exp(x), f(1))),
        lambda b, x: b.Where(b.LessOrEqual(x, f(0)), b.Mul(b.Expm1(x), f(0.5)), x),
        lambda b, x: b.Add(b.Relu(x), b.Sub(b.Exp(b.Min(x, f(0))), f(1))),
        lambda b, x: b.Add(b.Relu(x), b.Mul(f(1.5), b.Sub(b.Exp(b.Min(x, f(0))), f(1)))),
    ],
    "Selu": [
        lambda b, x: b.Mul(b.Elu(x, alpha=1.67326), f(1.0507)),
        lambda b, x: b.Mul(b.Where(b.Greater(x, f(0)), x, b.Mul(b.Expm1(x), f(1.67326))), f(1.0507)),
    ],
    "Celu": [
        lambda b, x: b.Add(b.Relu(x), b.Min(b.Mul(b.Expm1(b.Div(x, f(2))), f(2)), f(0))),
        lambda b, x: b.Add(b.Max(x, f(0)), b.Min(f(0), b.Mul(f(4), b.Sub(b.Exp(b.Mul(x, f(0.25))), f(1))))),
    ],
    "LeakyRelu": [
        lambda b, x: b.Max(x, b.Mul(x, f(0.1))),
        lambda b, x: b.Where(b.Greater(x, f(0)), x, b.Mul(x, f(0.1))),
        lambda b, x: b.Where(b.GreaterOrEqual(x, f(0)), x, b.Mul(x, f(1.5))),
        lambda b, x: b.Where(b.Less(x, f(0)), b.Mul(f(-0.25), x), x),
        lambda b, x: b.Sub(b.Relu(x), b.Mul(f(0.2), relu_of_negative(b, x))),
    ],
    "PRelu": [
        lambda b, x: b.Add(b.Relu(x), b.Mul(b.Neg(Value.constant(SLOPES)), relu_of_negative(b, x))),
        lambda b, x: b.Add(b.Mul(SLOPES, b.Neg(relu_of_negative(b, x))), b.Relu(x)),
        lambda b, x: b.Add(b.Relu(x), b.Neg(b.Mul(relu_of_negative(b, x), SLOPES))),
        lambda b, x: b.Sub(b.Relu(x), b.Mul(SLOPES, relu_of_negative(b, x))),
        lambda b, x: b.Add(b.Max(x, f(0)), b.Mul(SLOPES, b.Min(x, f(0)))),
        lambda b, x: b.Add(b.Mul(b.Min(f(0), x), SLOPES), b.Max(f(0), x)),
        lambda b, x: b.Where(b.Greater(x, f(0)), x, b.Mul(x, SLOPES)),
    ],
    "Relu": [lambda b, x: b.Where(b.Less(x, f(0)), f(0), x), lambda b, x: b.Max(f(0), x)],
    "Abs": [lambda b, x: b.Max(b.Neg(x), x), lambda b, x: b.Add(b.Relu(x), relu_of_negative(b, x))],
    "Reciprocal": [lambda b, x: b.Div(f(1), x), lambda b, x: b.Pow(x, f(-1))],
    "Rsqrt": [
        lambda b, x: b.Div(f(1), b.Sqrt(b.Abs(x))),
        lambda b, x: b.Reciprocal(b.Sqrt(b.Abs(x))),
        lambda b, x: b.Pow(b.Abs(x), f(-0.5)),
    ],
    "SquaredDifference": [
        lambda b, x: b.Square(b.Sub(x, SLOPES)),
        lambda b, x: b.Pow(b.Sub(x, SLOPES), f(2)),
        lambda b, x: (lambda d: b.Mul(d, d))(b.Sub(x, SLOPES)),
    ],
    "Clip": [
        lambda b, x: b.Min(b.Max(x, f(-1)), f(1)),
        lambda b, x: b.Clip(b.Clip(x, min=-1.0), max=0.5),
        lambda b, x: b.Max(b.Relu(b.Min(x, f(6))), f(1)),
    ],
    "Square": [lambda b, x: b.Pow(x, f(2)), lambda b, x: b.Mul(x, x)],
}  # fmt: skip
SPECIAL = np.array([0, -0.0, 1e-30, -1e-30, 30, -30, 100, -100, np.nan], np.float32)


def model_of(spelling: Spelling, shape: tuple[Any, ...]) -> Model:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, shape), "x")
    y = spelling(Builder(graph), x)
    graph.outputs = [y]
    return Model(graph, [("x", x.type)], [("y", y.type)])


CASES = [pytest.param(op, s, id=f"{op}-{i}") for op, table in SPELLINGS.items() for i, s in enumerate(table)]


@pytest.mark.parametrize("shape", [(2, 3, 5), ("N", 3, "S")], ids=str)
@pytest.mark.parametrize(("op", "spelling"), CASES)
def test_one_node(op: str, spelling: Spelling, shape: tuple[Any, ...]) -> None:
    model = model_of(spelling, shape)
    before = model.graph.clone()
    optimize(model, target="minnow", passes=["-fuse_elementwise"])
    counts = count_nodes(model.graph)
    counts.pop("Abs", None) if op == "Rsqrt" else None
    assert counts == {op: 1}, model.graph
    assert_same_numbers(before, model.graph)


@pytest.mark.parametrize(("op", "spelling"), CASES)
def test_no_more_nodes_for_other_runtimes(op: str, spelling: Spelling) -> None:
    model = model_of(spelling, (2, 3, 5))
    plain = model_of(spelling, (2, 3, 5))
    optimize(model)
    optimize(plain, level=1)
    assert len(model.graph) <= len(plain.graph), model.graph


@pytest.mark.parametrize(("op", "spelling"), CASES)
def test_what_is_special(op: str, spelling: Spelling) -> None:
    """Zeros, large numbers and what is none."""
    model = model_of(spelling, (3, 3))
    before = model.graph.clone()
    optimize(model, target="minnow")
    x = SPECIAL.reshape(3, 3)
    with np.errstate(all="ignore"):
        (want,), (got,) = evaluate(before, [x]), evaluate(model.graph, [x])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "spelling"),
    [
        ("Softplus", lambda b, x: b.Log(b.Add(f(1), b.Exp(x)))),
        ("Softplus", lambda b, x: b.Log1p(b.Exp(x))),
        ("LogSoftmax", lambda b, x: b.Log(b.Softmax(x, axis=1))),
        ("Softmax", lambda b, x: (lambda e: b.Div(e, b.ReduceSum(e, axes=(1,))))(b.Exp(x))),
        ("PRelu", lambda b, x: b.Add(b.Relu(x), b.Mul(b.Mul(b.Sub(x, b.Abs(x)), SLOPES), f(0.5)))),
        ("PRelu", lambda b, x: b.Add(b.Relu(x), b.Mul(SLOPES, b.Mul(b.Sub(x, b.Abs(x)), f(0.5))))),
    ],
)
def test_what_differs_for_some_numbers_waits_for_the_highest_level(op: str, spelling: Spelling) -> None:
    for level, found in ((2, False), (3, True)):
        model = model_of(spelling, (2, 3, 5))
        before = model.graph.clone()
        optimize(model, level, target="minnow")
        assert (count_nodes(model.graph) == {op: 1}) is found, model.graph
        assert_same_numbers(before, model.graph)
