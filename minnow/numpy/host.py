"""Functions that numpy computes: Vars become arrays, and arrays become Vars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.constant import NCHW, Format
from minnow.expr.dtype import Array, dtype, narrow, own_type
from minnow.expr.names import named
from minnow.expr.var import Var
from minnow.schema.errors import UsageError

_F64, _I64 = np.dtype(np.float64), np.dtype(np.int64)
_REFUSALS = (ValueError, TypeError, IndexError, ArithmeticError, MemoryError, AttributeError, KeyError)

Function = Callable[..., Any]


def plain(value: Any, masks: bool = False) -> Any:
    """What numpy takes: arrays for Vars, also in lists and tuples; `masks`: comparisons stay booleans."""
    if isinstance(value, Var):
        return value._value() if masks else value._shown()
    if isinstance(value, dtype):
        return value.dtype
    if type(value) in (list, tuple):
        return type(value)(plain(v, masks) for v in value)
    return value


def _has(value: Any, types: tuple[np.dtype[Any], ...]) -> bool:
    if isinstance(value, Var):
        return value._dtype() in types
    if isinstance(value, dtype):
        return value.dtype in types
    if type(value) in (list, tuple):
        return any(_has(v, types) for v in value)
    if isinstance(value, (np.dtype, type)) and (isinstance(value, np.dtype) or issubclass(value, np.generic)):
        return np.dtype(value) in types
    return isinstance(value, np.ndarray) and value.dtype == _I64 and _I64 in types


def narrowed(array: Array, wide_floats: bool, wide_ints: bool) -> Array:
    """A result of numpy in the types of Vars: float32 and int32, unless an operand is wider or they do not fit."""
    if array.dtype == _F64 and wide_floats:
        return array
    if array.dtype == _I64:
        return array if wide_ints else narrow(array)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        if array.size and int(array.max()) >= 2**63:
            raise UsageError(
                f"{int(array.max())} does not fit a Var", why="the widest integers have 64 bits with a sign"
            )
        return narrowed(array.astype(_I64), wide_floats, wide_ints)
    own = own_type(array.dtype)
    with np.errstate(all="ignore"):
        return array if array.dtype == own else array.astype(own)


def wrapped(result: Any, form: Format = NCHW, wide_floats: bool = False, wide_ints: bool = False) -> Any:
    """What the user gets for a result of numpy: Vars for arrays, numbers of Python for single ones."""
    if isinstance(result, (np.generic, np.ndarray)) and result.ndim == 0:
        return result.item()
    if isinstance(result, np.ndarray):
        return Var._of(narrowed(np.asarray(result), wide_floats, wide_ints), form)
    if isinstance(result, (list, tuple)):
        rows = [wrapped(r, NCHW, wide_floats, wide_ints) for r in result]
        return rows if isinstance(result, list) else tuple(rows)
    return result


def call(name: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], masks: bool = False) -> Any:
    """Calls a function of numpy with Vars. Raises UsageError where numpy raises."""
    everything = [*args, *kwargs.values()]
    out = kwargs.pop("out", None)
    try:
        with np.errstate(all="ignore"):
            result = function(*plain(args, masks), **{k: plain(v, masks) for k, v in kwargs.items()})
    except _REFUSALS as error:
        raise UsageError(f"numpy.{name} refuses its arguments", why=str(error)) from error
    form = next((v.data_format for v in args if isinstance(v, Var)), NCHW)
    given = wrapped(result, form, _has(everything, (_F64,)), _has(everything, (_I64,)))
    return given if out is None else into(out, given)


def into(out: Any, result: Any) -> Any:
    """Gives `out`, the argument of that name, the result."""
    if not isinstance(out, Var):
        raise UsageError(f"out is {type(out).__name__}, not a Var")
    made = result if isinstance(result, Var) else Var(result)
    if out.shape != made.shape:
        raise UsageError(f"out has the shape {out.shape}, the result {made.shape}")
    out.replace(made._cast(out._dtype()))
    return out


def host(
    name: str,
    function: Function | None = None,
    *,
    like: str = "",
    note: str = "",
    masks: bool = False,
    mnn: bool = True,
) -> Function:
    """Registers a name of numpy whose function is numpy's, or `function`, computed at once.

    Args:
        masks: it takes comparisons as booleans, not as ints.
        like, note, mnn: as for `named`.
    """
    inner = function or getattr(np, name)

    def compute(*args: Any, **kwargs: Any) -> Any:
        return call(name, inner, args, kwargs, masks)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"`numpy.{name}` of Vars, and of all else that numpy takes, computed at once."
    return named("numpy", name, like=like or f"numpy.{name}", note=note, mnn=mnn)(compute)
