"""Regions: boxes of elements that are copied with fixed steps, of three dimensions. Any movement is a list of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]

_RANK = 3
_FAR = np.int64(1) << 40
"""Places of different operands are farther apart than this: no run goes from one to another."""


@dataclass
class _Boxes:
    """Boxes of one shape: where each begins, and the size and steps of each dimension, inner ones first."""

    source: Places
    target: Places
    sizes: list[int] = field(default_factory=list)
    source_steps: list[int] = field(default_factory=list)
    target_steps: list[int] = field(default_factory=list)


def regions_of(places: npt.NDArray[Any], starts: npt.NDArray[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The regions that fill a tensor.

    Args:
        places: for each element of the result its place among the elements of all operands; -1: none, it becomes 0.
        starts: the place of the first element of each operand, and behind them the number of all.

    Yields:
        The number of an operand, and a table of type Region, whose offsets and steps count elements.
    """
    filled = np.flatnonzero(places >= 0).astype(np.int64)
    source = places[filled].astype(np.int64)
    origin = np.searchsorted(starts, source, side="right") - 1
    # Operands without elements begin where the next one does: the last one of these is meant.
    apart = source - starts[origin] + origin * (2 * _FAR)
    boxes = [_Boxes(apart, filled)]
    for _ in range(_RANK):
        boxes = [part for box in boxes for part in _runs(box)]
    for box in boxes:
        for begin, target in zip(box.source.tolist(), box.target.tolist(), strict=True):
            which, offset = divmod(begin, int(2 * _FAR))
            region = {
                "src": {"offset": offset, "stride": box.source_steps[::-1]},
                "dst": {"offset": target, "stride": box.target_steps[::-1]},
                "size": box.sizes[::-1],
            }
            yield which, region


def _runs(boxes: _Boxes) -> Iterator[_Boxes]:
    """Joins boxes that follow each other with fixed steps; those of one length stay together."""
    count = boxes.source.size
    if count == 0:
        return
    ds, dt = np.diff(boxes.source), np.diff(boxes.target)
    lengths, heads = _lengths(ds, dt, count)
    source_steps = np.where(lengths > 1, np.append(ds, 0)[heads], 0)
    target_steps = np.where(lengths > 1, np.append(dt, 0)[heads], 0)
    alike = np.stack([lengths, source_steps, target_steps], axis=1)
    _, group = np.unique(alike, axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    change = np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1
    for part in np.split(order, change):
        first = part[0]
        at = heads[part]
        yield _Boxes(
            boxes.source[at],
            boxes.target[at],
            [*boxes.sizes, int(lengths[first])],
            [*boxes.source_steps, int(source_steps[first])],
            [*boxes.target_steps, int(target_steps[first])],
        )


def _lengths(ds: Places, dt: Places, count: int) -> tuple[Places, Places]:
    """The lengths of the runs of equal steps, and where they begin."""
    same = np.zeros(count, bool)  # the step behind an element is that behind the one before
    same[1:-1] = (ds[1:] == ds[:-1]) & (dt[1:] == dt[:-1])
    ends = np.flatnonzero(~same[1:]) + 1  # elements behind which a run of steps cannot go on
    far = np.append(np.abs(ds) >= _FAR, True)
    heads, lengths, at = [], [], 0
    while at < count:
        last = at if far[at] else int(ends[np.searchsorted(ends, at + 1)]) if at + 1 < count else at
        heads.append(at)
        lengths.append(last - at + 1)
        at = last + 1
    return np.asarray(lengths, np.int64), np.asarray(heads, np.int64)
