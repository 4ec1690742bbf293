"""Quantization in exported programs whose scales are computed at run time, per tensor or per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of, operands
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_INT8 = 1


def _chosen(b: Builder, scale: Value, zero: Value) -> tuple[Value, Value]:
    one = np.array([1])
    return b.Reshape(b.Cast(scale, to=DType.F64), one), b.Reshape(b.Cast(zero, to=DType.I64), one)


def _range(b: Builder, x: Value, axes: Any) -> tuple[Value, Value]:
    """The least and the largest number, and 0: along the last axis, or of all."""
    x = as_value(b, x, DType.F32)
    low, high = (reduce(x, axes=axes, keepdims=axes is not None) for reduce in (b.ReduceMin, b.ReduceMax))
    return b.Min(low, np.float32(0)), b.Max(high, np.float32(0))


@torch.op("quantized_decomposed::choose_qparams.tensor")
def _(b, input, quant_min, quant_max, eps, dtype):
    low, high = _range(b, input, None)
    scale = b.Max(b.Div(b.Sub(high, low), np.float32(quant_max - quant_min)), np.float32(eps))
    zero = b.Sub(np.float32(quant_min), b.Round(b.Div(low, scale)))
    return _chosen(b, scale, b.Clip(zero, min=float(quant_min), max=float(quant_max)))


@torch.op("quantized_decomposed::choose_qparams_symmetric.tensor")
def _(b, input, quant_min, quant_max, eps, dtype):
    low, high = _range(b, input, None)
    most = b.Div(b.Max(b.Neg(low), high), np.float32((quant_max - quant_min) / 2))
    scale = b.Max(most, np.float32(eps))
    return _chosen(b, scale, b.const(np.array(128 if dtype_of(dtype) is DType.U8 else 0)))


@torch.op("quantized_decomposed::choose_qparams_per_token")
def _(b, input, dtype):
    if known(dtype, "a type") != _INT8:
        raise UnsupportedError("per-token quantized values other than int8 are not supported")
    most = b.ReduceMax(b.Abs(as_value(b, input, DType.F32)), axes=(-1,), keepdims=True)
    scale = b.Div(b.Max(most, np.float32(1e-5)), np.float32(127))
    return scale, b.Mul(scale, np.float32(0))


@torch.op("quantized_decomposed::choose_qparams_per_token_asymmetric",
          "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl")  # fmt: skip
def _(b, input, dtype):
    low, high = _range(b, input, (-1,))
    scale = b.Max(b.Div(b.Sub(high, low), np.float32(255)), np.finfo(np.float32).eps)
    of_low, of_high = b.Div(low, scale), b.Div(high, scale)
    below, above = b.Sub(np.float32(-128), of_low), b.Sub(np.float32(127), of_high)
    error = b.Add(b.Add(np.float32(-128), of_low), b.Add(np.float32(127), of_high))
    zero = b.Round(b.Clip(b.Where(b.Greater(error, np.float32(0)), below, above), min=-128.0, max=127.0))
    return b.Cast(scale, to=DType.F64), b.Cast(zero, to=DType.I64)


@torch.op("quantized_decomposed::quantize_per_token")
def _(b, input, scales, zero_points, quant_min, quant_max, dtype):
    x, inverse = operands(b, input, b.Reciprocal(scales))
    x, zero = operands(b, b.Mul(x, inverse), zero_points)
    quantized = b.Clip(b.Round(b.Add(x, zero)), min=float(quant_min), max=float(quant_max))
    return b.Cast(quantized, to=dtype_of(dtype))


@torch.op("quantized_decomposed::dequantize_per_token")
def _(b, input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=6):
    x, scale = operands(b, b.Sub(*operands(b, input, zero_points)), scales)
    return as_value(b, b.Mul(x, scale), dtype_of(output_dtype))


@torch.op("quantized_decomposed::convert_element_type.no_fuse")
def _(b, input, dtype):
    return as_value(b, input, dtype_of(dtype))
