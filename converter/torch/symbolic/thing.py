"""Missing and unset things of a program, and traversal of its lists, tuples, dicts and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minnow.converter.torch.program.program import Object
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.schema.ir import Value


class Missing:
    """The result of an unsupported node, or of one that depends on it; the node has been reported.

    Attributes:
        why: the reason why a mapping cannot compute a result, reported once that is used.
    """

    def __init__(self, why: str = "") -> None:
        self.why = why


MISSING = Missing()


class Unset:
    """What a variable is where the program has not set it, and does not read it."""


UNSET = Unset()


def values_in(result: Any) -> Iterator[Value]:
    if isinstance(result, Value):
        yield result
    elif isinstance(result, Number):
        yield result.value
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from values_in(part)


def mapped(result: Any, known: Mapping[Value, Value | None]) -> Any:
    """The result with what has been folded; numbers that are known now are ordinary ones."""
    if isinstance(result, Value):
        return known[result]
    if isinstance(result, Number):
        value = known[result.value] or result.value
        return result if value.data is None else value.data.numpy().reshape(()).item()
    if isinstance(result, (tuple, list)):
        return type(result)(mapped(part, known) for part in result)
    return result


def wrapped(result: Any) -> Any:
    if isinstance(result, Value):
        return Tensor(result)
    if isinstance(result, (tuple, list)):
        return type(result)(map(wrapped, result))
    if isinstance(result, np.ndarray):
        return Tensor(Value.constant(result))
    return result


def flat(names: Sequence[Any]) -> Iterator[str]:
    for name in names:
        if isinstance(name, str):
            yield name
        else:
            yield from flat(name)


def is_missing(args: Sequence[Any]) -> bool:
    return any(isinstance(a, Missing) or (isinstance(a, (list, tuple)) and is_missing(a)) for a in args)


def reasons(args: Sequence[Any]) -> Iterator[str]:
    """Why those of them are missing that mappings left out."""
    for a in args:
        if isinstance(a, (list, tuple)):
            yield from reasons(a)
        elif isinstance(a, Missing) and a.why:
            yield a.why


def containers(things: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """All lists, dicts and objects."""
    seen = set() if seen is None else seen
    for x in things:
        if isinstance(x, (list, tuple, dict, Object)) and id(x) not in seen:
            seen.add(id(x))
            yield x
            inner = x.attrs if isinstance(x, Object) else x
            yield from containers(inner.values() if isinstance(inner, dict) else inner, seen)


def tensors_in(things: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """All tensors in lists, tuples, dicts and objects."""
    seen = set() if seen is None else seen
    for x in things:
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from tensors_in(x, seen)
        elif isinstance(x, dict):
            yield from tensors_in(x.values(), seen)
        elif isinstance(x, Object):
            yield from tensors_in(x.attrs.values(), seen)
