"""Arguments that are not tensors: axes, sizes, numbers. Each function gives a Python value or raises UsageError."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.dtype import Array, to_array
from minnow.expr.var import Var
from minnow.schema.errors import UsageError


def _single(value: Any) -> Any:
    """The element of a Var or an array with one element; everything else as it is."""
    is_one = isinstance(value, np.ndarray) or (isinstance(value, Var) and value._is_known())
    return value.item() if is_one and value.size == 1 else value


def integer(value: Any, what: str, least: int | None = None) -> int:
    """A whole number: of Python or numpy, or a Var with one element."""
    value = _single(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if least is not None and value < least:
            raise UsageError(f"{what} is {int(value)}, which is less than {least}")
        if not -(2**63) <= int(value) < 2**63:
            raise UsageError(f"{what} is {int(value)}, which does not fit 64 bits")
        return int(value)
    raise UsageError(f"{what} is {value!r}, not a whole number")


def integers(value: Any, what: str, count: int | None = None) -> list[int]:
    """Whole numbers: a list, a tuple, an array or a Var of them, or a single one."""
    if isinstance(value, Var):
        value = value._value()
    rows = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        rows = [rows] * (count or 1)
    if not isinstance(rows, (list, tuple)):
        raise UsageError(f"{what} is {value!r}, not a list of whole numbers")
    out = [integer(v, what) for v in rows]
    if count is not None and len(out) != count:
        raise UsageError(f"{what} is {out}, not {count} numbers")
    return out


def number(value: Any, what: str) -> float:
    """A number: of Python or numpy, or a Var with one element."""
    value = _single(value)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    raise UsageError(f"{what} is {value!r}, not a number")


def flag(value: Any, what: str) -> bool:
    """Yes or no: a bool, a number, or None for no."""
    value = _single(value)
    if value is None or isinstance(value, (bool, int, np.bool_, np.integer)):
        return bool(value)
    raise UsageError(f"{what} is {type(value).__name__}, not True or False")


def axis_of(value: Any, rank: int, what: str = "axis") -> int:
    """The axis as it is counted from the first one."""
    axis = integer(value, what)
    if not -rank <= axis < rank:
        raise UsageError(f"{what} is {axis}", why=f"the Var has {rank} axes")
    return axis % rank


def axes_of(value: Any, rank: int, what: str = "axis") -> tuple[int, ...]:
    """Several different axes, or one."""
    axes = tuple(axis_of(a, rank, what) for a in integers(value, what))
    if len(set(axes)) != len(axes):
        raise UsageError(f"{what} is {list(axes)}: one axis twice")
    return axes


def int64s(values: Any) -> Var:
    """Sizes as the operand of an op."""
    try:
        return Var._of(np.asarray(values, np.int64).reshape(-1))
    except OverflowError as error:
        raise UsageError(f"{values} are too large", why=str(error)) from None


def shape_operand(shape: Any, what: str = "shape") -> Var:
    """A shape as the operand of an op: that of a placeholder stays in the graph."""
    if isinstance(shape, Var):
        if shape._dtype().kind == "f":
            raise UsageError(f"{what} is a Var of {shape.dtype}, not of ints")
        if not shape._is_known() or shape._operation is not None or shape._kind != "Const":
            return shape._cast(np.dtype(np.int64))
    return int64s(integers(shape, what))


def floats(value: Any, what: str, count: int | None = None) -> Array:
    """Numbers as an array of float32."""
    array = to_array(value)
    if array.ndim == 0:
        array = array.reshape(1)
    if count is not None and array.size != count:
        raise UsageError(f"{what} has {array.size} numbers, not {count}")
    return array.astype(np.float32).reshape(-1)
