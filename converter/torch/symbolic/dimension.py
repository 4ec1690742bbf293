"""Dimensions and other numbers of a program, some of which are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import rank, vector
from minnow.converter.torch.symbolic.tensor import Number
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Size = int | Number


def size_of(b: Builder, x: Value, axis: int) -> Size:
    """The dimension of a tensor along an axis."""
    n = rank(x, "an operand")
    if not -n <= axis < max(n, 1):
        raise UnsupportedError(f"axis {axis} is out of range for rank {n}")
    axis %= n
    d = (x.type.shape or ())[axis]
    if isinstance(d, int):
        return d
    dimension = b.Shape(x, start=axis, end=axis + 1)
    return Number(b.Reshape(dimension, np.zeros(0, np.int64)), dimension)


def sizes_of(b: Builder, x: Value) -> list[Size]:
    """All dimensions of a tensor."""
    return [size_of(b, x, i) for i in range(rank(x, "an operand"))]


def scalar(b: Builder, x: Any) -> Value:
    """A number as a scalar Value: i64, f64 or bool."""
    if isinstance(x, Number):
        return x.value
    if isinstance(x, Value):
        made: Value = b.Reshape(x, np.zeros(0, np.int64))
        return made
    return b.const(np.asarray(x, bool if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float64))


def dimension(b: Builder, x: Any) -> int | Value:
    """A number of the program as an int, or as int64[1]."""
    if isinstance(x, Number):
        if x.vector is not None:
            return x.vector
        x = x.value
    if isinstance(x, Value):
        if x.data is not None:
            return int(x.data.numpy())
        made: Value = b.Reshape(x if x.type.dtype is DType.I64 else b.Cast(x, to=DType.I64), np.array([1]))
        return made
    return int(x)


def dimensions(b: Builder, xs: Sequence[Any]) -> list[int | Value]:
    """Numbers of the program as ints, and int64[1] where they are computed."""
    return [dimension(b, x) for x in xs]


def vector_of(b: Builder, xs: Sequence[Any]) -> Value:
    """Numbers of the program as one int64 vector."""
    return vector(b, dimensions(b, xs))


def known(x: Any, what: str) -> Any:
    """A number, or a list of numbers, that must be known.

    Raises:
        UnsupportedError: it is known only at run time.
    """
    if isinstance(x, (list, tuple)):
        return [known(v, what) for v in x]
    if isinstance(x, Value) and x.data is not None and x.type.count == 1:
        return x.data.numpy().reshape(()).item()
    if isinstance(x, (Number, Value)):
        raise UnsupportedError(f"{what} must be known", hint="fix the input shapes with `--input NAME=1x3x...`")
    return x


def axis_in(axis: int, n: int) -> int:
    """An axis counted from the front; a scalar has axis 0, as PyTorch has it."""
    if not -max(n, 1) <= axis < max(n, 1):
        raise UnsupportedError(f"axis {axis} is out of range for rank {n}")
    return axis % max(n, 1)
