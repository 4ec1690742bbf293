"""Recurrent layers with weights of 8 bits: those of floats, whose weights are made when the model is loaded."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.portable.translation import NoFormError, Translation, computes
from minnow.schema.ir import Node, Value
from minnow.schema.ir.blob import Array


@computes("DynamicLSTM")
def _(t: Translation, node: Node) -> None:
    w, r = (_expanded(t, node, 1 + i, 8 + i, 10 + i) for i in range(2))
    rest = [t.value(node.input(i)) if node.has_input(i) else None for i in range(3, 8)]
    attrs = {name: value for name, value in node.attrs.items() if name != "one_range"}
    made = t.b.node("LSTM", [t.value(node.input(0)), w, r, *rest], attrs, len(node.outputs))
    for old, new in zip(node.outputs, made.outputs, strict=True):
        t.set_value(old, new)
    t.in_floats(node)


def _expanded(t: Translation, node: Node, weights: int, scale: int, zero: int) -> Value:
    """Weights [D,K,4H] of integers as floats [D,4H,K]."""
    factor, middle = (node.input(i).array if node.has_input(i) else None for i in (scale, zero))
    if node.input(weights).data is None or factor is None or (node.has_input(zero) and middle is None):
        raise NoFormError("DynamicLSTM with computed weights, scales or zero points")
    numbers = t.floats(node.input(weights))
    if middle is not None and middle.any():
        numbers = t.b.Sub(numbers, _along(middle.astype(np.float32)))
    made: Value = t.b.Transpose(t.b.Mul(numbers, _along(factor)), perm=(0, 2, 1))
    return made


def _along(array: Array) -> Array:
    """One number for each direction, or for each of its columns, beside weights."""
    return array.reshape(len(array), 1, -1)
