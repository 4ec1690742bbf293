"""Fake quantization, quantization and dequantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import constant, rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
F32 = np.float32
_MAX_BITS = 16


def _fake(b: Builder, x: Value, low: Array, high: Array, bits: int, narrow: bool) -> Any:
    """x rounded to one of 2^bits numbers from low to high, moved a little so that 0 is one of them."""
    if not 1 < bits <= _MAX_BITS:
        raise ModelError(f"fake quantization to {bits} bits is invalid")
    least, most = F32(1 if narrow else 0), F32(2**bits - 1)
    low, high = low.astype(F32), high.astype(F32)
    nothing = (low == 0) & (high == 0)
    with np.errstate(all="ignore"):
        scale = np.where(nothing, F32(1), (high - low) / (most - least)).astype(F32)
        zero = (least - low / scale).astype(F32)
    nudged = np.where(zero < least, least, np.where(zero > most, most, np.floor(zero + F32(0.5)))).astype(F32)
    first, last = ((least - nudged) * scale).astype(F32), ((most - nudged) * scale).astype(F32)
    first, last = np.where(nothing, F32(0), first), np.where(nothing, F32(0), last)
    inside = b.Sub(b.Min(b.Max(x, first), last), first)
    return b.Add(b.Mul(b.Floor(b.Add(b.Mul(inside, (F32(1) / scale).astype(F32)), 0.5)), scale), first)


@tf.op("FakeQuantWithMinMaxArgs")
def _(b, x, *, min=-6.0, max=6.0, num_bits=8, narrow_range=False):
    return _fake(b, x, np.array(min), np.array(max), num_bits, narrow_range)


@tf.op("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _(b, x, low, high, *, num_bits=8, narrow_range=False):
    least, most = (constant(v, "the range of a fake quantization") for v in (low, high))
    return _fake(b, x, least, most, num_bits, narrow_range)


@tf.op("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _(b, x, low=None, high=None, bits=None, *, signed_input=True, num_bits=8, range_given=None, input_min=0.0,
      input_max=0.0, round_mode="HALF_TO_EVEN", narrow_range=False, axis=-1, node):  # fmt: skip
    if range_given is None:
        range_given = node.op.endswith("V3")
    if bits is not None:
        num_bits = int(constant(bits, "the number of bits").reshape(()))
    if not 1 < num_bits <= 62:
        raise ModelError(f"fake quantization to {num_bits} bits is invalid")
    dtype = x.type.dtype
    least = -(1 << (num_bits - 1)) + narrow_range if signed_input else 0
    most = (1 << (num_bits - signed_input)) - 1
    if low is None:
        low, high = b.const(np.array(input_min, dtype.numpy)), b.const(np.array(input_max, dtype.numpy))
    n = rank(x, "the input") if axis >= 0 else 0
    others = tuple(i for i in range(n) if i != axis)
    if not range_given:
        low, high = (op(x, axes=others or None, keepdims=axis >= 0) if n or axis < 0 else x
                     for op in (b.ReduceMin, b.ReduceMax))  # fmt: skip
    elif axis >= 0:
        low, high = (b.Reshape(v, np.array([-1, *[1] * (n - 1 - axis)])) for v in (low, high))
    huge = b.const(np.array(np.finfo(dtype.numpy).max, dtype.numpy))
    # The side that needs the smaller scale decides.
    sides = []
    for value, end in ((least, low), (most, high)):
        positive = b.Greater(b.Mul(end, float(value)), 0.0)
        sides.append(b.Where(positive, b.Div(np.array(value, dtype.numpy), end), huge))
    by_low = b.Less(sides[0], sides[1])
    scale = b.Where(by_low, sides[0], sides[1])
    inverse = b.Where(by_low, b.Div(low, float(least or 1)), b.Div(high, float(most)))
    if range_given:
        x = b.Min(b.Max(x, b.Where(by_low, low, b.Mul(inverse, float(least)))),
                  b.Where(by_low, b.Mul(inverse, float(most)), high))  # fmt: skip
    quantized = b.Mul(x, scale)
    rounded = b.Round(quantized) if round_mode == "HALF_TO_EVEN" else b.Floor(b.Add(quantized, 0.5))
    return b.Mul(rounded, inverse)


def _ends(low: Value, high: Value, x: Value, axis: int, mode: str) -> tuple[Array, Array]:
    """The quantization range: two numbers, or as many as x is long along the axis, shaped to go with it."""
    first, last = (constant(v, "the quantization range").astype(F32) for v in (low, high))
    if axis < 0:
        return first.reshape(()), last.reshape(())
    if mode == "MIN_FIRST":
        raise ModelError(
            "the quantization mode MIN_FIRST takes one range for the whole tensor",
            why="here there is one for each index of an axis",
        )
    after = [1] * (rank(x, "the quantized tensor") - 1 - axis)
    return first.reshape(-1, *after), last.reshape(-1, *after)


@tf.op("Dequantize")
def _(b, x, low, high, *, mode="MIN_COMBINED", narrow_range=False, axis=-1, dtype=DType.F32):
    first, last = _ends(low, high, x, axis, mode)
    info = np.iinfo(x.type.dtype.numpy)
    least, most = F32(info.min), F32(info.max)
    numbers = b.Cast(x, to=DType.F32)
    if mode == "SCALED":
        scale = last / most
        if least < 0:
            scale = np.maximum(first / (least + F32(narrow_range)), scale)
        return cast(b, b.Mul(numbers, scale.astype(F32)), dtype)
    if mode == "MIN_COMBINED":
        scale = (last - first) / (most - least)
        half = F32(0) if least == 0 else (most - least + 1) / 2
        return cast(b, b.Add(b.Mul(b.Add(numbers, half), scale.astype(F32)), first), dtype)
    if mode == "MIN_FIRST":
        # The lowest quantized value is the multiple of the step that is nearest to the beginning of the range.
        scale = F32(np.float64(last - first) / (2.0**info.bits - 1))
        begin = F32(_away(first / scale) * scale) if scale else first
        return cast(b, b.Add(b.Mul(numbers, scale), F32(begin - F32(least * scale))), dtype)
    raise UnsupportedError(f"the quantization mode {mode} is not supported")


def _away(x: Any) -> Any:
    """The nearest whole number; halves away from zero."""
    return np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x).astype(F32)


@tf.op("QuantizeV2", outputs=("output", "output_min", "output_max"))
def _(b, x, low, high, *, T, mode="MIN_COMBINED", round_mode="HALF_AWAY_FROM_ZERO", narrow_range=False, axis=-1,
      ensure_minimum_range=0.01):  # fmt: skip
    first, last = _ends(low, high, x, axis, mode)
    if np.any(first > last):
        raise ModelError("the quantization range ends before it begins")
    first = np.minimum(F32(0), first)
    span = np.maximum(F32(1), np.maximum(abs(first), abs(last))) * F32(ensure_minimum_range)
    last = np.maximum(F32(0), np.maximum(last, first + span))
    info = np.iinfo(T.numpy)
    least, most = F32(info.min), F32(info.max)
    if mode == "MIN_FIRST":
        scale = ((2.0**info.bits - 1) / (last - first).astype(np.float64)).astype(F32)
        quantized = b.Sub(b.Round(b.Mul(x, scale), halves="away"), _away(first * scale) - least)
    elif mode == "SCALED":
        begin = F32(least + narrow_range)
        with np.errstate(all="ignore"):
            sides = [np.where(end * side > 0, side / end, np.finfo(F32).max) for end, side in
                     ((first, begin), (last, most))]  # fmt: skip
        scale = np.minimum(*sides).astype(F32)
        first, last = begin / scale, most / scale
        halves = "even" if round_mode == "HALF_TO_EVEN" else "away"
        quantized = b.Round(b.Mul(b.Min(b.Max(x, first), last), scale), halves=halves)
    elif mode == "MIN_COMBINED":
        moved = b.Mul(b.Sub(b.Min(b.Max(x, first), last), first), (most - least) / (last - first))
        if info.min < 0:
            moved = b.Sub(moved, (most - least + 1) / 2)
        quantized = b.Round(moved, halves="away")
    else:
        raise UnsupportedError(f"the quantization mode {mode} is not supported")
    # As a float, the greatest number of 32 bits would be one beyond.
    top = np.nextafter(most, F32(0)) if info.bits == 32 else most
    y = b.Cast(b.Min(b.Max(quantized, least), top), to=T)
    return y, *(b.const(v.reshape(-1 if axis >= 0 else ()).astype(F32)) for v in (first, last))
