"""Sums and extrema of quantized tensors: pooling, means, softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, pool
from minnow.converter.operand import ints, is_known
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.quantized.fixed_point import (
    limits_of,
    lines,
    look_up,
    multiplier_of,
    scale_of,
    wide,
    zero_of,
)
from minnow.converter.tflite.ops.quantized.layer import halves, planes, window_of
from minnow.converter.tflite.ops.quantized.math import alike
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.fixed_function import negative_exp
from minnow.schema.ops.fixed_point import scaled

Array = np.ndarray[Any, Any]


def clipped(b: Builder, x: Value, limits: tuple[int, int], q: Quantization) -> Value:
    """Integers, clipped, as quantized values."""
    low, high = (np.asarray(v, x.type.dtype.numpy) for v in limits)
    return b.Cast(b.Min(b.Max(x, low), high), to=q.dtype)


@tflite.quantized("MAX_POOL_2D")
def _(b, x, *, padding="SAME", stride_w=0, stride_h=0, filter_width=0, filter_height=0,
      fused_activation_function="NONE", node):  # fmt: skip
    old, q = node.quant(0), node.quant_out()
    if not alike(old, q):
        return NotImplemented
    y = pool(b, "MaxPool", x, kernel=(filter_height, filter_width), padding=padding, strides=(stride_h, stride_w))
    limits = limits_of(q, fused_activation_function)
    if limits == (q.lowest, q.highest):
        return y
    low, high = (np.asarray(v, q.dtype.numpy) for v in limits)
    return b.Min(b.Max(y, low), high)


@tflite.quantized("AVERAGE_POOL_2D")
def _(b, x, *, padding="SAME", stride_w=0, stride_h=0, filter_width=0, filter_height=0,
      fused_activation_function="NONE", node):  # fmt: skip
    old, q = node.quant(0), node.quant_out()
    shape = x.type.shape
    if not alike(old, q) or shape is None or not all(isinstance(d, int) for d in shape[1:]):
        return NotImplemented
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    attrs = {**window_of(x, kernel, padding, strides, (1, 1)), "group": shape[3]}
    ones = np.ones((shape[3], 1, *kernel), np.int8)
    image, whole = planes(b, x), kernel == shape[1:3] and not any(attrs["pads"])
    if whole and q.dtype is DType.I16:
        sums = b.ReduceSum(b.Cast(image, to=DType.I32), axes=(2, 3), keepdims=True)
    elif whole:
        sums = b.Unsqueeze(_sums(b, x, (1, 2), 0), axes=(3,))
    elif q.dtype is DType.I16:
        high, low = (b.ConvInteger(part, ones, **attrs) for part in halves(b, image))
        sums = b.Add(b.Mul(high, 256), low)
    else:
        sums = b.ConvInteger(image, ones, **attrs)
    counts = np.outer(*(_counts(shape[i + 1], kernel[i], strides[i], attrs["pads"][i], attrs["pads"][i + 2])
                        for i in (0, 1))).astype(np.int32)  # fmt: skip
    # Windows of one size, as most are, take one number.
    counts = counts.reshape(-1)[0] if len(np.unique(counts)) == 1 else counts
    half = counts // 2
    towards = half if q.dtype is DType.U8 else b.Mul(b.Sign(sums), half)
    mean = b.Div(b.Add(sums, towards), counts)
    return channels_last(b, clipped(b, mean, limits_of(q, fused_activation_function), q), 2)


def _counts(dimension: int, kernel: int, stride: int, before: int, after: int) -> Array:
    """Elements that windows have which lie inside."""
    first = np.arange((dimension + before + after - kernel) // stride + 1) * stride - before
    return np.minimum(first + kernel, dimension) - np.maximum(first, 0)


def _sums(b: Builder, x: Value, axes: tuple[int, ...], zero: int) -> Value:
    """The sums of bytes less their zero point along axes, with an axis of one sum behind the others."""
    shape = x.type.shape or ()
    others = tuple(a for a in range(len(shape)) if a not in axes)
    n = math.prod(int(shape[a]) for a in axes)
    rows = b.Transpose(x, perm=(*others, *axes)) if others + axes != tuple(range(len(shape))) else x
    if len(axes) > 1:
        rows = b.Reshape(rows, np.array([*(0,) * len(others), n]))
    return b.MatMulInteger(rows, np.ones((n, 1), np.int8), np.asarray(zero, x.type.dtype.numpy))


def _reduced(name: str, mean: bool) -> None:
    @tflite.quantized(name)
    def _(b, x, axes, *, keep_dims=False, node):
        old, q = node.quant(0), node.quant_out()
        shape = x.type.shape
        if not alike(old, q) or not is_known(axes) or not shape:
            return NotImplemented
        at = tuple(sorted({a % len(shape) for a in ints(axes)}))
        if not at or not all(isinstance(shape[a], int) for a in at):
            return NotImplemented
        n = math.prod(int(shape[a]) for a in at)
        multiplier, shift = (int(v) for v in multiplier_of(float(scale_of(old)) / float(scale_of(q))))
        if mean and n:
            more = min(n.bit_length() - 1, 32, 31 + shift)
            multiplier, shift = (multiplier << more) // n, shift - more
        bytes_ = old.dtype is not DType.I16 and n > 0
        total = _sums(b, x, at, zero_of(old)) if bytes_ else b.ReduceSum(wide(b, x, old), axes=at, keepdims=keep_dims)
        y = b.Requantize(total, np.int32(multiplier), np.int32(shift), zero=zero_of(q), to=q.dtype,
                         min=q.lowest, max=q.highest)  # fmt: skip
        if not bytes_:
            return y
        return b.Unsqueeze(b.Squeeze(y, axes=(-1,)), axes=at) if keep_dims else b.Squeeze(y, axes=(-1,))


_reduced("MEAN", mean=True)
_reduced("SUM", mean=False)


# --- Softmax


def _bits(b: Builder, x: Value) -> Value:
    """How many bits positive numbers of i32 [rows, 1] have (i32)."""
    reached = b.GreaterOrEqual(x, (1 << np.arange(31)).astype(np.int32))
    return b.ReduceSum(b.Cast(reached, to=DType.I32), axes=(-1,), keepdims=True)


def _power(b: Builder, exponents: Value) -> Value:
    return b.Gather((1 << np.arange(32, dtype=np.int64)).astype(np.int32), exponents)


@tflite.quantized("SOFTMAX")
def _(b, x, *, beta=1.0, node):
    old, q, shape = node.quant(0), node.quant_out(), x.type.shape
    if old is None or q is None or old.per_axis or not shape or not isinstance(shape[-1], int) or not shape[-1]:
        return NotImplemented
    if old.dtype is not DType.I16:
        return _softmax_bytes(b, x, old, q, np.float32(beta))
    rows = b.Reshape(x, np.array([-1, shape[-1]]))
    return b.Reshape(_softmax_words(b, rows, old, q, np.float32(beta)), b.Shape(x))


def _softmax_bytes(b: Builder, x: Value, old: Quantization, q: Quantization, beta: np.float32) -> Value:
    factor = min(float(beta) * float(scale_of(old)) * (1 << 26), 2.0**31 - 1)
    multiplier, shift = (int(v) for v in multiplier_of(factor))
    radius = math.floor(31.0 * (1 << 26) / 2.0**shift)
    numbers = np.arange(256)
    inside = numbers <= radius
    steps = scaled(np.where(inside, -numbers, 0).astype(np.int64), np.int64(multiplier), np.int64(shift))
    exps = negative_exp(steps, 5, 32)
    exps = np.where(inside, exps, 0)
    return b.QuantizedSoftmax(x, exps.astype(np.int32), to=q.dtype)


def _softmax_words(b: Builder, x: Value, old: Quantization, q: Quantization, beta: np.float32) -> Value:
    exps = lines(-10.0, 0.0, -1.0, 1.0, np.exp)
    inverses = lines(0.0, 1.0, -1.0, 1.0, lambda v: 1 / (1 + v))
    wide_x = b.Cast(x, to=DType.I32)
    below = b.Sub(wide_x, b.ReduceMax(wide_x, axes=(-1,), keepdims=True))
    factor = float(np.float32(scale_of(old) * beta)) / (10.0 / 65535.0)
    multiplier, shift = multiplier_of(factor)
    at = b.Requantize(below, multiplier, shift, zero=32767, to=DType.I16, min=-32768, max=32767)
    each = b.Cast(look_up(b, at, exps), to=DType.I32)
    total = b.ReduceSum(each, axes=(-1,), keepdims=True)
    bits = _bits(b, total)
    lifted = b.Mul(b.Cast(total, to=DType.I64), b.Cast(_power(b, b.Sub(np.int32(31), bits)), to=DType.I64))
    near = b.Div(b.Add(lifted, 1 << 13), 1 << 14)
    place = b.Cast(b.Min(b.Max(b.Sub(near, (1 << 15) + (1 << 16)), -32768), 32767), to=DType.I16)
    inverse = b.Cast(look_up(b, place, inverses), to=DType.I32)
    right = b.Sub(bits, np.int32(1))
    whole = b.Add(b.Mul(each, inverse), _power(b, b.Sub(right, np.int32(1))))
    return clipped(b, b.Div(whole, _power(b, right)), (0, 32767), q)
