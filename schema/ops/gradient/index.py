"""Derivatives of reading and writing by index: reads become additions, writes become reads."""

from __future__ import annotations

import numpy as np

from minnow.schema.ops import index, select
from minnow.schema.registry.dimension import axis_of


def _added(g, x, indices, dy, axis):
    """Zeros like x, with dy added to the slices along an axis that the indices name."""
    at = axis_of(axis, x.rank)
    count = indices.rank
    perm = (at, *(a for a in range(x.rank) if a != at))
    # The axes of the indices come first, then those of x without its axis.
    turned = (*range(at, at + count), *range(at), *range(at + count, dy.rank))
    rows = g.Transpose(dy, perm=turned) if at else dy
    zeros = g.zeros(g.Transpose(x, perm=perm) if at else x)
    made = g.ScatterND(zeros, g.Unsqueeze(indices, axes=(-1,)), rows, reduction="add")
    return g.Transpose(made, perm=tuple(int(i) for i in np.argsort(perm))) if at else made


@index.Gather.gradient
def _(g, x, indices, *, axis):
    return _added(g, x, indices, g.dy, axis), None


@select.Compress.gradient
def _(g, x, cond, *, axis):
    places = g.reshaped(g.NonZero(cond), -1)
    if axis is None:
        flat = g.reshaped(x, -1)
        return g.like(_added(g, flat, places, g.dy, 0), x), None
    return _added(g, x, places, g.dy, axis), None


@index.GatherElements.gradient
def _(g, x, indices, *, axis):
    return g.ScatterElements(g.zeros(x), indices, g.dy, axis=axis, reduction="add"), None


@index.GatherND.gradient
def _(g, x, indices, *, batch_dims):
    if batch_dims:
        # Indices that name the batch, too.
        rows = indices.shape[:-1]
        own = np.moveaxis(np.indices(rows)[:batch_dims], 0, -1)
        indices = g.Concat(g.Cast(g.term(own), to=indices.dtype), indices, axis=-1)
    return g.ScatterND(g.zeros(x), indices, g.dy, reduction="add"), None


def _written(g, x, updates, reduction, read, write):
    """The gradients of a scatter, with functions that read and write at its places."""
    dy, y = g.dy, g.y
    if reduction == "none":
        return write(dy, g.zeros(updates), "none"), read(dy)
    if reduction == "add":
        return dy, read(dy)
    if reduction == "mul":
        factors = write(g.full(x, 1.0), updates, "mul")
        return dy * factors, read(dy * y) / updates
    # Those that are the result share its gradient.
    own = g.Cast(g.Equal(x, y), to=x.dtype)
    theirs = g.Cast(g.Equal(updates, read(y)), to=x.dtype)
    share = dy / write(own, theirs, "add")
    return own * share, theirs * read(share)


@index.ScatterElements.gradient
def _(g, x, indices, updates, *, axis, reduction):
    by_x, by_updates = _written(
        g, x, updates, reduction,
        lambda v: g.GatherElements(v, indices, axis=axis),
        lambda v, u, how: g.ScatterElements(v, indices, u, axis=axis, reduction=how),
    )  # fmt: skip
    return by_x, None, by_updates


@index.ScatterND.gradient
def _(g, x, indices, updates, *, reduction):
    by_x, by_updates = _written(
        g, x, updates, reduction,
        lambda v: g.GatherND(v, indices),
        lambda v, u, how: g.ScatterND(v, indices, u, reduction=how),
    )  # fmt: skip
    return by_x, None, by_updates
