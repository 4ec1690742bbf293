"""Hybrid layers, float activations and quantized weights: TFLite quantizes each image or row, and scales the sums.

The numbers are those of TFLite's own kernels. XNNPACK makes others of the same file: it gives rows a zero point
whatever the file asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last
from minnow.converter.tflite.ops.activation import activate
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
Convolution = Callable[[Any, Value | None], Value]
"""(image of bytes [N, C, H, W], its one zero point) -> sums in i32."""


def is_hybrid(x: Value, qx: Quantization | None, qw: Quantization | None) -> bool:
    """Real activations meet weights of 8 bits or fewer, symmetric as these are."""
    return x.type.dtype is DType.F32 and qx is None and qw is not None and qw.dtype is DType.I8 and not np.any(qw.zero)


def symmetric(b: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Bytes (i8) without a zero point, and their scale, one for all numbers along `axes`."""
    reach = b.ReduceMax(b.Abs(x), axes=axes, keepdims=True)
    reach = b.Where(b.Equal(reach, np.float32(0)), np.float32(127), reach)
    quantized = b.Round(b.Mul(x, b.Div(np.float32(127), reach)), halves="away")
    return b.Cast(b.Clip(quantized, min=-127.0, max=127.0), to=DType.I8), b.Div(reach, np.float32(127))


def asymmetric(b: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
    """Bytes (i8), their scale, and their zero point (f32), one of each for all numbers along `axes`."""
    low = b.Cast(b.Min(b.ReduceMin(x, axes=axes, keepdims=True), np.float32(0)), to=DType.F64)
    high = b.Cast(b.Max(b.ReduceMax(x, axes=axes, keepdims=True), np.float32(0)), to=DType.F64)
    none = b.Equal(low, high)
    step = b.Where(none, np.array(1.0), b.Div(b.Sub(high, low), np.float64(255)))
    below, above = b.Div(low, step), b.Div(high, step)
    from_low = b.Less(b.Add(b.Abs(below), np.float64(1)), b.Abs(above))
    zero = b.Where(from_low, b.Sub(np.float64(-128), below), b.Sub(np.float64(127), above))
    zero = b.Cast(b.Round(b.Min(b.Max(zero, np.float64(-128)), np.float64(127)), halves="away"), to=DType.F32)
    zero = b.Where(none, np.float32(0), zero)
    scale = b.Cast(step, to=DType.F32)
    quantized = b.Round(b.Add(zero, b.Mul(x, b.Div(np.float32(1), scale))), halves="away")
    return b.Cast(b.Clip(quantized, min=-128.0, max=127.0), to=DType.I8), scale, zero


def scaled_rows(b: Builder, x: Value, w: Value, qw: Quantization, has_zero: bool) -> Value:
    """The product of real rows [..., M, K] and bytes [..., K, N], the rows quantized one by one."""
    scales = qw.scale if qw.per_axis else qw.scale.reshape(())
    if not has_zero:
        quantized, scale = symmetric(b, x, (-1,))
        sums = b.Cast(b.MatMulInteger(quantized, w), to=DType.F32)
    else:
        quantized, scale, zero = asymmetric(b, x, (-1,))
        # The zero points of rows stay outside: they differ from matrix to matrix.
        columns = b.ReduceSum(b.Cast(w, to=DType.I32), axes=(-2,), keepdims=True)
        less = b.Mul(b.Cast(zero, to=DType.I32), columns)
        sums = b.Cast(b.Sub(b.MatMulInteger(quantized, w), less), to=DType.F32)
    return b.Mul(sums, b.Mul(scale, scales))


def fully_connected(
    b: Builder, x: Value, w: Value, qw: Quantization, bias: Value | None, activation: str, has_zero: bool
) -> Value:
    """Rows [..., K] times weights [N, K], as TFLite's hybrid kernel computes them."""
    y = scaled_rows(b, x, b.Transpose(w, perm=(1, 0)), qw, has_zero)
    return activate(b, y if bias is None else b.Add(y, bias), activation)


def convolution(
    b: Builder, image: Value, qw: Quantization, bias: Value | None, activation: str, convolve: Convolution
) -> Value:
    """A convolution of real images [N, C, H, W], each of them quantized; channels are the last axis of the result."""
    scales = qw.scale.reshape(-1, 1, 1) if qw.per_axis else qw.scale.reshape(())
    around = (1, 2, 3)
    if not qw.per_axis:
        quantized, scale = symmetric(b, image, around)
        sums = convolve(quantized, None)
    else:
        quantized, scale, zero = asymmetric(b, image, around)
        whole = b.Cast(zero, to=DType.I32)
        if (image.type.shape or ("?",))[0] == 1:
            sums = convolve(quantized, b.Reshape(b.Cast(whole, to=DType.I8), np.zeros(0, np.int64)))
        else:  # images have zero points of their own, which padding must not count
            one = b.Fill(b.Shape(b.Slice(image, np.array([0]), np.array([1]), np.array([0]))), np.ones(1, np.int8))
            sums = b.Sub(convolve(quantized, None), b.Mul(whole, convolve(one, None)))
    y = b.Mul(b.Mul(b.Cast(sums, to=DType.F32), scales), scale)
    if bias is not None:
        y = b.Add(y, b.Reshape(bias, np.array([-1, 1, 1])))
    return channels_last(b, activate(b, y, activation), 2)
