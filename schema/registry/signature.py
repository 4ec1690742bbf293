"""What the signature of an op says: its operands, with element types and roles, and its attributes, with types."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from types import UnionType
from typing import Any, NamedTuple

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType


class Role(Enum):
    """Of an operand that says how an op works rather than what it works on."""

    SIZE = "how large something is, which axis it is along, or where it begins and ends"
    PLACE = "places in another operand: a number that is no place is an error, however many bits it has"


@dataclass(frozen=True)
class Operand:
    """A positional parameter of an op."""

    name: str
    optional: bool
    variadic: bool
    dtypes: frozenset[DType]
    role: Role | None = None


@dataclass(frozen=True)
class Attr:
    """A keyword parameter of an op. Its type is the annotation; a `Literal` lists the values it may have."""

    name: str
    default: Any
    required: bool
    annotation: Any

    def check(self, value: Any, where: str) -> Any:
        """The value in canonical form (float32-representable floats, tuples of int). Raises ModelError."""
        try:
            return canonical(value, self._kind)
        except (TypeError, ValueError) as e:
            raise ModelError(f"attribute '{self.name}' has the bad value {value!r}", where=where, why=str(e)) from None

    @cached_property
    def _kind(self) -> _Kind:
        return kind_of(self.annotation)


_INT = frozenset({int})


def canonical(value: Any, wanted: _Kind) -> Any:
    kind, optional, choices, item = wanted
    if value is None:
        if optional:
            return None
        raise TypeError("a value is needed")
    if choices:
        if value in choices:
            return value
        raise ValueError(f"expected one of {', '.join(map(repr, choices))}")
    if item is not None:
        if item.kind is int and type(value) is tuple and _INT.issuperset(map(type, value)):
            return value
        return tuple([canonical(v, item) for v in value])
    if kind is int:
        if type(value) is int:
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return int(value)
    if kind is bool and isinstance(value, (bool, np.bool_, int)):
        return bool(value)
    if kind is float and isinstance(value, (int, float, np.floating, np.integer)):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if isinstance(value, kind):
        return value
    if kind is DType:
        return DType(value)
    raise TypeError(f"expected {getattr(kind, '__name__', kind)}, got {type(value).__name__}")


class _Kind(NamedTuple):
    """Of an annotation: what it is without None, whether None is taken, a Literal's values, a tuple's elements."""

    kind: Any
    optional: bool
    choices: tuple[Any, ...]
    item: _Kind | None


@cache
def kind_of(annotation: Any) -> _Kind:
    options = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    kind = next(k for k in options if k is not type(None))
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    choices = args if origin is typing.Literal else ()
    return _Kind(kind, type(None) in options, choices, kind_of(args[0]) if origin is tuple else None)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, UnionType)


def _metadata(hint: Any) -> Iterator[Any]:
    for part in typing.get_args(hint) if _is_union(hint) else (hint,):
        yield from getattr(part, "__metadata__", ())


def dtypes_of(hint: Any) -> frozenset[DType]:
    return next((item for item in _metadata(hint) if isinstance(item, frozenset)), frozenset(DType))


def role_of(hint: Any) -> Role | None:
    return next((item for item in _metadata(hint) if isinstance(item, Role)), None)
