"""Patterns: what matches, in which order, and what is bound; and the spellings of activations that exporters use."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewriting import apply, assert_same_numbers, read

from minnow.optimizer.phases import rules_of
from minnow.optimizer.rewrite import apply_rules, passes, rules
from minnow.optimizer.rewrite.pattern import Match, Matcher, trace
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


def _match(pattern: Callable[..., Any], text: str) -> Match | None:
    graph = read(text)
    last = graph.outputs[0].producer
    assert last is not None
    return next((m for term in trace(pattern) if (m := Matcher(term).match(last))), None)


PARAMS = "graph g(%x: f32[4], %z: f32[4])"


@pytest.mark.parametrize(
    ("pattern", "lines", "matches"),
    [
        (lambda p, x: p.Mul(x, p.Sigmoid(x)), "%a: f32[4] = Sigmoid(%x) %y: f32[4] = Mul(%a, %x)", True),
        (lambda p, x: p.Sub(x, p.Sigmoid(x)), "%a: f32[4] = Sigmoid(%x) %y: f32[4] = Sub(%a, %x)", False),
        (lambda p, x: p.Add(x, 2.0), "%y: f32[4] = Add(f32[](2.0001), %x)", True),
        (lambda p, x: p.Add(x, 2.0), "%y: f32[4] = Add(f32[](2.001), %x)", False),
        (lambda p, x: p.Add(x, 2.0), "%y: f32[4] = Add(f32[4](2.0, 2.0, 2.0, 2.0), %x)", True),
        (lambda p, x: p.Add(x, 2.0), "%y: f32[4] = Add(f32[4](2.0, 2.0, 2.0, 3.0), %x)", False),
        (lambda p, x: p.Add(x, 0.0), "%y: f32[4] = Add(f32[](1e-09), %x)", False),
        (lambda p, x: p.Add(x, 2.0), "%y: f32[3,4] = Add(f32[3,1](2.0, 2.0, 2.0), %x)", False),
        (lambda p, x: p.Add(x, p.const("k")), "%y: f32[4] = Add(%x, %z)", False),
        (lambda p, x, w: p.Add(x, w), "%y: f32[4] = Add(%x, %x)", True),
        (lambda p, x: p.Exp(p.Neg(x) | p.Abs(x)), "%a: f32[4] = Abs(%x) %y: f32[4] = Exp(%a)", True),
        (lambda p, x: p.Clip(x, max=6.0), "%y: f32[4] = Clip(%x) {min=-1.0, max=6.0}", True),
        (lambda p, x: p.Clip(x, min=0.0, max=6.0), "%y: f32[4] = Clip(%x) {max=6.0}", False),
        (lambda p, x: p.Clip(x, max=lambda v: v > 5), "%y: f32[4] = Clip(%x) {max=6.0}", True),
        (lambda p, x: p.Concat(x, axis=0), "%y: f32[8] = Concat(%x, %z) {axis=0}", False),
        (lambda p, x: p.Concat(x, ..., axis=0), "%y: f32[8] = Concat(%x, %z) {axis=0}", True),
    ],
)  # fmt: skip
def test_what_matches(pattern: Callable[..., Any], lines: str, matches: bool) -> None:
    assert (_match(pattern, f"{PARAMS} {{ {lines} return %y }}") is not None) is matches


def test_names_are_bound_to_values_and_nodes() -> None:
    m = _match(
        lambda p, x: p.Exp(p.Clip(x, as_="clip") | p.Relu(x, as_="relu")),
        f"{PARAMS} {{ %a: f32[4] = Relu(%x) %y: f32[4] = Exp(%a) return %y }}",
    )
    assert m is not None
    assert (m.root.op, m.relu.op, m.x.name) == ("Exp", "Relu", "x")
    assert [n.op for n in m.nodes] == ["Exp", "Relu"]
    with pytest.raises(AttributeError):
        _ = m.clip


def test_an_op_that_does_not_exist_is_found_when_the_pattern_is_made() -> None:
    with pytest.raises(UnsupportedError, match="there is no op 'Expp'"):
        trace(lambda p, x: p.Expp(x))


def test_a_pattern_needs_an_op_at_its_root() -> None:
    with pytest.raises(TypeError):
        trace(lambda p, x: x)


# ---- spellings: each function builds one; `flip` decides about the order of the operands of commutative ops

Flip = Callable[[Any, Any], tuple[Any, Any]]
_ROOT = np.float32(np.sqrt(2))
_TANH = np.float32(np.sqrt(2 / np.pi))


def _mul(b: Builder, flip: Flip, u: Any, v: Any) -> Value:
    return b.Mul(*flip(u, v))


def _add(b: Builder, flip: Flip, u: Any, v: Any) -> Value:
    return b.Add(*flip(u, v))


def _f(number: float) -> np.ndarray[Any, Any]:
    return np.asarray(number, np.float32)


def _cube(b: Builder, x: Value, flip: Flip, power: bool) -> Value:
    return b.Pow(x, _f(3)) if power else _mul(b, flip, x, b.Mul(x, x))


SPELLINGS: dict[str, list[Callable[[Builder, Value, Flip], Value]]] = {
    "Gelu": [
        lambda b, x, s: _mul(b, s, _mul(b, s, x, _add(b, s, b.Erf(b.Div(x, _ROOT)), _f(1))), _f(0.5)),
        lambda b, x, s: _mul(b, s, _mul(b, s, x, _f(0.5)), _add(b, s, b.Erf(_mul(b, s, x, 1 / _ROOT)), _f(1))),
        lambda b, x, s: _mul(b, s, x, _mul(b, s, _f(0.5), _add(b, s, b.Erf(b.Div(x, _ROOT)), _f(1)))),
        lambda b, x, s: b.Div(_mul(b, s, x, _add(b, s, b.Erf(b.Div(x, _ROOT)), _f(1))), _f(2)),
        *(
            lambda b, x, s, power=power: _mul(b, s, _mul(b, s, x, _f(0.5)), _add(b, s, b.Tanh(_mul(
                b, s, _add(b, s, x, _mul(b, s, _cube(b, x, s, power), _f(0.044715))), _TANH)), _f(1)))
            for power in (False, True)
        ),
        lambda b, x, s: _mul(b, s, _mul(b, s, x, _add(b, s, b.Tanh(_mul(b, s, _mul(b, s, x, _TANH), _add(
            b, s, _mul(b, s, b.Square(x), _f(0.044715)), _f(1)))), _f(1))), _f(0.5)),
    ],
    "HardSwish": [
        lambda b, x, s: b.Div(_mul(b, s, x, b.Clip(_add(b, s, x, _f(3)), min=0.0, max=6.0)), _f(6)),
        lambda b, x, s: _mul(b, s, x, b.Div(b.Clip(_add(b, s, x, _f(3)), min=0.0, max=6.0), _f(6))),
        lambda b, x, s: _mul(b, s, _mul(b, s, x, b.Min(*s(b.Relu(_add(b, s, x, _f(3))), _f(6)))), _f(1 / 6)),
        lambda b, x, s: _mul(b, s, x, b.HardSigmoid(x, alpha=1 / 6, beta=0.5)),
    ],
    "Silu": [lambda b, x, s: _mul(b, s, x, b.Sigmoid(x))],
    "LayerNorm": [
        lambda b, x, s: b.Div(b.Sub(x, b.ReduceMean(x, axes=(-1,))), b.Sqrt(_add(b, s, b.ReduceMean(b.Pow(
            b.Sub(x, b.ReduceMean(x, axes=(-1,))), _f(2)), axes=(-1,)), _f(1e-5)))),
        lambda b, x, s: _mul(b, s, b.Sub(x, b.ReduceMean(x, axes=(1,))), b.Rsqrt(_add(b, s, b.ReduceMean(b.Square(
            b.Sub(x, b.ReduceMean(x, axes=(-1,)))), axes=(-1,)), _f(1e-5)))),
    ],
    "RMSNorm": [
        lambda b, x, s: _mul(b, s, x, b.Reciprocal(b.Sqrt(_add(
            b, s, b.ReduceMean(b.Mul(x, x), axes=(-1,)), _f(1e-6))))),
    ],
}  # fmt: skip
_CASES = [
    (op, i, flip) for op, group in SPELLINGS.items() for i, flip in itertools.product(range(len(group)), (False, True))
]


@pytest.mark.parametrize(("op", "spelling", "flip"), _CASES)
def test_spellings_become_one_node(op: str, spelling: int, flip: bool) -> None:
    graph = Graph("g")
    x = graph.add_param(TensorType(DType.F32, (3, 7)), "x")
    b = Builder(graph)
    graph.outputs = [SPELLINGS[op][spelling](b, x, lambda u, v: (v, u) if flip else (u, v))]
    before = graph.clone()
    passes["eliminate_common"].apply(graph)
    for name in ("activation", "norm"):
        apply_rules(graph, rules_of(name))
    assert [n.op for n in graph] == [op]
    assert_same_numbers(before, graph, tolerance=1e-4)


def test_a_tanh_with_other_constants_is_no_gelu() -> None:
    """Structure alone is not enough: each constant has to be the one of the formula."""
    for i in range(4):
        numbers = [0.5, 0.044715, float(_TANH), 1.0]
        numbers[i] *= 1.01
        half, cubic, scale, one = map(_f, numbers)
        graph = Graph("g")
        x = graph.add_param(TensorType(DType.F32, (5,)), "x")
        b = Builder(graph)
        inner = b.Mul(b.Add(x, b.Mul(b.Pow(x, _f(3)), cubic)), scale)
        graph.outputs = [b.Mul(b.Mul(x, half), b.Add(b.Tanh(inner), one))]
        assert apply(rules["fuse_gelu_tanh"], graph) == 0, f"constant {i}"
