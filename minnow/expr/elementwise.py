"""Elementwise functions: computed by numpy at once, or nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.constant import NCHW, data_format
from minnow.expr.dtype import Array, promote, to_array
from minnow.expr.operation import apply, common_type
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

_BOOL = np.dtype(np.bool_)
_I32 = np.dtype(np.int32)
_F32 = np.dtype(np.float32)

Binary = Callable[[Any, Any], Var]
Unary = Callable[[Any], Var]


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


def arithmetic(name: str, op: str, ufunc: Any, of_ints: Any = None) -> Binary:
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
        return apply(op, v, w, format=form_of(x, y))  # type: ignore[no-any-return]

    def _computed(a: Array, b: Array) -> Array:
        to = a.dtype
        if to != b.dtype or to == _BOOL:
            to = promote(to, b.dtype)
            if of_ints is None or to.kind == "f":
                return np.asarray(ufunc(a, b, dtype=to, casting="unsafe"))
            a, b = a.astype(to), b.astype(to)
        return np.asarray(of_ints(a, b) if of_ints is not None and to.kind in "iu" else ufunc(a, b))

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, y), elementwise, in the type of the wider operand."
    return compute


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
        return apply(op, v, w, format=form_of(x, y))  # type: ignore[no-any-return]

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, y), elementwise: an int, 1 or 0."
    return compute


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
            return apply(logical, v, w, format=form_of(x, y))  # type: ignore[no-any-return]
        v, w = common_type(v, w)
        return apply(op, v, w, format=form_of(x, y))  # type: ignore[no-any-return]

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, y) of integers, elementwise."
    return compute


def unary(name: str, op: str, function: Any, floats: bool = True) -> Unary:
    """A function of one operand; `floats`: integers become floats first."""

    def compute(x: Any) -> Var:
        if not SETTINGS.lazy:
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
        return apply(op, var)  # type: ignore[no-any-return]

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x), elementwise" + (", in float for integers." if floats else ".")
    return compute


def half_away(x: Array) -> Array:
    """The nearest whole number, halves away from 0."""
    if x.dtype.kind != "f":
        return x
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


add = arithmetic("add", "Add", np.add)
subtract = arithmetic("subtract", "Sub", np.subtract)
multiply = arithmetic("multiply", "Mul", np.multiply)
divide = arithmetic("divide", "Div", np.true_divide, int_divide)
floordiv = arithmetic("floordiv", "FloorDiv", np.floor_divide)
floormod = arithmetic("floormod", "Mod", np.mod)
power = arithmetic("pow", "Pow", np.power)
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


def invert(x: Any) -> Var:
    """The bits of integers inverted; of a comparison, its opposite."""
    var = as_var(x)
    if var._dtype().kind == "f":
        raise UsageError("invert is for integers", why=f"the operand is {var.dtype}")
    if not SETTINGS.lazy and var._is_known():
        return Var._of(np.invert(var._value()), var.data_format)
    return apply("Not" if var._dtype() == _BOOL else "BitwiseNot", var)  # type: ignore[no-any-return]


negative = unary("negative", "Neg", np.negative, floats=False)
absolute = unary("abs", "Abs", np.abs, floats=False)
exp = unary("exp", "Exp", np.exp)
log = unary("log", "Log", np.log)
sqrt = unary("sqrt", "Sqrt", np.sqrt)


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
