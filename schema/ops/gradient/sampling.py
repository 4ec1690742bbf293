"""Derivatives of interpolation at places that are data."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType
from minnow.schema.ops import sampling


def _reflected(g, p, n, align_corners):
    low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
    if not span:
        return g.zeros(p)
    away = g.Abs(p - low)
    turns = g.Floor(away / span)
    rest = away - turns * span
    even = g.Equal(turns - g.Floor(turns * 0.5) * 2.0, g.zeros(turns))
    return g.Where(even, rest + low, (low + span) - rest)


def _weight(mode, part, k):
    """What the element `k` places from the base counts."""
    if mode == "linear":
        return 1.0 - part if k == 0 else part
    a = -0.75
    d = part - float(k) if k < 1 else float(k) - part
    if k in (0, 1):
        return (d * (a + 2) - (a + 3)) * d * d + 1.0
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a


@sampling.GridSample.gradient
def _(g, x, grid, *, mode, padding, align_corners):
    n, c, *sizes = x.shape
    out = grid.shape[1:-1]
    if 0 in x.shape or 0 in grid.shape:
        return g.zeros(x), g.zeros(grid)
    reach = {"nearest": range(1), "linear": range(2), "cubic": range(-1, 3)}[mode]

    def place(p, size):
        p = ((p + 1.0) * 0.5) * (size - 1.0) if align_corners else ((p + 1.0) * float(size) - 1.0) * 0.5
        if mode == "cubic" or padding == "zeros":
            return p
        if padding == "reflection":
            p = _reflected(g, p, size, align_corners)
        return g.Clip(p, min=0.0, max=size - 1.0)

    def computed(x, grid):
        last = len(sizes)
        flat = g.reshaped(g.Transpose(x, perm=(0, *range(2, last + 2), 1)), n, math.prod(sizes), c)
        parts = g.Split(g.reshaped(grid, n, math.prod(out), last), axis=-1, sizes=(1,) * last, n_outputs=last)
        places = [place(p, size) for p, size in zip(reversed(parts), sizes, strict=True)]
        bases = [g.Round(p) if mode == "nearest" else g.Floor(p) for p in places]
        rests = [p - b for p, b in zip(places, bases, strict=True)]
        total = None
        for offsets in product(reach, repeat=last):
            weight = index = inside = None
            for i, (k, size) in enumerate(zip(offsets, sizes, strict=True)):
                at = bases[i] + float(k)
                within = (at >= 0.0) & (at <= size - 1.0)
                inside = within if inside is None else inside & within
                at = _reflected(g, at, size, align_corners) if padding == "reflection" else at
                row = g.Cast(g.Clip(at, min=0.0, max=size - 1.0), to=DType.I64)
                index = row if index is None else index * g.term(np.int64(size)) + row
                if mode != "nearest":
                    w = _weight(mode, rests[i], k)
                    weight = w if weight is None else weight * w
            values = g.GatherND(flat, index, batch_dims=1)
            values = values if weight is None else values * weight
            values = g.Where(inside, values, 0.0) if padding == "zeros" else values
            total = values if total is None else total + values
        return g.Transpose(g.reshaped(total, n, *out, c), perm=(0, last + 1, *range(1, last + 1)))

    return g.through(computed, x, grid)


@sampling.RoiAlign.gradient
def _(g, x, rois, images, *, mode, output_height, output_width, sampling_ratio, spatial_scale, coordinate_mode):
    """By the images only. Each region is a product with a matrix of rows and one of columns."""
    if mode == "max":
        raise UnsupportedError("RoiAlign of the mode 'max' has no gradient")
    height, width = x.shape[2:]
    r = rois.shape[0]
    if not r:
        return g.zeros(x), None, None
    corners = g.Split(g.reshaped(rois, r, 1, 1, 4), axis=-1, sizes=(1,) * 4, n_outputs=4)
    shift = 0.5 if coordinate_mode == "half_pixel" else 0.0
    left, top, right, bottom = (v * spatial_scale - shift for v in corners)

    def matrix(first, last, n, size):
        """[R, n, size]: what each element counts in each bin."""
        length = last - first
        length = length if shift else g.Max(length, 1.0)
        bin = length * (1 / n)
        if sampling_ratio:
            samples, count = sampling_ratio, g.full(bin, float(sampling_ratio))
        else:
            count = g.Max(g.Ceil(bin), 1.0)
            numbers = rois.numbers("the regions, or sampling_ratio,")
            samples = int(np.ceil(np.ptp(numbers.reshape(-1, 2, 2), axis=1).max() * spatial_scale / n)) + 1
        k = g.term(np.arange(samples).reshape(1, 1, -1, 1), x)
        row = g.term(np.arange(n).reshape(1, -1, 1, 1), x)
        at = first + row * bin + (k + 0.5) * bin / count
        counts = (at >= -1.0) & (at <= float(size)) & (k < count)
        at = g.Clip(at, min=0.0, max=size - 1.0)
        near = g.Relu(1.0 - g.Abs(at - g.term(np.arange(size).reshape(1, 1, 1, -1), x)))
        return g.total(g.Where(counts, near, 0.0) / count, [2], keepdims=False)

    rows, columns = matrix(top, bottom, output_height, height), matrix(left, right, output_width, width)
    rows, columns = g.Unsqueeze(rows, axes=(1,)), g.Unsqueeze(columns, axes=(1,))
    piece = g.MatMul(g.MatMul(rows, g.dy, transpose_a=True), columns)
    return g.ScatterND(g.zeros(x), g.Unsqueeze(images, axes=(-1,)), piece, reduction="add"), None, None


@sampling.MaxRoiPool.gradient
def _(g, x, rois, *, height, width, scale):
    """By the images only: to the elements that are the largest of a bin, in equal parts."""
    r = rois.shape[0]
    if not r or 0 in x.shape:
        return g.zeros(x), None
    image, *corners = g.Split(g.reshaped(rois, r, 1, 5), axis=-1, sizes=(1,) * 5, n_outputs=5)
    left, top, right, bottom = (g.Round(g.Cast(v, to=DType.F32) * scale, halves="away") for v in corners)

    def within(first, last, n, size):
        """[R, n, size]: which elements belong to which bin."""
        step = g.Max(last - first + 1.0, 1.0) / float(n)
        i = g.term(np.arange(n, dtype=np.float32).reshape(1, -1, 1))
        at = g.term(np.arange(size, dtype=np.float32).reshape(1, 1, -1))
        return (at >= g.Floor(i * step) + first) & (at < g.Ceil((i + 1.0) * step) + first)

    rows, columns = within(top, bottom, height, x.shape[2]), within(left, right, width, x.shape[3])
    images = g.reshaped(g.Cast(image, to=DType.I64), r)
    own = g.Gather(x, images)
    piece = g.zeros(own)
    for i, j in product(range(height), range(width)):
        area = g.reshaped(_at(g, rows, i), r, 1, -1, 1) & g.reshaped(_at(g, columns, j), r, 1, 1, -1)
        y, dy = (g.Slice(v, g.ints(i, j), g.ints(i + 1, j + 1), g.ints(2, 3)) for v in (g.y, g.dy))
        taken = g.Cast(area & g.Equal(own, y), to=x.dtype)
        piece = piece + taken * (dy / g.Max(g.total(taken, [2, 3]), 1.0))
    return g.ScatterND(g.zeros(x), g.Unsqueeze(images, axes=(-1,)), piece, reduction="add"), None


def _at(g, v, i):
    return g.Gather(v, g.term(np.int64(i)), axis=1)
