"""Recurrent layers and cells with 8-bit weights (dynamic quantization) or 16-bit weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.quantized.tensor import dynamic
from minnow.converter.torch.program.program import Object, Stored
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.converter.torch.symbolic.translator import constant_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


def _linear(b: Builder, x: Value, packed: Any, reduce_range: bool) -> Value:
    """x[..., K] times packed weights. They are constants of the graph at hand, which may be the body of a loop."""
    weight = packed.attrs.get("weight") if isinstance(packed, Object) else None
    if not isinstance(weight, Stored):
        raise UnsupportedError("the packed weights of a recurrent layer cannot be read")
    bias = packed.attrs["bias"]
    w, offset = constant_of(weight), None if bias is None else constant_of(bias).value(b)
    if w.quant is not None:
        return dynamic(b, x, w, offset, 127 if reduce_range else 255)
    value = w.value(b)
    made: Value = b.Linear(x, value if value.type.dtype is DType.F32 else b.Cast(value, to=DType.F32), offset)
    return made


def _lstm(b: Builder, of_x: Value, of_h: Value, states: Sequence[Value]) -> list[Value]:
    i, f, g, o = _gates(b, b.Add(of_h, of_x), 4)
    cell = b.Add(b.Mul(b.Sigmoid(f), states[1]), b.Mul(b.Sigmoid(i), b.Tanh(g)))
    return [b.Mul(b.Sigmoid(o), b.Tanh(cell)), cell]


def _gru(b: Builder, of_x: Value, of_h: Value, states: Sequence[Value]) -> list[Value]:
    (xr, xz, xn), (hr, hz, hn) = _gates(b, of_x, 3), _gates(b, of_h, 3)
    reset, keep = b.Sigmoid(b.Add(hr, xr)), b.Sigmoid(b.Add(hz, xz))
    new = b.Tanh(b.Add(xn, b.Mul(reset, hn)))
    return [b.Add(b.Mul(b.Sub(states[0], new), keep), new)]


def _gates(b: Builder, x: Value, n: int) -> list[Value]:
    size = static_dim(x.type, -1, "the gates of a recurrent layer") // n
    return list(b.Split(x, axis=-1, sizes=(size,) * n, n_outputs=n))


_CELLS: dict[str, Any] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": lambda b, x, h, states: [b.Tanh(b.Add(h, x))],
    "rnn_relu": lambda b, x, h, states: [b.Relu(b.Add(h, x))],
}


def _scan(b: Builder, cell: Any, x: Value, states: Sequence[Value], params: Object) -> tuple[Value, ...]:
    """x[time, batch, features] in one direction: the result, and the last states[batch, hidden].

    What comes of x is multiplied at once, so its range is that of the whole sequence; that of h is of each step.
    """
    (of_input, of_hidden), reduce = params.attrs["packed"], params.attrs["reduce_range"]
    gates = _linear(b, x, of_input, reduce)
    body = Graph("steps")
    step = body.add_param(TensorType(DType.I64, ()), "step")
    go = body.add_param(TensorType(DType.BOOL, ()), "go")
    inner = [body.add_param(s.type, "state") for s in states]
    of_x = body.add_param(gates.type, "gates")
    k = Builder(body, origin=b.origin)
    after = cell(k, k.Gather(of_x, step), _linear(k, inner[0], of_hidden, reduce), inner)
    for new, old in zip(after, inner, strict=True):
        new.type = old.type
    body.outputs = [go, *after, of_x, after[0]]
    rounds = b.Reshape(b.Shape(x, start=0, end=1), np.zeros(0, np.int64))
    n = len(states)
    made = b.Loop(rounds, None, *states, gates, body=body, num_carried=n + 1, n_outputs=n + 2)
    return made[n + 1], *made[:n]


def _layers(t: Any, cell: Any, x: Value, states: Sequence[Value], params: Sequence[Any], bidirectional: bool) -> Any:
    b = t.builder
    directions = 2 if bidirectional else 1
    last: list[Sequence[Value]] = []
    for layer in range(len(params) // directions):
        ys = []
        for d in range(directions):
            at = layer * directions + d
            p = t.materialize(params[at])
            if not isinstance(p, Object) or p.attrs.get("form") not in ("quantized_dynamic", "quantized_fp16"):
                raise UnsupportedError("a quantized recurrent layer of this kind is not supported")
            first = [b.Gather(s, np.array(at)) for s in states]
            y, *final = _scan(b, cell, b.Reverse(x, axes=(0,)) if d else x, first, p)
            ys.append(b.Reverse(y, axes=(0,)) if d else y)
            last.append([b.Unsqueeze(v, axes=(0,)) for v in final])
        x = ys[0] if len(ys) == 1 else b.Concat(*ys, axis=-1)
    return x, [v[0] if len(v) == 1 else b.Concat(*v, axis=0) for v in zip(*last, strict=True)]


def _register(name: str) -> None:
    @torch.op(f"aten::quantized_{name}.input", f"aten::quantized_{name}", plain=True)
    def _(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, dtype=None,
          use_dynamic=False):  # fmt: skip
        if train and dropout and num_layers > 1:
            raise UnsupportedError(
                "recurrent layers with dropout are not supported", hint="save the model after `model.eval()`"
            )
        b = t.builder
        x = t.value(input)
        states = [t.value(v) for v in (hx if isinstance(hx, list) else [hx])]
        x = b.Transpose(x, perm=(1, 0, 2)) if batch_first else x
        y, last = _layers(t, _CELLS[name], x, states, params, bidirectional)
        return (Tensor(b.Transpose(y, perm=(1, 0, 2)) if batch_first else y), *(Tensor(v) for v in last))

    @torch.op(f"aten::quantized_{name}.data", plain=True)
    def _(t, *_):
        raise UnsupportedError("packed sequences are not supported in a quantized recurrent layer",
                               hint="keep the layer in float")  # fmt: skip


for _name in ("lstm", "gru"):
    _register(_name)


def _register_cell(name: str) -> None:
    @torch.op(f"quantized::quantized_{name}_cell_dynamic", plain=True)
    def _(t, input, hx, w_ih, w_hh, b_ih, b_hh):
        b = t.builder
        states = [t.value(v) for v in (hx if isinstance(hx, list) else [hx])]
        of_x, of_h = _linear(b, t.value(input), w_ih, True), _linear(b, states[0], w_hh, True)
        made = [Tensor(v) for v in _CELLS[name](b, of_x, of_h, states)]
        return tuple(made) if len(made) > 1 else made[0]


for _name in _CELLS:
    _register_cell(_name)
