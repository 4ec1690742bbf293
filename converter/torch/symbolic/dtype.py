"""PyTorch's element types, and its type promotion."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.torch.symbolic.tensor import Number
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

CODES = {
    0: DType.U8,
    1: DType.I8,
    2: DType.I16,
    3: DType.I32,
    4: DType.I64,
    5: DType.F16,
    6: DType.F32,
    7: DType.F64,
    11: DType.BOOL,
    15: DType.BF16,
    23: DType.F8E5M2,
    24: DType.F8E4M3FN,
    25: DType.F8E5M2FNUZ,
    26: DType.F8E4M3FNUZ,
    27: DType.U16,
    28: DType.U32,
    29: DType.U64,
}
"""By the number that a program has for them."""

_NAMES = {8: "complex32", 9: "complex64", 10: "complex128", 12: "qint8", 13: "quint8", 14: "qint32"}
_ORDER = (DType.BOOL, DType.U8, DType.I8, DType.I16, DType.I32, DType.I64, DType.F16, DType.BF16, DType.F32, DType.F64)


def dtype_of(code: Any, default: DType | None = None) -> DType:
    """The element type of a number in the program; `default` for None.

    Raises:
        UnsupportedError: there is no such element type.
    """
    if code is None and default is not None:
        return default
    if not isinstance(code, int) or code not in CODES:
        raise UnsupportedError(f"the element type {_NAMES.get(code, code)} is not supported")
    return CODES[code]


def code_of(dtype: DType) -> int:
    """The number that a program has for an element type."""
    return next(c for c, d in CODES.items() if d is dtype)


def _rank(dtype: DType) -> int:
    """bool, integers, floats."""
    return 0 if dtype is DType.BOOL else 1 if dtype.is_int else 2


def promote(a: DType, b: DType) -> DType:
    """The type that holds the numbers of both, as PyTorch has it."""
    if a is b:
        return a
    if {a, b} == {DType.F16, DType.BF16}:
        return DType.F32
    if {a, b} == {DType.U8, DType.I8}:
        return DType.I16
    return max(a, b, key=lambda d: (_rank(d), _ORDER.index(d) if d in _ORDER else -1))


class Wrapped(Value):
    """A number that TorchScript holds as a tensor: in type promotion it counts as that number."""

    __slots__ = ()

    @staticmethod
    def of(x: Value) -> Value:
        """A constant of a program, which is such a number if it is a scalar of int64 or float64."""
        if x.data is None or x.type.rank != 0 or x.type.dtype not in (DType.I64, DType.F64):
            return x
        return Wrapped(x.type, x.name, x.data)


def result_type(*xs: Any) -> DType:
    """The type that an operator computes in: of tensors, those without axes and numbers count only for their kind.

    Args:
        xs: Values, `Number`s and Python numbers; None is passed over.
    """
    kinds: list[DType | None] = [None, None, None]  # tensors with axes, tensors without, numbers
    for x in xs:
        if isinstance(x, Value) and not isinstance(x, Wrapped):
            place, dtype = (1 if x.type.rank == 0 else 0), x.type.dtype
        elif isinstance(x, (Number, Wrapped)):
            place, dtype = 2, _of_number(x.dtype if isinstance(x, Number) else x.type.dtype)
        elif x is None:
            continue
        else:
            place, dtype = 2, DType.BOOL if isinstance(x, bool) else DType.I64 if isinstance(x, int) else DType.F32
        known = kinds[place]
        kinds[place] = dtype if known is None else promote(known, dtype)
    result: DType | None = None
    for kind in kinds:
        if kind is not None and (result is None or _rank(kind) > _rank(result)):
            result = kind
    if result is None:
        raise UnsupportedError("an operator without operands")
    return result


def _of_number(dtype: DType) -> DType:
    return DType.F32 if dtype.is_float else dtype


def float_type(*xs: Any) -> DType:
    """The type that an operator gives whose result is a float, for integers, too."""
    dtype = result_type(*xs)
    return dtype if dtype.is_float else DType.F32


def as_value(b: Builder, x: Any, dtype: DType) -> Value:
    """An operand as a Value of that type; a number becomes a scalar."""
    if isinstance(x, Number):
        x = x.value
    if isinstance(x, Value):
        if x.type.dtype is dtype:
            return x
        made: Value = b.Cast(x, to=dtype)
        return made
    # Numbers beyond an integer type wrap, as the cast of a tensor does.
    with np.errstate(all="ignore"):
        return b.const(np.asarray(x).astype(dtype.numpy))


def operands(b: Builder, *xs: Any, dtype: DType | None = None) -> tuple[Value, ...]:
    """Operands as Values of the type that they are computed in."""
    common = dtype or result_type(*xs)
    return tuple(as_value(b, x, common) for x in xs)


def floats(b: Builder, *xs: Any) -> tuple[Value, ...]:
    """Operands of an operator that computes in floats, integers as well."""
    return operands(b, *xs, dtype=float_type(*xs))


def number(b: Builder, value: Any, like: Value) -> Value:
    """A number in the type of a Value."""
    return as_value(b, value, like.type.dtype)
