"""Derivatives of ops that move elements, cut and join tensors: each moves the gradient back."""

from __future__ import annotations

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ops import create, movement, shape, slicing
from minnow.schema.registry.dimension import axis_of


@shape.Reshape.gradient
def _(g, x, wanted, *, allowzero):
    return g.like(g.dy, x), None


@shape.Flatten.gradient
def _(g, x, *, axis):
    return g.like(g.dy, x)


@shape.Squeeze.gradient
def _(g, x, at, *, axes):
    return g.like(g.dy, x), None


@shape.Unsqueeze.gradient
def _(g, x, at, *, axes):
    return g.like(g.dy, x), None


@shape.Expand.gradient
def _(g, x, wanted):
    if g.dy.value.type.is_static or g.dy.dims == x.dims:
        return g.dy, None  # the sum is taken later
    raise UnsupportedError("the gradient of Expand needs static shapes", hint="give the graph inputs static shapes")


@shape.ConvertLayout.gradient
def _(g, x, *, to):
    return g.ConvertLayout(g.dy, to=x.value.type.layout.upper())


def inverse(perm):
    """The permutation that goes back."""
    return tuple(int(i) for i in np.argsort(perm))


@movement.Transpose.gradient
def _(g, x, *, perm):
    return g.Transpose(g.dy, perm=inverse(perm))


@movement.Tile.gradient
def _(g, x, repeats):
    times = [int(n) for n in repeats.numbers("the repeats").reshape(-1)]
    if 0 in times:
        return g.zeros(x), None
    apart = [n for pair in zip(times, x.shape, strict=True) for n in pair]
    made = g.total(g.reshaped(g.dy, *apart), [2 * i for i, n in enumerate(times) if n > 1])
    return g.like(made, x), None


@movement.Reverse.gradient
def _(g, x, *, axes):
    return g.Reverse(g.dy, axes=axes)


@movement.ReverseSequence.gradient
def _(g, x, lens, *, batch_axis, time_axis):
    return g.ReverseSequence(g.dy, lens, batch_axis=batch_axis, time_axis=time_axis), None


@movement.DepthToSpace.gradient
def _(g, x, *, blocksize, mode):
    made = g.SpaceToDepth(g.dy, blocksize=blocksize)
    if mode == "DCR":
        return made
    n, c, h, w = x.shape
    b = blocksize
    apart = g.reshaped(made, n, b, b, c // (b * b), h, w)
    return g.like(g.Transpose(apart, perm=(0, 3, 1, 2, 4, 5)), x)


@movement.SpaceToDepth.gradient
def _(g, x, *, blocksize):
    return g.DepthToSpace(g.dy, blocksize=blocksize)


@movement.Trilu.gradient
def _(g, x, k, *, upper):
    return g.Trilu(g.dy, k, upper=upper), None


@slicing.Concat.gradient
def _(g, *xs, axis):
    at = axis_of(axis, xs[0].rank)
    sizes = tuple(x.dims[at] for x in xs)
    if not all(isinstance(n, int) for n in sizes):
        raise UnsupportedError("the gradient of Concat needs the sizes of the operands along its axis")
    return g.Split(g.dy, axis=axis, sizes=sizes, n_outputs=len(xs))


@slicing.Split.gradient
def _(g, x, parts, *, axis, sizes):
    pieces = [g.zeros(y) if dy is None else dy for y, dy in zip(g.ys, g.dys, strict=True)]
    return g.Concat(*pieces, axis=axis), None


@slicing.Slice.gradient
def _(g, x, starts, ends, axes, steps):
    """The gradient with zeros at the places that were left out."""
    rows = [v.numbers("the bounds of Slice") for v in (starts, ends)]
    extra = [None if v is None else v.numbers("axes and steps of Slice") for v in (axes, steps)]
    piece = g.dy
    pads = [0] * (2 * x.rank)
    for axis, start, end, step in zip(*slicing._slices(x.rank, *rows, *extra), strict=True):
        size = x.dims[axis]
        if not isinstance(size, int):
            if (start, step) == (0, 1) and end >= slicing.FAR:
                continue
            raise UnsupportedError("the gradient of Slice needs the sizes of the axes that it cuts")
        places = range(*slice(start, end, step).indices(size))
        if step < 0:
            piece, places = g.Reverse(piece, axes=(axis,)), places[::-1]
        first = places.start if len(places) else 0
        if (wide := abs(step)) > 1 and len(places) > 1:
            apart = [0] * (2 * x.rank + 2)
            apart[2 * axis + 3] = wide - 1
            dims = list(piece.shape)
            piece = g.Pad(g.Unsqueeze(piece, axes=(axis + 1,)), g.ints(*apart))
            dims[axis] *= wide
            piece = g.reshaped(piece, *dims)
        else:
            wide = 1
        pads[2 * axis : 2 * axis + 2] = [first, size - first - len(places) * wide]
    return g.Pad(piece, g.ints(*pads)) if any(pads) else piece, None, None, None, None


@slicing.Pad.gradient
def _(g, x, pads, value, *, mode):
    numbers = pads.numbers("the padding").reshape(-1, 2).astype(np.int64)
    if mode == "constant":
        by_x = g.Pad(g.dy, g.ints(*(-numbers).reshape(-1)))
        if value is None:
            return by_x, None, None
        inside = g.Pad(g.full(by_x, 1.0), g.ints(*numbers.reshape(-1)))
        by_value = g.total(g.Where(inside > 0.0, 0.0, g.dy), range(x.rank))
        return by_x, None, g.like(by_value, value)

    def taken(v):
        """The same by gathers along each axis."""
        for axis, ends in enumerate(numbers):
            if any(ends):
                (places,) = _places(x.shape[axis], ends, mode)
                v = g.Gather(v, g.ints(*places), axis=axis)
        return v

    return *g.through(taken, x), None, None


def _places(size, ends, mode):
    yield slicing.Pad.reference(np.arange(size), np.asarray(ends), mode=mode)


@create.Fill.gradient
def _(g, wanted, value):
    return None, g.like(g.total(g.dy, range(g.dy.rank)), value)


@create.Range.gradient
def _(g, start, limit, delta):
    steps = g.CumSum(g.full(g.dy, 1.0), g.term(np.int64(0)), exclusive=True)
    return g.like(g.total(g.dy, [0]), start), None, g.like(g.total(g.dy * steps, [0]), delta)


@create.OneHot.gradient
def _(g, indices, depth, values, *, axis):
    hot = g.OneHot(indices, depth, g.term(np.array([0, 1]), values), axis=axis)
    on = g.reshaped(g.total(g.dy * hot, range(g.dy.rank)), 1)
    every = g.reshaped(g.total(g.dy, range(g.dy.rank)), 1)
    return None, None, g.Concat(every - on, on, axis=0)


@create.EyeLike.gradient
def _(g, x, *, to, k):
    return None
