"""Arithmetic and other functions of single elements."""

from __future__ import annotations

from typing import Any

from minnow.converter.torch.dtype import as_value, float_type, operands, result_type
from minnow.converter.torch.frontend import frontend as torch
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _scaled(b: Builder, other: Any, alpha: Any, dtype: DType) -> Value:
    value = as_value(b, other, dtype)
    return value if alpha == 1 and not isinstance(alpha, bool) else b.Mul(value, as_value(b, alpha, dtype))


@torch.op("aten::add")
def _(b, self, other, alpha=1):
    dtype = result_type(self, other)
    x, y = as_value(b, self, dtype), _scaled(b, other, alpha, dtype)
    return b.Or(x, y) if dtype is DType.BOOL else b.Add(x, y)


@torch.op("aten::sub", "aten::subtract")
def _(b, self, other, alpha=1):
    dtype = result_type(self, other)
    return b.Sub(as_value(b, self, dtype), _scaled(b, other, alpha, dtype))


@torch.op("aten::rsub")
def _(b, self, other, alpha=1):
    dtype = result_type(self, other)
    return b.Sub(as_value(b, other, dtype), _scaled(b, self, alpha, dtype))


@torch.op("aten::mul", "aten::multiply")
def _(b, self, other):
    x, y = operands(b, self, other)
    return b.And(x, y) if x.type.dtype is DType.BOOL else b.Mul(x, y)


@torch.op("aten::div", "aten::divide", "aten::true_divide")
def _(b, self, other, rounding_mode=None):
    if rounding_mode is None:
        return b.Div(*operands(b, self, other, dtype=float_type(self, other)))
    x, y = operands(b, self, other)
    if rounding_mode == "floor":
        return b.FloorDiv(x, y)
    if rounding_mode != "trunc":
        raise UnsupportedError(f"rounding_mode '{rounding_mode}'")
    quotient = b.Div(x, y)
    if x.type.dtype.is_int:
        return quotient
    return b.Where(b.Less(quotient, 0.0), b.Ceil(quotient), b.Floor(quotient))


def _unary(op: str, *names: str, is_float: bool = True) -> None:
    """Operators that are an op of ours; integers become floats first where the result is a float."""

    def translate(b: Builder, self: Value) -> Value:
        made: Value = getattr(b, op)(as_value(b, self, float_type(self)) if is_float else self)
        return made

    torch.op(*(f"aten::{n}" for n in names))(translate)


for _op, *_names in (
    ("Sigmoid", "sigmoid"),
    ("Tanh", "tanh"),
    ("Exp", "exp"),
    ("Log", "log"),
    ("Sqrt", "sqrt"),
    ("Rsqrt", "rsqrt"),
    ("Erf", "erf"),
    ("Sin", "sin"),
    ("Cos", "cos"),
):
    _unary(_op, *_names)

for _op, *_names in (("Relu", "relu"), ("Neg", "neg", "negative"), ("Abs", "abs", "absolute")):
    _unary(_op, *_names, is_float=False)
