"""Operands that a mapping needs to know at conversion time."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import TensorType, Value


def constant(value: Value, what: str) -> np.ndarray[Any, Any]:
    """The numbers of a constant operand. Raises UnsupportedError when it is computed."""
    if value.data is None:
        raise UnsupportedError(
            f"{what} must be constant",
            why=f"it is computed from the inputs, as '{value.name}'",
            hint="fix the input shapes with `--input NAME=1x3x...` if it depends on them only",
        )
    return value.data.numpy()


@overload
def ints(value: Value, what: str) -> tuple[int, ...]: ...
@overload
def ints(value: None, what: str) -> None: ...
def ints(value: Value | None, what: str) -> tuple[int, ...] | None:
    """A constant integer operand as a tuple; None when it is missing."""
    return None if value is None else tuple(int(v) for v in constant(value, what).reshape(-1))


def scalar(value: Value | None, default: float, what: str) -> float:
    """A constant number; the default when it is missing."""
    return default if value is None else float(constant(value, what).reshape(-1)[0])


def rank(value: Value, what: str) -> int:
    """The rank of an operand, which must be known."""
    if value.type.rank is None:
        raise UnsupportedError(f"the rank of {what} must be known", hint="give the input shapes with `--input`")
    return value.type.rank


def static_dim(type: TensorType, axis: int, what: str) -> int:
    """An extent that must be a number."""
    d = None if type.shape is None else type.shape[axis]
    if not isinstance(d, int):
        raise UnsupportedError(f"{what} must have a fixed extent", why=f"its type is {type}")
    return d
