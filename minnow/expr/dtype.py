"""Element types of Vars, and how those of Python and numpy become them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.expr.names import named
from minnow.schema.errors import UsageError

Array = npt.NDArray[Any]
NumpyType = np.dtype[Any]


@named("expr", like="numpy.dtype")
class dtype:
    """The element type of a Var: `expr.float`, `expr.int`, ...

    numpy takes one wherever it takes a dtype, and it compares equal to numpy's.

    Attributes:
        name: "float" for numpy's float32, "double" for float64, "int" for int32; the others are called as in numpy.
        dtype: the numpy dtype.
    """

    __slots__ = ("dtype", "name")

    float: dtype
    double: dtype
    int: dtype
    int64: dtype
    uint8: dtype
    int8: dtype

    def __init__(self, name: str, of: npt.DTypeLike) -> None:
        self.name = name
        self.dtype = np.dtype(of)

    def __call__(self, value: Any = 0) -> Any:
        """A numpy scalar of this type, as `numpy.float32(1.5)` makes one."""
        return self.dtype.type(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtype):
            return self.dtype == other.dtype
        try:
            return self.dtype == np.dtype(other)  # type: ignore[call-overload,no-any-return]
        except TypeError:
            return NotImplemented

    def __hash__(self) -> Any:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"dtype.{self.name}"

    def __reduce__(self) -> Any:
        return public, (self.dtype,)


_BOOL = np.dtype(np.bool_)
_F32 = np.dtype(np.float32)
_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)

_NAMES = {"float": "float32", "double": "float64", "int": "int32", "int64": "int64", "uint8": "uint8", "int8": "int8"}
_PUBLIC: dict[NumpyType, dtype] = {}
for _name, _numpy in _NAMES.items():
    _PUBLIC[np.dtype(_numpy)] = dtype(_name, _numpy)
    setattr(dtype, _name, _PUBLIC[np.dtype(_numpy)])


def public(of: NumpyType) -> dtype:
    """The constant for a numpy dtype. Booleans are ints to the user: comparisons give 0 and 1."""
    found = _PUBLIC.get(_I32 if of == _BOOL else of)
    return dtype(of.name, of) if found is None else found


_OWN: dict[NumpyType, NumpyType] = {
    np.dtype(old): np.dtype(new)
    for new, olds in {
        "bool": ["bool"],
        "int8": ["int8"],
        "uint8": ["uint8"],
        "int32": ["int32", "int16", "uint16"],
        "int64": ["int64", "uint32", "uint64"],
        "float32": ["float32", "float16", "float64", "longdouble"],
    }.items()
    for old in olds
}


def wanted(of: Any) -> NumpyType:
    """The numpy dtype that the user asks for by a constant of ours, of numpy, by a name or a Python type.

    Raises:
        UsageError: a Var cannot have it.
    """
    if isinstance(of, dtype):
        return np.dtype(of.dtype)
    if of is int:
        return _I32
    if of is float:
        return _F32
    try:
        found: NumpyType = np.dtype(of)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{of!r} is not an element type", why=str(error), hint=_KNOWN) from None
    if found == np.dtype(np.float64):
        return found
    return own_type(found)


_KNOWN = "one of expr.float, expr.double, expr.int, expr.int64, expr.uint8, expr.int8"


def own_type(of: NumpyType) -> NumpyType:
    """The type that a Var has which is made of an array of type `of`: float32 for float64. UsageError for others."""
    found = _OWN.get(of)
    if found is None:
        found = _OWN.get(of.newbyteorder("="))  # of another byte order
    if found is None:
        raise UsageError(f"a Var cannot have elements of the type {of}", hint=_KNOWN)
    return found


def converted(array: Array, to: NumpyType) -> Array:
    """The array in another type. Raises UsageError where an integer does not fit 64 bits."""
    if array.dtype == to:
        return array
    if array.dtype.kind == "u" and to == _I64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise UsageError(f"{int(array.max())} does not fit a Var", why="the widest integers have 64 bits with a sign")
    with np.errstate(all="ignore"):
        return array.astype(to)


def to_array(value: Any, to: NumpyType | None = None) -> Array:
    """What the user gives for a tensor, as an array of a type that a Var can have; no copy where none is needed.

    Numbers and lists of numbers become int32 (int64 where they do not fit) or float32, an array keeps its type, and
    float64 becomes float32 unless it is asked for.

    Raises:
        UsageError: it is not a tensor of numbers.
    """
    kind = type(value)
    if kind is float:
        with np.errstate(over="ignore"):
            return converted(np.asarray(value, np.float64), _F32 if to is None else to)
    if kind is int and to is None:
        return _of_ints(np.asarray(value), value)
    if kind is not np.ndarray:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"{kind.__name__} is not a tensor", why=str(error)) from None
    else:
        array = value
    if array.dtype == object:
        if isinstance(value, int):
            return _of_ints(array, value)
        why = f"its elements are {type(array.flat[0]).__name__}" if array.size else ""
        raise UsageError(f"{kind.__name__} is not a tensor of numbers", why=why)
    if to is not None:
        if array.dtype != np.float64:
            own_type(array.dtype)
        return converted(array, to)
    if array.dtype == _I64 and kind is not np.ndarray and not hasattr(value, "__array_interface__"):
        return _of_ints(array, value)
    if array.dtype == _I64 and isinstance(value, np.generic):
        return _of_ints(array, value)
    return converted(array, own_type(array.dtype))


def exact_array(value: Any, to: NumpyType) -> Array:
    """`to_array`, where numbers that a type of integers does not have are refused."""
    if to.kind not in "iu":
        return to_array(value, to)
    array = to_array(value)
    made = converted(array, to)
    if array.dtype != to and array.size and not np.array_equal(made.astype(array.dtype), array):
        raise UsageError(
            f"the numbers do not fit a Var of {public(to)}", hint="array.astype(...) rounds them or wraps around"
        )
    return made


def _of_ints(array: Array, value: Any) -> Array:
    """Python's ints: in 32 bits if all of them fit, else in 64."""
    if array.dtype != _I64:
        raise UsageError(f"{value} does not fit a Var", why="the widest integers have 64 bits with a sign")
    return narrow(array)


def narrow(array: Array) -> Array:
    """Integers of 64 bits in 32, if all of them fit."""
    fits = not array.size or (int(array.min()) >= -(2**31) and int(array.max()) < 2**31)
    return array.astype(_I32) if fits else array


_ORDER = {np.dtype(n): i for i, n in enumerate(("uint8", "int8", "int32", "int64", "float32", "float64"))}
_PROMOTED: dict[tuple[NumpyType, NumpyType], NumpyType] = {}


def promote(a: NumpyType, b: NumpyType) -> NumpyType:
    """The type of the result of two operands: the later of uint8, int, int64, float, double."""
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = _promote(a, b)
    return found


def _promote(a: NumpyType, b: NumpyType) -> NumpyType:
    a, b = (_I32 if t == _BOOL else t for t in (a, b))
    if a == b:
        return a
    if a not in _ORDER or b not in _ORDER:  # of an op that gives other types
        return np.promote_types(a, b)
    if max(_ORDER[a], _ORDER[b]) == 1:
        return _I32  # uint8 and int8
    return a if _ORDER[a] > _ORDER[b] else b
