"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

tflite.same(ABS="Abs", CEIL="Ceil", COS="Cos", EXP="Exp", FLOOR="Floor", LOG="Log", LOGISTIC="Sigmoid", NEG="Neg",
            ROUND="Round", RSQRT="Rsqrt", SIGN="Sign", SIN="Sin", SQRT="Sqrt", SQUARE="Square", TANH="Tanh",
            ELU="Elu", RELU="Relu", LOGICAL_NOT="Not", LOGICAL_AND="And", LOGICAL_OR="Or", MAXIMUM="Max", MINIMUM="Min",
            SQUARED_DIFFERENCE="SquaredDifference", EQUAL="Equal", NOT_EQUAL="NotEqual", GREATER="Greater",
            GREATER_EQUAL="GreaterOrEqual", LESS="Less", LESS_EQUAL="LessOrEqual", POW="Pow", ATAN2="Atan2",
            BITWISE_XOR="BitwiseXor", FLOOR_DIV="FloorDiv", FLOOR_MOD="Mod", HARD_SWISH="HardSwish")  # fmt: skip


def activate(b: Builder, x: Value, function: str) -> Value:
    """The value after a fused activation. Raises UnsupportedError for SIGN_BIT."""
    match function:
        case "NONE":
            return x
        case "RELU":
            return b.Relu(x) if x.type.dtype.is_float else b.Max(x, 0)
        case "RELU6" | "RELU_N1_TO_1":
            low, high = (0, 6) if function == "RELU6" else (-1, 1)
            return b.Clip(x, min=float(low), max=float(high)) if x.type.dtype.is_float else b.Min(b.Max(x, low), high)
        case "TANH":
            return b.Tanh(x)
    raise UnsupportedError(f"the fused activation {function} is not supported")


def _binary(name: str, op: str) -> None:
    @tflite.op(name)
    def _(b, x, y, *, fused_activation_function="NONE", pot_scale_int16=True):
        return activate(b, getattr(b, op)(x, y), fused_activation_function)


for _name, _op in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")):
    _binary(_name, _op)


@tflite.op("RELU6")
def _(b, x):
    return activate(b, x, "RELU6")


@tflite.op("RELU_N1_TO_1")
def _(b, x):
    return activate(b, x, "RELU_N1_TO_1")


@tflite.op("CAST", raw=True)
def _(b, x, *, in_data_type=None, out_data_type=None, node):
    to = node.type_out().dtype
    return x if x.type.dtype is to else b.Cast(x, to=to)


@tflite.op("DEQUANTIZE", raw=True)
def _(b, x, *, node):
    from minnow.converter.tflite.quantization import dequantize

    q = node.quant(0)
    if q is not None and x.type.dtype.is_int:
        return dequantize(b, x, q)
    return widened(b, x)


@tflite.op("QUANTIZE", raw=True)
def _(b, x, *, node):
    from minnow.converter.tflite.quantization import quantize, requantize

    old, new = node.quant(0), node.quant_out()
    if new is None:
        raise UnsupportedError("QUANTIZE without a scale")
    return quantize(b, x, new) if x.type.dtype.is_float else requantize(b, x, old or new, new)


def widened(b: Builder, x: Value) -> Value:
    """Half precision as f32; constants are widened when they are asked for."""
    from minnow.schema.ir import LazyBlob

    if x.type.dtype is DType.F32:
        return x
    if x.data is not None:
        data: Any = x.data
        return Value.constant(LazyBlob(lambda: data.numpy().astype(np.float32), DType.F32, tuple(data.shape)), x.name)
    return b.Cast(x, to=DType.F32)
