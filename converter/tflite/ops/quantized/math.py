"""Arithmetic and comparison of quantized tensors in integers, as TFLite's reference kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.quantized.fixed_point import (
    INT32,
    limits_of,
    look_up,
    quantized_values,
    requantized,
    scale_of,
    times,
    times_value,
    wide,
    zero_of,
)
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold


def alike(*quants: Quantization | None) -> bool:
    """All are quantized, to one type, with one scale each."""
    known = [q for q in quants if q is not None]
    return len(known) == len(quants) and len({q.dtype for q in known}) == 1 and not any(q.per_axis for q in known)


def _is_single(number: np.ndarray[Any, Any], x: Value) -> bool:
    """The constant is one number, and does not change the shape of x."""
    if x.type.shape is None or number.size == 0 or number.ndim > len(x.type.shape):
        return False
    fits = all(d in (1, e) for d, e in zip(number.shape[::-1], x.type.shape[::-1], strict=False))
    return fits and bool((number == number.flat[0]).all())


def as_table(b: Builder, x: Value, y: Value, q: Quantization, compute: Callable[[Value, Value], Value]) -> Value:
    """A function of two operands of 8 bits; of one, where the other one is a single number."""
    for i, (v, other) in enumerate(((x, y), (y, x))):
        number = other.array
        if q.dtype is DType.I16 or number is None or not _is_single(number, v):
            continue
        # Computed once, for all quantized values that there are, in the same steps.
        low = 0 if q.dtype is DType.U8 else -128
        both = [b.const(np.arange(low, low + 256).astype(number.dtype)), b.const(number.flat[0])]
        (made,) = fold(b.graph, b.made, [compute(*(both if i == 0 else both[::-1]))])
        if made is not None and made.array is not None:
            return look_up(b, v, made.array)
    return compute(x, y)


def _addend(b: Builder, x: Value, q: Quantization, left: int, factor: float, sign: int = 1) -> Value:
    """Quantized values minus their zero point, shifted left, times a factor below one."""
    if q.dtype is DType.I16:
        y = times_value(b, b.Mul(wide(b, x, q), np.int32(1 << left)), factor)
        return y if sign > 0 else b.Neg(y)
    table = sign * times((quantized_values(q) - zero_of(q)) << left, factor)
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
        if twice / s >= 1 << 31:
            return NotImplemented  # x - x, as a test for numbers, has no scale to speak of

        def compute(u: Value, v: Value) -> Value:
            total = b.Add(_addend(b, u, qx, left, sx / twice), _addend(b, v, qy, left, sy / twice, sign))
            return requantized(b, total, twice / ((1 << left) * s), q, limits)

        return as_table(b, x, y, q, compute)


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
    limits = limits_of(q, fused_activation_function)

    def compute(u: Value, v: Value) -> Value:
        return requantized(b, b.Mul(wide(b, u, qx), wide(b, v, qy)), factor, q, limits)

    return as_table(b, x, y, qx, compute)


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
        if not alike(qx, qy) or max(scale_of(qx), scale_of(qy)) >= 1:
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
        # The quantized values are compared as they are, whatever they stand for.
        return getattr(b, op)(x, y) if alike(node.quant(0), node.quant(1), node.quant_out()) else NotImplemented


_extremum("MAXIMUM", "Max")
_extremum("MINIMUM", "Min")


def rescaled(b: Builder, x: Value, old: Quantization, new: Quantization, limits: Any = None) -> Value:
    """Quantized values with other quantization parameters, as the kernel QUANTIZE computes them."""
    factor = float(scale_of(old)) / float(scale_of(new))
    if x.type.dtype in (DType.I16, DType.I32):
        return requantized(b, wide(b, x, old) if x.type.dtype is DType.I16 else x, factor, new, limits)
    table = times(quantized_values(old) - zero_of(old), factor) + zero_of(new)
    low, high = limits or (new.lowest, new.highest)
    return look_up(b, x, np.clip(table, low, high).astype(new.dtype.numpy))


@tflite.quantized("QUANTIZE")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    maker = x.producer
    if maker is not None and maker.op == "Cast" and new is not None and not new.per_axis:
        numbers = maker.input(0)  # whole ones, which stand for themselves
        if numbers.type.dtype in (DType.I8, DType.U8):
            every = np.arange(256) - (0 if numbers.type.dtype is DType.U8 else 128)
            return look_up(b, numbers, new.quantized(every.astype(np.float32)))
    if x.type.dtype.is_float or old is None or new is None or old.per_axis or new.per_axis:
        return NotImplemented
    if old.dtype is DType.I32 and zero_of(old):
        return NotImplemented
    return rescaled(b, x, old, new)
