"""Quantized tensors of PyTorch: integers, with their scale and zero point beside them.

Convolutions and products are exact sums of integers, scaled and rounded as in PyTorch's own kernels. What only moves
numbers moves the integers; other operators compute in floats, and round to the scale of their first operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.decomposition.quantized import output_scale, requantized
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.program import Object
from minnow.converter.torch.symbolic.dimension import known, scalar
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.converter.torch.symbolic.thing import tensors_in
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

QUANTIZED_TYPES = {12: DType.I8, 13: DType.U8, 14: DType.I32}
"""Types of integers by the number that a program has for the quantized types."""

OWN = {"aten::sigmoid": (0.0, 1.0), "aten::hardsigmoid": (0.0, 1.0), "aten::tanh": (-1.0, 1.0),
       "aten::softmax": (0.0, 1.0)}  # fmt: skip
"""Operators whose result has a range of its own, which the integers cover."""


@dataclass(frozen=True)
class Quantization:
    """What integers stand for: (integer - zero) * scale.

    Attributes:
        scale: f32 scalar, or one per channel along `axis`.
        zero: of the type of the integers, likewise.
    """

    scale: Value
    zero: Value
    axis: int | None = None


def stored(scale: Any, zero: Any, axis: int | None, dtype: DType) -> Quantization:
    """The meaning of a tensor of the file."""
    shape: tuple[int, ...] = (-1,) if axis is not None else ()
    zeros = np.asarray(zero, np.float64)
    if np.any(zeros != np.round(zeros)):
        raise UnsupportedError("weights with zero points that are not integers are not supported")
    return Quantization(
        Value.constant(np.asarray(scale, np.float32).reshape(shape)),
        Value.constant(zeros.astype(dtype.numpy).reshape(shape)),
        axis,
    )


def quantization(b: Builder, scale: Any, zero: Any, dtype: DType) -> Quantization:
    """The meaning of integers of a type that a program says."""
    return Quantization(_number(b, scale, DType.F32), _number(b, zero, dtype))


def _number(b: Builder, x: Any, to: DType) -> Value:
    if isinstance(x, Value) and x.data is not None:
        x = x.data.numpy().reshape(()).item()
    if isinstance(x, (int, float)):
        return b.const(np.array(x, to.numpy))
    made: Value = as_value(b, scalar(b, x), to)
    return made


def own_meaning(b: Builder, low: float, high: float, dtype: DType) -> Quantization:
    """The integers of a type for the numbers from low to high, the last step left out."""
    info = np.iinfo(str(dtype.numpy))
    zero = info.min if low == 0 else (int(info.min) + int(info.max) + 1) // 2
    return quantization(b, (high - low) / 256, int(zero), dtype)


def wide(b: Builder, x: Tensor) -> Value:
    """The numbers that a tensor stands for."""
    value = x.value(b)
    if x.quant is None:
        return value
    made: Value = b.DequantizeLinear(value, x.quant.scale, x.quant.zero, axis=x.quant.axis or 0)
    return made


def rounded(b: Builder, x: Value, q: Quantization) -> Tensor:
    """Numbers as integers of that meaning."""
    made = Tensor(b.QuantizeLinear(x, q.scale, q.zero, axis=q.axis or 0, to=q.zero.type.dtype))
    made.quant = q
    return made


def _with(x: Any, q: Quantization) -> Any:
    if isinstance(x, Tensor):
        x.quant = q
    elif isinstance(x, (list, tuple)):
        for part in x:
            _with(part, q)
    return x


def on_quantized(t: Translator, name: str, arguments: dict[str, Any], run: Any) -> Any:
    """An operator on quantized tensors.

    Args:
        name: of the operator, without its overload.
        run: runs its mapping on plain tensors in place of the quantized ones.
    """
    b = t.builder
    first = next(x for x in tensors_in(arguments.values()) if x.quant is not None)
    if (name in torch.moving or name in torch.views) and first.quant.axis is None:
        plain = Tensor(first.value(b))
        return _with(run({k: plain if x is first else x for k, x in arguments.items()}), first.quant)

    def plain_of(x: Any) -> Any:
        if isinstance(x, list):
            return [plain_of(v) for v in x]
        return Tensor(wide(b, x)) if isinstance(x, Tensor) and x.quant is not None else x

    result = run({k: plain_of(x) for k, x in arguments.items()})
    if isinstance(result, Tensor) and result.type.dtype is DType.F32:
        if name in OWN:
            return rounded(b, result.value(b), own_meaning(b, *OWN[name], first.quant.zero.type.dtype))
        return rounded(b, result.value(b), first.quant)
    return result


# ---- to integers and back


@torch.op("aten::quantize_per_tensor", plain=True)
def _(t, self, scale, zero_point, dtype):
    if dtype not in QUANTIZED_TYPES:
        raise UnsupportedError(f"quantization to the type {dtype} is not supported")
    scale, zero_point = (t.value(v) if isinstance(v, Tensor) else v for v in (scale, zero_point))
    q = quantization(t.builder, scale, zero_point, QUANTIZED_TYPES[dtype])
    return rounded(t.builder, t.value(self), q)


@torch.op("aten::quantize_per_channel", plain=True)
def _(t, self, scales, zero_points, axis, dtype):
    b = t.builder
    scale, zero = t.value(scales), t.value(zero_points)
    scale = scale if scale.type.dtype is DType.F32 else b.Cast(scale, to=DType.F32)
    return rounded(b, t.value(self), Quantization(scale, b.Cast(zero, to=QUANTIZED_TYPES[dtype]), axis))


@torch.op("aten::dequantize", plain=True)
def _(t, x):
    if isinstance(x, list):
        return [Tensor(wide(t.builder, v)) for v in x]
    return Tensor(wide(t.builder, x))


@torch.op("aten::q_scale", plain=True)
def _(t, self):
    return t.folded(lambda: Number(t.builder.Cast(self.quant.scale, to=DType.F64)))


@torch.op("aten::q_zero_point", plain=True)
def _(t, self):
    return t.folded(lambda: Number(t.builder.Cast(self.quant.zero, to=DType.I64)))


@torch.op("aten::int_repr", plain=True)
def _(t, self):
    return Tensor(self.value(t.builder))


# What torch.export has for the same: integers are ordinary tensors there.


@torch.op("quantized_decomposed::quantize_per_tensor")
def _(b, input, scale, zero_point, quant_min, quant_max, dtype):
    to = dtype_of(dtype)
    q = quantization(b, scale, zero_point, to)
    made = b.QuantizeLinear(input, q.scale, q.zero, to=to)
    return _within(b, made, quant_min, quant_max, to)


@torch.op("quantized_decomposed::dequantize_per_tensor")
def _(b, input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=None):
    q = quantization(b, scale, zero_point, input.type.dtype)
    return b.DequantizeLinear(input, q.scale, q.zero)


@torch.op("quantized_decomposed::quantize_per_channel")
def _(b, input, scales, zero_points, axis, quant_min, quant_max, dtype):
    to = dtype_of(dtype)
    scale = b.Cast(scales, to=DType.F32)
    made = b.QuantizeLinear(input, scale, b.Cast(zero_points, to=to), axis=axis, to=to)
    return _within(b, made, quant_min, quant_max, to)


@torch.op("quantized_decomposed::dequantize_per_channel")
def _(b, input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=None):
    zero = None if zero_points is None else b.Cast(zero_points, to=input.type.dtype)
    return b.DequantizeLinear(input, b.Cast(scales, to=DType.F32), zero, axis=axis)


def _within(b: Builder, x: Value, low: int, high: int, to: DType) -> Value:
    """Integers kept in a range that is narrower than their type's."""
    info = np.iinfo(str(to.numpy))
    if low <= info.min and high >= info.max:
        return x
    made: Value = b.Cast(b.Clip(b.Cast(x, to=DType.I32), min=float(low), max=float(high)), to=to)
    return made


# ---- layers with packed weights


def _packed(packed: Any) -> tuple[Tensor, Tensor | None]:
    if not isinstance(packed, Object) or "weight" not in packed.attrs:
        raise UnsupportedError("the packed weights of a layer cannot be read")
    return packed.attrs["weight"], packed.attrs["bias"]


def _weights(t: Translator, packed: Any) -> tuple[Tensor, Value | None]:
    weight, bias = (t.materialize(x) for x in _packed(packed))
    return weight, None if bias is None else t.value(bias)


def _layer(
    t: Translator, x: Tensor, total: Value, w: Tensor, bias: Value | None, scale: Any, zero: Any, relu: bool, axis: int
) -> Tensor:
    """The sum of a layer with its bias, scaled and rounded to the meaning that is asked for."""
    b = t.builder
    q = quantization(b, scale, zero, x.quant.zero.type.dtype)
    shape = np.array([-1, *[1] * (len(total.type.shape or ()) - 1 - axis)])
    if bias is not None:
        # The kernels round the bias to the scale of the products.
        step = b.Mul(x.quant.scale, w.quant.scale)
        whole = b.Cast(b.Round(b.Div(bias, step)), to=total.type.dtype)
        total = b.Add(total, b.Reshape(whole, shape))
    factor = output_scale(b, x.quant.scale, w.quant.scale, q.scale)
    if factor.type.shape not in ((), (1,)):
        factor = b.Reshape(factor, shape)
    made = Tensor(requantized(b, total, factor, q.zero, x.quant.zero.type.dtype, relu=relu))
    made.quant = q
    return made


def _conv(t: Translator, qx: Tensor, packed: Any, scale: Any, zero: Any, relu: bool) -> Tensor:
    w, bias = _weights(t, packed)
    b = t.builder
    attrs = packed.attrs
    x, numbers = qx.value(b), w.value(b)
    flat = len(x.type.shape or ()) + 1 == len(numbers.type.shape or ())
    if flat:  # convolutions along one axis are kept as such of images with one row
        x = b.Unsqueeze(x, axes=(2,))
    window = {
        "strides": tuple(known(attrs["stride"], "the strides")),
        "pads": tuple(known(attrs["padding"], "the padding")) * 2,
        "dilations": tuple(known(attrs["dilation"], "the dilations")),
    }
    if window["strides"] and len(window["strides"]) != len(numbers.type.shape or ()) - 2:
        raise UnsupportedError("a quantized convolution of this rank is not supported")
    zero_w = None if w.quant.zero.data is not None and not np.any(w.quant.zero.data.numpy()) else w.quant.zero
    if attrs.get("transpose"):
        # Sums of products of 8 bits are exact in f32 up to 2^24; beyond that the error is far below one quantized step.
        moved = b.Sub(b.Cast(x, to=DType.F32), b.Cast(qx.quant.zero, to=DType.F32))
        kernel = b.Cast(numbers, to=DType.F32)
        if zero_w is not None:
            kernel = b.Sub(kernel, b.Cast(zero_w, to=DType.F32))
        total = b.ConvTranspose(moved, kernel, group=attrs["groups"],
                                output_padding=tuple(known(attrs["output_padding"], "the padding")),
                                **window)  # fmt: skip
    else:
        total = b.ConvInteger(x, numbers, qx.quant.zero, zero_w, group=attrs["groups"], **window)
    if flat:
        total = b.Squeeze(total, axes=(2,))
    return _layer(t, qx, total, w, bias, scale, zero, relu, 1)


for _n in (1, 2, 3):
    for _relu in (False, True):
        _stem = f"quantized::conv{_n}d{'_relu' if _relu else ''}"

        def _new(
            t: Any, qx: Any, packed_weight: Any, output_scale: Any, output_zero_point: Any, _relu: bool = _relu
        ) -> Any:
            return _conv(t, qx, packed_weight, output_scale, output_zero_point, _relu)

        def _old(t: Any, qx: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: Any, output_scale: Any,
                 output_zero_point: Any, _relu: bool = _relu) -> Any:  # fmt: skip
            return _conv(t, qx, weight, output_scale, output_zero_point, _relu)

        torch.op(f"{_stem}.new", plain=True)(_new)
        torch.op(_stem, plain=True)(_new if _n == 1 else _old)
        if not _relu:
            torch.op(f"quantized::conv_transpose{_n}d", plain=True)(_new)


def _product(b: Builder, x: Value, x_zero: Value, w: Tensor) -> Value:
    """The exact product of quantized x[..., K] and weights w[N, K]."""
    n = w.type.shape or ()
    turned = b.Transpose(w.value(b), perm=tuple(reversed(range(len(n)))))
    zero = None if w.quant.zero.data is not None and not np.any(w.quant.zero.data.numpy()) else w.quant.zero
    made: Value = b.MatMulInteger(x, turned, x_zero, zero)
    return made


def _linear(relu: bool) -> Any:
    def translate(t: Any, X: Any, W_prepack: Any, Y_scale_i: Any, Y_zero_point_i: Any) -> Any:
        w, bias = _weights(t, W_prepack)
        total = _product(t.builder, X.value(t.builder), X.quant.zero, w)
        n = len(total.type.shape or ())
        return _layer(t, X, total, w, bias, Y_scale_i, Y_zero_point_i, relu, n - 1)

    return translate


torch.op("quantized::linear", plain=True)(_linear(False))
torch.op("quantized::linear_relu", plain=True)(_linear(True))


def dynamic(b: Builder, x: Value, w: Tensor, bias: Value | None, high: int) -> Value:
    """x[..., K] times weights w[N, K] of 8 bits, x taken as integers 0..high of its range: f32[..., N]."""
    quantized, scale, zero = b.DynamicQuantizeLinear(x, steps=high)
    total = b.Cast(_product(b, quantized, zero, w), to=DType.F32)
    y: Value = b.Mul(total, b.Mul(scale, w.quant.scale))
    return y if bias is None else b.Add(y, bias)


def _dynamic(relu: bool) -> Any:
    def translate(t: Any, X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
        w, bias = _weights(t, W_prepack)
        y = dynamic(t.builder, t.value(X), w, bias, 127 if reduce_range else 255)
        return Tensor(t.builder.Relu(y) if relu else y)

    return translate


torch.op("quantized::linear_dynamic", plain=True)(_dynamic(False))
torch.op("quantized::linear_relu_dynamic", plain=True)(_dynamic(True))


@torch.op("quantized::linear_dynamic_fp16", plain=True)
def _(t, X, W_prepack):
    w, bias = _weights(t, W_prepack)
    value = w.value(t.builder)
    wide_ = value if value.type.dtype is DType.F32 else t.builder.Cast(value, to=DType.F32)
    return Tensor(t.builder.Linear(t.value(X), wide_, bias))
