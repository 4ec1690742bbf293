"""Special functions: of probability, of gamma, of Bessel. Most are computed in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.decomposition.bessel import airy, bessel_i, bessel_j, bessel_k, bessel_y
from minnow.converter.decomposition.special import digamma, erfinv, lgamma, polygamma
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value, floats, number
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _inverse(b: Builder, x: Value) -> Value:
    """erfinv as exact as the type."""
    y = as_value(b, erfinv(b, as_value(b, x, DType.F32)), x.type.dtype)
    if x.type.dtype is not DType.F64:
        return y
    size = b.Abs(y)
    rest = b.Add(b.Neg(b.Abs(x)), 1.0)
    for _ in range(2):  # steps of Newton, in the distance from 1, which is exact far out
        slope = b.Mul(b.Exp(b.Neg(b.Square(size))), 2 / math.sqrt(math.pi))
        size = b.Add(size, b.Div(b.Sub(b.Erfc(size), rest), slope))
    ordinary = b.Less(b.Abs(y), float("inf"))
    made: Value = b.Where(ordinary, b.Mul(size, b.Sign(y)), y)
    return made


@torch.op("aten::erfinv", "aten::special_erfinv")
def _(b, self):
    return _inverse(b, floats(b, self)[0])


@torch.op("aten::special_ndtri")
def _(b, self):
    (x,) = floats(b, self)
    wide = as_value(b, x, DType.F64)
    return as_value(b, b.Mul(_inverse(b, b.Sub(b.Mul(wide, 2.0), 1.0)), math.sqrt(2)), x.type.dtype)


@torch.op("aten::special_ndtr")
def _(b, self):
    return b.Mul(b.Erfc(b.Mul(floats(b, self)[0], -math.sqrt(0.5))), 0.5)


@torch.op("aten::special_log_ndtr")
def _(b, self):
    (x,) = floats(b, self)
    wide = as_value(b, x, DType.F64)
    t = b.Mul(wide, math.sqrt(0.5))
    low = b.Sub(b.Log(b.Mul(_scaled_erfc(b, b.Neg(t)), 0.5)), b.Square(t))
    high = b.Log1p(b.Mul(b.Erfc(t), -0.5))
    return as_value(b, b.Where(b.Less(wide, -1.0), low, high), x.type.dtype)


@torch.op("aten::special_erfcx")
def _(b, self):
    (x,) = floats(b, self)
    return as_value(b, _scaled_erfc(b, as_value(b, x, DType.F64)), x.type.dtype)


_FAR = 12.0


def _scaled_erfc(b: Builder, x: Value) -> Any:
    """exp(x^2) erfc(x) of f64 numbers: far out by the asymptotic series."""
    near = b.Mul(b.Exp(b.Square(b.Min(x, _FAR))), b.Erfc(b.Min(x, _FAR)))
    far = b.Max(x, _FAR)
    half = b.Reciprocal(b.Mul(b.Square(far), 2.0))
    series: Any = b.const(np.float64(1))
    for k in (9, 7, 5, 3, 1):
        series = b.Add(b.Neg(b.Mul(b.Mul(series, half), float(k))), 1.0)
    return b.Where(b.Greater(x, _FAR), b.Div(b.Mul(series, 1 / math.sqrt(math.pi)), far), near)


@torch.op("aten::special_entr")
def _(b, self):
    (x,) = floats(b, self)
    zero = number(b, 0, x)
    made = b.Neg(b.Mul(x, b.Log(x)))
    return b.Where(b.Equal(x, zero), zero, b.Where(b.Less(x, zero), number(b, -np.inf, x), made))


# ---- gamma


@torch.op("aten::lgamma", "aten::special_gammaln")
def _(b, self):
    return lgamma(b, floats(b, self)[0])


@torch.op("aten::mvlgamma", "aten::special_multigammaln")
def _(b, self, p):
    (x,) = floats(b, self)
    wide, n = as_value(b, x, DType.F64), known(p, "p")
    total: Any = b.const(np.float64(n * (n - 1) / 4 * math.log(math.pi)))
    for j in range(n):
        total = b.Add(total, lgamma(b, b.Sub(wide, j / 2)))
    return as_value(b, total, x.type.dtype)


@torch.op("aten::digamma", "aten::special_digamma", "aten::special_psi")
def _(b, self):
    return _digamma(b, floats(b, self)[0])


def _digamma(b: Builder, x: Value) -> Any:
    pole = b.And(b.LessOrEqual(x, 0.0), b.Equal(x, b.Floor(x)))
    made = b.Where(pole, number(b, np.nan, x), digamma(b, x))
    return b.Where(b.Equal(x, 0.0), number(b, -np.inf, x), made)


@torch.op("aten::polygamma", "aten::special_polygamma")
def _(b, n, self):
    (x,) = floats(b, self)
    order = known(n, "the order of polygamma")
    if order < 0:
        raise UnsupportedError("polygamma of negative order is not supported")
    return polygamma(b, order, x) if order else _digamma(b, x)


# ---- Bessel


def _narrow(function: Any, *arguments: Any, names: tuple[str, ...]) -> None:
    """A function to the precision of float32, computed in float64; the operand has either name in PyTorch."""

    def translate(b: Builder, given: Value) -> Value:
        (x,) = floats(b, given)
        if x.type.dtype is DType.F64:
            raise UnsupportedError("Bessel functions in float64 are not supported", hint="cast to float32 first")
        before, after = arguments[:1], arguments[1:]
        return as_value(b, function(b, *before, b.Cast(x, to=DType.F64), *after), x.type.dtype)

    for name in names:
        if name.startswith(("special_scaled", "special_airy")):
            torch.op(f"aten::{name}")(lambda b, x: translate(b, x))
        else:
            torch.op(f"aten::{name}")(lambda b, self: translate(b, self))


_narrow(bessel_i, 0, False, names=("i0", "special_i0", "special_modified_bessel_i0"))
_narrow(bessel_i, 0, True, names=("special_i0e",))
_narrow(bessel_i, 1, False, names=("special_i1", "special_modified_bessel_i1"))
_narrow(bessel_i, 1, True, names=("special_i1e",))
for _order in (0, 1):
    _narrow(bessel_j, _order, names=(f"special_bessel_j{_order}",))
    _narrow(bessel_y, _order, names=(f"special_bessel_y{_order}",))
    _narrow(bessel_k, _order, False, names=(f"special_modified_bessel_k{_order}",))
    _narrow(bessel_k, _order, True, names=(f"special_scaled_modified_bessel_k{_order}",))
_narrow(airy, names=("special_airy_ai",))


@torch.op("aten::special_spherical_bessel_j0")
def _(b, x):
    (x,) = floats(b, x)
    square = b.Square(x)
    near = b.Add(b.Mul(square, b.Add(b.Mul(square, 1 / 120), -1 / 6)), 1.0)
    far = b.Where(b.IsInf(x), number(b, 0, x), b.Div(b.Sin(x), x))
    return b.Where(b.Less(b.Abs(x), 0.125), near, far)
