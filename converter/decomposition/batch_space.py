"""SpaceToBatch and BatchToSpace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.converter.operand import constant, dimensions, regroup
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _divided(b: Builder, size: int | Value, by: int) -> int | Value:
    if not isinstance(size, int):
        return size if by == 1 else b.Div(size, np.array([by]))
    if size % by:
        raise ModelError(f"blocks of {by} do not divide the dimension {size}")
    return size // by


def _times(b: Builder, size: int | Value, by: int) -> int | Value:
    return size * by if isinstance(size, int) else size if by == 1 else b.Mul(size, np.array([by]))


def _blocks(block: Value | Sequence[int]) -> list[int]:
    numbers = block if not isinstance(block, Value) else constant(block, "the shape of blocks").reshape(-1).tolist()
    sizes = [int(v) for v in numbers]
    if any(s < 1 for s in sizes):
        raise ModelError(f"the block sizes {sizes} must be positive")
    return sizes


def space_to_batch(b: Builder, x: Value, block: Value | Sequence[int], paddings: Value, fill: object = None) -> Value:
    """The elements at each place of blocks of the axes from 1 on, as images of the batch.

    Args:
        block: constant dimensions of the blocks.
        paddings: [axes, 2], added to the axes in front.
        fill: what is added; default 0.
    """
    sizes = _blocks(block)
    m = len(sizes)
    x = _padded(b, x, paddings, m, fill)
    n, *rest = dimensions(b, x, "the input of SpaceToBatch")
    grid = [_divided(b, d, s) for d, s in zip(rest[:m], sizes, strict=True)]
    split = [n, *(p for pair in zip(grid, sizes, strict=True) for p in pair), *rest[m:]]
    perm = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, len(split)))
    y = b.Transpose(regroup(b, x, split), perm=perm)
    return regroup(b, y, [_times(b, n, int(np.prod(sizes))), *grid, *rest[m:]])


def _padded(b: Builder, x: Value, paddings: Value, m: int, fill: object) -> Value:
    after = (x.type.rank or m + 1) - m - 1
    if paddings.data is not None:
        pads = constant(paddings).astype(np.int64).reshape(-1, 2)
        if len(pads) != m or after < 0:
            raise ModelError(f"{len(pads)} paddings do not fit {m} spatial axes of {x.type}")
        if not pads.any():
            return x
        ends: object = np.concatenate([[0, 0], pads.reshape(-1), [0, 0] * after]).astype(np.int64)
    else:
        flat = b.Reshape(b.Cast(paddings, to=DType.I64), np.array([-1]))
        ends = b.Concat(np.zeros(2, np.int64), flat, np.zeros(2 * after, np.int64), axis=0)
    made: Value = b.Pad(x, ends, None if fill is None else np.asarray(fill, x.type.dtype.numpy))
    return made


def batch_to_space(b: Builder, x: Value, block: Value | Sequence[int], crops: Value) -> Value:
    """Undoes `space_to_batch`: images of the batch become places in blocks; `crops`[axes, 2] is cut off."""
    sizes = _blocks(block)
    m, count = len(sizes), int(np.prod(sizes))
    n, *rest = dimensions(b, x, "the input of BatchToSpace")
    inner = _divided(b, n, count)
    y = regroup(b, x, [*sizes, inner, *rest])
    perm = [m, *(a for i in range(m) for a in (m + 1 + i, i)), *range(2 * m + 1, m + 1 + len(rest))]
    y = b.Transpose(y, perm=tuple(perm))
    full = [_times(b, d, s) for d, s in zip(rest[:m], sizes, strict=True)]
    y = regroup(b, y, [inner, *full, *rest[m:]])
    axes = np.arange(1, m + 1)
    if crops.data is not None:
        cut = constant(crops).astype(np.int64).reshape(-1, 2)
        if len(cut) != m or np.any(cut < 0):
            raise ModelError(f"the crops {cut.tolist()} do not fit {m} spatial axes")
        if not cut.any():
            return y
        big = np.iinfo(np.int32).max
        inner_part: Value = b.Slice(y, cut[:, 0], np.where(cut[:, 1] > 0, -cut[:, 1], big), axes)
        return inner_part
    wide = b.Cast(crops, to=DType.I64)
    begins, ends = (b.Reshape(b.Gather(wide, np.array([k]), axis=1), np.array([-1])) for k in (0, 1))
    made: Value = b.Slice(y, begins, b.Sub(b.Shape(y, start=1, end=m + 1), ends), axes)
    return made
