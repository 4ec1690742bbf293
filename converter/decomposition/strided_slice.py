"""Strided slices with masks, as TensorFlow and TFLite have them."""

from __future__ import annotations

import numpy as np

from minnow.converter.operand import constant, rank
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_BIG = np.iinfo(np.int32).max
_SMALL = -_BIG


def strided_slice(
    b: Builder,
    x: Value,
    begin: Value,
    end: Value,
    strides: Value,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    offset: bool = False,
) -> Value:
    """x[begin:end:strides], a position of the three vectors for each item of the index.

    Args:
        begin_mask, end_mask: bit i: the bound at position i does not count.
        ellipsis_mask: one bit: the position stands for all axes that no other one names.
        new_axis_mask: bits: the position adds an axis of size 1.
        shrink_axis_mask: bits: the position is an index, and its axis goes away.
        offset: `end` counts from `begin`.

    Raises:
        UnsupportedError: the strides are computed, or the number of positions is unknown.
    """
    steps = constant(strides, "the strides of a slice").astype(np.int64).reshape(-1)
    n = len(steps)
    for what, v in (("begin", begin), ("end", end)):
        if v.type.shape not in ((n,), None, ("?",)):
            raise ModelError(f"the {what} of a slice is {v.type}, but there are {n} strides")
    axes, kept, new, dropped = _positions(x, n, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    y = x
    if axes:
        y = _sliced(b, x, begin, end, steps, axes, kept, begin_mask, end_mask, shrink_axis_mask, offset)
    if dropped:
        y = b.Squeeze(y, axes=tuple(dropped))
    if new:
        y = b.Unsqueeze(y, axes=tuple(new))
    return y


def _positions(
    x: Value, n: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int
) -> tuple[list[int], list[int], list[int], list[int]]:
    """(axes of x, positions for them, new axes of the result, axes of x that go away)."""
    wide = [i for i in range(n) if ellipsis_mask >> i & 1]
    if len(wide) > 1:
        raise ModelError("a slice has more than one ellipsis")
    named = sum(not (new_axis_mask >> i & 1) and i not in wide for i in range(n))
    axes, kept, new, dropped = [], [], [], []
    axis = place = 0
    for i in range(n):
        if i in wide:
            skipped = rank(x, "the input of a slice with an ellipsis") - named
            if skipped < 0:
                raise ModelError(f"a slice has indices for {named} axes, but the operand is {x.type}")
            axis, place = axis + skipped, place + skipped
        elif new_axis_mask >> i & 1:
            new.append(place)
            place += 1
        else:
            axes.append(axis)
            kept.append(i)
            if shrink_axis_mask >> i & 1:
                dropped.append(axis)
            else:
                place += 1
            axis += 1
    if x.type.rank is not None and axis > x.type.rank:
        raise ModelError(f"a slice has indices for {axis} axes, but the operand is {x.type}")
    return axes, kept, new, dropped


def _sliced(
    b: Builder,
    x: Value,
    begin: Value,
    end: Value,
    steps: np.ndarray[tuple[int], np.dtype[np.int64]],
    axes: list[int],
    kept: list[int],
    begin_mask: int,
    end_mask: int,
    shrink_axis_mask: int,
    offset: bool,
) -> Value:
    step = steps[kept]
    index = np.array([bool(shrink_axis_mask >> i & 1) for i in kept])
    free_begin = np.array([bool(begin_mask >> i & 1) for i in kept]) & ~index
    free_end = np.array([bool(end_mask >> i & 1) for i in kept]) & ~index
    if np.any(step == 0):
        raise ModelError("a slice has a stride of 0")
    if np.any(index & (step < 0)):
        raise UnsupportedError("an index beside a negative stride is not supported in a slice")
    step = np.where(index, 1, step)
    first, last = np.where(step > 0, 0, _BIG), np.where(step > 0, _BIG, _SMALL)
    if begin.data is not None and end.data is not None:
        lo, hi = (constant(v).astype(np.int64).reshape(-1)[kept] for v in (begin, end))
        if offset:
            hi = hi + lo
        hi = np.where(index, np.where(lo == -1, _BIG, lo + 1), np.where(free_end, last, hi))
        lo = np.where(free_begin, first, lo)
        if np.array_equal(lo, first) and np.array_equal(hi, last) and np.all(step == 1):
            return x
        cut: Value = b.Slice(x, lo, hi, np.array(axes), step)
        return cut
    low, high = (b.Cast(v, to=DType.I64) if v.type.dtype is not DType.I64 else v for v in (begin, end))
    if kept != list(range(len(steps))):
        low, high = (b.Gather(v, np.array(kept)) for v in (low, high))
    if offset:
        high = b.Add(high, low)
    if index.any():
        after = b.Where(b.Equal(low, -1), b.const(np.array(_BIG)), b.Add(low, 1))
        high = after if index.all() else b.Where(b.const(index), after, high)
    if free_end.any():
        high = b.Where(b.const(free_end), b.const(last), high)
    if free_begin.any():
        low = b.Where(b.const(free_begin), b.const(first), low)
    made: Value = b.Slice(x, low, high, np.array(axes), step)
    return made
