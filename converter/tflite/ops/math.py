"""Elementwise arithmetic, comparison and logic; conversions between types."""

from __future__ import annotations

import functools

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.converter.tflite.quantization import dequantize, quantize, requantize
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, LazyBlob, Value
from minnow.schema.ops import Builder

tflite.same(
    ABS="Abs",
    ATAN2="Atan2",
    BITWISE_XOR="BitwiseXor",
    CEIL="Ceil",
    COS="Cos",
    EQUAL="Equal",
    EXP="Exp",
    FLOOR="Floor",
    FLOOR_DIV="FloorDiv",
    GREATER="Greater",
    GREATER_EQUAL="GreaterOrEqual",
    LESS="Less",
    LESS_EQUAL="LessOrEqual",
    LOG="Log",
    LOGICAL_AND="And",
    LOGICAL_NOT="Not",
    LOGICAL_OR="Or",
    MAXIMUM="Max",
    MINIMUM="Min",
    NEG="Neg",
    NOT_EQUAL="NotEqual",
    POW="Pow",
    ROUND="Round",
    RSQRT="Rsqrt",
    SIGN="Sign",
    SIN="Sin",
    SQRT="Sqrt",
    SQUARE="Square",
    SQUARED_DIFFERENCE="SquaredDifference",
)


def _binary(name: str, op: str) -> None:
    @tflite.op(name)
    def _(b, x, y, *, fused_activation_function="NONE", pot_scale_int16=True):
        return activate(b, getattr(b, op)(x, y), fused_activation_function)


for _name, _op in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")):
    _binary(_name, _op)


@tflite.op("ADD_N")
def _(b, *xs):
    return functools.reduce(b.Add, xs)


@tflite.op("FLOOR_MOD")
def _(b, x, y):
    return b.Mod(x, y)


@tflite.op("RIGHT_SHIFT")
def _(b, x, y):
    # A shift beyond the width takes the last bit away, too; a negative one none.
    most = x.type.dtype.bits - 1
    signed = x.type.dtype in (DType.I8, DType.I16, DType.I32, DType.I64)
    if signed:
        y = b.Min(b.Max(y, 0), most)
    return b.BitShift(x, y, direction="RIGHT")


@tflite.op("CAST", raw=True)
def _(b, x, *, in_data_type=None, out_data_type=None, node):
    to = node.type_out().dtype
    return x if x.type.dtype is to else b.Cast(x, to=to)


@tflite.op("BITCAST", raw=True)
def _(b, x, *, node):
    to, old = node.type_out().dtype, x.type.dtype
    if old.bits != to.bits:
        raise UnsupportedError(f"BITCAST from {old} to {to} is not supported", why="their widths differ")
    return x if old is to else b.BitCast(x, to=to)


@tflite.op("DEQUANTIZE", raw=True)
def _(b, x, *, node):
    q = node.quant(0)
    return dequantize(b, x, q) if q is not None and x.type.dtype.is_int else widened(b, x)


@tflite.op("QUANTIZE", raw=True)
def _(b, x, *, node):
    old, new = node.quant(0), node.quant_out()
    if new is None:
        raise UnsupportedError("QUANTIZE without a scale is not supported")
    return quantize(b, x, new) if x.type.dtype.is_float else requantize(b, x, old or new, new)


@tflite.op("FAKE_QUANT")
def _(b, x, *, min=0.0, max=0.0, num_bits=0, narrow_range=False):
    least, most = 1.0 if narrow_range else 0.0, float((1 << num_bits) - 1)
    scale = (np.float64(max) - min) / (most - least) if max > min else 0.0
    if not scale:
        return b.Identity(x)
    exact = least - min / scale
    zero = least if exact < least else most if exact > most else float(np.floor(exact + 0.5))
    low, high = np.float32((least - zero) * scale), np.float32((most - zero) * scale)
    shifted = b.Sub(b.Clip(x, min=float(low), max=float(high)), low)
    steps = b.Floor(b.Add(b.Mul(shifted, np.float32(1 / np.float32(scale))), np.float32(0.5)))
    return b.Add(b.Mul(steps, np.float32(scale)), low)


def widened(b: Builder, x: Value) -> Value:
    """Half precision as f32; constants are widened when they are asked for."""
    if x.type.dtype is DType.F32:
        return x
    if x.data is not None:
        data = x.data
        return Value.constant(LazyBlob(lambda: data.numpy().astype(np.float32), DType.F32, tuple(data.shape)), x.name)
    return b.Cast(x, to=DType.F32)
