"""Hybrid recurrent layers: float activations, quantized weights; rows are quantized step by step, as in TFLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import constant
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.converter.tflite.ops.quantized.hybrid import is_hybrid, scaled_rows
from minnow.converter.tflite.ops.recurrent import Cell, cell_of, keep, needed, run_cell, time_first
from minnow.converter.tflite.quantization import Quantization, dequantize
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


def hybrid_cell(b: Builder, xs: Sequence[Any], quants: Sequence[Quantization | None], function: str, cell_clip: float,
                proj_clip: float, has_zero: bool) -> Cell | None:  # fmt: skip
    """The cell whose products quantize the rows that they take; None where its matrices are not of bytes.

    Args:
        xs, quants: as the operands of UNIDIRECTIONAL_SEQUENCE_LSTM stand, all 24 of them.
        has_zero: rows are quantized with a zero point.
    """
    matrices = [i for i in (*range(1, 9), 16) if xs[i] is not None]
    if not all(is_hybrid(xs[0], None, quants[i]) for i in matrices):
        return None
    small = [*range(9, 12), *range(20, 24)]
    real = [dequantize(b, v, q) if i in small and v is not None and q is not None else v
            for i, (v, q) in enumerate(zip(xs, quants, strict=True))]  # fmt: skip
    cell = cell_of(real, function, cell_clip, proj_clip)

    def joined(first: int) -> Quantization:
        parts = [(quants[first + i], xs[first + i].type.shape[0]) for i in cell.gates if xs[first + i] is not None]
        scale = np.concatenate([np.broadcast_to(q.scale, n) for q, n in parts if q is not None])
        return Quantization(DType.I8, scale, np.zeros(len(scale), np.int32))

    known = {"x": joined(1), "h": joined(5), "projection": quants[16]}

    def product(k: Builder, rows: Value, matrix: Value, which: str) -> Value:
        q = known[which]
        assert q is not None
        return scaled_rows(k, rows, k.Transpose(matrix, perm=(1, 0)), q, has_zero)

    cell.product = product
    return cell


def quants_of(node: Any, xs: Sequence[Any]) -> list[Quantization | None]:
    """What is known of the numbers of each operand that is there."""
    return [node.quant(i) if v is not None else None for i, v in enumerate(xs)]


@tflite.quantized("BIDIRECTIONAL_SEQUENCE_LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, merge_outputs=False, time_major=True,
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    padded = (*xs, *[None] * (48 - len(xs)))
    quants, x = quants_of(node, padded), needed(xs, 0, "the input")
    if x.type.dtype is not DType.F32 or any(v is not None for v in padded[40:48]):
        return NotImplemented
    cells = []
    for at in (1, 18):  # operands of one direction, as they stand for a layer of one
        operands = (x, *padded[at : at + 17], *[None] * 6)
        cells.append(hybrid_cell(b, operands, [None, *quants[at : at + 17], *[None] * 6], fused_activation_function,
                                 cell_clip, proj_clip, asymmetric_quantize_inputs))  # fmt: skip
    if cells[0] is None or cells[1] is None:
        return NotImplemented
    ys, first = [], time_first(b, x, time_major)
    second = first if padded[39] is None else time_first(b, padded[39], time_major)
    for source, cell, at in ((first, cells[0], 35), (second, cells[1], 37)):
        y, h, c = run_cell(b, cell, source, needed(xs, at, "a state"), needed(xs, at + 1, "a state"),
                           backward=at == 37)  # fmt: skip
        keep(b, node, at, h)
        keep(b, node, at + 1, c)
        ys.append(time_first(b, y, time_major))
    return b.Concat(*ys, axis=-1) if merge_outputs else tuple(ys)


@tflite.quantized("LSTM")
def _(b, *xs, fused_activation_function="NONE", cell_clip=0.0, proj_clip=0.0, kernel_type="FULL",
      asymmetric_quantize_inputs=False, node):  # fmt: skip
    padded, x = (*xs, *[None] * (24 - len(xs))), needed(xs, 0, "the input")
    if kernel_type != "FULL" or x.type.dtype is not DType.F32:
        return NotImplemented
    cell = hybrid_cell(b, padded, quants_of(node, padded), fused_activation_function, cell_clip, proj_clip,
                       asymmetric_quantize_inputs)  # fmt: skip
    if cell is None:
        return NotImplemented
    y, h, c = run_cell(b, cell, b.Unsqueeze(x, axes=(0,)), needed(xs, 18, "a state"), needed(xs, 19, "a state"))
    keep(b, node, 18, h)
    keep(b, node, 19, c)
    n = len(node.tensors_out)
    return (*[None] * (n - 1), b.Squeeze(y, axes=(0,)))


def _rnn(b: Builder, xs: Sequence[Any], function: str, has_zero: bool, node: Any) -> tuple[Value, Value] | None:
    """(results [T, B, units], last h) of a plain layer over x[T, B, features]; None where it is not of bytes."""
    x, w, r, bias, h = xs
    qw, qr = node.quant(1), node.quant(2)
    if not is_hybrid(x, None, qw) or not is_hybrid(x, None, qr):
        return None
    sums = scaled_rows(b, x, b.Transpose(w, perm=(1, 0)), qw, has_zero)
    sums = sums if bias is None else b.Add(sums, bias)
    body = Graph("rnn")
    step, go_on = (body.add_param(TensorType(d, ()), n) for d, n in ((DType.I64, "t"), (DType.BOOL, "cond")))
    before, all_sums = body.add_param(h.type, "h"), body.add_param(sums.type, "sums")
    k = Builder(body, origin=b.origin)
    back = Value.constant(np.ascontiguousarray(constant(r, "the matrix of an RNN").T))
    y = activate(k, k.Add(k.Gather(all_sums, step, axis=0), scaled_rows(k, before, back, qr, has_zero)), function)
    body.outputs = [go_on, y, y]
    count = b.Reshape(b.Shape(x, start=0, end=1), np.zeros(0, np.int64))
    last, rows = b.Loop(count, None, h, sums, body=body, num_carried=1, n_outputs=2)
    return rows, last


@tflite.quantized("UNIDIRECTIONAL_SEQUENCE_RNN")
def _(b, x, w, r, bias, h, *, time_major=False, fused_activation_function="NONE", asymmetric_quantize_inputs=False,
      node):  # fmt: skip
    made = _rnn(b, (time_first(b, x, time_major), w, r, bias, h), fused_activation_function,
                asymmetric_quantize_inputs, node)  # fmt: skip
    if made is None:
        return NotImplemented
    keep(b, node, 4, made[1])
    return time_first(b, made[0], time_major)


@tflite.quantized("RNN")
def _(b, x, w, r, bias, h, *, fused_activation_function="NONE", asymmetric_quantize_inputs=False, node):
    made = _rnn(b, (b.Unsqueeze(x, axes=(0,)), w, r, bias, h), fused_activation_function, asymmetric_quantize_inputs,
                node)  # fmt: skip
    if made is None:
        return NotImplemented
    keep(b, node, 4, made[1])
    return made[1]
