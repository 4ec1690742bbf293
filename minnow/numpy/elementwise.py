"""Elementwise functions. Those that `expr` has are its own, and may be part of a graph; numpy computes the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr import elementwise as expr
from minnow.expr.argument import integer
from minnow.expr.casting import cast
from minnow.expr.dtype import wanted
from minnow.expr.movement import select
from minnow.expr.names import also, named
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.numpy.host import call, host
from minnow.schema.errors import UsageError

_F32 = np.dtype(np.float32)
_INT_QUOTIENT = "Quotients of integers are integers, rounded towards 0, as scripts for MNN expect."


def _own(name: str, function: Any, note: str = "", mnn: bool = True) -> Any:
    return also(function, "numpy", name, like=f"numpy.{name}", note=note, mnn=mnn)


add = _own("add", expr.add)
subtract = _own("subtract", expr.subtract)
multiply = _own("multiply", expr.multiply)
divide = _own("divide", expr.divide, _INT_QUOTIENT)
true_divide = _own("true_divide", expr.divide, _INT_QUOTIENT)
floor_divide = _own("floor_divide", expr.floordiv)
mod = _own("mod", expr.floormod)
remainder = _own("remainder", expr.floormod)
fmod = _own("fmod", expr.mod)
power = _own("power", expr.pow)
maximum = _own("maximum", expr.maximum)
minimum = _own("minimum", expr.minimum)
equal = _own("equal", expr.equal)
not_equal = _own("not_equal", expr.not_equal)
less = _own("less", expr.less)
less_equal = _own("less_equal", expr.less_equal)
greater = _own("greater", expr.greater)
greater_equal = _own("greater_equal", expr.greater_equal)
bitwise_and = _own("bitwise_and", expr.bitwise_and)
bitwise_or = _own("bitwise_or", expr.bitwise_or)
bitwise_xor = _own("bitwise_xor", expr.bitwise_xor)
invert = _own("invert", expr.invert, "Of a comparison, it is the opposite.")
logical_or = _own("logical_or", expr.logical_or, mnn=False)
negative = _own("negative", expr.negative)
abs = _own("abs", expr.abs)
absolute = _own("absolute", expr.abs)
fabs = _own("fabs", expr.abs, "Integers stay integers.")
sign = _own("sign", expr.sign)
square = _own("square", expr.square)
sqrt = _own("sqrt", expr.sqrt)
reciprocal = _own("reciprocal", expr.reciprocal, "Of integers it is a float.")
exp = _own("exp", expr.exp)
expm1 = _own("expm1", expr.expm1)
log = _own("log", expr.log)
log1p = _own("log1p", expr.log1p)
sin = _own("sin", expr.sin)
cos = _own("cos", expr.cos)
tan = _own("tan", expr.tan)
arcsin = _own("arcsin", expr.asin)
arccos = _own("arccos", expr.acos)
arctan = _own("arctan", expr.atan)
arctan2 = _own("arctan2", expr.atan2)
sinh = _own("sinh", expr.sinh)
cosh = _own("cosh", expr.cosh)
tanh = _own("tanh", expr.tanh)
arcsinh = _own("arcsinh", expr.asinh)
arccosh = _own("arccosh", expr.acosh)
arctanh = _own("arctanh", expr.atanh)


def _unary(name: str, op: str, function: Any, floats: bool = True, note: str = "", **attrs: Any) -> Any:
    """One that `expr` does not have, but the engine."""
    compute = expr.of_one(op, function, floats, **attrs)
    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x), elementwise" + (", in float for integers." if floats else ".")
    return named("numpy", name, like=f"numpy.{name}", note=note)(compute)


floor = _own("floor", expr.floor, "Of integers it is a float.")
ceil = _own("ceil", expr.ceil, "Of integers it is a float.")
rint = _unary("rint", "Round", np.rint)


@named("numpy", like="numpy.round")
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """The nearest number with so many decimals; halves go to the even one."""
    var, digits = as_var(a), integer(decimals, "decimals")
    if digits == 0 and out is None and var.ndim:
        return var if var._dtype().kind in "iub" else rint(var)
    return call("round", np.round, (a, digits), {"out": out})


round_ = also(round, "numpy", "round_", like="numpy.round")
around = also(round, "numpy", "around", like="numpy.round")
trunc = host("trunc")
fix = host("fix", np.trunc)


@named("numpy", like="numpy.clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    """The elements between two limits, either of which may be None."""
    var = as_var(a)
    if out is None and (SETTINGS.lazy or not var._is_known()):
        low = var if a_min is None else maximum(var, a_min)
        return low if a_max is None else minimum(low, a_max)
    return call("clip", np.clip, (a, a_min, a_max), {"out": out})


@named("numpy", like="numpy.positive")
def positive(x: Any) -> Var:
    """x itself."""
    return as_var(x)


@named("numpy", like="numpy.where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition is not 0, y elsewhere; without x and y, the indices of what is not 0."""
    if (x is None) is not (y is None):
        raise UsageError("where takes both x and y, or neither")
    if x is None:
        return call("where", np.where, (condition,), {}, masks=True)
    return select(condition, x, y)


@named("numpy", like="numpy.float_power", note="The result is float32.")
def float_power(x: Any, y: Any) -> Var:
    """x to the power of y, in float."""
    v, w = as_var(x), as_var(y)
    return expr.pow(v if v._dtype().kind == "f" else v._cast(_F32), w)


@named("numpy", like="numpy.nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """x with numbers for NaN and infinities."""
    return call("nan_to_num", np.nan_to_num, (x,), {"nan": nan, "posinf": posinf, "neginf": neginf})


fmax = host("fmax")
fmin = host("fmin")
exp2 = host("exp2")
log2 = host("log2")
log10 = host("log10")
cbrt = host("cbrt")
hypot = host("hypot")
sinc = host("sinc")
i0 = host("i0")
deg2rad = host("deg2rad")
rad2deg = host("rad2deg")
degrees = host("degrees")
radians = host("radians")
logaddexp = host("logaddexp")
logaddexp2 = host("logaddexp2")
copysign = host("copysign")
nextafter = host("nextafter")
spacing = host("spacing")
signbit = host("signbit")
heaviside = host("heaviside")
ldexp = host("ldexp")
frexp = host("frexp")
modf = host("modf")
gcd = host("gcd")
lcm = host("lcm")
left_shift = host("left_shift")
right_shift = host("right_shift")
isnan = host("isnan", mnn=False)
isinf = host("isinf", mnn=False)
isfinite = host("isfinite", mnn=False)
logical_and = host("logical_and", masks=True, mnn=False)
logical_not = host("logical_not", masks=True, mnn=False)
logical_xor = host("logical_xor", masks=True, mnn=False)
real_if_close = host("real_if_close")
unwrap = host("unwrap")


@named("numpy", like="numpy.divmod")
def divmod(x1: Any, x2: Any) -> tuple[Var, Var]:
    """Quotients rounded down, and the remainders."""
    return floor_divide(x1, x2), mod(x1, x2)


@named("numpy", like="numpy.sort_complex", note="A Var has no complex elements: the real ones are sorted.")
def sort_complex(a: Any) -> Any:
    """The elements in order along the last axis."""
    return call("sort", np.sort, (a,), {})


@named("numpy", like="numpy.asarray", note="The default type is float, not double.")
def asfarray(a: Any, dtype: Any = np.float32) -> Var:
    """An array of floats."""
    of = wanted(dtype)
    return cast(as_var(a), of if of.kind == "f" else _F32)
