"""Division of quantized tensors, in the steps of TFLite's kernel: by a reciprocal in fixed point."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.quantized.fixed_point import (
    fitted,
    limits_of,
    multiplier_of,
    quantized_values,
    scale_of,
    zero_of,
)
from minnow.converter.tflite.ops.quantized.math import alike, as_table
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops.fixed_function import inverse, product
from minnow.schema.ops.fixed_point import wrapped

Array = np.ndarray[Any, Any]


def _bits(x: Array) -> Array:
    """How many bits the whole numbers (from 0 on) have."""
    return np.asarray(np.frexp(x.astype(np.float64))[1], np.int64)


def _shifted(x: Array, bits: Array) -> Array:
    """x / 2**bits, rounded; beyond 31 bits what processors make of it, which take the lower bits of the shift."""
    mask = wrapped((np.int64(1) << (bits & 63)) - 1)
    return np.asarray((x >> (bits & 31)) + ((x & mask) > (mask >> 1) + (x < 0)))


def _quotients(qx: Quantization, qy: Quantization, q: Quantization, activation: str) -> Array:
    """The results of all pairs of quantized values.

    Small quotients are not small, as in TFLite: there a shift by 32 bits and more is none. A divisor of 0, with which
    TFLite ends in an error, gives the end of the range that has the dividend's sign, and of 0 the quantized value of 0.
    """
    x, y = np.meshgrid(quantized_values(qx) - zero_of(qx), quantized_values(qy) - zero_of(qy), indexing="ij")
    x, by = np.where(y < 0, -x, x), np.where(y == 0, 1, np.abs(y))
    right, room = _bits(by) - 1, 31 - _bits(np.where(x < 0, ~x, x))
    reciprocal = inverse((by << (31 - right)) - (1 << 31), 32)
    multiplier, left = multiplier_of(float(scale_of(qx) / (scale_of(qy) * scale_of(q))))
    scaled = product(product(x << room, reciprocal, 32), multiplier.astype(np.int64), 32)
    quotient = _shifted(scaled, right + room - left) + zero_of(q)
    limits = limits_of(q, activation)
    ends = np.choose(np.sign(x) + 1, (limits[0], zero_of(q), limits[1]))
    return fitted(np.where(y == 0, ends, quotient), q, limits)


@tflite.quantized("DIV")
def _(b, x, y, *, fused_activation_function="NONE", node):
    qx, qy, q = node.quant(0), node.quant(1), node.quant_out()
    if not alike(qx, qy, q) or q.dtype is DType.I16:
        return NotImplemented
    table = _quotients(qx, qy, q, fused_activation_function).reshape(-1)

    def compute(u: Value, v: Value) -> Value:
        rows, columns = (b.Sub(b.Cast(w, to=DType.I32), np.int32(q.lowest)) for w in (u, v))
        return b.Gather(b.const(table), b.Add(b.Mul(rows, np.int32(256)), columns))

    return as_table(b, x, y, q, compute)
