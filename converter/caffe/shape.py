"""Axes and dimensions as Caffe's layers name them."""

from __future__ import annotations

from collections.abc import Sequence

from minnow.converter.operand import dimensions, rank, regroup
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def axis_of(x: Value, axis: int, extra: int = 0) -> int:
    """An axis counted from the front; `extra` 1 allows the place behind the last one."""
    n = rank(x, f"'{x.name}'") + extra
    if not -n <= axis < n:
        raise ModelError(f"axis {axis} is out of range for {x.type}")
    return axis % n if n else 0


def product(b: Builder, parts: Sequence[int | Value]) -> int | Value:
    """The number of elements over dimensions, some of them computed."""
    total: int | Value = 1
    for part in parts:
        if isinstance(total, int) and isinstance(part, int):
            total *= part
        else:
            total = b.Mul(*(b.const([p]) if isinstance(p, int) else p for p in (total, part)))
    return total


def merged(b: Builder, x: Value, first: int, end: int) -> Value:
    """The axes from `first` up to `end` as one; there may be none, which gives an axis of size 1."""
    sizes = dimensions(b, x, f"'{x.name}'")
    return regroup(b, x, [*sizes[:first], product(b, sizes[first:end]), *sizes[end:]])
