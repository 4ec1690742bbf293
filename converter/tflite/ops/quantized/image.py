"""Quantized images: bilinear resampling; and concatenation of tensors with different quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import ints, is_known
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.quantized.fixed_point import (
    fitted,
    limits_of,
    look_up,
    quantized_values,
    rounded,
    scale_of,
    zero_of,
)
from minnow.converter.tflite.ops.quantized.math import alike, rescaled
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@tflite.quantized("CONCATENATION")
def _(b, *xs, axis=0, fused_activation_function="NONE", node):
    q, quants = node.quant_out(), [node.quant(i) for i in range(len(xs))]
    if q is None or not alike(q, *quants) or limits_of(q, fused_activation_function) != (q.lowest, q.highest):
        return NotImplemented
    return b.Concat(*(_joined(b, x, old, q) for x, old in zip(xs, quants, strict=True)), axis=axis)


def _joined(b: Builder, x: Value, old: Quantization, q: Quantization) -> Value:
    if scale_of(old) == scale_of(q) and zero_of(old) == zero_of(q):
        return x
    if q.dtype is not DType.U8:
        return rescaled(b, x, old, q)
    factor = np.float32(scale_of(old) * np.float32(np.float32(1) / scale_of(q)))
    shift = np.float32(-zero_of(old) * factor)
    return look_up(b, x, fitted(rounded(quantized_values(old).astype(np.float32) * factor + shift) + zero_of(q), q))


@tflite.quantized("RESIZE_BILINEAR")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False, node):
    old, q, shape = node.quant(0), node.quant_out(), x.type.shape
    if not alike(old, q) or not is_known(size) or shape is None or not all(isinstance(d, int) for d in shape[1:3]):
        return NotImplemented
    pairs = list(zip((1, 2), shape[1:3], ints(size), strict=True))
    if not all(n and out for _, n, out in pairs):
        return NotImplemented
    if all(n == out for _, n, out in pairs):
        return x  # half pixels or not, each place is itself
    way = _resampled_floats if q.dtype is DType.U8 else _resampled_integers
    return way(b, x, [(axis, *_places(n, out, align_corners, half_pixel_centers, q.dtype is DType.U8))
                      for axis, n, out in pairs], q)  # fmt: skip


def _places(n: int, out: int, align: bool, half: bool, floats: bool) -> tuple[Array, Array, Array, Array]:
    """Both neighbors of each place, and the weights of both: f32, or in 1/1024."""
    at = np.arange(out)
    if floats:
        scale = np.float32(n - 1) / np.float32(out - 1) if align and out > 1 else np.float32(n) / np.float32(out)
        real = at.astype(np.float32)
        real = (real + np.float32(0.5)) * scale - np.float32(0.5) if half else real * scale
        low = np.maximum(np.floor(real).astype(np.int64), 0)
        high = np.minimum(np.ceil(real).astype(np.int64), n - 1)
        rest = real - low.astype(np.float32)
        return low, high, np.float32(1) - rest, rest
    step = (1024 * n + out // 2) // out
    if align and out > 1:
        step = (1024 * (n - 1) + (out - 1) // 2) // (out - 1)
    place = at * step + (step // 2 - 512 if half else 0)
    low = np.maximum(_toward_zero(place, 1024), 0)
    high = np.minimum(_toward_zero(place + 1023, 1024), n - 1)
    rest = place - 1024 * low
    return low, high, 1024 - rest, rest


def _toward_zero(a: Array, b: int) -> Array:
    return np.sign(a) * (np.abs(a) // b)


def _beside(weights: Array, axis: int, dtype: Any) -> Array:
    return weights.astype(dtype).reshape([-1 if i == axis else 1 for i in range(4)])


def _resampled_integers(b: Builder, x: Value, axes: list[Any], q: Quantization) -> Value:
    kind = DType.I64 if q.dtype is DType.I16 else DType.I32
    y = b.Cast(x, to=kind)
    scale = 1 if kind is DType.I64 else 2  # the fixed-point factor is a half
    for axis, low, high, near, far in axes:
        terms = [b.Mul(b.Gather(y, at, axis=axis), _beside(weights * scale, axis, kind.numpy))
                 for at, weights in ((low, near), (high, far))]  # fmt: skip
        y, scale = b.Add(*terms), 1
    if kind is DType.I32:
        return b.Requantize(y, np.int32(1 << 30), np.int32(-20), to=q.dtype, min=q.lowest, max=q.highest)
    return b.Cast(b.Div(b.Add(y, b.Mul(b.Sign(y), 1 << 19)), 1 << 20), to=q.dtype)


def _resampled_floats(b: Builder, x: Value, axes: list[Any], q: Quantization) -> Value:
    (h, top, bottom, near_y, far_y), (w, left, right, near_x, far_x) = axes
    real = b.Cast(x, to=DType.F32)
    lines = [b.Mul(b.Gather(real, rows, axis=h), _beside(of_y, h, np.float32))
             for rows, of_y in ((top, near_y), (bottom, far_y))]  # fmt: skip
    total = None
    for columns, of_x in ((left, near_x), (right, far_x)):
        for line in lines:
            term = b.Mul(b.Gather(line, columns, axis=w), _beside(of_x, w, np.float32))
            total = term if total is None else b.Add(total, term)
    return b.Cast(b.Add(total, np.float32(0.5)), to=q.dtype)
