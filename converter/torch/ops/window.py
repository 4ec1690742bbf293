"""What convolution, pooling and padding share: one number per axis, and inputs without a batch axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.symbolic.dimension import known
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def per_axis(x: Any, n: int, what: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """A number for each of n axes: one serves for all of them, and an empty list is left for the default."""
    given = known(x, what)
    numbers = tuple(given) if isinstance(given, (list, tuple)) else () if given is None else (given,)
    if not numbers and default is not None:
        return default
    if len(numbers) not in (1, n):
        raise ModelError(f"{what} has {len(numbers)} numbers, but there are {n} spatial axes")
    return tuple(int(v) for v in numbers) * (n // len(numbers))


def batched(b: Builder, x: Value, n: int, make: Callable[[Value], Any]) -> Any:
    """`make` of x[N, C, n axes]; where x has no batch it gets one, which the results lose again."""
    axes = rank(x, "the input")
    if axes == n + 2:
        return make(x)
    if axes != n + 1:
        raise ModelError(f"the input has rank {axes}, but must have rank {n + 1} or {n + 2}")
    made = make(b.Unsqueeze(x, axes=(0,)))
    return tuple(b.Squeeze(v, axes=(0,)) for v in made) if isinstance(made, tuple) else b.Squeeze(made, axes=(0,))


def in_float(b: Builder, make: Callable[..., Value], x: Value, *more: Value | None) -> Value:
    """`make` of the operands; integers are computed in f64, and truncated."""
    dtype = x.type.dtype
    if dtype.is_float:
        return make(x, *more)
    wide = (None if v is None else b.Cast(v, to=DType.F64) for v in (x, *more))
    made: Value = b.Cast(make(*wide), to=dtype)
    return made


def channels_of(x: Value, *vectors: Value | None) -> int:
    """The number of channels (axis 1), from a vector over them if there is one."""
    for v in vectors:
        if v is not None and v.type.rank == 1:
            return static_dim(v.type, 0, "the channels")
    return static_dim(x.type, 1, "the channels")


def filled(x: Value, count: int, number: float) -> Value:
    """A vector of a number, in the type of x."""
    return Value.constant(np.full(count, number, x.type.dtype.numpy))
