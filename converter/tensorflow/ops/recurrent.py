"""Cells of recurrent networks that are single operators in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import constant, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

_MAX_STEPS = 512

_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")


def _lstm_cell(
    b: Builder, x: Value, c: Value, h: Value, w: Value, peepholes: Sequence[Value], bias: Value, *, order: str,
    forget_bias: float, cell_clip: float, use_peephole: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """One step; `order` is that of the gates in the weights: i(nput), c(andidate), f(orget), o(utput)."""
    all_gates = b.Add(b.MatMul(b.Concat(x, h, axis=1), w), bias)
    size = static_dim(w.type, 1, "the weights of a cell") // 4
    gates = dict(zip(order, b.Split(all_gates, axis=1, sizes=(size,) * 4, n_outputs=4), strict=True))
    i, f, o = gates["i"], b.Add(gates["f"], forget_bias), gates["o"]
    if use_peephole:
        i, f = b.Add(i, b.Mul(peepholes[0], c)), b.Add(f, b.Mul(peepholes[1], c))
    i, f, candidate = b.Sigmoid(i), b.Sigmoid(f), b.Tanh(gates["c"])
    c = b.Add(b.Mul(candidate, i), b.Mul(c, f))
    if cell_clip > 0:
        c = b.Clip(c, min=-cell_clip, max=cell_clip)
    if use_peephole:
        o = b.Add(o, b.Mul(peepholes[2], c))
    o, seen = b.Sigmoid(o), b.Tanh(c)
    return i, c, f, o, candidate, seen, b.Mul(seen, o)


@tf.op("LSTMBlockCell", outputs=_LSTM)
def _(b, x, c, h, w, wci, wcf, wco, bias, *, forget_bias=1.0, cell_clip=3.0, use_peephole=False):
    return _lstm_cell(b, x, c, h, w, (wci, wcf, wco), bias, order="icfo", forget_bias=forget_bias,
                      cell_clip=cell_clip, use_peephole=use_peephole)  # fmt: skip


@tf.op("BlockLSTM", "BlockLSTMV2", outputs=_LSTM)
def _(b, length, x, c, h, w, wci, wcf, wco, bias, *, forget_bias=1.0, cell_clip=None, use_peephole=False, node):
    newer = node.op == "BlockLSTMV2"
    steps = static_dim(x.type, 0, "the time of BlockLSTM")
    if steps > _MAX_STEPS or steps < 1:
        raise UnsupportedError(f"BlockLSTM of {steps} steps is not supported", hint="use a loop over a cell")
    last = steps if not length.is_const else min(int(constant(length).reshape(())), steps)
    if last < 1:
        raise UnsupportedError("BlockLSTM without a step is not supported")
    clip = cell_clip if cell_clip is not None else 0.0 if newer else 3.0
    parts: list[tuple[Any, ...]] = []
    for t in range(last):
        made = _lstm_cell(b, b.Gather(x, np.array(t)), c, h, w, (wci, wcf, wco), bias,
                          order="icfo" if not newer else "ifco", forget_bias=0.0 if newer else forget_bias,
                          cell_clip=clip, use_peephole=use_peephole)  # fmt: skip
        c, h = made[1], made[6]
        parts.append(made)
    stacked = ([b.Unsqueeze(v, axes=(0,)) for v in column] for column in zip(*parts, strict=True))
    results = [b.Concat(*column, axis=0) if len(column) > 1 else column[0] for column in stacked]
    if last < steps:
        results = [b.Pad(v, np.array([0, steps - last, 0, 0, 0, 0])) for v in results]
    return tuple(results)


@tf.op("GRUBlockCell", outputs=("r", "u", "c", "h"))
def _(b, x, h, w_ru, w_c, b_ru, b_c):
    size = static_dim(w_c.type, 1, "the weights of a cell")
    gates = b.Sigmoid(b.Add(b.MatMul(b.Concat(x, h, axis=1), w_ru), b_ru))
    r, u = b.Split(gates, axis=1, sizes=(size, size), n_outputs=2)
    c = b.Tanh(b.Add(b.MatMul(b.Concat(x, b.Mul(r, h), axis=1), w_c), b_c))
    return r, u, c, b.Add(b.Mul(u, h), b.Mul(b.Add(b.Neg(u), 1.0), c))
