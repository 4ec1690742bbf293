"""Types of carried values that hold in every round of a loop, not only in the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import UNKNOWN, TensorType
from minnow.schema.ir.type import join_types, optional

Made = TypeVar("Made")
_ROUNDS = 8


def settle(
    carried: Sequence[TensorType], translate: Callable[[list[TensorType]], tuple[Made, Sequence[TensorType]]]
) -> tuple[Made, list[TensorType]]:
    """Translates a body until the types of the carried values stay as they are.

    Args:
        carried: types of the first values.
        translate: types before a round -> what it made, and the types after the round.

    Returns:
        What was made last, and the types.

    Raises:
        UnsupportedError: they do not settle.
    """
    types = list(carried)
    for _ in range(_ROUNDS):
        made, after = translate(types)
        widened = [widen(t, r) for t, r in zip(types, after, strict=True)]
        if widened == types:
            return made, types
        types = widened
    raise UnsupportedError(
        "the shapes of a loop's carried values change in every round, so that no fixed type holds them"
    )


def widen(a: TensorType, b: TensorType) -> TensorType:
    """What holds before a round and after it."""
    if a.layout == "optional" and b.layout != "optional":
        b = optional(b)  # it will be wrapped
    if a.holds_tensors:
        return join_types(a, b)
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a.with_shape(None)
    return a.with_shape(x if x == y else UNKNOWN for x, y in zip(a.shape, b.shape, strict=True))
