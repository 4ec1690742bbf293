"""How what a module is given becomes what its model wants: the order of the axes, and the axis of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minnow.expr.constant import NC4HW4, NCHW, NHWC, data_format
from minnow.interpreter.model_file import IMAGE, Slot
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]
FORMATS: dict[str, data_format] = {"NHWC": NHWC, "NC4HW4": NC4HW4, "NCHW": NCHW}


class Change(NamedTuple):
    """What is done to a tensor.

    Attributes:
        axes: the permutation, None for none.
        batch: whether an axis of size 1 is put in front, after that.
    """

    axes: tuple[int, ...] | None
    batch: bool

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape afterwards."""
        new = tuple(shape) if self.axes is None else tuple(shape[a] for a in self.axes)
        return (1, *new) if self.batch else new

    def apply(self, array: Array) -> Array:
        new = array if self.axes is None else array.transpose(self.axes)
        return np.ascontiguousarray(new[None] if self.batch else new)


def change_for(shape: Sequence[int], form: data_format, slot: Slot) -> Change:
    """The change that makes a tensor of this shape and data format fit an input.

    An image [H, W, C] becomes a batch of one. Where the data format is not that of the input, axes move; but what fits
    only as it is stays as it is: a numpy array in the layout of the model has the format NCHW, too.

    Raises:
        UsageError: the number of axes or of channels is not what the model wants.
    """
    if slot.shape is None:
        return Change(None, False)
    rank, want = len(shape), len(slot.shape)
    fitting = [c for c in _candidates(rank, form, slot) if _fits(c.shape(shape), slot, exact=True)]
    fitting += [c for c in _candidates(rank, form, slot) if _fits(c.shape(shape), slot, exact=False)]
    if fitting:
        return fitting[0]
    how = "" if rank < 3 else f" ({form.name})"
    what = "number of axes" if rank != want else "number of channels" if want >= 3 else "shape"
    raise UsageError(
        f"input '{slot.name}' has the shape {list(shape)}{how}: the {what} is wrong", hint=f"the model wants {slot}"
    )


def _candidates(rank: int, form: data_format, slot: Slot) -> list[Change]:
    want = len(slot.shape or ())
    as_is = Change(None, False)
    if rank == want:
        if rank < 3 or (form is NHWC) == slot.last:
            return [as_is]
        moved = Change((0, *range(2, rank), 1) if slot.last else (0, rank - 1, *range(1, rank - 1)), False)
        return {NCHW: [as_is, moved], NHWC: [moved, as_is], NC4HW4: [moved]}[form]
    if rank == want - 1 == IMAGE - 1:
        # A conversion to NC4HW4 has moved the last axis to the second place, as it does for an image in a batch.
        height, width, channel = (0, 2, 1) if form is NC4HW4 else (0, 1, 2)
        return [Change((height, width, channel) if slot.last else (channel, height, width), True)]
    return []


def _fits(shape: Sequence[int], slot: Slot, exact: bool) -> bool:
    """Whether a shape is that of an input; sizes below 0 are not known."""
    wanted = slot.shape or ()
    if len(shape) != len(wanted):
        return False
    if exact or len(wanted) < 3:
        first = 0 if exact or len(wanted) == 1 else 1  # the number of rows may be another one
        return all(w < 0 or n in (w, -1) for w, n in zip(wanted[first:], shape[first:], strict=True))
    channels = shape[-1 if slot.last else 1]
    return slot.channels < 0 or channels in (slot.channels, -1)
