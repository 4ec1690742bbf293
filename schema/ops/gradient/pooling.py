"""Derivatives of pooling."""

from __future__ import annotations

import math

import numpy as np

from minnow.schema.ir import DType
from minnow.schema.ops import pooling, window
from minnow.schema.ops.gradient.convolution import transposed, within


@pooling.MaxPool.gradient
def _(g, x, **attrs):
    """To the element that was taken, the first one of equals."""
    kernel, pads = attrs["kernel"], attrs["pads"]
    apart = kernel == attrs["strides"] and not any(pads) and not attrs["auto_pad"] and not attrs["ceil_mode"]
    if len(g.ys) == 1 and apart and set(attrs["dilations"]) == {1} and 0 not in x.shape:
        return _first_of_equals(g, x, kernel)
    places = g.ys[1] if len(g.ys) > 1 else g.MaxPool(x, n_outputs=2, **attrs)[1]
    flat = g.Fill(g.ints(int(np.prod(x.shape))), g.term(0.0, x))
    # A window of nothing but padding names the place -1; its gradient goes nowhere.
    dy = g.Where(places >= g.term(np.int64(0)), g.dy, 0.0)
    places = g.Max(places, g.term(np.int64(0)))
    made = g.ScatterElements(flat, g.reshaped(places, -1), g.reshaped(dy, -1), axis=0, reduction="add")
    return g.like(made, x)


def _first_of_equals(g, x, kernel):
    """Where windows do not overlap: of the elements that are the largest, the one with the highest rank."""
    out = g.dy.shape[2:]
    sizes = [o * k for o, k in zip(out, kernel, strict=True)]
    axes = tuple(range(2, x.rank))
    seen = within(g, x, sizes)

    def repeated(v):
        attrs = {"axes": axes, "mode": "nearest", "coordinate_mode": "asymmetric", "nearest_mode": "floor"}
        return g.Resize(v, None, None, g.ints(*sizes), **attrs)

    ranks = np.arange(math.prod(kernel), 0, -1, dtype=np.float32).reshape(1, 1, *kernel)
    rank = g.Expand(g.term(np.tile(ranks, (1, 1, *out))), g.shape_of(seen))
    ranked = g.Cast(g.Equal(seen, repeated(g.y)), to=DType.F32) * rank
    best = g.MaxPool(ranked, kernel=kernel, strides=kernel, pads=(0,) * (2 * len(kernel)), dilations=(1,) * len(kernel))
    best = g.Max(best, 0.5)  # no rank, for windows of NaN
    made = g.Where(g.Equal(ranked, repeated(best)), repeated(g.dy), 0.0)
    ends = [0, 0, 0, 0, *(v for d, w in zip(x.shape[2:], sizes, strict=True) for v in (0, d - w))]
    return g.Pad(made, g.ints(*ends)) if any(ends) else made


def _back(g, dy, x, kernel, strides, ends, dilations):
    """dy of each window added to all elements under it."""
    span = window.spread(kernel, dilations)
    channels = x.shape[1]
    ones = g.term(np.ones((channels, 1, *kernel)), x)
    geometry = transposed(x.shape[2:], dy.shape[2:], span, strides, ends)
    return g.ConvTranspose(dy, ones, strides=strides, dilations=dilations, group=channels, **geometry)


def _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad):
    empty = np.zeros((0, 0, *x.shape[2:]))
    return pooling._geometry(empty, kernel, strides, pads, dilations, ceil_mode, auto_pad)


@pooling.AveragePool.gradient
def _(g, x, *, kernel, strides, pads, dilations, ceil_mode, count_include_pad, auto_pad):
    if 0 in x.shape:
        return g.zeros(x)
    kernel, out, ends, needed = _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad)
    ones = np.ones((1, 1, *x.shape[2:]))
    rest = needed
    if count_include_pad:
        ones = window.padded(ones, ends, 1)
        rest = [(0, n[1] - e[1]) for n, e in zip(needed, ends, strict=True)]
    parts = (part for _, part in window.taps(window.padded(ones, rest, 0), out, kernel, strides, dilations))
    count = sum(parts, np.zeros(()))
    share = g.dy * g.term(1 / count, x) if np.ptp(count) else g.dy * float(1 / count.flat[0])
    return _back(g, share, x, kernel, strides, needed, dilations)


@pooling.LpPool.gradient
def _(g, x, *, kernel, strides, pads, dilations, ceil_mode, p, auto_pad):
    if 0 in x.shape:
        return g.zeros(x)
    kernel, _, _, needed = _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad)
    spread = _back(g, lp_share(g, p), x, kernel, strides, needed, dilations)
    return spread * lp_slope(g, x, p)


def lp_share(g, p):
    """dy y^(1 - p), 0 where y is."""
    return g.dy if p == 1 else g.Where(g.y > 0.0, g.dy * g.Pow(g.y, float(1 - p)), 0.0)


def lp_slope(g, x, p):
    """The sign of x times |x|^(p - 1)."""
    return g.Sign(x) if p == 1 else x if p == 2 else g.Sign(x) * g.Pow(g.Abs(x), float(p - 1))


@pooling.GlobalAveragePool.gradient
def _(g, x):
    count = int(np.prod(x.shape[2:]))
    return g.dy * (1 / max(count, 1))


@pooling.GlobalMaxPool.gradient
def _(g, x):
    return shared(g, x, range(2, x.rank), g.dy, g.y)


def shared(g, x, axes, dy, y):
    """dy for the elements that are y, in equal parts where there are several."""
    taken = g.Cast(g.Equal(x, y), to=x.dtype)
    return taken * (dy / g.total(taken, axes))


@pooling.GlobalLpPool.gradient
def _(g, x, *, p):
    return lp_share(g, p) * lp_slope(g, x, p)
