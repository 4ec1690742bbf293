"""Recurrent layers. Time is the first axis; a second input has 0 where a sequence begins and the state is reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.shape import axis_of, merged
from minnow.converter.operand import constant, dimensions, reshaped, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

Step = Callable[[Builder, Value, Sequence[Value]], tuple[list[Value], Value]]
"""(builder, what x gives at this step, the states before it) -> the states after it, and the result."""


def _flat(b: Builder, x: Value, first: int) -> Value:
    """All axes from this one on as one."""
    n = axis_of(x, -1) + 1
    return x if n == first + 1 else merged(b, x, first, n)


def _given(b: Builder, node: Layer, x: Value, static: Value | None, rows: int) -> Value:
    """What the inputs give to the gates at every step: [T, N, rows]."""
    flat = _flat(b, x, 2)
    own = reshaped(b, node.weight(0), (rows, static_dim(flat.type, 2, "the features")))
    gates = b.Linear(flat, own, reshaped(b, node.weight(1), (rows,)))
    if static is None:
        return gates
    every = _flat(b, static, 1)
    more = reshaped(b, node.weight(2), (rows, static_dim(every.type, 1, "the features of all steps")))
    return b.Add(gates, b.Linear(every, more))


def _own(node: Layer, bottoms: Sequence[Value], n_states: int, expose: bool) -> tuple[Value | None, list[Value]]:
    """The bottom that is the same for all steps, and the first states, where these are given."""
    given = n_states if expose else 0
    if len(bottoms) - given not in (0, 1):
        raise ModelError(f"{node.op} has {len(bottoms) + 2} inputs, which is too many")
    split = len(bottoms) - given
    return (bottoms[0] if split else None), list(bottoms[split:])


def _layer(b: Builder, node: Layer, gates: Value, goes_on: Value, first: Sequence[Value], hidden: int, n_states: int,
           expose: bool, step: Step) -> tuple[Value, ...]:  # fmt: skip
    """Runs a step over time. States that are not given are those that the last run has left, at first 0."""
    batch = static_dim(gates.type, 1, "the number of sequences")
    keys = [f"{node.name}:{'hc'[i]}" for i in range(n_states)]
    shape = (batch, hidden)
    if first:
        states = [b.Reshape(v, np.array(shape)) for v in first]
    elif goes_on.data is not None and not np.any(goes_on.data.numpy()[:1]):
        states = [b.const(np.zeros(shape, np.float32)) for _ in keys]
    else:
        states = [node.context.state(key, shape) for key in keys]
    body = Graph(f"{node.name}/body")
    number, go = body.add_param(TensorType(DType.I64, ()), "step"), body.add_param(TensorType(DType.BOOL, ()), "go")
    before = [body.add_param(TensorType(DType.F32, shape), key) for key in keys]
    rows, on = (body.add_param(v.type, v.name) for v in (gates, goes_on))
    ib = Builder(body, origin=b.origin)
    kept = ib.Unsqueeze(ib.Gather(on, number), np.array([1]))
    after, result = step(ib, ib.Gather(rows, number), [ib.Mul(v, kept) for v in before])
    body.outputs = [go, *after, result]
    trips = dimensions(b, gates, "the input")[0]
    steps = b.const(np.array(trips)) if isinstance(trips, int) else b.Squeeze(trips)
    *last, y = b.Loop(steps, None, *states, gates, goes_on, body=body, num_carried=n_states, n_outputs=n_states + 1)
    if not first:
        for key, state in zip(keys, last, strict=True):
            node.context.assign(key, state)
    return (y, *(b.Unsqueeze(v, np.array([0])) for v in last)) if expose else (y,)


def _whole(goes_on: np.ndarray[Any, Any], given: bool) -> bool | None:
    """Whether all sequences go on from the states given; None where one begins later, or goes on from the last run."""
    if goes_on.ndim != 2 or not len(goes_on) or np.any(goes_on[1:] != 1):
        return None
    if np.all(goes_on[0] == 0):
        return False
    return True if given and np.all(goes_on[0] == 1) else None


def _lstm(b: Builder, node: Layer, x: Value, first: Sequence[Value], hidden: int, expose: bool) -> tuple[Value, ...]:
    """An LSTM over whole sequences; the op wants its gates as i, o, f, g."""
    flat = _flat(b, x, 2)
    features = static_dim(flat.type, 2, "the features")
    shapes = ((4, hidden, features), (4, hidden), (4, hidden, hidden))
    w, bias, r = (constant(reshaped(b, node.weight(i), s))[[0, 2, 1, 3]] for i, s in enumerate(shapes))
    bias = np.concatenate([bias.reshape(-1), np.zeros(4 * hidden, np.float32)])[None]
    y, h, c = b.LSTM(flat, w.reshape(1, -1, features), r.reshape(1, -1, hidden), bias, None, *first, hidden=hidden)
    y = b.Squeeze(y, np.array([1]))
    return (y, h, c) if expose else (y,)


@frontend.op("LSTM", param="recurrent_param")
def _(b, x, goes_on, *bottoms, node: Layer, num_output, expose_hidden=False):
    """Bottoms: x[T, N, ...], cont[T, N], one [N, ...] for all steps, h and c[1, N, H]; gates are i, f, o, g."""
    hidden = num_output
    static, first = _own(node, bottoms, 2, expose_hidden)
    if static is None and goes_on.data is not None and (known := _whole(goes_on.data.numpy(), bool(first))) is not None:
        return _lstm(b, node, x, first if known else (), hidden, expose_hidden)
    gates = _given(b, node, x, static, 4 * hidden)
    recurrent = reshaped(b, node.weight(2 if static is None else 3), (4 * hidden, hidden))

    def step(ib: Builder, row: Value, states: Sequence[Value]) -> tuple[list[Value], Value]:
        h, c = states
        sums = ib.Add(row, ib.Linear(h, recurrent))
        i, f, o, g = ib.Split(sums, axis=1, sizes=(hidden,) * 4, n_outputs=4)
        c = ib.Add(ib.Mul(ib.Sigmoid(f), c), ib.Mul(ib.Sigmoid(i), ib.Tanh(g)))
        h = ib.Mul(ib.Sigmoid(o), ib.Tanh(c))
        return [h, c], h

    return _layer(b, node, gates, goes_on, first, hidden, 2, expose_hidden, step)


@frontend.op("RNN", param="recurrent_param")
def _(b, x, goes_on, *bottoms, node: Layer, num_output, expose_hidden=False):
    """Bottoms: x[T, N, ...], cont[T, N], one [N, ...] for all steps, h[1, N, H]; the result has a layer of its own."""
    hidden = num_output
    static, first = _own(node, bottoms, 1, expose_hidden)
    gates = _given(b, node, x, static, hidden)
    at = 2 if static is None else 3
    recurrent, out = (reshaped(b, node.weight(at + i), (hidden, hidden)) for i in range(2))
    bias = reshaped(b, node.weight(at + 2), (hidden,))

    def step(ib: Builder, row: Value, states: Sequence[Value]) -> tuple[list[Value], Value]:
        h = ib.Tanh(ib.Add(row, ib.Linear(states[0], recurrent)))
        return [h], ib.Tanh(ib.Linear(h, out, bias))

    return _layer(b, node, gates, goes_on, first, hidden, 1, expose_hidden, step)
