"""Arithmetic and comparison of quantized tensors on whole numbers, as TFLite's reference kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.tflite.fixed_point import (
    INT32,
    limits_of,
    look_up,
    quanta_of,
    requantized,
    scale_of,
    times,
    times_value,
    wide,
    zero_of,
)
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def alike(*quants: Quantization | None) -> bool:
    """All are quantized, to one type, with one scale each."""
    known = [q for q in quants if q is not None]
    return len(known) == len(quants) and len({q.dtype for q in known}) == 1 and not any(q.per_axis for q in known)


def _addend(b: Builder, x: Value, q: Quantization, left: int, factor: float, sign: int = 1) -> Value:
    """Quanta less their zero point, shifted left, times a factor below one."""
    if q.dtype is DType.I16:
        y = times_value(b, b.Mul(wide(b, x, q), np.int32(1 << left)), factor)
        return y if sign > 0 else b.Neg(y)
    table = sign * times((quanta_of(q) - zero_of(q)) << left, factor)
    return look_up(b, x, table.astype(np.int32))


def _power(scale: Any) -> int | None:
    """The exponent of a power of two."""
    mantissa, exponent = np.frexp(np.float32(scale))
    return int(exponent) - 1 if mantissa == 0.5 else None


def _sum(name: str, sign: int) -> None:
    @tflite.quantized(name)
    def _(b, x, y, *, fused_activation_function="NONE", pot_scale_int16=True, node):
        qx, qy, q = node.quant(0), node.quant(1), node.quant_out()
        if not alike(qx, qy, q):
            return NotImplemented
        limits = limits_of(q, fused_activation_function)
        powers = [p for v in (qx, qy, q) if (p := _power(scale_of(v))) is not None]
        if q.dtype is DType.I16 and pot_scale_int16 and len(powers) == 3:
            return _sum_of_powers(b, (x, y), powers, sign, limits)
        left = 15 if q.dtype is DType.I16 else 20
        sx, sy, s = (float(scale_of(v)) for v in (qx, qy, q))
        twice = 2 * max(sx, sy)
        total = b.Add(_addend(b, x, qx, left, sx / twice), _addend(b, y, qy, left, sy / twice, sign))
        return requantized(b, total, twice / ((1 << left) * s), q, limits)


_sum("ADD", 1)
_sum("SUB", -1)


def _sum_of_powers(b: Builder, xs: tuple[Value, Value], powers: list[int], sign: int, limits: Any) -> Value:
    """The sum of 16-bit numbers whose scales are powers of two: one is shifted, the sum saturates."""
    terms = []
    for x, power in zip(xs, powers, strict=False):
        v, shift = b.Cast(x, to=DType.I32), power - powers[2]
        if shift:
            v = b.Requantize(
                b.Mul(v, 2), np.int32(1 << 30), np.int32(shift), to=DType.I32, min=INT32.min, max=INT32.max
            )
        terms.append(v)
    total = b.Add(*terms) if sign > 0 else b.Sub(*terms)
    return b.Cast(b.Max(b.Min(total, np.int32(limits[1])), np.int32(limits[0])), to=DType.I16)


@tflite.quantized("MUL")
def _(b, x, y, *, fused_activation_function="NONE", node):
    qx, qy, q = node.quant(0), node.quant(1), node.quant_out()
    if not alike(qx, qy) or q is None or q.per_axis:
        return NotImplemented
    factor = float(np.float32(scale_of(qx) * scale_of(qy)) / scale_of(q))
    product = b.Mul(wide(b, x, qx), wide(b, y, qy))
    return requantized(b, product, factor, q, limits_of(q, fused_activation_function))


@tflite.quantized("SQUARED_DIFFERENCE")
def _(b, x, y, *, node):
    qx, qy, q = node.quant(0), node.quant(1), node.quant_out()
    if not alike(qx, qy, q):
        return NotImplemented
    left = 0 if q.dtype is DType.I16 else 7
    sx, sy, s = (float(scale_of(v)) for v in (qx, qy, q))
    twice = 2 * max(sx, sy)
    difference = b.Add(_addend(b, x, qx, left, sx / twice), _addend(b, y, qy, left, sy / twice, -1))
    return requantized(b, b.Mul(difference, difference), twice * twice / ((1 << 2 * left) * s), q)


def _comparison(name: str, op: str) -> None:
    @tflite.quantized(name)
    def _(b, x, y, *, node):
        qx, qy = node.quant(0), node.quant(1)
        if not alike(qx, qy):
            return NotImplemented
        if scale_of(qx) == scale_of(qy) and zero_of(qx) == zero_of(qy):
            return getattr(b, op)(x, y)
        return getattr(b, op)(*(_addend(b, v, q, 8, float(scale_of(q))) for v, q in ((x, qx), (y, qy))))


for _name, _op in (("EQUAL", "Equal"), ("NOT_EQUAL", "NotEqual"), ("GREATER", "Greater"), ("LESS", "Less"),
                   ("GREATER_EQUAL", "GreaterOrEqual"), ("LESS_EQUAL", "LessOrEqual")):  # fmt: skip
    _comparison(_name, _op)


def _extremum(name: str, op: str) -> None:
    @tflite.quantized(name)
    def _(b, x, y, *, node):
        # The quanta are compared as they are, whatever they mean.
        return getattr(b, op)(x, y) if alike(node.quant(0), node.quant(1), node.quant_out()) else NotImplemented


_extremum("MAXIMUM", "Max")
_extremum("MINIMUM", "Min")


def rescaled(b: Builder, x: Value, old: Quantization, new: Quantization, limits: Any = None) -> Value:
    """Quanta of one meaning as those of another one, as the kernel QUANTIZE makes them."""
    factor = float(scale_of(old)) / float(scale_of(new))
    if x.type.dtype in (DType.I16, DType.I32):
        return requantized(b, wide(b, x, old) if x.type.dtype is DType.I16 else x, factor, new, limits)
    table = times(quanta_of(old) - zero_of(old), factor) + zero_of(new)
    low, high = limits or (new.lowest, new.highest)
    return look_up(b, x, np.clip(table, low, high).astype(new.dtype.numpy))


@tflite.quantized("QUANTIZE")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if x.type.dtype.is_float or old is None or new is None or old.per_axis or new.per_axis:
        return NotImplemented
    if old.dtype is DType.I32 and zero_of(old):
        return NotImplemented
    return rescaled(b, x, old, new)
