"""Sampling grids."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.operand import static_dim
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@onnx.op("AffineGrid")
def _(b, theta, size, *, align_corners=0):
    """Where each output position lies in the input: theta @ (x, y, ..., 1).

    The body of the standard squeezes the batch away where it is 1, so the grid is built here.
    """
    if theta.type.rank == 3 and isinstance(theta.type.shape[1], int):
        n = theta.type.shape[1]
    else:
        n = static_dim(size.type, 0, "the size of AffineGrid") - 2
    extents = [b.Gather(size, np.array(2 + i, np.int64)) for i in range(n)]
    along = [_coordinates(b, extent, theta, bool(align_corners)) for extent in extents]
    space = b.Slice(size, np.array([2]), np.array([2 + n]))
    # The last axis of a grid holds x first, which is the last axis of space.
    columns = [_spread(b, c, axis, n, space) for axis, c in reversed(list(enumerate(along)))]
    ones = b.Fill(b.Concat(space, np.ones(1, np.int64), axis=0), np.ones((), theta.type.dtype.numpy))
    points = b.Reshape(b.Concat(*columns, ones, axis=-1), np.array([-1, n + 1]))
    grid = b.MatMul(points, b.Transpose(theta, perm=(0, 2, 1)))
    batch = b.Slice(size, np.array([0]), np.array([1]))
    return b.Reshape(grid, b.Concat(batch, space, np.array([n]), axis=0))


def _coordinates(b: Builder, extent: Value, like: Value, align_corners: bool) -> Value:
    """-1 to 1: the outermost ones are corners, or half a step inside of them."""
    steps = b.Cast(b.Range(np.array(0, np.int64), extent, np.array(1, np.int64)), to=like.type.dtype)
    count = b.Cast(extent, to=like.type.dtype)
    if align_corners:
        # A single position lies at -1.
        return b.Sub(b.Div(b.Mul(steps, 2.0), b.Max(b.Sub(count, 1.0), 1.0)), 1.0)
    return b.Sub(b.Div(b.Add(b.Mul(steps, 2.0), 1.0), count), 1.0)


def _spread(b: Builder, along: Value, axis: int, n: int, space: Value) -> Any:
    column = b.Unsqueeze(along, axes=tuple(i for i in range(n) if i != axis))
    return b.Unsqueeze(b.Expand(column, space), axes=(-1,))
