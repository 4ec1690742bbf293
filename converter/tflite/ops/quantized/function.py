"""Functions of one quantized tensor as lookup tables, computed as TFLite's reference kernels do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import LIMITS
from minnow.converter.tflite.ops.quantized.fixed_point import (
    Function,
    fitted,
    function_table,
    limits_of,
    look_up,
    multiplier_of,
    quantized_values,
    requantized,
    scale_of,
    times,
    wide,
    zero_of,
)
from minnow.converter.tflite.ops.quantized.math import alike
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType

Array = np.ndarray[Any, Any]


def _erf(x: Array) -> Array:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def _gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x * 0.7071067811865476))


def _tabled(*names: str, function: Function) -> None:
    @tflite.quantized(*names)
    def _(b, x, *, node):
        old, new = node.quant(0), node.quant_out()
        return look_up(b, x, function_table(old, new, function)) if alike(old, new) else NotImplemented


_tabled("ELU", function=lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x))
_tabled("EXP", function=np.exp)
_tabled("RSQRT", function=lambda x: np.where(x > 0, 1 / np.sqrt(np.where(x > 0, x, 1)), np.inf))


@tflite.quantized("GELU")
def _(b, x, *, approximate=False, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new):
        return NotImplemented
    return look_up(b, x, function_table(old, new, lambda v: _gelu(v, approximate)))


@tflite.quantized("SQRT")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new) or old.dtype is DType.I16:
        return NotImplemented
    real = scale_of(old) * np.maximum(quantized_values(old) - zero_of(old), 0).astype(np.float32)
    # What lies between two quantized values is truncated here, not rounded.
    return look_up(b, x, fitted(np.floor(np.sqrt(real) / scale_of(new)) + zero_of(new), new))


@tflite.quantized("LOG")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new):
        return NotImplemented
    least = float(scale_of(new)) * (new.lowest - zero_of(new))
    return look_up(b, x, function_table(old, new, lambda v: np.where(v > 0, np.log(np.maximum(v, 1e-300)), least)))


def _arch(name: str, function: Function, of_words: Callable[[float, Array], Array]) -> None:
    @tflite.quantized(name)
    def _(b, x, *, node):
        old, new = node.quant(0), node.quant_out()
        if not alike(old, new):
            return NotImplemented
        table = of_words(float(scale_of(old)), quantized_values(old)) if old.dtype is DType.I16 else None
        return look_up(b, x, function_table(old, new, function) if table is None else table.astype(np.int16))


@cache
def _sigmoids() -> Array:
    """1 / (1 + exp(-x)) in 16 bits for x = 0, 1/24, 2/24, ..., each raised by half of what lines between them miss."""
    here, after, between = (65536 / (1 + np.exp(-(np.arange(256) + i) / 24)) for i in (0, 1, 0.5))
    table = np.floor(here + (between - (here + after) / 2) / 2 + 0.5).astype(np.int64)
    return np.append(table[:-1], 65535)


def _word_factor(scale: float, powers: tuple[int, ...]) -> tuple[int, int]:
    """(multiplier, shift) to steps of 1 / (3 * 4096); multiplier 0 for a power of two that is such a step or near."""
    mantissa, exponent = np.frexp(np.float32(scale))
    if mantissa == 0.5 and 12 + int(exponent) - 1 in powers:
        return 0, 12 + int(exponent) - 1
    multiplier, shift = np.float32(scale) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        shift, multiplier = shift + 1, multiplier * 2
    return int(multiplier), shift


def _logistic_words(scale: float, x: Array) -> Array:
    multiplier, shift = _word_factor(scale, (0,))
    multiplier, shift = (3 << shift, 0) if multiplier == 0 else (multiplier, shift)
    x = (x * multiplier + ((1 << shift) >> 1)) >> shift
    size = np.abs(x)
    at, rest, table = np.minimum(size >> 9, 254), size & 511, _sigmoids()
    y = np.where(size >> 9 >= 255, 0x7FFF << 10, (table[at] << 9) + rest * (table[at + 1] - table[at]))
    return np.where(x >= 0, y + (1 << 9), (1 << 25) - y + (1 << 9) - 1) >> 10


def _tanh_words(scale: float, x: Array) -> Array:
    multiplier, shift = _word_factor(scale, (0, 1))
    if multiplier == 0:
        multiplier, shift = 3 << shift, 0
    x = (x * multiplier + ((1 << shift) >> 1)) >> shift
    size = np.abs(x)
    at, rest, table = np.minimum(size >> 8, 254), size & 255, _sigmoids()
    y = np.where(size >> 8 >= 255, 0xFFFF << 8, (table[at] << 8) + rest * (table[at + 1] - table[at]))
    half, up = 1 << 23, 1 << 7
    return np.where(x >= 0, y - half + up, -y + half + up - 1) >> 8


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


_arch("LOGISTIC", _logistic, _logistic_words)
_arch("TANH", np.tanh, _tanh_words)


@tflite.quantized(*LIMITS)
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new):
        return NotImplemented
    factor, limits = float(scale_of(old) / scale_of(new)), limits_of(new, node.op)
    if new.dtype is DType.I16:
        return requantized(b, wide(b, x, old), factor, new, limits)
    return look_up(b, x, fitted(times(quantized_values(old) - zero_of(old), factor) + zero_of(new), new, limits))


@tflite.quantized("LEAKY_RELU")
def _(b, x, *, alpha=0.0, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new):
        return NotImplemented
    below = float(np.float32(scale_of(old) * np.float32(alpha)) / scale_of(new))
    above = float(scale_of(old) / scale_of(new))
    if new.dtype is DType.I16:
        y = wide(b, x, old)
        return b.Where(b.GreaterOrEqual(y, 0), requantized(b, y, above, new), requantized(b, y, below, new))
    v = quantized_values(old) - zero_of(old)
    return look_up(b, x, fitted(np.where(v >= 0, times(v, above), times(v, below)) + zero_of(new), new))


@tflite.quantized("PRELU")
def _(b, x, alpha, *, node):
    old, slope, new = node.quant(0), node.quant(1), node.quant_out()
    if not alike(old, slope, new):
        return NotImplemented
    above = float(scale_of(old) / scale_of(new))
    below = float(np.float32(scale_of(old) * scale_of(slope)) / scale_of(new))
    y = wide(b, x, old)
    falling = requantized(b, b.Mul(y, wide(b, alpha, slope)), below, new)
    return b.Where(b.GreaterOrEqual(y, 0), requantized(b, y, above, new), falling)


@tflite.quantized("ABS")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new):
        return NotImplemented
    factor = float(scale_of(old)) / float(scale_of(new))
    if new.dtype is DType.I16:
        return requantized(b, b.Abs(wide(b, x, old)), factor, new)
    size = np.abs(quantized_values(old) - zero_of(old))
    return look_up(b, x, fitted((size if factor == 1 else times(size, factor)) + zero_of(new), new))


def _short_product(a: Array, factor: int) -> Array:
    """The upper half of a doubled product of 16-bit numbers, halves up."""
    return np.minimum((a * factor + (1 << 14)) >> 15, 32767)


def _short_divided(x: Array, exponent: int) -> Array:
    """16-bit numbers divided by a power of two, halves away from zero; its mask has no more bits than they have."""
    mask = np.int64(np.array((1 << exponent) - 1).astype(np.int16))
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


@tflite.quantized("HARD_SWISH")
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if not alike(old, new) or old.dtype is DType.I16:
        return NotImplemented
    return look_up(b, x, _hard_swish(old, new))


def _hard_swish(old: Quantization, new: Quantization) -> Array:
    fine = np.float32(1 / 128) * scale_of(old)
    (of_result, exponent), (of_gate, gate_exponent) = (
        (int(np.minimum((m.astype(np.int64) + (1 << 15)) >> 16, 32767)), int(e))
        for m, e in (multiplier_of(np.float32(fine / s)) for s in (scale_of(new), np.float32(3 / 32768)))
    )

    def saturated(v: Array) -> Array:
        return np.clip(v, -32768, 32767)

    v = (quantized_values(old) - zero_of(old)) * 128
    result, gate = _short_product(v, of_result), v
    if gate_exponent > 0:
        gate = saturated(gate << (gate_exponent - 1))
    gate = _short_product(gate, of_gate)
    if gate_exponent > 0:
        gate = saturated(gate << 1)
    elif gate_exponent < 0:
        gate = _short_divided(gate, -gate_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * result
    y = np.where(product < 0, -(-product >> 15), product >> 15)
    return fitted(_short_divided(y, max(-exponent, 0)) + zero_of(new), new)
