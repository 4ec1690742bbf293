"""Loops over time that are recurrent layers: each becomes the one node that it spells out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.optimizer.passes.recurrent_loop import Counted, NoMatchError, Parts, affine, of_one, terms
from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import Builder

_FUNCTIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu"}
Array = np.ndarray[Any, Any]


@graph_pass(level=1)
def fuse_recurrent_loops(graph: Graph) -> int:
    """Replaces loops that compute the cell of an LSTM, a GRU or a plain recurrent layer in each round.

    Given:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %n: f32[1,1], %y: f32[3,1,1] = Loop(i64[](3), _, %h, %x) {body=graph "b"(%t: i64[], %go: bool[], %s: f32[1,1], %all: f32[3,1,2]) {
            %now: f32[1,2] = Gather(%all, %t)
            %a: f32[1,1] = Linear(%now, f32[1,2](0.5, 0.25), f32[1](1.0))
            %b: f32[1,1] = Linear(%s, f32[1,1](2.0))
            %c: f32[1,1] = Add(%a, %b)
            %d: f32[1,1] = Tanh(%c)
            return %go, %d, %d
          }, num_carried=1}
          return %n, %y
        }
    Result:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %0: f32[1,1,1] = Unsqueeze(%h) {axes=(0,)}
          %1: f32[3,1,1,1], %2: f32[1,1,1] = RNN(%x, f32[1,1,2](0.5, 0.25), f32[1,1,1](2.0), f32[1,2](1.0, 0.0), _, %0) {hidden=1, activations=("tanh",)}
          %3: f32[3,1,1] = Squeeze(%1) {axes=(1,)}
          %4: f32[1,1] = Squeeze(%2) {axes=(0,)}
          return %4, %3
        }
    """  # noqa: E501
    changes = 0
    for node in graph:
        if node.op == "Loop":
            try:
                _replace(graph, node)
            except NoMatchError:
                continue
            changes += 1
    return changes


@dataclass
class Layer:
    """A layer that a loop spells out.

    Attributes:
        op: of the node.
        x: the sequence, [time, batch, features].
        states: parameters of the body that hold h, and c of an LSTM.
        w, r: [gates * hidden, ...], in the order of the op.
        bias: the sum, or both halves one after the other.
    """

    op: str
    x: Value
    states: Sequence[Value]
    w: Array
    r: Array
    bias: Array
    attrs: dict[str, Any]


def _replace(graph: Graph, node: Node) -> None:
    loop = Counted(node)
    layer = next((found for of in (_lstm, _gru, _rnn) if (found := of(loop)) is not None), None)
    if layer is None:
        raise NoMatchError
    hidden = layer.r.shape[1]
    results = loop.results(layer.states)
    b = Builder(graph, node, f"{node.origin} > fuse_recurrent_loops")
    first = [b.Unsqueeze(loop.outside[s], axes=(0,)) for s in layer.states]
    halves = (
        layer.bias if layer.bias.size == 2 * len(layer.w) else np.concatenate([layer.bias, np.zeros_like(layer.bias)])
    )
    operands = (v.astype(np.float32)[None] for v in (layer.w, layer.r, halves))
    y, *last = getattr(b, layer.op)(
        layer.x, *operands, None, *first, hidden=hidden, n_outputs=1 + len(first), **layer.attrs
    )
    rows = b.Squeeze(y, axes=(1,))
    after = [b.Squeeze(v, axes=(0,)) for v in last]
    for old, (kind, what) in zip(node.outputs, results, strict=True):
        if kind == "state":
            new = after[what]
        elif kind == "rows":
            new = rows
        elif kind == "last row":
            new = b.Unsqueeze(after[0], axes=(0,))
        else:
            new = what
        if old.uses:
            old.replace_all_uses(new)
    graph.erase(node)


def _stack(parts: Sequence[Parts], which: str) -> Array:
    return np.concatenate([getattr(p, which) for p in parts])


def _activation(value: Value) -> tuple[str, Value]:
    node = value.producer
    if node is None or node.op not in _FUNCTIONS:
        raise NoMatchError
    return _FUNCTIONS[node.op], node.input(0)


def _factors(value: Value) -> tuple[Value, Value] | None:
    node = value.producer
    return (node.input(0), node.input(1)) if node is not None and node.op == "Mul" else None


def _lstm(loop: Counted) -> Layer | None:
    """h' = o * a(c'), c' = f * c + i * g."""
    for h, h_after in loop.states():
        outer = _factors(h_after)
        for o, seen in _both(outer):
            function = _FUNCTIONS.get(seen.producer.op) if seen.producer is not None else None
            c_after = seen.producer.input(0) if function and seen.producer is not None else None
            c = next((p for p, r in loop.states() if r is c_after and p is not h), None)
            summed = terms(c_after) if c_after is not None and c is not None else []
            if function is None or len(summed) != 2:
                continue
            for kept, entered in (summed, summed[::-1]):
                for forget, state in _both(_factors(kept)):
                    for i, g in _both(_factors(entered)):
                        if state is c and (found := _lstm_of(loop, h, c, (i, o, forget, g), function)):
                            return found
    return None


def _both(pair: tuple[Value, Value] | None) -> list[tuple[Value, Value]]:
    return [] if pair is None else [pair, pair[::-1]]


def _lstm_of(loop: Counted, h: Value, c: Value | None, gates: Sequence[Value], function: str) -> Layer | None:
    try:
        kinds = [_activation(v) for v in gates]
        if [k for k, _ in kinds[:3]] != ["sigmoid"] * 3 or c is None:
            return None
        parts = [affine(loop, v, h) for _, v in kinds]
    except NoMatchError:
        return None
    names = () if (kinds[3][0], function) == ("tanh", "tanh") else ("sigmoid", kinds[3][0], function)
    attrs = {"activations": names} if names else {}
    return Layer("LSTM", loop.sequence(), (h, c), _stack(parts, "w"), _stack(parts, "r"), _stack(parts, "bias"), attrs)


def _gru(loop: Counted) -> Layer | None:
    """h' = z * h + (1 - z) * a(...)."""
    for h, h_after in loop.states():
        summed = terms(h_after)
        if len(summed) != 2:
            continue
        for kept, entered in (summed, summed[::-1]):
            for z, state in _both(_factors(kept)):
                for rest, candidate in _both(_factors(entered)):
                    if state is h and of_one(rest, z):
                        try:
                            return _gru_of(loop, h, z, candidate)
                        except NoMatchError:
                            continue
    return None


def _gru_of(loop: Counted, h: Value, z: Value, candidate: Value) -> Layer:
    kind, pre = _activation(z)
    function, inside = _activation(candidate)
    if kind != "sigmoid":
        raise NoMatchError
    update = affine(loop, pre, h)
    # What the reset gate is a factor of: the state itself, or its product with the matrix.
    leaves = terms(inside)
    for leaf in leaves:
        others = [v for v in leaves if v is not leaf]
        for r, inner in _both(_factors(leaf)):
            if r.producer is not None and r.producer.op == "Sigmoid":
                reset = affine(loop, r.producer.input(0), h)
                own = sum((affine(loop, v, h) for v in others), start=Parts.zero(update))
                hidden = affine(loop, inner, h)
                if not np.any(own.r) and not np.any(hidden.w):
                    parts = [update, reset, own]
                    recurrent = np.concatenate([update.r, reset.r, hidden.r])
                    bias = np.concatenate([_stack(parts, "bias"), 0 * update.bias, 0 * reset.bias, hidden.bias])
                    return _gru_layer(loop, h, parts, recurrent, bias, function, linear_before_reset=True)
        node = leaf.producer
        if node is not None and node.op in ("Linear", "MatMul"):
            for r, state in _both(_factors(node.input(0))):
                if state is h and r.producer is not None and r.producer.op == "Sigmoid":
                    reset = affine(loop, r.producer.input(0), h)
                    own = sum((affine(loop, v, h) for v in others), start=Parts.zero(update))
                    scaled = affine(loop, leaf, node.input(0))
                    if not np.any(own.r):
                        parts = [update, reset, Parts(own.w, own.r, own.bias + scaled.bias)]
                        recurrent = np.concatenate([update.r, reset.r, scaled.r])
                        return _gru_layer(loop, h, parts, recurrent, _stack(parts, "bias"), function)
    raise NoMatchError


def _gru_layer(
    loop: Counted, h: Value, parts: Sequence[Parts], r: Array, bias: Array, function: str, **attrs: Any
) -> Layer:
    names = {} if function == "tanh" else {"activations": ("sigmoid", function)}
    return Layer("GRU", loop.sequence(), (h,), _stack(parts, "w"), r, bias, {**attrs, **names})


def _rnn(loop: Counted) -> Layer | None:
    """h' = a(...)."""
    for h, h_after in loop.states():
        try:
            function, pre = _activation(h_after)
            parts = affine(loop, pre, h)
        except NoMatchError:
            continue
        return Layer("RNN", loop.sequence(), (h,), parts.w, parts.r, parts.bias, {"activations": (function,)})
    return None
