"""Operands that a mapping needs to know at conversion time."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import TensorType, Value


def is_known(value: Value) -> bool:
    """The numbers of the operand are constant, or there are none."""
    return value.is_const or count(value) == 0


def constant(value: Value, what: str = "an operand") -> np.ndarray[Any, Any]:
    """The numbers of a constant operand. Raises UnsupportedError when it is computed."""
    if value.data is None:
        raise UnsupportedError(
            f"{what} must be constant",
            why=f"it is computed from the inputs, as '{value.name}'",
            hint="fix the input shapes with `--input NAME=1x3x...` if it depends on them only",
        )
    return value.data.numpy()


def ints(value: Value | None, what: str = "an operand") -> tuple[int, ...]:
    """The numbers of a constant operand, of one without elements, or of a missing one, which has none."""
    return () if value is None or count(value) == 0 else tuple(int(v) for v in constant(value, what).reshape(-1))


def count(value: Value | None) -> int | None:
    """How many elements an operand has, a missing one 0; None when only the run can tell."""
    return 0 if value is None else value.type.count


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
