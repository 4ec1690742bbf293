"""Derivatives of convolutions: they are convolutions, transposed convolutions and matrix products."""

from __future__ import annotations

import math

import numpy as np

from minnow.schema.ops import convolution, window
from minnow.schema.ops.col2im import Col2Im
from minnow.schema.ops.gradient.epilogue import finished


def transposed(sizes, out, span, strides, ends):
    """pads and output_padding of the ConvTranspose that goes back from windows to inputs of these sizes.

    `ends` is the padding of the windows; what they do not reach at the end gets zeros, what is beyond it is cut off.
    """
    rows = list(zip(sizes, out, span, strides, ends, strict=True))
    rest = [size + begin - (n - 1) * s - k for size, n, k, s, (begin, _) in rows]
    pads = (*(b for b, _ in ends), *(max(-r, 0) for r in rest))
    return {"pads": pads, "output_padding": tuple(max(r, 0) for r in rest)}


def per_channel(g, x):
    """Sums over all axes but 1."""
    return g.total(x, [i for i in range(x.rank) if i != 1], keepdims=False)


@convolution.Conv.gradient
def _(g, x, w, bias, residual, *, strides, pads, dilations, group, activation, alpha, beta, auto_pad):
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group, "auto_pad": auto_pad}
    dz = finished(g, activation, alpha, beta, lambda: g.Conv(x, w, bias, residual, **attrs))
    sizes, kernel, out = x.shape[2:], w.shape[2:], dz.shape[2:]
    span = window.spread(kernel, dilations)
    ends = window.resolve(sizes, span, strides, pads, auto_pad)
    w32 = g.Cast(w, to=x.dtype) if w.dtype is not x.dtype else w
    by_x = None
    back = [(k - 1 - b, k - 1 - e) for k, (b, e) in zip(span, ends, strict=True)]
    if 0 not in (*out, *x.shape) and set(strides) == {1} and min(min(pair) for pair in back) >= 0:
        # Without strides a convolution goes back, too, and has more ways to be fast.
        pads = (*(b for b, _ in back), *(e for _, e in back))
        by_x = g.Conv(dz, turned(g, w32, group), strides=strides, dilations=dilations, group=group, pads=pads)
    elif 0 not in out:
        geometry = transposed(sizes, out, span, strides, ends)
        by_x = g.ConvTranspose(dz, w32, strides=strides, dilations=dilations, group=group, **geometry)
    by_w = by_kernel(g, x, dz, w.shape, strides, ends, dilations, group)
    by_w = g.Cast(by_w, to=w.dtype) if w.dtype is not x.dtype else by_w
    by_bias = None if bias is None else per_channel(g, dz)
    return by_x, by_w, by_bias if bias is None or bias.dtype is x.dtype else g.Cast(by_bias, to=bias.dtype), dz


def turned(g, w, group):
    """Weights[O, C / group, kernel...] as those that go back, [C, O / group, kernel...], the kernel turned round."""
    o, per_group, *kernel = w.shape
    if per_group > 1 or o > group:
        apart = g.reshaped(w, group, o // group, per_group, *kernel)
        w = g.Transpose(apart, perm=(0, 2, 1, *range(3, 3 + len(kernel))))
        w = g.reshaped(w, group * per_group, o // group, *kernel)
    axes = tuple(2 + i for i, k in enumerate(kernel) if k > 1)
    return g.Reverse(w, axes=axes) if axes else w


def by_kernel(g, x, dy, shape, strides, ends, dilations, group):
    """The gradient of weights of that shape[O, C / group, kernel...], for inputs x and the gradient of outputs dy.

    It is a convolution, too: batch and channels change places, dy is its kernel, and strides and dilations change
    places as well. Where the kernel has one element, it is a matrix product.
    """
    n, c = x.shape[:2]
    o, per_group, *kernel = shape
    out = dy.shape[2:]
    if 0 in shape or 0 in x.shape or not math.prod(out):
        return g.Fill(g.ints(*shape), g.term(0.0, x))
    attrs = {"strides": dilations, "dilations": strides, "pads": (*(b for b, _ in ends), *(e for _, e in ends))}
    if set(kernel) | set(strides) == {1} and not any(b or e for b, e in ends):
        columns = n * math.prod(out)
        rows = g.reshaped(channels_first(g, dy), group, o // group, columns)
        seen = g.reshaped(channels_first(g, x), group, per_group, columns)
        return g.reshaped(g.MatMul(rows, seen, transpose_b=True), *shape)
    if o == c == group:
        # Depthwise: each image and channel by itself, then the sum over the images.
        planes, taps = g.reshaped(x, 1, n * c, *x.shape[2:]), g.reshaped(dy, n * c, 1, *out)
        each = within(g, g.Conv(planes, taps, group=n * c, **attrs), kernel)
        return g.reshaped(g.total(g.reshaped(each, n, c, *kernel), [0]), *shape)
    apart = g.Transpose(g.reshaped(x, n, group, per_group, *x.shape[2:]), perm=(2, 1, 0, *range(3, x.rank + 1)))
    images = g.reshaped(apart, per_group, group * n, *x.shape[2:])
    return channels_first(g, within(g, g.Conv(images, channels_first(g, dy), group=group, **attrs), kernel))


def within(g, x, sizes):
    """x[N, C, ...] cut off behind the first `sizes` elements of each further axis."""
    if x.shape[2:] == tuple(sizes):
        return x
    axes = range(2, x.rank)
    return g.Slice(x, g.ints(*(0 for _ in axes)), g.ints(*sizes), g.ints(*axes), g.ints(*(1 for _ in axes)))


def channels_first(g, x):
    """[N, C, ...] as [C, N, ...]."""
    return g.Transpose(x, perm=(1, 0, *range(2, x.rank)))


def tap_parts(g, x, out, kernel, strides, dilations):
    """For each place of the kernel the elements of a padded input that it meets, [N, C, *out]."""
    axes = g.ints(*range(2, x.rank))
    for k in np.ndindex(*kernel):
        starts = [i * d for i, d in zip(k, dilations, strict=True)]
        stops = [b + (n - 1) * s + 1 for b, n, s in zip(starts, out, strides, strict=True)]
        yield k, g.Slice(x, g.ints(*starts), g.ints(*stops), axes, g.ints(*strides))


@convolution.ConvTranspose.gradient
def _(g, x, w, bias, residual, *, strides, pads, dilations, output_padding, group, activation, alpha, beta):
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": output_padding}
    dz = finished(g, activation, alpha, beta, lambda: g.ConvTranspose(x, w, bias, residual, group=group, **attrs))
    half = len(strides)
    sizes, kernel = x.shape[2:], w.shape[2:]
    span = window.spread(kernel, dilations)
    # Windows over the result, one for each element of x; what output_padding has added is under none.
    ends = [
        (b, (n - 1) * s + k - b - d)
        for n, s, k, b, d in zip(sizes, strides, span, pads[:half], dz.shape[2:], strict=True)
    ]
    cut = [0, 0, 0, 0, *(min(e, 0) if i else 0 for _, e in ends for i in (0, 1))]
    within = g.Pad(dz, g.ints(*cut)) if any(cut) else dz
    ends = [(b, max(e, 0)) for b, e in ends]
    w32 = g.Cast(w, to=x.dtype) if w.dtype is not x.dtype else w
    by_x = by_w = None
    if 0 not in sizes:
        outer = (*(b for b, _ in ends), *(e for _, e in ends))
        # w[C, O / group, k] is what a Conv from O to C channels takes, group by group.
        by_x = g.Conv(within, w32, strides=strides, pads=outer, dilations=dilations, group=group)
        by_w = by_kernel(g, within, x, w.shape, strides, ends, dilations, group)
        by_w = g.Cast(by_w, to=w.dtype) if w.dtype is not x.dtype else by_w
    by_bias = None if bias is None else per_channel(g, dz)
    return by_x, by_w, by_bias if bias is None or bias.dtype is x.dtype else g.Cast(by_bias, to=bias.dtype), dz


@Col2Im.gradient
def _(g, x, image, block, *, strides, pads, dilations):
    kernel = [int(v) for v in block.numbers("the shape of the blocks").reshape(-1)]
    half = len(kernel)
    padding = [0, 0, 0, 0, *(v for pair in zip(pads[:half], pads[half:], strict=True) for v in pair)]
    wide = g.Pad(g.dy, g.ints(*padding))
    n, planes, length = x.shape
    counts = window.counts(wide.shape[2:], window.spread(kernel, dilations), strides, ((0, 0),) * half)
    channels = planes // math.prod(kernel)
    parts = [g.reshaped(p, n, channels, 1, length) for _, p in tap_parts(g, wide, counts, kernel, strides, dilations)]
    return g.reshaped(g.Concat(*parts, axis=2), n, planes, length), None, None
