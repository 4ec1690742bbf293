"""Affine sampling grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def affine_grid(
    b: Builder, theta: Value, batch: Value, dimensions: Sequence[Value], align_corners: bool, single: float = -1.0
) -> Any:
    """Where each output position lies in the input, as `GridSample` takes it: theta @ (x, y, ..., 1).

    Args:
        theta: [N, axes, axes + 1].
        batch: how many grids, int64[1].
        dimensions: of the space, int64 scalars.
        align_corners: the outermost positions lie at -1 and 1, and not half a step inside of them.
        single: where with `align_corners` the only position along an axis lies.
    """
    n = len(dimensions)
    along = [_coordinates(b, dimension, theta, align_corners, single) for dimension in dimensions]
    space = b.Concat(*(b.Reshape(e, np.array([1])) for e in dimensions), axis=0)
    # The last axis of a grid holds x first, which is the last axis of space.
    columns = [_spread(b, c, axis, n, space) for axis, c in reversed(list(enumerate(along)))]
    ones = b.Fill(b.Concat(space, np.ones(1, np.int64), axis=0), np.ones((), theta.type.dtype.numpy))
    points = b.Reshape(b.Concat(*columns, ones, axis=-1), np.array([-1, n + 1]))
    grid = b.MatMul(points, b.Transpose(theta, perm=(0, 2, 1)))
    return b.Reshape(grid, b.Concat(batch, space, np.array([n]), axis=0))


def _coordinates(b: Builder, dimension: Value, like: Value, align_corners: bool, single: float) -> Any:
    """-1 to 1: the outermost ones are corners, or half a step inside of them."""
    steps = b.Cast(b.Range(np.array(0, np.int64), dimension, np.array(1, np.int64)), to=like.type.dtype)
    count = b.Cast(dimension, to=like.type.dtype)
    if not align_corners:
        return b.Sub(b.Div(b.Add(b.Mul(steps, 2.0), 1.0), count), 1.0)
    places = b.Sub(b.Div(b.Mul(steps, 2.0), b.Max(b.Sub(count, 1.0), 1.0)), 1.0)
    return places if single == -1.0 else b.Where(b.Equal(dimension, 1), b.Add(places, single + 1.0), places)


def _spread(b: Builder, along: Value, axis: int, n: int, space: Value) -> Any:
    column = b.Unsqueeze(along, axes=tuple(i for i in range(n) if i != axis))
    return b.Unsqueeze(b.Expand(column, space), axes=(-1,))
