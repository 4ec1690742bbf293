"""Quantized layers: an exact product in i32, then a scale, and rounding to 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition.quantized import output_scale, requantized
from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.ops.convolution import kernel_of, window_of
from minnow.converter.operand import rank
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

BYTES = (DType.I8, DType.U8)


@onnx.op("MatMulInteger")
def _(b, x, y, x_zero=None, y_zero=None):
    return b.MatMulInteger(x, y, x_zero, y_zero)


@onnx.op("ConvInteger")
def _(b, x, w, x_zero=None, w_zero=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), pads=(),
      strides=()):  # fmt: skip
    window = window_of(x, kernel_of(w, kernel_shape), strides, pads, dilations, auto_pad)
    return b.ConvInteger(x, w, x_zero, w_zero, group=group, **window)


@onnx.op("QLinearConv")
def _(b, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None, *, auto_pad="NOTSET", dilations=(),
      group=1, kernel_shape=(), pads=(), strides=()):  # fmt: skip
    window = window_of(x, kernel_of(w, kernel_shape), strides, pads, dilations, auto_pad)
    total = b.ConvInteger(x, w, x_zero, w_zero, group=group, **window)
    per_channel = np.array([-1, *[1] * (rank(w, "the weights") - 2)])
    if bias is not None:
        total = b.Add(total, b.Reshape(bias, per_channel))
    scale = output_scale(b, x_scale, w_scale, y_scale)
    if scale.type.shape not in ((), (1,)):
        scale = b.Reshape(scale, per_channel)
    return requantized(b, total, scale, y_zero, x.type.dtype)


@onnx.op("QLinearMatMul")
def _(b, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero):
    if x.type.dtype in BYTES and y.type.dtype in BYTES:
        total = b.MatMulInteger(x, y, x_zero, y_zero)
    else:
        total = b.MatMul(_centered(b, x, _of_rows(b, x_zero)), _centered(b, y, y_zero))
    # A list of numbers is one per row for the left operand and the result, one per column for the right one.
    scale = output_scale(b, _of_rows(b, x_scale), y_scale, _of_rows(b, z_scale))
    return requantized(b, total, scale, z_zero, x.type.dtype, axis=-2)


def _of_rows(b: Builder, v: Value | None) -> Any:
    return b.Unsqueeze(v, axes=(1,)) if v is not None and v.type.rank == 1 and v.type.shape != (1,) else v


def _centered(b: Builder, x: Value, zero: Value | None) -> Value:
    wide = b.Cast(x, to=DType.F32)
    return wide if zero is None else b.Sub(wide, b.Cast(zero, to=DType.F32))
