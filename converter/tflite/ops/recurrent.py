"""Recurrent layers. Their states are variable tensors, kept from run to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.operand import static_dim
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.converter.tflite.quantization import quantize
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, LazyBlob, TensorType, Value
from minnow.schema.ops import Builder

Operands = Sequence[Value | None]
Product = Callable[[Builder, Value, Value, str], Value]
_FUNCTIONS = {"TANH": "tanh", "RELU": "relu", "NONE": "affine", "SIGMOID": "sigmoid"}
_EPSILON = 1e-8  # of the variance that layer normalization divides by


def stacked(b: Builder, parts: Sequence[Value]) -> Value:
    """The operands behind one another along the first axis; constants are put together when they are asked for."""
    if any(p.data is None for p in parts):
        return b.Concat(*parts, axis=0)
    blobs = [p.data for p in parts if p.data is not None]
    shape = (sum(x.shape[0] for x in blobs), *blobs[0].shape[1:])
    if any(x.shape[1:] != shape[1:] for x in blobs):
        raise ModelError(
            "the matrices of a recurrent layer have different shapes", why=", ".join(str(p.type) for p in parts)
        )
    return Value.constant(LazyBlob(lambda: np.concatenate([x.numpy() for x in blobs]), blobs[0].dtype, shape))


def keep(b: Builder, node: Any, i: int, value: Value) -> None:
    """Makes the value what the variable tensor at operand `i` is in the next run."""
    tensor = node.tensors_in[i] if i < len(node.tensors_in) else None
    if tensor is not None and tensor.variable:
        if tensor.quant is not None and value.type.dtype.is_float:
            value = quantize(b, value, tensor.quant)
        node.context.variables.assign(node.context.variables.key(tensor), value)


def needed(xs: Operands, i: int, what: str) -> Value:
    """Operand `i`. Raises ModelError where it is left out."""
    value = xs[i] if i < len(xs) else None
    if value is None:
        raise ModelError(f"{what} (operand {i}) is missing")
    return value


def _linear(b: Builder, x: Value, w: Value, _: str) -> Value:
    return b.Linear(x, w)


@dataclass
class Cell:
    """Weights of an LSTM cell; lists are in the order input, forget, cell, output, None being left out.

    Attributes:
        x, h: matrices [units, features] and [units, outputs].
        c: peepholes [units], of which the cell has none.
        bias, norm: [units] each.
        aux: matrices of a second input.
        projection, offset: [outputs, units] and [outputs].
        product: (b, rows, matrix, which of the matrices) -> what a matrix makes of rows.
    """

    x: list[Value | None]
    h: list[Value | None]
    c: list[Value | None]
    bias: list[Value | None]
    norm: list[Value | None]
    aux: list[Value | None]
    projection: Value | None
    offset: Value | None
    function: str
    cell_clip: float
    proj_clip: float
    product: Product = _linear

    @property
    def gates(self) -> list[int]:
        """The gates that the cell computes: without weights of the input gate it is what the forget gate leaves."""
        return [i for i in range(4) if i or self.x[0] is not None]

    @property
    def is_plain(self) -> bool:
        """The op LSTM computes it."""
        known = self.function in _FUNCTIONS and self.projection is None and all(v is None for v in self.norm)
        known = known and self.product is _linear
        return known and len(self.gates) == 4 and all(v is None for v in self.aux)


def _quad(xs: Operands, first: int, n: int = 4) -> list[Value | None]:
    found = [xs[i] if i < len(xs) else None for i in range(first, first + n)]
    return found if n == 4 else [*found[:2], None, found[2]]


def run_cell(
    b: Builder, cell: Cell, x: Value, h: Value, c: Value, *, backward: bool = False, aux: Value | None = None
) -> tuple[Value, Value, Value]:
    """(results [T, B, outputs], last h, last c) of a layer over x[T, B, features]."""
    if any(cell.x[i] is None or cell.h[i] is None for i in cell.gates):
        raise ModelError("weights of an LSTM are missing")
    if cell.is_plain:
        return _plain(b, cell, x, h, c, backward)
    return _looped(b, cell, x, h, c, backward, aux)


def _plain(b: Builder, cell: Cell, x: Value, h: Value, c: Value, backward: bool) -> tuple[Value, Value, Value]:
    order = (0, 3, 1, 2)  # i, o, f, c
    units = static_dim(cell.x[1].type, 0, "the weights of an LSTM")  # type: ignore[union-attr]
    zero = Value.constant(np.zeros(units, np.float32))
    w, r = (b.Unsqueeze(stacked(b, [m[i] for i in order]), axes=(0,)) for m in (cell.x, cell.h))  # type: ignore[misc]
    bias = b.Unsqueeze(stacked(b, [*(cell.bias[i] or zero for i in order), *[zero] * 4]), axes=(0,))
    peep = None
    if any(v is not None for v in cell.c):
        peep = b.Unsqueeze(stacked(b, [cell.c[i] or zero for i in (0, 3, 1)]), axes=(0,))
    f = _FUNCTIONS[cell.function]
    y, hn, cn = b.LSTM(
        x, w, r, bias, None, b.Unsqueeze(h, axes=(0,)), b.Unsqueeze(c, axes=(0,)), peep, hidden=units,
        direction="reverse" if backward else "forward", cell_clip=cell.cell_clip,
        activations=() if f == "tanh" else ("sigmoid", f, f),
    )  # fmt: skip
    return b.Squeeze(y, axes=(1,)), b.Squeeze(hn, axes=(0,)), b.Squeeze(cn, axes=(0,))


def _looped(
    b: Builder, cell: Cell, x: Value, h: Value, c: Value, backward: bool, aux: Value | None
) -> tuple[Value, Value, Value]:
    """The layer as a loop over time. What depends on the input alone is one product in front of it."""
    gates = cell.gates
    sums = cell.product(b, x, stacked(b, [needed(cell.x, i, "a matrix") for i in gates]), "x")
    if aux is not None and cell.aux[1] is not None:
        sums = b.Add(sums, cell.product(b, aux, stacked(b, [needed(cell.aux, i, "a matrix") for i in gates]), "aux"))
    if backward:
        sums = b.Reverse(sums, axes=(0,))
    body = Graph("lstm")
    step, go_on = (body.add_param(TensorType(d, ()), n) for d, n in ((DType.I64, "t"), (DType.BOOL, "cond")))
    ht, ct = body.add_param(h.type, "h"), body.add_param(c.type, "c")
    outer: list[Value] = []

    def inside(v: Value) -> Value:
        if v.data is not None:
            return Value(v.type, v.name, v.data)
        outer.append(v)
        return body.add_param(v.type, v.name)

    all_sums = inside(sums)
    k = Builder(body, origin=b.origin)
    back = inside(stacked(b, [needed(cell.h, i, "a matrix") for i in gates]))
    now = k.Add(k.Gather(all_sums, step, axis=0), cell.product(k, ht, back, "h"))
    units = static_dim(needed(cell.x, 1, "a matrix").type, 0, "the weights of an LSTM")
    parts = k.Split(now, axis=-1, sizes=(units,) * len(gates), n_outputs=len(gates))
    pre = dict(zip(gates, parts, strict=True))

    def gate(i: int, state: Value | None) -> Value:
        y = pre[i]
        if cell.c[i] is not None and state is not None:
            y = k.Add(y, k.Mul(state, inside(cell.c[i])))  # type: ignore[arg-type]
        if cell.norm[i] is not None:
            mean = k.ReduceMean(y, axes=(-1,))
            centered = k.Sub(y, mean)
            y = k.Div(centered, k.Sqrt(k.Add(k.ReduceMean(k.Square(centered), axes=(-1,)), _EPSILON)))
            y = k.Mul(y, inside(cell.norm[i]))  # type: ignore[arg-type]
        if cell.bias[i] is not None:
            y = k.Add(y, inside(cell.bias[i]))  # type: ignore[arg-type]
        return _function(k, y, cell.function if i == 2 else "SIGMOID")

    forget = gate(1, ct)
    entering = gate(0, ct) if 0 in gates else k.Sub(b.const(np.float32(1)), forget)
    cn = _bounded(k, k.Add(k.Mul(forget, ct), k.Mul(entering, gate(2, None))), cell.cell_clip)
    y = k.Mul(gate(3, cn), _function(k, cn, cell.function))
    if cell.projection is not None:
        y = cell.product(k, y, inside(cell.projection), "projection")
        y = y if cell.offset is None else k.Add(y, inside(cell.offset))
        y = _bounded(k, y, cell.proj_clip)
    body.outputs = [go_on, y, cn, y]
    count = b.Reshape(b.Shape(x, start=0, end=1), np.zeros(0, np.int64))
    last, state, rows = b.Loop(count, None, h, c, *outer, body=body, num_carried=2, n_outputs=3)
    return b.Reverse(rows, axes=(0,)) if backward else rows, last, state


def _function(b: Builder, x: Value, name: str) -> Value:
    return b.Sigmoid(x) if name == "SIGMOID" else activate(b, x, name)


def _bounded(b: Builder, x: Value, clip: float) -> Value:
    return b.Clip(x, min=-clip, max=clip) if clip > 0 else x


def time_first(b: Builder, x: Value, time_major: bool) -> Value:
    """[B, T, features] as [T, B, features], or back."""
    return x if time_major else b.Transpose(x, perm=(1, 0, 2))


@tflite.op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, time_major=False,
      asymmetric_quantize_inputs=False, diagonal_recurrent_tensors=False, node):  # fmt: skip
    if diagonal_recurrent_tensors:
        raise UnsupportedError("an LSTM with diagonal recurrent matrices is not supported")
    cell = cell_of(xs, fused_activation_function, cell_clip, proj_clip)
    x = time_first(b, needed(xs, 0, "the input"), time_major)
    y, h, c = run_cell(b, cell, x, needed(xs, 18, "the output state"), needed(xs, 19, "the cell state"))
    keep(b, node, 18, h)
    keep(b, node, 19, c)
    return time_first(b, y, time_major)


def cell_of(xs: Operands, function: str, cell_clip: float, proj_clip: float) -> Cell:
    """The cell of an LSTM with these operands."""
    none: list[Value | None] = [None] * 4
    rest = [*xs, *[None] * (24 - len(xs))]
    return Cell(_quad(rest, 1), _quad(rest, 5), _quad(rest, 9, 3), _quad(rest, 12), _quad(rest, 20), none,
                rest[16], rest[17], function, cell_clip, proj_clip)  # fmt: skip


@tflite.op("LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, kernel_type="FULL",
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    if kernel_type == "BASIC":
        return _basic(b, xs, node)
    cell = cell_of(xs, fused_activation_function, cell_clip, proj_clip)
    x = b.Unsqueeze(needed(xs, 0, "the input"), axes=(0,))
    y, h, c = run_cell(b, cell, x, needed(xs, 18, "the output state"), needed(xs, 19, "the cell state"))
    keep(b, node, 18, h)
    keep(b, node, 19, c)
    y = b.Squeeze(y, axes=(0,))
    # Old files have scratch space, and the states, among the outputs.
    n = len(node.tensors_out)
    return (*[None] * (n - 1), y) if n > 1 else y


def _basic(b: Builder, xs: Operands, node: Any) -> tuple[Value | None, ...]:
    x, before, w, bias, c = (needed(xs, i, "an operand of LSTM") for i in range(5))
    both = b.Concat(x, before, axis=-1)
    sums = b.Linear(both, w, bias)
    i, g, f, o = b.Split(sums, axis=-1, sizes=(static_dim(c.type, -1, "the cell state"),) * 4, n_outputs=4)
    cn = b.Add(b.Mul(b.Sigmoid(i), b.Tanh(g)), b.Mul(b.Sigmoid(f), c))
    return (b.Mul(b.Sigmoid(o), b.Tanh(cn)), cn, both, sums)[: max(len(node.tensors_out), 1)]


@tflite.op("BIDIRECTIONAL_SEQUENCE_LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, merge_outputs=False, time_major=True,
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    xs = (*xs, *[None] * (48 - len(xs)))
    none: list[Value | None] = [None] * 4
    aux, cells = xs[39], []
    for at, more in ((1, 40), (18, 44)):
        cells.append(Cell(_quad(xs, at), _quad(xs, at + 4), _quad(xs, at + 8, 3), _quad(xs, at + 11), none,
                          _quad(xs, more), xs[at + 15], xs[at + 16], fused_activation_function, cell_clip,
                          proj_clip))  # fmt: skip
    linked = any(v is not None for cell in cells for v in cell.aux)
    x = time_first(b, needed(xs, 0, "the input"), time_major)
    second = x if aux is None else time_first(b, aux, time_major)
    ys = []
    for d, (cell, state) in enumerate(zip(cells, (35, 37), strict=True)):
        # Without matrices of its own, the second input is what the way back reads.
        source = second if d and not linked else x
        y, h, c = run_cell(b, cell, source, needed(xs, state, "a state"), needed(xs, state + 1, "a state"),
                           backward=bool(d), aux=second if linked else None)  # fmt: skip
        keep(b, node, state, h)
        keep(b, node, state + 1, c)
        ys.append(time_first(b, y, time_major))
    return b.Concat(*ys, axis=-1) if merge_outputs else tuple(ys)


def run_plain(
    b: Builder, x: Value, w: Value, r: Value, bias: Value | None, h: Value, function: str, backward: bool = False
) -> tuple[Value, Value]:
    """(results [T, B, units], last h) of a plain recurrent layer over x[T, B, features]."""
    units = static_dim(w.type, 0, "the weights of an RNN")
    zero = Value.constant(np.zeros(units, np.float32))
    if function == "RELU6":
        raise UnsupportedError("an RNN with the activation RELU6 is not supported")
    if function not in _FUNCTIONS:
        raise UnsupportedError(f"an RNN with the activation {function} is not supported")
    y, last = b.RNN(
        x, b.Unsqueeze(w, axes=(0,)), b.Unsqueeze(r, axes=(0,)),
        b.Unsqueeze(stacked(b, [bias or zero, zero]), axes=(0,)), None, b.Unsqueeze(h, axes=(0,)), hidden=units,
        direction="reverse" if backward else "forward", activations=(_FUNCTIONS[function],),
    )  # fmt: skip
    return b.Squeeze(y, axes=(1,)), b.Squeeze(last, axes=(0,))


@tflite.op("UNIDIRECTIONAL_SEQUENCE_RNN")
def _(b, x, w, r, bias, h, *, time_major=False, fused_activation_function="NONE", asymmetric_quantize_inputs=False,
      node):  # fmt: skip
    y, last = run_plain(b, time_first(b, x, time_major), w, r, bias, h, fused_activation_function)
    keep(b, node, 4, last)
    return time_first(b, y, time_major)


@tflite.op("RNN")
def _(b, x, w, r, bias, h, *, fused_activation_function="NONE", asymmetric_quantize_inputs=False, node):
    _, last = run_plain(b, b.Unsqueeze(x, axes=(0,)), w, r, bias, h, fused_activation_function)
    keep(b, node, 4, last)
    return last


@tflite.op("BIDIRECTIONAL_SEQUENCE_RNN")
def _(b, x, fw, fr, fbias, fh, bw, br, bbias, bh, aux=None, faux=None, baux=None, *, time_major=False,
      fused_activation_function="NONE", merge_outputs=False, asymmetric_quantize_inputs=False, node):  # fmt: skip
    first = time_first(b, x, time_major)
    second = first if aux is None else time_first(b, aux, time_major)
    ys = []
    for d, (w, r, bias, h, more, at) in enumerate(((fw, fr, fbias, fh, faux, 4), (bw, br, bbias, bh, baux, 8))):
        source = first
        if more is not None and aux is not None:
            # One matrix for both inputs side by side.
            w, source = b.Concat(w, more, axis=1), b.Concat(first, second, axis=-1)
        elif d and aux is not None:
            source = second
        y, last = run_plain(b, source, w, r, bias, h, fused_activation_function, bool(d))
        keep(b, node, at, last)
        ys.append(time_first(b, y, time_major))
    return b.Concat(*ys, axis=-1) if merge_outputs else tuple(ys)


@tflite.op("SVDF")
def _(b, x, features, time, bias, state, *, rank=0, fused_activation_function="NONE",
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    filters, memory = (static_dim(time.type, i, "the weights of SVDF") for i in (0, 1))
    if rank < 1 or filters % rank:
        raise ModelError(f"SVDF has {filters} filters, which do not fit the rank {rank}")
    past = b.Reshape(state, np.array([-1, filters, memory]))
    now = b.Unsqueeze(b.Linear(x, features), axes=(2,))
    kept = b.Concat(b.Slice(past, np.array([1]), np.array([memory]), np.array([2])), now, axis=2)
    sums = b.ReduceSum(b.Mul(kept, time), axes=(2,), keepdims=False)
    units = b.ReduceSum(b.Reshape(sums, np.array([-1, filters // rank, rank])), axes=(2,), keepdims=False)
    keep(b, node, 4, b.Reshape(kept, np.array([-1, filters * memory])))
    return activate(b, units if bias is None else b.Add(units, bias), fused_activation_function)
