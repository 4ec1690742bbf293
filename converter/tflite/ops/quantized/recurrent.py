"""Quantized recurrent layers: bytes in and out, 16-bit gates and cells, as TFLite computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import constant, static_dim
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.converter.tflite.ops.quantized.fixed_point import INT32, multiplier_of, scale_of, zero_of
from minnow.converter.tflite.ops.quantized.hybrid import is_hybrid, scaled_rows
from minnow.converter.tflite.ops.quantized.hybrid_recurrent import hybrid_cell, quants_of
from minnow.converter.tflite.ops.recurrent import keep, needed, run_cell, stacked, time_first
from minnow.converter.tflite.quantization import Quantization, dequantize
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.fixed_function import sigmoid, tanh

Array = np.ndarray[Any, Any]
Float = np.float32
STEP = np.float32(2.0**-12)
"""Of the sums that gates are functions of: 16 bits with 3 before the point."""
_WORDS = np.arange(-32768, 32768)


def _fitted(b: Builder, x: Value, least: int = -32768, most: int = 32767) -> Value:
    return b.Cast(b.Min(b.Max(x, np.int32(least)), np.int32(most)), to=DType.I16)


def _wide(b: Builder, x: Value) -> Value:
    return b.Cast(x, to=DType.I32)


def _scaled(b: Builder, x: Value, factors: Any, to: DType = DType.I32, zero: int = 0) -> Value:
    multiplier, shift = multiplier_of(np.asarray(factors, np.float64))
    numpy: Any = to.numpy
    limits: Any = np.iinfo(numpy)
    return b.Requantize(x, multiplier, shift, zero=zero, to=to, min=int(limits.min), max=int(limits.max))


def _halved(b: Builder, x: Value, times: int) -> Value:
    """Products of 16-bit numbers divided by a power of two, halves away from zero."""
    return b.Requantize(b.Mul(x, np.int32(2)), np.int32(1 << 30), np.int32(-times), to=DType.I32,
                        min=INT32.min, max=INT32.max)  # fmt: skip


def _quant(node: Any, i: int, what: str) -> Quantization:
    q = node.quant(i)
    if q is None:
        raise ModelError(f"{what} of an LSTM has no scale")
    found: Quantization = q
    return found


@tflite.quantized("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, time_major=False,
      asymmetric_quantize_inputs=False, diagonal_recurrent_tensors=False, node):  # fmt: skip
    xs = (*xs, *[None] * (24 - len(xs)))
    x = needed(xs, 0, "the input")
    if x.type.dtype is DType.F32 and not diagonal_recurrent_tensors:
        cell = hybrid_cell(b, xs, quants_of(node, xs), fused_activation_function, cell_clip, proj_clip,
                           asymmetric_quantize_inputs)  # fmt: skip
        if cell is None:
            return NotImplemented
        y, h, c = run_cell(b, cell, time_first(b, x, time_major), needed(xs, 18, "a state"), needed(xs, 19, "a state"))
        keep(b, node, 18, h)
        keep(b, node, 19, c)
        return time_first(b, y, time_major)
    if x.type.dtype is not DType.I8:
        return NotImplemented
    if any(v is not None for v in xs[20:24]):
        raise UnsupportedError("a quantized LSTM with layer normalization is not supported")
    if diagonal_recurrent_tensors or len(node.tensors_between) < 5:
        raise UnsupportedError("a quantized LSTM with 8-bit gates is not supported")
    return _layer(b, xs, cell_clip, proj_clip, time_major, node)


def _layer(b: Builder, xs: Sequence[Any], cell_clip: float, proj_clip: float, time_major: bool, node: Any) -> Value:
    qx, qh, qc = (_quant(node, i, "a state or the input") for i in (0, 18, 19))
    hidden = node.tensors_between[4].quant
    mantissa, exponent = np.frexp(scale_of(qc))
    if hidden is None or mantissa != 0.5:
        raise ModelError("the scales of an LSTM's cell state or hidden state are invalid")
    power = int(exponent) - 1  # of two, the scale of the cells
    gates = [i for i in range(4) if i or xs[1] is not None]
    units = static_dim(needed(xs, 2, "a matrix").type, 0, "the weights of an LSTM")

    def factors(first: int, scale: Float) -> Array:
        scales = [Float(scale_of(_quant(node, first + i, "a matrix")) * scale) / STEP for i in gates]
        return np.repeat(np.array(scales, np.float64), units)

    biases = stacked(b, [needed(xs, 12 + i, "a bias") for i in gates])
    columns = b.Transpose(stacked(b, [needed(xs, 1 + i, "a matrix") for i in gates]), perm=(1, 0))
    x = time_first(b, needed(xs, 0, "the input"), time_major)
    sums = b.Add(b.MatMulInteger(x, columns, np.int8(zero_of(qx))), biases)
    entering = _scaled(b, sums, factors(1, scale_of(qx)), DType.I16)

    body = Graph("lstm")
    step, go_on = (body.add_param(TensorType(d, ()), n) for d, n in ((DType.I64, "t"), (DType.BOOL, "cond")))
    h, c = needed(xs, 18, "the output state"), needed(xs, 19, "the cell state")
    ht, ct = body.add_param(h.type, "h"), body.add_param(c.type, "c")
    outer: list[Value] = []

    def inside(v: Value) -> Value:
        if v.data is not None:
            return Value(v.type, v.name, v.data)
        outer.append(v)
        return body.add_param(v.type, v.name)

    all_sums = inside(entering)
    k = Builder(body, origin=b.origin)
    back = inside(b.Transpose(stacked(b, [needed(xs, 5 + i, "a matrix") for i in gates]), perm=(1, 0)))
    again = _scaled(k, k.MatMulInteger(ht, back, np.int8(zero_of(qh))), factors(5, scale_of(qh)))
    now = _fitted(k, k.Add(again, _wide(k, k.Gather(all_sums, step, axis=0))))
    parts = dict(zip(gates, k.Split(now, axis=-1, sizes=(units,) * len(gates), n_outputs=len(gates)), strict=True))

    def gate(i: int, state: Value | None) -> Value:
        y, peephole = parts[i], xs[9 + (i if i < 2 else 2)] if i != 2 else None
        if peephole is not None and state is not None:
            at = 9 + (i if i < 2 else 2)
            scale = Float(Float(2.0**power) * scale_of(_quant(node, at, "a peephole"))) / STEP
            more = _scaled(k, k.Mul(_wide(k, state), _wide(k, inside(peephole))), scale)
            y = _fitted(k, k.Add(more, _wide(k, y)))
        table = tanh(_WORDS, 3, 16) if i == 2 else sigmoid(_WORDS, 3, 16)
        return _wide(k, k.LookUp(y, table.astype(np.int16)))

    forget, candidate = gate(1, ct), gate(2, None)
    kept = _halved(k, k.Mul(forget, _wide(k, ct)), 15)
    opened = gate(0, ct) if 0 in gates else k.Sub(np.int32(32767), forget)
    fresh = _halved(k, k.Mul(opened, candidate), 30 + power)
    most = int(min(cell_clip / float(scale_of(qc)), 32767)) if cell_clip > 0 else 0
    cn = _fitted(k, k.Add(kept, fresh), -most if most else -32768, most or 32767)
    shown = k.LookUp(cn, tanh(_WORDS, 15 + power, 16).astype(np.int16))
    factor = Float(Float(2.0**-15) / scale_of(hidden)) * Float(2.0**-15)
    product = k.Mul(gate(3, cn), _wide(k, shown))
    if xs[16] is None:
        y = _scaled(k, product, factor, DType.I8, zero_of(hidden))
    else:
        y = _projected(k, _scaled(k, product, factor, DType.I8, -zero_of(hidden)), xs, hidden, qh, proj_clip, node)
    body.outputs = [go_on, y, cn, y]
    count = b.Reshape(b.Shape(x, start=0, end=1), np.zeros(0, np.int64))
    last, state, rows = b.Loop(count, None, h, c, *outer, body=body, num_carried=2, n_outputs=3)
    keep(b, node, 18, last)
    keep(b, node, 19, state)
    return time_first(b, rows, time_major)


def _projected(b: Builder, x: Value, xs: Sequence[Any], hidden: Quantization, q: Quantization, clip: float,
               node: Any) -> Value:  # fmt: skip
    """What the layer gives is a product of the hidden numbers."""
    weights = constant(xs[16], "the projection of a quantized LSTM")
    bias = weights.astype(np.int32).sum(1) * zero_of(hidden)
    if xs[17] is not None:
        bias = bias + constant(xs[17], "the bias of a projection")
    scale = Float(scale_of(_quant(node, 16, "the projection")) * scale_of(hidden)) / scale_of(q)
    sums = b.Add(b.MatMulInteger(x, np.ascontiguousarray(weights.T)), bias.astype(np.int32))
    y = _scaled(b, sums, scale, DType.I8, zero_of(q))
    most = int(min(clip / float(scale_of(q)), 127)) if clip > 0 else 0
    return b.Min(b.Max(y, np.int8(-most)), np.int8(most)) if most else y


@tflite.quantized("SVDF")
def _(b, x, features, time, bias, state, *, rank=0, fused_activation_function="NONE",
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    filters, memory = (static_dim(time.type, i, "the weights of SVDF") for i in (0, 1))
    if rank < 1 or filters % rank:
        raise ModelError(f"SVDF has {filters} filters, which do not fit the rank {rank}")
    qx, qf, qt, qs, q = node.quant(0), node.quant(1), node.quant(2), node.quant(4), node.quant_out()
    columns = b.Transpose(features, perm=(1, 0))
    if is_hybrid(x, qx, qf):
        now = scaled_rows(b, x, columns, qf, asymmetric_quantize_inputs)
        weights = time if qt is None else dequantize(b, time, qt)
    elif any(v is None for v in (qx, qf, qt, qs, q)) or state.type.dtype is not DType.I16:
        return NotImplemented
    else:
        scale = Float(Float(scale_of(qx) * scale_of(qf)) / scale_of(qs))
        now = _scaled(b, b.MatMulInteger(x, columns, np.int8(zero_of(qx))), scale, DType.I16)
        weights = _wide(b, time)
    past = b.Reshape(state, np.array([-1, filters, memory]))
    kept = b.Concat(
        b.Slice(past, np.array([1]), np.array([memory]), np.array([2])), b.Unsqueeze(now, axes=(2,)), axis=2
    )
    keep(b, node, 4, b.Reshape(kept, np.array([-1, filters * memory])))
    sums = b.ReduceSum(b.Mul(kept if qx is None else _wide(b, kept), weights), axes=(2,), keepdims=False)
    units = b.ReduceSum(b.Reshape(sums, np.array([-1, filters // rank, rank])), axes=(2,), keepdims=False)
    units = units if bias is None else b.Add(units, bias)
    if qx is None:
        return activate(b, units, fused_activation_function)
    scale = Float(Float(scale_of(qs) * scale_of(qt)) / scale_of(q))
    # The kernel of TFLite passes over an activation here.
    return _scaled(b, units, scale, q.dtype, zero_of(q))
