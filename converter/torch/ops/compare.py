"""Comparisons, logic, bits, and selection (`where`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dtype import as_value, floats, number, operands, result_type
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _comparison(op: str, *names: str) -> None:
    def translate(b: Builder, self: Any, other: Any) -> Value:
        dtype = result_type(self, other)
        ordered = op not in ("Equal", "NotEqual")
        x, y = operands(b, self, other, dtype=DType.U8 if dtype is DType.BOOL and ordered else dtype)
        made: Value = getattr(b, op)(x, y)
        return made

    torch.op(*(f"aten::{n}" for n in names))(translate)


_comparison("Equal", "eq")
_comparison("NotEqual", "ne", "not_equal")
_comparison("Less", "lt", "less")
_comparison("LessOrEqual", "le", "less_equal")
_comparison("Greater", "gt", "greater")
_comparison("GreaterOrEqual", "ge", "greater_equal")


# ---- what a number is


def always(b: Builder, x: Value, value: bool) -> Value:
    """That, in the shape of x."""
    shape = np.array(x.type.shape, np.int64) if x.type.is_static else b.Shape(x)
    made: Value = b.Fill(shape, np.array(value))
    return made


@torch.op("aten::isnan")
def _(b, self):
    return b.IsNaN(self) if self.type.dtype.is_float else always(b, self, False)


def _infinite(name: str, **signs: bool) -> None:
    def translate(b: Builder, self: Value) -> Value:
        made: Value = b.IsInf(self, **signs) if self.type.dtype.is_float else always(b, self, False)
        return made

    torch.op(f"aten::{name}")(translate)


_infinite("isinf")
_infinite("isposinf", detect_negative=False)
_infinite("isneginf", detect_positive=False)


@torch.op("aten::isfinite")
def _(b, self):
    return b.Less(b.Abs(self), float("inf")) if self.type.dtype.is_float else always(b, self, True)


@torch.op("aten::isreal")
def _(b, self):
    return always(b, self, True)


_BITS = {DType.F64: DType.I64, DType.F32: DType.I32, DType.F16: DType.I16, DType.BF16: DType.I16}


def is_negative(b: Builder, x: Value) -> Value:
    """Where the sign is set, that of -0 and NaN, too."""
    made: Value
    if x.type.dtype is DType.BOOL:
        made = always(b, x, False)
    else:
        made = b.Less(b.BitCast(x, to=_BITS[x.type.dtype]) if x.type.dtype.is_float else x, 0)
    return made


@torch.op("aten::signbit")
def _(b, self):
    return is_negative(b, self)


@torch.op("aten::copysign")
def _(b, self, other):
    x, y = floats(b, self, other)
    size = b.Abs(x)
    return b.Where(is_negative(b, y), b.Neg(size), size)


@torch.op("aten::frexp")
def _(b, self):
    # By way of float64, where the smallest numbers of the other types have an exponent like all others.
    bits = b.BitCast(b.Cast(self, to=DType.F64), to=DType.I64)
    parts = b.BitwiseOr(b.BitwiseAnd(bits, -0x7FF0000000000001), 1022 << 52)
    exponent = b.Sub(b.BitwiseAnd(b.BitShift(bits, np.int64(52), direction="RIGHT"), 0x7FF), 1022)
    ordinary = b.And(b.NotEqual(self, 0.0), b.Less(b.Abs(self), float("inf")))
    mantissa = b.Cast(b.BitCast(parts, to=DType.F64), to=self.type.dtype)
    return (
        b.Where(ordinary, mantissa, self),
        b.Cast(b.Where(ordinary, exponent, np.int64(0)), to=DType.I32),
    )


@torch.op("aten::nextafter")
def _(b, self, other):
    x, y = operands(b, self, other)
    kind = _BITS[x.type.dtype]
    bits = b.BitCast(x, to=kind)
    outward = b.Equal(b.Greater(y, x), b.Greater(x, 0.0))
    step = b.BitCast(b.Add(bits, b.Where(outward, number(b, 1, bits), number(b, -1, bits))), to=x.type.dtype)
    least = b.BitCast(number(b, 1, bits), to=x.type.dtype)
    first = b.Where(b.Less(y, 0.0), b.Neg(least), least)
    moved = b.Where(b.Equal(x, 0.0), first, step)
    return b.Where(b.Equal(x, y), y, b.Where(b.Or(b.IsNaN(x), b.IsNaN(y)), b.Add(x, y), moved))


# ---- closeness


def close(b: Builder, self: Value, other: Value, rtol: float, atol: float, equal_nan: bool) -> Value:
    """Where |x - y| <= atol + rtol * |y|, or both are the same."""
    x, y = operands(b, self, other)
    same = b.Equal(x, y)
    if equal_nan and x.type.dtype.is_float:
        same = b.Or(same, b.And(b.IsNaN(x), b.IsNaN(y)))
    if x.type.dtype is not DType.BOOL and (rtol or atol):
        (reach,) = floats(b, b.Abs(y))
        (off,) = floats(b, b.Abs(b.Sub(x, y)))
        near = b.LessOrEqual(off, b.Add(b.Mul(reach, abs(rtol)), atol))
        if x.type.dtype.is_float:
            near = b.And(near, b.Less(off, float("inf")))
        same = b.Or(same, near)
    made: Value = same
    return made


@torch.op("aten::isclose")
def _(b, self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return close(b, self, other, rtol, atol, equal_nan)


@torch.op("aten::allclose")
def _(b, self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return Number(b.ReduceMin(close(b, self, other, rtol, atol, equal_nan), keepdims=False))


@torch.op("aten::equal")
def _(b, self, other):
    if self.type.is_static and other.type.is_static and self.type.shape != other.type.shape:
        return False
    if not self.type.is_static or not other.type.is_static:
        raise UnsupportedError("torch.equal of tensors of dynamic shape is not supported")
    return Number(b.ReduceMin(b.Equal(*operands(b, self, other)), keepdims=False))


# ---- logic


def _logical(op: str, name: str) -> None:
    def translate(b: Builder, self: Value, other: Value) -> Value:
        made: Value = getattr(b, op)(*operands(b, self, other, dtype=DType.BOOL))
        return made

    torch.op(f"aten::{name}")(translate)


_logical("And", "logical_and")
_logical("Or", "logical_or")
_logical("Xor", "logical_xor")


@torch.op("aten::logical_not")
def _(b, self):
    return b.Not(as_value(b, self, DType.BOOL))


# ---- bits


def _bits(op: str, logical: str, name: str, symbol: str) -> None:
    """A bitwise operator, the functions of Python's operator for it, and the one that changes its operand."""

    def translate(b: Builder, self: Any, other: Any) -> Value:
        x, y = operands(b, self, other)
        made: Value = getattr(b, logical if x.type.dtype is DType.BOOL else op)(x, y)
        return made

    _operator(translate, f"bitwise_{name}", symbol)


def _operator(translate: Any, name: str, symbol: str) -> None:
    torch.op(f"aten::{name}", f"aten::__{symbol}__", f"aten::__r{symbol}__")(translate)

    @torch.op(f"aten::__i{symbol}__", plain=True)
    def _(t: Any, self: Tensor, other: Any) -> Any:
        return t.write(self, Tensor(translate(t.builder, t.value(self), t.value(other))))


_bits("BitwiseAnd", "And", "and", "and")
_bits("BitwiseOr", "Or", "or", "or")
_bits("BitwiseXor", "Xor", "xor", "xor")


@torch.op("aten::bitwise_not")
def _(b, self):
    return b.Not(self) if self.type.dtype is DType.BOOL else b.BitwiseNot(self)


def _shift(left: bool) -> None:
    def translate(b: Builder, self: Any, other: Any) -> Value:
        x, y = operands(b, self, other)
        dtype = x.type.dtype
        if dtype.is_float:
            power = b.Pow(number(b, 2, x), y)
            made: Value = b.Mul(x, power) if left else b.Div(x, power)
            return made
        zero, most = number(b, 0, x), number(b, dtype.bits - 1, x)
        inside = b.And(b.GreaterOrEqual(y, zero), b.LessOrEqual(y, most))
        made = b.BitShift(x, b.Where(inside, y, most), direction="LEFT" if left else "RIGHT")
        if left or dtype is DType.U8:
            made = b.Where(inside, made, zero)
        return made

    side = "left" if left else "right"
    _operator(translate, f"bitwise_{side}_shift", f"{side[0]}shift")


_shift(left=True)
_shift(left=False)


# ---- choice


@torch.op("aten::where.self", "aten::where.Scalar", "aten::where.ScalarOther", "aten::where.ScalarSelf")
def _(b, condition, self, other):
    return b.Where(as_value(b, condition, DType.BOOL), *operands(b, self, other))


@torch.op("aten::where")
def _(b, condition):
    n = condition.type.rank or 0
    if n == 0:
        condition, n = b.Reshape(condition, np.array([1])), 1
    rows = b.Split(b.NonZero(condition), axis=0, sizes=(1,) * n, n_outputs=n)
    return [b.Squeeze(row, axes=(0,)) for row in (rows if isinstance(rows, (list, tuple)) else [rows])]


@torch.op("aten::masked_fill")
def _(b, self, mask, value):
    return b.Where(as_value(b, mask, DType.BOOL), as_value(b, value, self.type.dtype), self)
