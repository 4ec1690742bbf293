"""Recurrent layers and cells: one node for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.operand import static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import vector_of
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, LazyBlob, TensorType, Value
from minnow.schema.ops import Builder


@dataclass(frozen=True)
class _Kind:
    """What PyTorch calls a recurrent layer, in our words.

    Attributes:
        op: ours.
        gates: where our gates stand among PyTorch's: these have i, f, g, o and r, z, n; ours i, o, f, c and z, r, h.
        states: how many it carries on.
        attrs: of the op.
    """

    op: str
    gates: tuple[int, ...]
    states: int = 1
    activation: str = ""

    def attrs(self, directions: int) -> dict[str, Any]:
        if self.op == "GRU":
            return {"linear_before_reset": True}
        return {"activations": (self.activation,) * directions} if self.activation else {}


_KINDS = {
    "lstm": _Kind("LSTM", (0, 3, 1, 2), 2),
    "gru": _Kind("GRU", (1, 0, 2)),
    "rnn_tanh": _Kind("RNN", (0,)),
    "rnn_relu": _Kind("RNN", (0,), activation="relu"),
}


def _ordered(w: Any, gates: Sequence[int]) -> Any:
    """Rows by gate, in our order."""
    return np.concatenate([np.split(w, len(gates), axis=0)[g] for g in gates], axis=0)


def _stacked(b: Builder, kind: _Kind, groups: Sequence[Sequence[Value]]) -> Any:
    """[directions, gates * hidden, ...] of the weights of each direction; of biases, both of them in a row."""
    first = groups[0][0].type
    shape = (len(groups), sum(static_dim(v.type, 0, "the weights") for v in groups[0]),
             *(static_dim(first, i, "the weights") for i in range(1, first.rank or 1)))  # fmt: skip
    blobs = [[v.data for v in g] for g in groups]
    if all(data is not None for g in blobs for data in g):

        def numbers() -> Any:
            return np.stack([np.concatenate([_ordered(d.numpy(), kind.gates) for d in g if d]) for g in blobs])

        return Value.constant(LazyBlob(numbers, first.dtype, shape), groups[0][0].name)
    rows = []
    for g in groups:
        parts = []
        for v in g:
            size = static_dim(v.type, 0, "the weights") // len(kind.gates)
            cut = b.Split(v, axis=0, sizes=(size,) * len(kind.gates), n_outputs=len(kind.gates))
            parts += [cut[i] for i in kind.gates]
        rows.append(b.Unsqueeze(parts[0] if len(parts) == 1 else b.Concat(*parts, axis=0), axes=(0,)))
    return rows[0] if len(rows) == 1 else b.Concat(*rows, axis=0)


def _layers(b: Builder, kind: _Kind, x: Value, states: Sequence[Value], params: Sequence[Value], biases: bool,
            layers: int, bidirectional: bool, lens: Value | None = None) -> tuple[Value, ...]:  # fmt: skip
    """x[time, batch, features] through all layers: the result, and the last states[layers * directions, batch, ...]."""
    directions = 2 if bidirectional else 1
    each = 4 if biases else 2
    if len(params) == layers * directions * (each + 1):
        each += 1  # the hidden state is projected to fewer features
    if len(params) != layers * directions * each:
        raise ModelError(f"{len(params)} weights do not fit {layers} layers in {directions} directions")
    last: list[list[Value]] = []
    for layer in range(layers):
        first = layer * directions
        own = [params[(first + d) * each : (first + d + 1) * each] for d in range(directions)]
        initial = [_rows(b, s, first, directions, layers) for s in states]
        if each % 2:
            y, *final = _projected(b, x, initial, own, biases, lens)
        else:
            y, *final = _layer(b, kind, x, initial, own, biases, lens)
        last.append(final)
        x = y
    finals = [v[0] if layers == 1 else b.Concat(*v, axis=0) for v in zip(*last, strict=True)]
    return x, *finals


def _rows(b: Builder, state: Value, first: int, count: int, layers: int) -> Any:
    return state if layers == 1 else b.Slice(state, np.array([first]), np.array([first + count]), np.array([0]))


def _layer(b: Builder, kind: _Kind, x: Value, initial: Sequence[Value], params: Sequence[Sequence[Value]],
           biases: bool, lens: Value | None) -> tuple[Value, ...]:  # fmt: skip
    """One layer, whose directions stand behind one another in the features of the result."""
    directions = len(params)
    w, r = (_stacked(b, kind, [[p[i]] for p in params]) for i in (0, 1))
    bias = _stacked(b, kind, [p[2:4] for p in params]) if biases else None
    hidden = static_dim(params[0][1].type, 1, "the weights")
    y, *final = getattr(b, kind.op)(
        x, w, r, bias, lens, *initial, hidden=hidden, direction="bidirectional" if directions == 2 else "forward",
        **kind.attrs(directions),
    )  # fmt: skip
    if directions == 1:
        return b.Squeeze(y, axes=(1,)), *final
    return b.Reshape(b.Transpose(y, perm=(0, 2, 1, 3)), np.array([0, 0, directions * hidden])), *final


def _projected(b: Builder, x: Value, initial: Sequence[Value], params: Sequence[Sequence[Value]], biases: bool,
               lens: Value | None) -> tuple[Value, ...]:  # fmt: skip
    """An LSTM whose hidden state is projected, which no op of ours has: a loop over time."""
    if lens is not None:
        raise UnsupportedError("packed sequences are not supported in an LSTM with projections")
    results = []
    for d, p in enumerate(params):
        states = [b.Gather(s, np.array(d)) for s in initial]
        results.append(_scan(b, b.Reverse(x, axes=(0,)) if d else x, states, p, biases))
    ys = [b.Reverse(r[0], axes=(0,)) if d else r[0] for d, r in enumerate(results)]
    finals = (b.Concat(*(b.Unsqueeze(r[i], axes=(0,)) for r in results), axis=0) for i in (1, 2))
    return ys[0] if len(ys) == 1 else b.Concat(*ys, axis=-1), *finals


def _scan(b: Builder, x: Value, states: Sequence[Value], params: Sequence[Value], biases: bool) -> tuple[Value, ...]:
    w, r, *more, projection = params
    gates = b.Linear(x, w, b.Add(*more) if biases else None)
    body = Graph("lstm")
    step = body.add_param(TensorType(DType.I64, ()), "step")
    body.add_param(TensorType(DType.BOOL, ()), "cond")
    k = Builder(body, origin=b.origin)
    h, c, of_x, recurrent, onto = (
        body.add_param(v.type, n)
        for v, n in zip((*states, gates, r, projection), ("h", "c", "gates", "r", "p"), strict=True)
    )
    size = static_dim(r.type, 0, "the weights") // 4
    now = k.Add(k.Gather(of_x, step), k.Linear(h, recurrent))
    i, f, g, o = k.Split(now, axis=1, sizes=(size,) * 4, n_outputs=4)
    cell = k.Add(k.Mul(k.Sigmoid(f), c), k.Mul(k.Sigmoid(i), k.Tanh(g)))
    out = k.Linear(k.Mul(k.Sigmoid(o), k.Tanh(cell)), onto)
    for made, old in ((out, h), (cell, c)):
        made.type = old.type
    true = k.const(np.array(True))
    body.outputs = [true, out, cell, of_x, recurrent, onto, out]
    rounds = b.Reshape(b.Shape(x, start=0, end=1), np.zeros(0, np.int64))
    h, c, *_, ys = b.Loop(rounds, None, *states, gates, r, projection, body=body, num_carried=5, n_outputs=6)
    return ys, h, c


def _register(name: str, kind: _Kind) -> None:
    @torch.op(f"aten::{name}.input")
    def _(b, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        _check(train, dropout, num_layers)
        x = b.Transpose(input, perm=(1, 0, 2)) if batch_first else input
        states = hx if isinstance(hx, list) else [hx]
        y, *last = _layers(b, kind, x, states, params, has_biases, num_layers, bidirectional)
        return b.Transpose(y, perm=(1, 0, 2)) if batch_first else y, *last

    @torch.op(f"aten::{name}.data", plain=True)
    def _(t, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
        _check(train, dropout, num_layers)
        if not isinstance(data, Packed):
            raise UnsupportedError(
                "computing with a packed sequence outside of recurrent layers is not supported",
                hint="make it with pack_padded_sequence, and give it to a recurrent layer",
            )
        states, weights = ([t.value(v) for v in vs] for vs in (hx if isinstance(hx, list) else [hx], params))
        y, *last = t.folded(lambda: _layers(t.builder, kind, t.value(data.x), states, weights, has_biases, num_layers,
                                            bidirectional, t.value(data.lens)))  # fmt: skip
        return Packed(Tensor(y), data.lens), *(Tensor(v) for v in last)


def _check(train: bool, dropout: float, layers: int) -> None:
    if train and dropout and layers > 1:
        raise UnsupportedError(
            "recurrent layers with dropout are not supported", hint="export the model after `model.eval()`"
        )


for _name, _kind in _KINDS.items():
    _register(_name, _kind)


# ---- packed sequences


class Packed:
    """Sequences of several lengths, which stay as they are until they are packed out again.

    Attributes:
        x: [time, batch, features].
        lens: of the sequences.
    """

    def __init__(self, x: Tensor, lens: Tensor) -> None:
        self.x, self.lens = x, lens

    @property
    def type(self) -> TensorType:
        """Programs ask for the element type; nothing but a recurrent layer knows what to do with the rest."""
        return self.x.type.with_shape(None)


@torch.op("aten::_pack_padded_sequence", plain=True)
def _(t, input, lengths, batch_first):
    b, x = t.builder, t.value(input)
    lens = b.Cast(t.value(lengths), to=DType.I64)
    steps = b.Range(np.array(0), b.ReduceMax(lens, keepdims=False), np.array(1))
    runs = b.Less(b.Unsqueeze(steps, axes=(1,)), b.Unsqueeze(lens, axes=(0,)))
    sizes = b.ReduceSum(b.Cast(runs, to=DType.I64), axes=(1,), keepdims=False)
    return Packed(Tensor(b.Transpose(x, perm=(1, 0, 2)) if batch_first else x), Tensor(lens)), Tensor(sizes)


@torch.op("aten::_pad_packed_sequence", plain=True)
def _(t, data, batch_sizes, batch_first, padding_value, total_length):
    if not isinstance(data, Packed):
        raise UnsupportedError(
            "computing with a packed sequence outside of recurrent layers is not supported",
            hint="make it with pack_padded_sequence, and give it to a recurrent layer",
        )
    b, y, lens = t.builder, t.value(data.x), t.value(data.lens)
    most = b.ReduceMax(lens, axes=(0,))
    if padding_value:
        places = b.Range(np.array(0), b.Reshape(b.Shape(y, start=0, end=1), np.zeros(0, np.int64)), np.array(1))
        there = b.Less(b.Unsqueeze(places, axes=(1,)), b.Unsqueeze(lens, axes=(0,)))
        y = b.Where(b.Unsqueeze(there, axes=(2,)), y, b.const(np.array(padding_value, y.type.dtype.numpy)))
    y = b.Slice(y, np.array([0]), most, np.array([0]))
    if not isinstance(total_length, int) or total_length > 0:
        more = b.Sub(vector_of(b, [total_length]), b.Shape(y, start=0, end=1))
        pads = b.Concat(b.const(np.array([0])), more, b.const(np.zeros(4, np.int64)), axis=0)
        y = b.Pad(y, pads, b.const(np.array(padding_value, y.type.dtype.numpy)))
    return Tensor(b.Transpose(y, perm=(1, 0, 2)) if batch_first else y), data.lens


# ---- cells


def _register_cell(name: str, kind: _Kind) -> None:
    @torch.op(f"aten::{name}_cell")
    def _(b, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        states = [b.Unsqueeze(h, axes=(0,)) for h in (hx if isinstance(hx, list) else [hx])]
        biases = [] if b_ih is None else [b_ih, b_hh]
        _, *last = _layer(b, kind, b.Unsqueeze(input, axes=(0,)), states, [[w_ih, w_hh, *biases]], bool(biases), None)
        made = tuple(b.Squeeze(v, axes=(0,)) for v in last)
        return made if len(made) > 1 else made[0]


for _name, _kind in _KINDS.items():
    _register_cell(_name, _kind)


@torch.op("aten::mkldnn_rnn_layer")
def _(b, input, weight0, weight1, weight2, weight3, hx_, cx_, reverse, batch_sizes, mode, hidden_size, num_layers,
      has_biases, bidirectional, batch_first, train):  # fmt: skip
    if mode != 2 or batch_sizes:
        raise UnsupportedError("mkldnn_rnn_layer is supported only for an LSTM over whole sequences")
    x = b.Transpose(input, perm=(1, 0, 2)) if batch_first else input
    x = b.Reverse(x, axes=(0,)) if reverse else x
    states = [v if v.type.rank == 3 else b.Unsqueeze(v, axes=(0,)) for v in (hx_, cx_)]
    y, h, c = _layer(b, _KINDS["lstm"], x, states, [[weight0, weight1, weight2, weight3]], has_biases, None)
    y = b.Reverse(y, axes=(0,)) if reverse else y
    empty = b.const(np.zeros(0, np.uint8))
    return b.Transpose(y, perm=(1, 0, 2)) if batch_first else y, h, c, empty
