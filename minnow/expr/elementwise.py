"""Elementwise functions: computed by numpy at once, or nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from minnow.expr.constant import NCHW, data_format
from minnow.expr.dtype import Array, promote, to_array
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one, common_type
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

_BOOL = np.dtype(np.bool_)
_I32 = np.dtype(np.int32)
_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

Binary = Callable[[Any, Any], Var]
Unary = Callable[[Any], Var]
F = TypeVar("F", Unary, Binary)


def known(x: Any) -> Array | None:
    """The array of an operand that has a value, to compute with at once; None where a graph is built."""
    if type(x) is Var:
        if x._operation is None:
            x._is_own = False
            return x._array
        return x._value() if x._is_known() else None
    return to_array(x)


def form_of(x: Any, y: Any) -> data_format:
    """The data format of what is computed of two operands."""
    if isinstance(x, Var) and (x.data_format is not NCHW or not isinstance(y, Var)):
        return x.data_format
    return y.data_format if isinstance(y, Var) else NCHW


def refused(name: str, a: Array, b: Array, why: object) -> UsageError:
    return UsageError(
        f"{name} cannot be computed of {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}", why=str(why)
    )


def int_divide(a: Array, b: Array) -> Array:
    """Quotients of integers, rounded towards 0; 0 where the divisor is."""
    quotient = np.floor_divide(a, b)
    if quotient.dtype.kind == "i":
        rest = a - quotient * b
        quotient = quotient + ((rest != 0) & ((a < 0) != (b < 0)))
        return np.where(b == 0, 0, quotient).astype(quotient.dtype)
    return quotient


def _registered(function: F, name: str, like: Any, note: str = "") -> F:
    function.__name__ = function.__qualname__ = name
    text = like if isinstance(like, str) else f"numpy.{like.__name__}" if hasattr(like, "nin") else ""
    return named("expr", name, like=text, note=note)(function)


def arithmetic(name: str, op: str, ufunc: Any, of_ints: Any = None, note: str = "", **attrs: Any) -> Binary:
    """A binary function whose result has the type of its operands."""

    def compute(x: Any, y: Any) -> Var:
        if not SETTINGS.lazy:
            a, b = known(x), known(y)
            if a is not None and b is not None:
                try:
                    with np.errstate(all="ignore"):
                        return Var._of(_computed(a, b), form_of(x, y))
                except (TypeError, ValueError) as error:
                    raise refused(name, a, b, error) from None
        v, w = common_type(as_var(x), as_var(y))
        return apply_one(op, v, w, format=form_of(x, y), **attrs)

    def _computed(a: Array, b: Array) -> Array:
        to = a.dtype
        if to != b.dtype or to == _BOOL:
            to = promote(to, b.dtype)
            if of_ints is None or to.kind == "f":
                return np.asarray(ufunc(a, b, dtype=to, casting="unsafe"))
            a, b = a.astype(to), b.astype(to)
        return np.asarray(of_ints(a, b) if of_ints is not None and to.kind in "iu" else ufunc(a, b))

    compute.__doc__ = f"{name}(x, y), elementwise, in the type of the wider operand."
    return _registered(compute, name, ufunc, note)


def comparison(name: str, op: str, ufunc: Any) -> Binary:
    """A binary function whose result is 1 or 0."""

    def compute(x: Any, y: Any) -> Var:
        if not SETTINGS.lazy:
            a, b = known(x), known(y)
            if a is not None and b is not None:
                if a.dtype != b.dtype:
                    to = promote(a.dtype, b.dtype)
                    a, b = a.astype(to, copy=False), b.astype(to, copy=False)
                try:
                    return Var._of(np.asarray(ufunc(a, b)), form_of(x, y))
                except (TypeError, ValueError) as error:
                    raise refused(name, a, b, error) from None
        v, w = common_type(as_var(x), as_var(y))
        return apply_one(op, v, w, format=form_of(x, y))

    compute.__doc__ = f"{name}(x, y), elementwise: an int, 1 or 0."
    return _registered(compute, name, ufunc)


def bits(name: str, op: str, logical: str, ufunc: Any) -> Binary:
    """A binary function of the bits of integers; comparisons are combined as booleans."""

    def compute(x: Any, y: Any) -> Var:
        v, w = as_var(x), as_var(y)
        a, b = v._dtype(), w._dtype()
        if a.kind == "f" or b.kind == "f":
            raise UsageError(f"{name} is for integers", why=f"the operands are {v.dtype} and {w.dtype}")
        if not SETTINGS.lazy and v._is_known() and w._is_known():
            to = _BOOL if a == b == _BOOL else promote(a, b)
            one, two = v._value().astype(to, copy=False), w._value().astype(to, copy=False)
            try:
                return Var._of(np.asarray(ufunc(one, two)), form_of(x, y))
            except ValueError as error:
                raise refused(name, one, two, error) from None
        if a == b == _BOOL:
            return apply_one(logical, v, w, format=form_of(x, y))
        v, w = common_type(v, w)
        return apply_one(op, v, w, format=form_of(x, y))

    compute.__doc__ = f"{name}(x, y) of integers, elementwise."
    return _registered(compute, name, ufunc)


def of_one(op: str, function: Any, floats: bool = True, **attrs: Any) -> Unary:
    """A function of one operand, computed by `function` of arrays at once (None: by the engine), or by an op in graphs.

    Args:
        floats: integers become floats first.
    """

    def compute(x: Any) -> Var:
        if function is not None and not SETTINGS.lazy:
            array = known(x)
            if array is not None:
                if array.dtype == _BOOL:
                    array = array.astype(_I32)
                if floats and array.dtype.kind != "f":
                    array = array.astype(_F32)
                with np.errstate(all="ignore"):
                    result = np.asarray(function(array))
                if result.dtype != array.dtype:
                    result = result.astype(array.dtype)
                return Var._of(result, x.data_format if isinstance(x, Var) else NCHW)
        var = as_var(x)
        if not floats and var._dtype() == _BOOL:
            var = var._cast(_I32)
        if floats and var._dtype().kind != "f":
            var = var._cast(_F32)
        return apply_one(op, var, **attrs)

    return compute


def unary(
    name: str, op: str, function: Any, floats: bool = True, like: str = "", note: str = "", **attrs: Any
) -> Unary:
    """`of_one`, with a name in `expr`."""
    compute = of_one(op, function, floats, **attrs)
    compute.__doc__ = f"{name}(x), elementwise" + (", in float for integers." if floats else ".")
    return _registered(compute, name, like or function, note)


def half_away(x: Array) -> Array:
    """The nearest whole number, halves away from 0."""
    if x.dtype.kind != "f":
        return x
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


add = arithmetic("add", "Add", np.add)
subtract = arithmetic("subtract", "Sub", np.subtract)
multiply = arithmetic("multiply", "Mul", np.multiply)
divide = arithmetic(
    "divide", "Div", np.true_divide, int_divide, note="Quotients of integers are integers, rounded towards 0."
)
floordiv = arithmetic("floordiv", "FloorDiv", np.floor_divide)
floormod = arithmetic("floormod", "Mod", np.mod)
mod = arithmetic("mod", "Mod", np.fmod, fmod=True)
pow = arithmetic("pow", "Pow", np.power)
maximum = arithmetic("maximum", "Max", np.maximum)
minimum = arithmetic("minimum", "Min", np.minimum)
equal = comparison("equal", "Equal", np.equal)
not_equal = comparison("not_equal", "NotEqual", np.not_equal)
less = comparison("less", "Less", np.less)
less_equal = comparison("less_equal", "LessOrEqual", np.less_equal)
greater = comparison("greater", "Greater", np.greater)
greater_equal = comparison("greater_equal", "GreaterOrEqual", np.greater_equal)
bitwise_and = bits("bitwise_and", "BitwiseAnd", "And", np.bitwise_and)
bitwise_or = bits("bitwise_or", "BitwiseOr", "Or", np.bitwise_or)
bitwise_xor = bits("bitwise_xor", "BitwiseXor", "Xor", np.bitwise_xor)
negative = unary("negative", "Neg", np.negative, floats=False)
abs = unary("abs", "Abs", np.absolute, floats=False)
sign = unary("sign", "Sign", np.sign, floats=False)
square = unary("square", "Square", np.square, floats=False)
exp = unary("exp", "Exp", np.exp)
expm1 = unary("expm1", "Expm1", np.expm1)
log = unary("log", "Log", np.log)
log1p = unary("log1p", "Log1p", np.log1p)
sqrt = unary("sqrt", "Sqrt", np.sqrt)
rsqrt = unary("rsqrt", "Rsqrt", lambda x: 1 / np.sqrt(x), like="torch.rsqrt")
reciprocal = unary("reciprocal", "Reciprocal", np.reciprocal)
sin = unary("sin", "Sin", np.sin)
cos = unary("cos", "Cos", np.cos)
tan = unary("tan", "Tan", np.tan)
asin = unary("asin", "Asin", np.arcsin)
acos = unary("acos", "Acos", np.arccos)
atan = unary("atan", "Atan", np.arctan)
sinh = unary("sinh", "Sinh", np.sinh)
cosh = unary("cosh", "Cosh", np.cosh)
tanh = unary("tanh", "Tanh", np.tanh)
asinh = unary("asinh", "Asinh", np.arcsinh)
acosh = unary("acosh", "Acosh", np.arccosh)
atanh = unary("atanh", "Atanh", np.arctanh)
floor = unary("floor", "Floor", np.floor)
ceil = unary("ceil", "Ceil", np.ceil)
round = unary(
    "round", "Round", half_away, like="numpy.round", note="Halves are rounded away from 0, as in C.", halves="away"
)
erf = unary("erf", "Erf", None, like="torch.erf")
erfc = unary("erfc", "Erfc", None, like="torch.special.erfc")


@named("expr", like="numpy.arctan2")
def atan2(x: Any, y: Any) -> Var:
    """The angle of the point (y, x), elementwise, in float for integers."""
    v, w = common_type(_floating(x), _floating(y))
    if not SETTINGS.lazy and v._is_known() and w._is_known():
        try:
            return Var._of(np.asarray(np.arctan2(v._value(), w._value())), form_of(x, y))
        except ValueError as error:
            raise refused("atan2", v._value(), w._value(), error) from None
    return apply_one("Atan2", v, w, format=form_of(x, y))


@named("expr")
def squared_difference(x: Any, y: Any) -> Var:
    """(x - y) * (x - y), elementwise."""
    return square(subtract(x, y))


@named("expr", like="numpy.logical_or")
def logical_or(x: Any, y: Any) -> Var:
    """Whether at least one of the two is not 0: an int, 1 or 0."""
    return bitwise_or(_boolean(x), _boolean(y))


@named("expr", like="torch.erfinv")
def erfinv(x: Any) -> Var:
    """The number whose `erf` is x; infinite for 1 and -1, NaN beyond."""
    var = _floating(x)
    y = var._cast(_F64)
    # An approximation by Winitzki to two digits, and three steps of Halley's method.
    a = 0.147
    logarithm = log1p(negative(square(y)))
    half = add(multiply(logarithm, _double(0.5)), _double(2 / (np.pi * a)))
    root = sqrt(subtract(sqrt(subtract(square(half), multiply(logarithm, _double(1 / a)))), half))
    guess = multiply(sign(y), root)
    for _ in range(3):
        slope = multiply(exp(negative(square(guess))), _double(2 / np.sqrt(np.pi)))
        step = divide(subtract(erf(guess), y), slope)
        guess = subtract(guess, divide(step, add(multiply(guess, step), _double(1.0))))
    edge = multiply(sign(y), _double(np.inf))
    outside = apply("Where", equal(abs(y), _double(1.0)), edge, _double(np.nan))
    whole = apply_one("Where", less(abs(y), _double(1.0)), guess, outside)
    return whole._cast(var._dtype())


def _double(value: float) -> Var:
    return Var._of(np.asarray(value, _F64))


def _floating(x: Any) -> Var:
    var = as_var(x)
    return var if var._dtype().kind == "f" else var._cast(_F32)


def _boolean(x: Any) -> Var:
    """A comparison as it is, numbers as whether they are not 0."""
    var = as_var(x)
    return var if var._dtype() == _BOOL else not_equal(var, Var._of(np.zeros((), var._dtype())))


def invert(x: Any) -> Var:
    """The bits of integers inverted; of a comparison, its opposite."""
    var = as_var(x)
    if var._dtype().kind == "f":
        raise UsageError("invert is for integers", why=f"the operand is {var.dtype}")
    if not SETTINGS.lazy and var._is_known():
        return Var._of(np.asarray(np.invert(var._value())), var.data_format)
    return apply_one("Not" if var._dtype() == _BOOL else "BitwiseNot", var)


def of_numpy(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a ufunc of numpy gives for Vars: our function of that name, else numpy's with the arrays."""
    if method == "__call__" and not kwargs:
        import minnow.numpy

        ours = getattr(minnow.numpy, ufunc.__name__, None)
        if ours is not None:
            return ours(*inputs)
    if "out" in kwargs and any(isinstance(v, Var) for v in kwargs["out"] or ()):
        raise UsageError(f"numpy.{ufunc.__name__} cannot write to a Var", hint="var.write(result)")
    plain = [v._shown() if isinstance(v, Var) else v for v in inputs]
    result = getattr(ufunc, method)(*plain, **kwargs)
    return tuple(map(as_var, result)) if isinstance(result, tuple) else as_var(result)
