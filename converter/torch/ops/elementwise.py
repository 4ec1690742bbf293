"""Elementwise arithmetic and functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value, float_type, floats, number, operands, result_type
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

# ---- arithmetic


def _scaled(b: Builder, other: Any, alpha: Any, dtype: DType) -> Value:
    value = as_value(b, other, dtype)
    return value if alpha == 1 and not isinstance(alpha, bool) else b.Mul(value, as_value(b, alpha, dtype))


@torch.op("aten::add", "aten::__radd__")
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
        return b.Div(*floats(b, self, other))
    if rounding_mode not in ("floor", "trunc"):
        raise UnsupportedError(f"the rounding_mode '{rounding_mode}' is not supported")
    x, y = operands(b, self, other)
    if rounding_mode == "floor":
        return floor_divided(b, x, y)
    quotient = b.Div(x, y)
    return quotient if x.type.dtype.is_int else truncated(b, quotient)


@torch.op("aten::floor_divide")
def _(b, self, other):
    return floor_divided(b, *operands(b, self, other))


def floor_divided(b: Builder, x: Value, y: Value) -> Value:
    """The floor of the exact quotient: of floats, that of the rounded one may be 1 more."""
    made: Value
    if x.type.dtype.is_int:
        made = b.FloorDiv(x, y)
        return made
    rest = b.Mod(x, y, fmod=True)
    behind = b.And(b.NotEqual(rest, 0.0), b.Xor(b.Less(rest, 0.0), b.Less(y, 0.0)))
    quotient = b.Sub(b.Div(b.Sub(x, rest), y), b.Cast(behind, to=x.type.dtype))
    made = b.Where(b.Equal(y, 0.0), b.Div(x, y), b.Round(quotient))
    return made


@torch.op("aten::remainder")
def _(b, self, other):
    return b.Mod(*operands(b, self, other))


@torch.op("aten::fmod")
def _(b, self, other):
    return b.Mod(*operands(b, self, other), fmod=True)


_SHORT: dict[float, Callable[[Builder, Value], Any]] = {
    0.5: lambda b, x: b.Sqrt(x),
    -0.5: lambda b, x: b.Rsqrt(x),
    1: lambda b, x: x,
    2: lambda b, x: b.Square(x),
    3: lambda b, x: b.Mul(b.Square(x), x),
    -1: lambda b, x: b.Reciprocal(x),
    -2: lambda b, x: b.Reciprocal(b.Square(x)),
}
"""Powers that PyTorch, too, does not compute as such."""


@torch.op("aten::pow", "aten::__rpow__")
def _(b, self, exponent):
    x, y = operands(b, self, exponent)
    if isinstance(exponent, (int, float)):
        if x.type.dtype.is_int and exponent < 0:
            raise UnsupportedError(
                "integers to a negative power are not supported", hint="cast them to a float type first"
            )
        if exponent in _SHORT and (x.type.dtype.is_float or exponent >= 1):
            return _SHORT[exponent](b, x)
    return b.Pow(x, y)


@torch.op("aten::float_power")
def _(b, self, exponent):
    return b.Pow(*operands(b, self, exponent, dtype=DType.F64))


@torch.op("aten::square")
def _(b, self):
    return b.Square(as_value(b, self, DType.I64) if self.type.dtype is DType.BOOL else self)


@torch.op("aten::addcmul")
def _(b, self, tensor1, tensor2, value=1):
    x, y, z = operands(b, self, tensor1, tensor2)
    return b.Add(x, b.Mul(_scaled(b, y, value, x.type.dtype), z))


@torch.op("aten::addcdiv")
def _(b, self, tensor1, tensor2, value=1):
    x, y, z = floats(b, self, tensor1, tensor2)
    return b.Add(x, b.Div(_scaled(b, y, value, x.type.dtype), z))


@torch.op("aten::lerp")
def _(b, self, end, weight):
    x, y, w = operands(b, self, end, weight)
    if isinstance(weight, (int, float)):
        return _from_end(b, x, y, w) if weight >= 0.5 else b.Add(x, b.Mul(b.Sub(y, x), w))
    return between(b, x, y, w)


def between(b: Builder, x: Value, y: Value, w: Value) -> Value:
    """x + w * (y - x), counted from the nearer end: exact where w is 0 or 1."""
    made: Value = b.Where(b.Less(w, 0.5), b.Add(x, b.Mul(b.Sub(y, x), w)), _from_end(b, x, y, w))
    return made


def _from_end(b: Builder, x: Value, y: Value, w: Value) -> Any:
    return b.Sub(y, b.Mul(b.Sub(y, x), b.Add(b.Neg(w), 1.0)))


@torch.op("aten::ldexp")
def _(b, self, other):
    x, y = operands(b, self, other, dtype=float_type(self, 1.0))
    return b.Mul(x, b.Pow(number(b, 2, x), y))


# ---- one operand


def _unary(op: str, *names: str, is_float: bool = True) -> None:
    """Operators that are an op of ours; integers become floats first where the result is a float."""

    def translate(b: Builder, self: Value) -> Value:
        made: Value = getattr(b, op)(floats(b, self)[0] if is_float else self)
        return made

    torch.op(*(f"aten::{n}" for n in names))(translate)


for _op, *_names in (
    ("Sigmoid", "sigmoid", "special_expit"),
    ("Tanh", "tanh"),
    ("Exp", "exp"),
    ("Expm1", "expm1", "special_expm1"),
    ("Log", "log"),
    ("Log1p", "log1p", "special_log1p"),
    ("Sqrt", "sqrt"),
    ("Rsqrt", "rsqrt"),
    ("Reciprocal", "reciprocal"),
    ("Sin", "sin"),
    ("Cos", "cos"),
    ("Tan", "tan"),
    ("Asin", "asin", "arcsin"),
    ("Acos", "acos", "arccos"),
    ("Atan", "atan", "arctan"),
    ("Sinh", "sinh"),
    ("Cosh", "cosh"),
    ("Asinh", "asinh", "arcsinh"),
    ("Acosh", "acosh", "arccosh"),
    ("Atanh", "atanh", "arctanh"),
    ("Erf", "erf", "special_erf"),
    ("Erfc", "erfc", "special_erfc"),
):
    _unary(_op, *_names)

for _op, *_names in (("Relu", "relu"), ("Neg", "neg", "negative"), ("Abs", "abs", "absolute")):
    _unary(_op, *_names, is_float=False)


@torch.op("aten::sign", "aten::sgn")
def _(b, self):
    if self.type.dtype is DType.BOOL:
        return self
    sign = b.Sign(self)  # PyTorch's sign of NaN is 0
    return b.Where(b.IsNaN(self), number(b, 0, self), sign) if self.type.dtype.is_float else sign


@torch.op("aten::atan2", "aten::arctan2")
def _(b, self, other):
    return b.Atan2(*floats(b, self, other))


@torch.op("aten::angle")
def _(b, self):
    x = floats(b, self)[0]
    return b.Where(b.IsNaN(x), x, b.Mul(b.Cast(b.Less(x, 0.0), to=x.type.dtype), math.pi))


@torch.op("aten::exp2", "aten::special_exp2")
def _(b, self):
    x = floats(b, self)[0]
    return b.Pow(number(b, 2, x), x)


@torch.op("aten::log2")
def _(b, self):
    return b.Div(b.Log(floats(b, self)[0]), math.log(2))


@torch.op("aten::log10")
def _(b, self):
    return b.Div(b.Log(floats(b, self)[0]), math.log(10))


@torch.op("aten::deg2rad")
def _(b, self):
    return b.Mul(floats(b, self)[0], math.pi / 180)


@torch.op("aten::rad2deg")
def _(b, self):
    return b.Mul(floats(b, self)[0], 180 / math.pi)


@torch.op("aten::logit", "aten::special_logit")
def _(b, self, eps=None):
    x = floats(b, self)[0]
    if eps is not None:
        x = limited(b, x, known(eps, "eps"), 1 - known(eps, "eps"))
    return b.Log(b.Div(x, b.Add(b.Neg(x), 1.0)))


@torch.op("aten::xlogy", "aten::special_xlogy")
def _(b, self, other):
    return _zero_or(b, "Log", *floats(b, self, other))


@torch.op("aten::special_xlog1py")
def _(b, self, other):
    return _zero_or(b, "Log1p", *floats(b, self, other))


def _zero_or(b: Builder, function: str, x: Value, y: Value) -> Any:
    """x times a function of y; 0 where x is, unless y is NaN."""
    made = b.Mul(x, getattr(b, function)(y))
    return b.Where(b.And(b.Equal(x, 0.0), b.Equal(y, y)), number(b, 0, x), made)


@torch.op("aten::logaddexp")
def _(b, self, other):
    return log_sum(b, *floats(b, self, other))


@torch.op("aten::logaddexp2")
def _(b, self, other):
    x, y = (b.Mul(v, math.log(2)) for v in floats(b, self, other))
    return b.Div(log_sum(b, x, y), math.log(2))


def log_sum(b: Builder, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) without overflow; infinities of one sign are their own sum."""
    more = b.Log1p(b.Exp(b.Neg(b.Abs(b.Sub(x, y)))))
    made: Value = b.Where(b.Equal(x, y), b.Add(x, math.log(2)), b.Add(b.Max(x, y), more))
    return made


@torch.op("aten::sinc", "aten::special_sinc")
def _(b, self):
    x = floats(b, self)[0]
    angle = b.Mul(x, math.pi)
    return b.Where(b.Equal(x, 0.0), number(b, 1, x), b.Div(b.Sin(angle), angle))


@torch.op("aten::hypot")
def _(b, self, other):
    x, y = operands(b, self, other)
    wide = [b.Cast(v, to=DType.F64) for v in (x, y)]
    length = b.Cast(b.Sqrt(b.Add(*map(b.Square, wide))), to=x.type.dtype)
    return b.Where(b.Or(b.IsInf(x), b.IsInf(y)), number(b, math.inf, x), length)


@torch.op("aten::nan_to_num")
def _(b, self, nan=None, posinf=None, neginf=None):
    if not self.type.dtype.is_float:
        return self
    limits = ml_dtypes.finfo(self.type.dtype.numpy)
    x = b.Where(b.IsNaN(self), as_value(b, nan or 0.0, self.type.dtype), self)
    high, low = (
        as_value(b, float(limit) if given is None else given, self.type.dtype)
        for given, limit in ((posinf, limits.max), (neginf, limits.min))
    )
    x = b.Where(b.IsInf(x, detect_negative=False), high, x)
    return b.Where(b.IsInf(self, detect_positive=False), low, x)


# ---- rounding


def _rounding(op: str, *names: str) -> None:
    """Rounding to integers, which integers are already."""

    def translate(b: Builder, self: Value) -> Value:
        made: Value = getattr(b, op)(self) if self.type.dtype.is_float else self
        return made

    torch.op(*(f"aten::{n}" for n in names))(translate)


_rounding("Floor", "floor")
_rounding("Ceil", "ceil")
_rounding("Round", "round")


def truncated(b: Builder, x: Value) -> Value:
    """Rounded toward zero."""
    made: Value = b.Mul(b.Sign(x), b.Floor(b.Abs(x)))
    return made


@torch.op("aten::trunc", "aten::fix")
def _(b, self):
    return truncated(b, self) if self.type.dtype.is_float else self


@torch.op("aten::frac")
def _(b, self):
    return b.Sub(self, truncated(b, self))


@torch.op("aten::round.decimals", "aten::special_round")
def _(b, self, decimals=0):
    if decimals == 0:
        return b.Round(self) if self.type.dtype.is_float else self
    ten = 10.0 ** abs(decimals)
    if decimals < 0:
        return b.Mul(b.Round(b.Div(self, ten)), ten)
    return b.Div(b.Round(b.Mul(self, ten)), ten)


# ---- limits


def limited(b: Builder, x: Value, low: Any, high: Any) -> Value:
    """x between numbers or tensors of its own type; the upper one wins where they cross."""
    numbers = [v for v in (low, high) if v is not None]
    made: Value
    if x.type.dtype is DType.BOOL:
        made = x if low is None else b.Or(x, as_value(b, low, DType.BOOL))
        return made if high is None else b.And(made, as_value(b, high, DType.BOOL))
    # The attributes of Clip have the precision of float32, and no NaN.
    if all(isinstance(v, (int, float)) and v == v for v in numbers) and x.type.dtype in (DType.F32, DType.F16):
        bounds = {k: float(v) for k, v in (("min", low), ("max", high)) if v is not None}
        made = b.Clip(x, **bounds)
        return made
    made = x if low is None else b.Max(x, as_value(b, low, x.type.dtype))
    return made if high is None else b.Min(made, as_value(b, high, x.type.dtype))


@torch.op("aten::clamp", "aten::clip")
def _(b, self, min=None, max=None):
    return limited(b, as_value(b, self, result_type(self, min, max)), min, max)


@torch.op("aten::clamp_min")
def _(b, self, min):
    return limited(b, as_value(b, self, result_type(self, min)), min, None)


@torch.op("aten::clamp_max")
def _(b, self, max):
    return limited(b, as_value(b, self, result_type(self, max)), None, max)


def _larger(op: str, logical: str, *names: str) -> None:
    def translate(b: Builder, self: Value, other: Value) -> Value:
        x, y = operands(b, self, other)
        made: Value = getattr(b, logical if x.type.dtype is DType.BOOL else op)(x, y)
        return made

    torch.op(*(f"aten::{n}" for n in names))(translate)


_larger("Max", "Or", "maximum", "max.other")
_larger("Min", "And", "minimum", "min.other")


def _known_larger(op: str, name: str) -> None:
    """The other operand where one is NaN."""

    def translate(b: Builder, self: Value, other: Value) -> Value:
        x, y = operands(b, self, other)
        made: Value
        if x.type.dtype is DType.BOOL:
            made = (b.Or if op == "Max" else b.And)(x, y)
            return made
        made = getattr(b, op)(x, y)
        if x.type.dtype.is_float:
            made = b.Where(b.IsNaN(x), y, b.Where(b.IsNaN(y), x, made))
        return made

    torch.op(f"aten::{name}")(translate)


_known_larger("Max", "fmax")
_known_larger("Min", "fmin")


@torch.op("aten::heaviside")
def _(b, self, values):
    x, y = operands(b, self, values)
    return b.Where(b.Equal(x, number(b, 0, x)), y, b.Cast(b.Greater(x, number(b, 0, x)), to=x.type.dtype))
