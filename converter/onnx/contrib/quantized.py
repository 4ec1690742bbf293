"""Quantized layers of com.microsoft: exact integer or float sums inside, rounded once at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.decomposition.quantized import output_scale, requantized
from minnow.converter.onnx.contrib.domain import alias, contrib, standard
from minnow.converter.onnx.contrib.fused import channels_first, channels_last
from minnow.converter.onnx.ops.neural import layer_attrs
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

alias("QuantizeLinear", "DequantizeLinear")


def _small(b: Builder, y: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    return b.QuantizeLinear(y, scale, zero, to=like.type.dtype)


def _pooled(b: Builder, x: Value, scale: Value, zero: Value | None, last: int, pool: Any) -> Value:
    """What `pool` makes of the dequantized input, which it gets with the channels in front of the spatial axes."""
    wide = b.DequantizeLinear(x, scale, zero)
    if not last:
        return pool(wide)
    n = rank(x, "the input")
    return channels_last(b, pool(channels_first(b, wide, n)), n)


@contrib("QLinearConv")
def _(b, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None, *, auto_pad="NOTSET", channels_last=0,
      dilations=(), group=1, kernel_shape=(), pads=(), strides=(), node):  # fmt: skip
    n = rank(w, "the weights")
    operands = (x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
    (y,) = standard(b, node, "QLinearConv", channels_first(b, x, n) if channels_last else x, *operands, version=10,
                    auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                    strides=strides)  # fmt: skip
    return b.Transpose(y, perm=(0, *range(2, n), 1)) if channels_last else y


def _rounded(b: Builder, y: Value, zero: Value | None, like: Value) -> Value:
    """Halves to even after the zero point is added, as onnxruntime does where it multiplies by ratios of scales."""
    return b.QuantizeLinear(y if zero is None else b.Add(y, _wide(b, zero)), np.float32(1), to=like.type.dtype)


def _wide(b: Builder, zero: Value) -> Value:
    return b.Cast(zero, to=DType.F32)


@contrib("QLinearAdd")
def _(b, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero=None):
    if _has_few_halves(x, x_scale, x_zero, y, y_scale, y_zero, z_scale):
        total = b.Add(b.DequantizeLinear(x, x_scale, x_zero), b.DequantizeLinear(y, y_scale, y_zero))
        return _small(b, total, z_scale, z_zero, x)
    # All constants are one number, and the terms are added in onnxruntime's order: halves come out as they do there.
    shift, terms = None if z_zero is None else _wide(b, z_zero), []
    for v, scale, zero in ((x, x_scale, x_zero), (y, y_scale, y_zero)):
        ratio = b.Div(scale, z_scale)
        terms.append(b.Mul(_wide(b, v), ratio))
        if zero is not None:
            moved = b.Mul(ratio, _wide(b, zero))
            shift = b.Neg(moved) if shift is None else b.Sub(shift, moved)
    total = b.Add(terms[0], terms[1] if shift is None else b.Add(terms[1], shift))
    return _rounded(b, total, None, x)


_NOISE = 2.0**-16
"""Half a unit in the last place of a float near 256: the nearest that a sum of floats comes to what is meant."""


def _number(v: Value) -> np.float64 | None:
    """The one number of a constant."""
    return np.float64(v.data.numpy().reshape(())) if v.data is not None and v.type.count == 1 else None


def _has_few_halves(x: Value, x_scale: Value, x_zero: Value | None, y: Value, y_scale: Value, y_zero: Value | None,
                    z_scale: Value) -> bool:  # fmt: skip
    """Whether sums of two tensors are known to be practically never midway between two steps of the result.

    Then it does not matter in what order floats are added, or that integers take their place.
    """
    if x.type.shape != y.type.shape or not x.type.is_static:
        return False
    out, terms = _number(z_scale), []
    for v, scale, zero in ((x, x_scale, x_zero), (y, y_scale, y_zero)):
        step, middle = _number(scale), 0.0 if zero is None else _number(zero)
        if out is None or step is None or middle is None:
            return False
        info = np.iinfo(str(v.type.dtype.numpy))
        with np.errstate(all="ignore"):
            terms.append((np.arange(info.min, info.max + 1) - middle) * (step / out))
    total = np.add.outer(*terms)
    return bool(np.isfinite(total).all() and np.mean(np.abs(total - np.floor(total) - 0.5) < _NOISE) < 1e-3)


@contrib("QLinearMul")
def _(b, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero=None):
    product = _wide(b, b.Mul(_centered(b, x, x_zero), _centered(b, y, y_zero)))
    return _rounded(b, b.Mul(product, output_scale(b, x_scale, y_scale, z_scale)), z_zero, x)


def _centered(b: Builder, x: Value, zero: Value | None) -> Value:
    """x - zero in i32."""
    wide = b.Cast(x, to=DType.I32)
    return wide if zero is None else b.Sub(wide, b.Cast(zero, to=DType.I32))


@contrib("MulInteger")
def _(b, x, x_zero, y, y_zero=None):
    return b.Mul(_centered(b, x, x_zero), _centered(b, y, y_zero))


@contrib("ReduceSumInteger")
def _(b, x, *, axes, keepdims):
    return b.ReduceSum(b.Cast(x, to=DType.I32), axes=tuple(axes), keepdims=bool(keepdims))


@contrib("QLinearSigmoid")
def _(b, x, x_scale, x_zero, y_scale, y_zero=None):
    return _small(b, b.Sigmoid(b.DequantizeLinear(x, x_scale, x_zero)), y_scale, y_zero, x)


@contrib("QLinearLeakyRelu")
def _(b, x, x_scale, x_zero, y_scale, y_zero=None, *, alpha=0.01):
    return _small(b, b.LeakyRelu(b.DequantizeLinear(x, x_scale, x_zero), alpha=alpha), y_scale, y_zero, x)


@contrib("QLinearSoftmax")
def _(b, x, x_scale, x_zero, y_scale, y_zero, *, axis=-1, opset, node):
    (y,) = standard(b, node, "Softmax", b.DequantizeLinear(x, x_scale, x_zero), version=opset, axis=axis)
    # onnxruntime has a whole number of steps in 1.
    return _small(b, b.Mul(y, b.Floor(b.Reciprocal(y_scale))), b.const(np.float32(1)), y_zero, x)


@contrib("QLinearReduceMean")
def _(b, x, x_scale, x_zero, y_scale, y_zero=None, *, axes, keepdims):
    mean = b.ReduceMean(b.DequantizeLinear(x, x_scale, x_zero), axes=tuple(axes) or None, keepdims=bool(keepdims))
    return _small(b, mean, y_scale, y_zero, x)


@contrib("QLinearAveragePool")
def _(b, x, x_scale, x_zero, y_scale, y_zero=None, *, auto_pad="NOTSET", ceil_mode=0, channels_last=0,
      count_include_pad=0, kernel_shape, pads=(), strides=(), node):  # fmt: skip
    def pool(wide: Value) -> Value:
        (y,) = standard(b, node, "AveragePool", wide, auto_pad=auto_pad, ceil_mode=ceil_mode, kernel_shape=kernel_shape,
                        count_include_pad=count_include_pad, pads=pads, strides=strides)  # fmt: skip
        return y

    return _rounded(b, b.Div(_pooled(b, x, x_scale, x_zero, channels_last, pool), y_scale), y_zero, x)


@contrib("QLinearGlobalAveragePool")
def _(b, x, x_scale, x_zero, y_scale, y_zero, *, channels_last=0):
    n = rank(x, "the input of QLinearGlobalAveragePool")
    axes = tuple(range(1, n - 1)) if channels_last else tuple(range(2, n))
    shape = x.type.static_shape if x.type.is_static and not channels_last else None
    if shape and n > 2 and 0 < (count := math.prod(shape[2:])) < 2**23:
        # A product with ones: kernels for bytes add up the places, and make bytes of the sums.
        rows = b.Reshape(x, np.array([*shape[:2], count]))
        total = b.MatMulInteger(rows, np.ones((count, 1), np.int8), x_zero)
        scale = b.Div(x_scale, b.Mul(y_scale, np.float32(count)))
        return b.Unsqueeze(requantized(b, total, scale, y_zero, x.type.dtype), axes=axes[1:])
    total = b.ReduceSum(_centered(b, x, x_zero), axes=axes)
    count = b.ReduceProd(b.Gather(b.Shape(x), np.array(axes)), keepdims=False)
    return requantized(b, total, b.Div(x_scale, b.Mul(y_scale, _wide(b, count))), y_zero, x.type.dtype)


@contrib("QLinearConcat")
def _(b, y_scale, y_zero, *parts, axis):
    if not parts or len(parts) % 3:
        raise ModelError(f"QLinearConcat has {len(parts)} operands, but needs three for each tensor")
    wide = [b.DequantizeLinear(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return _small(b, b.Concat(*wide, axis=axis) if len(wide) > 1 else wide[0], y_scale, y_zero, parts[0])


@contrib("QLinearWhere")
def _(b, condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero):
    chosen = b.Where(condition, b.DequantizeLinear(x, x_scale, x_zero), b.DequantizeLinear(y, y_scale, y_zero))
    return _small(b, chosen, z_scale, z_zero, x)


@contrib("QGemm")
def _(b, x, x_scale, x_zero, y, y_scale, y_zero, c=None, z_scale=None, z_zero=None, *, alpha=1.0, transA=0, transB=0):
    x, y = (b.Transpose(v, perm=(1, 0)) if turned else v for v, turned in ((x, transA), (y, transB)))
    total = b.MatMulInteger(x, y, x_zero, y_zero)
    if c is not None:
        total = b.Add(total, c)
    scale = b.Mul(x_scale, y_scale) if alpha == 1.0 else b.Mul(b.Mul(x_scale, alpha), y_scale)
    if z_scale is None:
        return b.Mul(b.Cast(total, to=DType.F32), scale)
    return requantized(b, total, b.Div(scale, z_scale), z_zero, x.type.dtype)


@contrib("DynamicQuantizeMatMul")
def _(b, x, y, y_scale, y_zero=None, bias=None):
    small, x_scale, x_zero = b.DynamicQuantizeLinear(x)
    return _to_float(b, small, y, x_scale, y_scale, x_zero, y_zero, bias)


@contrib("MatMulIntegerToFloat")
def _(b, x, y, x_scale, y_scale, x_zero=None, y_zero=None, bias=None):
    return _to_float(b, x, y, x_scale, y_scale, x_zero, y_zero, bias)


def _to_float(b: Builder, x: Value, y: Value, x_scale: Value, y_scale: Value, x_zero: Value | None,
              y_zero: Value | None, bias: Value | None) -> Value:  # fmt: skip
    total = b.Cast(b.MatMulInteger(x, y, x_zero, y_zero), to=DType.F32)
    out = b.Mul(total, b.Mul(x_scale, y_scale))
    return out if bias is None else b.Add(out, bias)


@contrib("MatMulInteger16")
def _(b, x, y):
    return b.MatMul(b.Cast(x, to=DType.I32), b.Cast(y, to=DType.I32))


@contrib("DynamicQuantizeLSTM")
def _(b, x, w, r, bias, lens, first_h, first_c, peepholes, w_scale, w_zero, r_scale, r_zero, *, activation_alpha=(),
      activation_beta=(), activations=(), clip=0.0, direction="forward", hidden_size=0,
      input_forget=0):  # fmt: skip
    hidden = static_dim(r.type, 1, "the recurrent weights")
    attrs = layer_attrs(hidden, direction, activations, activation_alpha, activation_beta, clip)
    operands = (x, w, r, bias, lens, first_h, first_c, peepholes, w_scale, r_scale, w_zero, r_zero)
    return b.DynamicLSTM(*operands, **attrs, input_forget=bool(input_forget), one_range=True)
