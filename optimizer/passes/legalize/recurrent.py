"""Recurrent layers that the format's runtimes compute otherwise, in terms of those that they compute right."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Blob, LazyBlob, Value
from minnow.schema.ops import Builder

# Operands that hold one part per direction along their first axis: weights, biases, initial states, peepholes.
_PARTS = (1, 2, 3, 5, 6, 7)


@rewrite(
    lambda p, x: (
        p.LSTM(x, ..., direction="bidirectional")
        | p.GRU(x, ..., direction="bidirectional")
        | p.RNN(x, ..., direction="bidirectional")
    ),
    level=0,
)
def legalize_both_ways(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """One layer for each direction, where the format has no layer for both.

    Given:
        graph g(%x: f32[2,1,1]) {
          %y: f32[2,2,1,1], %h: f32[2,1,1] = GRU(%x, f32[2,3,1](1.0, 2.0, 3.0, 4.0, 5.0, 6.0), f32[2,3,1](0.5, 1.5, 2.5, 3.5, 4.5, 5.5)) {hidden=1, direction="bidirectional"}
          return %y, %h
        }
    Result:
        graph g(%x: f32[2,1,1]) {
          %0: f32[2,1,1,1], %1: f32[1,1,1] = GRU(%x, f32[1,3,1](1.0, 2.0, 3.0), f32[1,3,1](0.5, 1.5, 2.5)) {hidden=1}
          %2: f32[2,1,1,1], %3: f32[1,1,1] = GRU(%x, f32[1,3,1](4.0, 5.0, 6.0), f32[1,3,1](3.5, 4.5, 5.5)) {hidden=1, direction="reverse"}
          %y: f32[2,2,1,1] = Concat(%0, %2) {axis=1}
          %h: f32[2,1,1] = Concat(%1, %3) {axis=0}
          return %y, %h
        }
    """  # noqa: E501
    node = m.root
    if is_encodable(node) or node.attrs.get("activation_alpha") or node.attrs.get("activation_beta"):
        return m.no("the format has it, or its activations have parameters")
    halves: list[list[Value | None]] = [[], []]
    for i, value in enumerate(node.inputs):
        parts = (value, value)
        if value is not None and i in _PARTS:
            parts = _halves(b, value)
        for half, part in zip(halves, parts, strict=True):
            half.append(part)
    listed = node.attrs.get("activations", ())
    count = len(listed) // 2
    made = []
    for way, operands, mine in zip(("forward", "reverse"), halves, (listed[:count], listed[count:]), strict=True):
        attrs = {**node.attrs, "direction": way, "activations": mine}
        made.append(b.node(node.op, operands, attrs, len(node.outputs)))
    if not is_encodable(made[0]):
        return m.no("the format has no layer for one direction either")
    # The direction is axis 1 of the sequence, and axis 0 of the last states.
    pairs = zip(*(layer.outputs for layer in made), strict=True)
    return tuple(b.Concat(*pair, axis=1 if i == 0 else 0) for i, pair in enumerate(pairs))


def _halves(b: Builder, value: Value) -> tuple[Value, Value]:
    """The two parts along the first axis."""
    if value.data is None:
        first, second = b.Split(value, axis=0, sizes=(1, 1), n_outputs=2)
        return first, second
    blob = value.data
    shape = (1, *(int(d) for d in blob.shape[1:]))
    first, second = (
        Value.constant(LazyBlob(partial(_part, blob, i), blob.dtype, shape), f"{value.name}_{i}") for i in range(2)
    )
    return first, second


def _part(blob: Blob, i: int) -> np.ndarray[Any, Any]:
    return blob.numpy()[i : i + 1]


@rewrite(lambda p, x: p.LSTM(x, ...) | p.GRU(x, ...) | p.RNN(x, ...), level=0)
def legalize_whole_sequences(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """Lengths that are those of the whole sequence say nothing.

    Given:
        graph g(%x: f32[3,1,1]) {
          %y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0), _, i32[1](3)) {hidden=1}
          return %y, %h
        }
    Result:
        graph g(%x: f32[3,1,1]) {
          %y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0)) {hidden=1}
          return %y, %h
        }
    """
    length = None if m.x.type.shape is None else m.x.type.shape[0]
    lens = m.root.input(4) if m.root.has_input(4) else None
    if lens is None or lens.data is None or not bool(np.all(lens.data.numpy() == length)):
        return m.no("some sequence is shorter, or the lengths are unknown")
    operands = [None if i == 4 else v for i, v in enumerate(m.root.inputs)]
    return tuple(b.node(m.root.op, operands, m.root.attrs, len(m.root.outputs)).outputs)
