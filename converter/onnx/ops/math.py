"""Elementwise math, logic, reductions, softmax."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.packed_weight import dequantized_product
from minnow.converter.onnx.tensor import dtype_of
from minnow.converter.operand import count, ints
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

onnx.same(
    *("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tan"),
    *("Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Relu"),
    *("HardSwish", "Softplus", "Softsign", "Mish", "Not", "BitwiseNot", "Identity"),
    *("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Where", "PRelu"),
)


@onnx.op("Pow", since=12)
def _(b, x, y):
    # From opset 12 on the exponent may have another type; the result has that of the base.
    return b.Pow(x, y if y.type.dtype is x.type.dtype else b.Cast(y, to=x.type.dtype))


@onnx.op("LeakyRelu")
def _(b, x, *, alpha=0.01):
    return b.LeakyRelu(x, alpha=alpha)


@onnx.op("Elu")
def _(b, x, *, alpha=1.0):
    return b.Elu(x, alpha=alpha)


@onnx.op("Celu")
def _(b, x, *, alpha=1.0):
    return b.Celu(x, alpha=alpha)


@onnx.op("Selu")
def _(b, x, *, alpha=1.6732632423543772, gamma=1.0507009873554805):
    return b.Selu(x, alpha=alpha, gamma=gamma)


@onnx.op("ThresholdedRelu")
def _(b, x, *, alpha=1.0):
    return b.ThresholdedRelu(x, alpha=alpha)


@onnx.op("HardSigmoid")
def _(b, x, *, alpha=0.2, beta=0.5):
    return b.HardSigmoid(x, alpha=alpha, beta=beta)


@onnx.op("Shrink")
def _(b, x, *, bias=0.0, lambd=0.5):
    return b.Shrink(x, bias=bias, lambd=lambd)


@onnx.op("Gelu")
def _(b, x, *, approximate="none"):
    return b.Gelu(x, approximate=approximate)


@onnx.op("Swish")
def _(b, x, *, alpha=1.0):
    return b.Silu(x) if alpha == 1.0 else b.Mul(x, b.Sigmoid(b.Mul(x, alpha)))


@onnx.op("IsNaN")
def _(b, x):
    return b.IsNaN(b.Cast(x, to=DType.F32) if x.type.dtype.is_storage else x)


@onnx.op("IsInf")
def _(b, x, *, detect_negative=1, detect_positive=1):
    x = b.Cast(x, to=DType.F32) if x.type.dtype.is_storage else x
    return b.IsInf(x, detect_negative=bool(detect_negative), detect_positive=bool(detect_positive))


@onnx.op("Clip", until=10)
def _(b, x, *, min=-3.4028234663852886e38, max=3.4028234663852886e38):
    return b.Clip(x, min=min, max=max)


@onnx.op("Clip", since=11)
def _(b, x, lo=None, hi=None):
    bounds = [v for v in (lo, hi) if v is not None]
    # The attributes of Clip are float32: doubles that are not stay operands.
    if x.type.dtype.is_float and all(v.is_const and np.all(v.array.astype(np.float32) == v.array) for v in bounds):
        low = -np.inf if lo is None else float(lo.array.reshape(-1)[0])
        high = np.inf if hi is None else float(hi.array.reshape(-1)[0])
        return b.Clip(x, min=low, max=high)
    y = x if lo is None else b.Max(x, lo)
    y = y if hi is None else b.Min(y, hi)
    return b.Identity(x) if y is x else y


@onnx.op("Mod")
def _(b, x, y, *, fmod=0):
    return b.Mod(x, y, fmod=bool(fmod))


@onnx.op("BitShift")
def _(b, x, y, *, direction):
    return b.BitShift(x, y, direction=direction)


def _chain(op: str) -> Any:
    def translate(b: Builder, *xs: Value) -> Value:
        return reduce(getattr(b, op), xs) if len(xs) > 1 else b.Identity(xs[0])

    return translate


onnx.op("Max")(_chain("Max"))
onnx.op("Min")(_chain("Min"))
onnx.op("Sum")(_chain("Add"))


@onnx.op("Mean")
def _(b, *xs):
    return b.Div(reduce(b.Add, xs), float(len(xs))) if len(xs) > 1 else b.Identity(xs[0])


@onnx.op("Cast", "CastLike")
def _(b, x, like=None, *, to=None, saturate=1, round_mode="up"):
    dtype = like.type.dtype if to is None else dtype_of(to, "Cast")
    return b.Cast(x, to=dtype, saturate=bool(saturate), round_mode=round_mode)


@onnx.op("BitCast")
def _(b, x, *, to):
    return b.BitCast(x, to=dtype_of(to, "BitCast"))


def _all_if_empty(b: Builder, x: Value, axes: Value) -> Value:
    """The computed axes, or all there are when these turn out to be none."""
    n, rank = b.Shape(axes), b.Shape(b.Shape(x))
    every = b.Cast(b.Range(0, b.Reshape(rank, np.zeros(0, np.int64)), 1), to=axes.type.dtype)
    end = b.Where(b.Equal(n, 0), rank, n)
    return b.Slice(b.Concat(axes, every, axis=0), np.zeros(1, np.int64), end)


def _reduction(op: str) -> Any:
    def by_attribute(b: Builder, x: Value, *, axes: Any = None, keepdims: int = 1) -> Value:
        return getattr(b, op)(x, axes=None if axes is None else tuple(axes), keepdims=bool(keepdims))

    def by_operand(
        b: Builder, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        reduce = getattr(b, op)
        if count(axes) == 0 and noop_with_empty_axes:
            # Nothing is reduced, but what the reduction does to one element still happens.
            return reduce(b.Unsqueeze(x, axes=(-1,)), axes=(-1,), keepdims=False)
        if axes is None or axes.is_const or count(axes) == 0:
            return reduce(x, axes=ints(axes) or None, keepdims=bool(keepdims))
        if count(axes) is None and not noop_with_empty_axes:
            axes = _all_if_empty(b, x, axes)
        return reduce(x, axes, keepdims=bool(keepdims))

    since = 13 if op == "ReduceSum" else 18
    onnx.op(op, until=since - 1)(by_attribute)
    onnx.op(op, since=since)(by_operand)


for _name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
    _reduction(f"Reduce{_name}")


@onnx.op("ArgMax", "ArgMin")
def _(b, x, *, axis=0, keepdims=1, select_last_index=0, node):
    return getattr(b, node.op)(x, axis=axis, keepdims=bool(keepdims), select_last_index=bool(select_last_index))


@onnx.op("CumSum", "CumProd")
def _(b, x, axis, *, exclusive=0, reverse=0, node):
    return getattr(b, node.op)(x, axis, exclusive=bool(exclusive), reverse=bool(reverse))


@onnx.op("TopK", until=9)
def _(b, x, *, axis=-1, k):
    return b.TopK(x, np.array([k], np.int64), axis=axis)


@onnx.op("TopK", since=10)
def _(b, x, k, *, axis=-1, largest=1, sorted=1):
    return b.TopK(x, k, axis=axis, largest=bool(largest), sorted=bool(sorted))


def _softmax(op: str) -> None:
    def flattened(b: Builder, x: Value, *, axis: int = 1) -> Value:
        # Before opset 13 everything from the axis on is one group.
        if x.type.rank == 0 or axis in (-1, (x.type.rank or 0) - 1):
            return getattr(b, op)(x, axis=-1)
        return b.Reshape(getattr(b, op)(b.Flatten(x, axis=axis), axis=-1), b.Shape(x))

    def plain(b: Builder, x: Value, *, axis: int = -1) -> Value:
        return getattr(b, op)(x, axis=axis)

    onnx.op(op, until=12)(flattened)
    onnx.op(op, since=13)(plain)


for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    _softmax(_name)


@onnx.op("LpNormalization")
def _(b, x, *, axis=-1, p=2):
    norm = b.ReduceL1(x, axes=(axis,)) if p == 1 else b.ReduceL2(x, axes=(axis,))
    # A vector of zeros stays zero.
    return b.Where(b.Equal(norm, 0.0), b.Mul(x, 0.0), b.Div(x, norm))


@onnx.op("MeanVarianceNormalization")
def _(b, x, *, axes=(0, 2, 3)):
    centered = b.Sub(x, b.ReduceMean(x, axes=tuple(axes)))
    deviation = b.Sqrt(b.ReduceMean(b.Square(centered), axes=tuple(axes)))
    return b.Div(centered, b.Add(deviation, 1e-9))


@onnx.op("MatMul")
def _(b, x, y):
    product = dequantized_product(b, x, y)
    return b.MatMul(x, y) if product is None else product


@onnx.op("Gemm")
def _(b, x, y, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    out = None if transA else dequantized_product(b, x, y, transposed=bool(transB))
    if out is None:
        out = b.MatMul(x, y, transpose_a=bool(transA), transpose_b=bool(transB))
    if alpha != 1.0:
        out = b.Mul(out, alpha)
    if c is None or beta == 0.0:
        return out
    return b.Add(out, c if beta == 1.0 else b.Mul(c, beta))


@onnx.op("Det")
def _(b, x):
    return b.Det(x)


@onnx.op("Einsum")
def _(b, *xs, equation):
    from minnow.converter.decomposition.einsum import einsum

    return einsum(b, equation, xs)


@onnx.op("QuantizeLinear")
def _(b, x, scale, zero=None, *, axis=1, output_dtype=0, block_size=0, saturate=1, precision=0):
    to = zero.type.dtype if zero is not None else dtype_of(output_dtype, "QuantizeLinear") if output_dtype else DType.U8
    exact = dtype_of(precision, "QuantizeLinear") if precision else None
    return b.QuantizeLinear(
        x, scale, zero, axis=axis, to=to, block_size=block_size, saturate=bool(saturate), precision=exact
    )


@onnx.op("DequantizeLinear")
def _(b, x, scale, zero=None, *, axis=1, block_size=0, output_dtype=0):
    to = dtype_of(output_dtype, "DequantizeLinear") if output_dtype else None
    return b.DequantizeLinear(x, scale, zero, axis=axis, block_size=block_size, to=to)


@onnx.op("DynamicQuantizeLinear")
def _(b, x):
    return b.DynamicQuantizeLinear(x)
