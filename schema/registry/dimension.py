"""Arithmetic on dimensions that may be symbols, for the type rules: what can be said without knowing every number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim
from minnow.schema.ir.type import Shape, broadcast, same_dim
from minnow.schema.registry.op import Arg

MOST_AXES = 64
"""That numpy can have, and more than any model has."""


def unknown(rank: int | None) -> Shape | None:
    """A shape of which only the rank is known, or not even that. Raises ModelError for more than MOST_AXES."""
    if rank is not None and rank > MOST_AXES:
        raise ModelError(f"a tensor of {rank} dimensions", why=f"at most {MOST_AXES} are possible")
    return None if rank is None else (UNKNOWN,) * rank


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from the front. Raises ModelError when there is no such axis."""
    if not -rank <= axis < rank:
        raise ModelError(f"{what} {axis} is out of range for rank {rank}")
    return axis % rank


def axes_of(axes: Iterable[int], rank: int, what: str = "axis") -> tuple[int, ...]:
    """Axes counted from the front, in the given order. Raises ModelError when one is missing or stands there twice."""
    out = tuple(axis_of(a, rank, what) for a in axes)
    if len(set(out)) != len(out):
        raise ModelError(f"{what} {out} names the same axis twice")
    return out


def need_rank(arg: Arg, rank: int, what: str) -> None:
    """Raises ModelError unless the operand has that rank or an unknown one."""
    if arg.rank is not None and arg.rank != rank:
        raise ModelError(f"{what} has rank {arg.rank}, not {rank}")


def contents(arg: Arg | None) -> tuple[int, ...] | None:
    """The integers of a constant operand (a scalar gives one), None when they are not known."""
    return None if arg is None or arg.value is None else tuple(int(v) for v in arg.value.reshape(-1))


def scalar(arg: Arg | None) -> int | None:
    """The integer of a constant operand of one element."""
    values = contents(arg)
    return values[0] if values is not None and len(values) == 1 else None


def length(arg: Arg) -> int | None:
    """Number of elements of a 1-D operand; None when it is symbolic. Raises ModelError for other ranks."""
    need_rank(arg, 1, "a shape operand")
    n = arg.shape[0] if arg.shape else None
    return n if isinstance(n, int) else None


def product(dims: Iterable[Dim]) -> Dim:
    """Product of dimensions: a number, a symbol times ones, or UNKNOWN."""
    number, symbols = split_factors(dims)
    if number == 0 or not symbols:
        return number
    return symbols[0] if number == 1 and len(symbols) == 1 else UNKNOWN


def split_factors(dims: Iterable[Dim]) -> tuple[int, list[str]]:
    """The product of the numbers among the dimensions, and the rest."""
    number = 1
    symbols: list[str] = []
    for d in dims:
        if isinstance(d, int):
            number *= d
        else:
            symbols.append(d)
    return number, symbols


def total(dims: Iterable[Dim]) -> Dim:
    """Sum of dimensions: a number, a symbol plus zeros, or UNKNOWN."""
    number = 0
    symbols: list[str] = []
    for d in dims:
        if isinstance(d, int):
            number += d
        else:
            symbols.append(d)
    if not symbols:
        return number
    return symbols[0] if number == 0 and len(symbols) == 1 else UNKNOWN


def scaled(dim: Dim, factor: int) -> Dim:
    """A dimension times a number."""
    return dim * factor if isinstance(dim, int) else 0 if factor == 0 else dim if factor == 1 else UNKNOWN


def divided(dim: Dim, divisor: int, what: str) -> Dim:
    """A dimension divided by a number. Raises ModelError when it is not a multiple."""
    if isinstance(dim, int):
        if dim % divisor:
            raise ModelError(f"{what} {dim} is not a multiple of {divisor}")
        return dim // divisor
    return dim if divisor == 1 else UNKNOWN


def agree(dims: Sequence[Dim], what: str) -> Dim:
    """The dimension that all of these are. Raises ModelError when two numbers differ; numbers win over symbols."""
    numbers = {d for d in dims if isinstance(d, int)}
    if len(numbers) > 1:
        raise ModelError(f"{what}: dimensions {', '.join(map(str, sorted(numbers)))} differ")
    if numbers:
        return numbers.pop()
    return next((d for d in dims if d != UNKNOWN), UNKNOWN)


def broadcast_to(shape: Shape | None, target: Shape | None) -> bool:
    """True when it is certain that broadcasting `shape` with `target` gives `target`."""
    if shape is None or target is None or len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    broadcast(shape, target)
    # A target number other than 1 leaves the source only itself or 1.
    return all(a == 1 or same_dim(a, b) or (isinstance(b, int) and b != 1) for a, b in zip(shape, tail, strict=True))
