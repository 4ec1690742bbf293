"""Elementwise arithmetic, functions, comparisons, logic and bits."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

tf.same("Abs", "Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan",
        "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Erfc", "Sigmoid", "Sign",
        "Atan2", "SquaredDifference", "FloorDiv", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
        ATan="Atan", Inv="Reciprocal", Invert="BitwiseNot")  # fmt: skip
tf.same("Add", "Sub", "Mul", "Greater", "Less",
        AddV2="Add", Maximum="Max", Minimum="Min", GreaterEqual="GreaterOrEqual", LessEqual="LessOrEqual",
        LogicalAnd="And", LogicalOr="Or", LogicalNot="Not", TruncateDiv="Div", RealDiv="Div")  # fmt: skip
tf.same("Softsign", "Softplus", "Relu")


@tf.op("Floor", "Ceil", "Rint", "Round")
def _(b, x, *, node):
    if not x.type.dtype.is_float:
        return x
    return {"Floor": b.Floor, "Ceil": b.Ceil}.get(node.op, b.Round)(x)


@tf.op("Div")
def _(b, x, y):
    return b.Div(x, y)


@tf.op("DivNoNan")
def _(b, x, y):
    return _unless_zero(b, y, b.Div(x, y))


@tf.op("MulNoNan")
def _(b, x, y):
    return _unless_zero(b, y, b.Mul(x, y))


@tf.op("Xdivy")
def _(b, x, y):
    return _unless_zero(b, x, b.Div(x, y))


@tf.op("Xlogy")
def _(b, x, y):
    return _unless_zero(b, x, b.Mul(x, b.Log(y)))


@tf.op("Xlog1py")
def _(b, x, y):
    return _unless_zero(b, x, b.Mul(x, b.Log1p(y)))


def _unless_zero(b: Builder, x: Value, y: Value) -> Any:
    """y, but 0 where x is 0, whatever y is there."""
    return b.Where(b.Equal(x, 0), b.const(np.zeros((), y.type.dtype.numpy)), y)


@tf.op("Pow")
def _(b, x, y):
    return b.Pow(x, y)


@tf.op("FloorMod")
def _(b, x, y):
    return b.Mod(x, y)


@tf.op("Mod", "TruncateMod")
def _(b, x, y):
    return b.Mod(x, y, fmod=True)


@tf.op("AddN", "AccumulateNV2")
def _(b, *xs, shape=None):
    return reduce(b.Add, xs)


@tf.op("Equal", "NotEqual", "ApproximateEqual")
def _(b, x, y, *, incompatible_shape_error=True, tolerance=1e-5, node):
    if node.op == "ApproximateEqual":
        return b.Less(b.Abs(b.Sub(x, y)), tolerance)
    return b.Equal(x, y) if node.op == "Equal" else b.NotEqual(x, y)


@tf.op("LogicalXor")
def _(b, x, y):
    return b.Xor(x, y)


@tf.op("IsNan")
def _(b, x):
    return b.IsNaN(x)


@tf.op("IsInf")
def _(b, x):
    return b.IsInf(x)


@tf.op("IsFinite")
def _(b, x):
    return b.Not(b.Or(b.IsNaN(x), b.IsInf(x)))


@tf.op("LeftShift", "RightShift")
def _(b, x, y, *, node):
    return b.BitShift(x, y, direction="LEFT" if node.op == "LeftShift" else "RIGHT")


@tf.op("Cast")
def _(b, x, *, DstT, Truncate=False):
    return x if DstT is x.type.dtype else b.Cast(x, to=DstT)


@tf.op("Bitcast")
def _(b, x, *, type):
    return b.BitCast(x, to=type)


@tf.op("Relu6")
def _(b, x):
    return b.Clip(x, min=0.0, max=6.0)


@tf.op("LeakyRelu")
def _(b, x, *, alpha=0.2):
    return b.LeakyRelu(x, alpha=alpha)


@tf.op("Elu")
def _(b, x):
    return b.Elu(x)


@tf.op("Selu")
def _(b, x):
    return b.Selu(x)


@tf.op("Prelu")
def _(b, x, slope):
    return b.PRelu(x, slope)


@tf.op("ClipByValue")
def _(b, x, low, high):
    return b.Min(b.Max(x, low), high)


@tf.op("Softmax")
def _(b, x):
    return b.Softmax(x, axis=-1)


@tf.op("LogSoftmax")
def _(b, x):
    return b.LogSoftmax(x, axis=-1)


@tf.op("BiasAdd", "BiasAddV1")
def _(b, x, bias, *, data_format="NHWC"):
    if data_format == "NCHW" and x.type.rank != 2:
        n = 4 if x.type.rank is None else x.type.rank
        bias = b.Reshape(bias, np.array([-1, *[1] * (n - 2)]))
    return b.Add(x, bias)


@tf.op("MatMul")
def _(b, x, y, *, transpose_a=False, transpose_b=False):
    return b.MatMul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)


@tf.op("BatchMatMul", "BatchMatMulV2")
def _(b, x, y, *, adj_x=False, adj_y=False):
    return b.MatMul(x, y, transpose_a=adj_x, transpose_b=adj_y)


@tf.op("BatchMatMulV3")
def _(b, x, y, *, Tout=None, adj_x=False, adj_y=False):
    if Tout not in (None, x.type.dtype):
        x, y = b.Cast(x, to=Tout), b.Cast(y, to=Tout)
    return b.MatMul(x, y, transpose_a=adj_x, transpose_b=adj_y)


@tf.op("PopulationCount")
def _(b, x):
    size = x.type.dtype.size
    bits = (np.uint64(1) << np.arange(8 * size, dtype=np.uint64)).astype(f"u{size}").view(x.type.dtype.numpy)
    there = b.NotEqual(b.BitwiseAnd(b.Unsqueeze(x, axes=(-1,)), bits), 0)
    return b.ReduceSum(b.Cast(there, to=DType.U8), axes=(-1,), keepdims=False)
