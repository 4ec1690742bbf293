"""Fixed-point arithmetic as in TFLite: multipliers, the range of an activation, lookup tables of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.tflite.ops.activation import LIMITS
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.fixed_point import scaled

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]

INT32 = np.iinfo(np.int32)


def rounded(x: Any) -> Array:
    """The nearest whole numbers, halves away from zero."""
    x = np.asarray(x)
    return np.trunc(x + np.copysign(x.dtype.type(0.5), x)) if x.dtype == np.float64 else _rounded_float(x)


def _rounded_float(x: Array) -> Array:
    # In double: 0.49999997f + 0.5f would round to 1.
    wide = x.astype(np.float64)
    return np.trunc(wide + np.copysign(0.5, wide)).astype(x.dtype)


def multiplier_of(factor: Any) -> tuple[Array, Array]:
    """Multipliers (i32) and shifts (i32) of real factors (f64): factor = multiplier * 2**(shift - 31)."""
    mantissa, shift = np.frexp(np.asarray(factor, np.float64))
    fixed = rounded(np.asarray(mantissa) * 2.0**31).astype(np.int64)
    over = fixed == 1 << 31
    fixed, shift = np.where(over, fixed >> 1, fixed), np.where(over, shift + 1, shift)
    small = shift < -31
    return np.where(small, 0, fixed).astype(np.int32), np.where(small, 0, shift).astype(np.int32)


def times(x: Array, factor: Any) -> Array:
    """Whole numbers (i64) times a real factor, in fixed point."""
    multiplier, shift = multiplier_of(factor)
    return scaled(np.asarray(x, np.int64), multiplier.astype(np.int64), shift.astype(np.int64))


def scale_of(q: Quantization) -> np.float32:
    """The one scale of a tensor.

    Raises:
        UnsupportedError: there is one for each channel. ModelError: it is 0.
    """
    if q.per_axis:
        raise UnsupportedError("an activation with a scale for each channel is not supported")
    if not q.scale[0] > 0:
        raise ModelError("a quantized tensor has the scale 0")
    return np.float32(q.scale[0])


def zero_of(q: Quantization) -> int:
    """The one zero point of a tensor."""
    return int(q.zero[0])


def limits_of(q: Quantization, activation: str = "NONE") -> tuple[int, int]:
    """The lowest and the highest quantized value that a fused activation lets pass."""
    if activation != "NONE" and activation not in LIMITS:
        raise UnsupportedError(f"the fused activation {activation} of quantized values is not supported")
    low, high = (
        None if v is None else zero_of(q) + int(rounded(np.float32(v) / scale_of(q)))
        for v in LIMITS.get(activation, (None, None))
    )
    return max(q.lowest, q.lowest if low is None else low), min(q.highest, q.highest if high is None else high)


def quantized_values(q: Quantization) -> Array:
    """All quantized values of the type, from the lowest on (i64)."""
    return np.arange(q.lowest, q.highest + 1)


def fitted(y: Array, q: Quantization, limits: tuple[int, int] | None = None) -> Array:
    """Integers, clipped, in the quantized type."""
    low, high = limits or (q.lowest, q.highest)
    return np.clip(y, low, high).astype(q.dtype.numpy)


def look_up(b: Builder, x: Value, table: Array) -> Value:
    """A function of quantized values as the table of its results; a function of a function is one."""
    maker = x.producer
    if maker is not None and maker.op == "LookUp" and (inner := maker.input(1).array) is not None:
        kind: Any = inner.dtype
        lowest = int(np.iinfo(kind).min)
        return b.LookUp(maker.input(0), table[inner.astype(np.int64) - lowest])
    return b.LookUp(x, table)


def wide(b: Builder, x: Value, q: Quantization) -> Value:
    """Quantized values minus their zero point, i32."""
    if q.dtype is not DType.I16:
        return look_up(b, x, (quantized_values(q) - zero_of(q)).astype(np.int32))
    y = b.Cast(x, to=DType.I32)
    return b.Sub(y, np.int32(zero_of(q))) if zero_of(q) else y


def requantized(
    b: Builder, x: Value, factor: Any, q: Quantization, limits: tuple[int, int] | None = None, zero: int | None = None
) -> Value:
    """Sums (i32 or i64) times a real factor as quantized values."""
    multiplier, shift = multiplier_of(factor)
    low, high = limits or (q.lowest, q.highest)
    zero = zero_of(q) if zero is None else zero
    return b.Requantize(x, multiplier, shift, zero=zero, to=q.dtype, min=min(low, high), max=high)


def times_value(b: Builder, x: Value, factor: Any) -> Value:
    """Sums (i32) times a real factor, i32."""
    multiplier, shift = multiplier_of(factor)
    return b.Requantize(x, multiplier, shift, to=DType.I32, min=INT32.min, max=INT32.max)


def function_table(old: Quantization, new: Quantization, function: Function) -> Array:
    """A function of reals as the table that TFLite makes of it: for 16 bits 512 pieces of lines."""
    with np.errstate(all="ignore"):
        return _long_table(old, new, function) if old.dtype is DType.I16 else _short_table(old, new, function)


def _short_table(old: Quantization, new: Quantization, function: Function) -> Array:
    real = scale_of(old) * (quantized_values(old) - zero_of(old)).astype(np.float32)
    value = function(real.astype(np.float64)).astype(np.float32)
    y = rounded((value * (np.float32(1) / scale_of(new))).astype(np.float32)) + np.float32(zero_of(new))
    return fitted(np.nan_to_num(y, nan=INT32.min).astype(np.float64), new)


def _long_table(old: Quantization, new: Quantization, function: Function) -> Array:
    low, high = (np.float32(scale_of(old) * np.float32(v - zero_of(old))) for v in (old.lowest, old.highest))
    least, most = (np.float32(scale_of(new) * np.float32(v - zero_of(new))) for v in (new.lowest, new.highest))
    return lines(low, high, least, most, function, np.float32)


def lines(low: Any, high: Any, least: Any, most: Any, function: Function, kind: type = np.float64) -> Array:
    """A function of [low, high] to [least, most], by 512 pieces of lines through 16-bit numbers, for all of these."""
    step = kind((high - low) / 512)
    factor = kind(65536 / (most - least))
    at: Array = np.array([kind(low + kind(i * step)) for i in range(512)], kind)

    def real(x: Array) -> Array:
        return np.asarray(kind(function(x.astype(np.float64)).astype(kind) * factor))

    here, after = rounded(real(at)), real(np.append(at[1:], kind(low + kind(512 * step))))
    between = rounded(((after + here) / 2).astype(kind)) - rounded(real((at + step / 2).astype(kind)))
    points = np.append(here - rounded((between / 2).astype(kind)), rounded(real(np.array([high], kind))))
    points = np.clip(points, -32768, 32767).astype(np.int64)
    x = np.arange(-32768, 32768)
    index, rest = 256 + (x >> 7), x & 127
    return (points[index] + ((((points[index + 1] - points[index]) * rest) + 64) >> 7)).astype(np.int16)
