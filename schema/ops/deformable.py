"""Convolution at places that are data."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import window
from minnow.schema.ops.convolution import Conv, conv_macs
from minnow.schema.ops.window import Array
from minnow.schema.registry.dimension import agree, product
from minnow.schema.registry.op import Arg, op

Float32 = Annotated[np.ndarray[Any, Any], frozenset({DType.F32})]


@op()
def DeformConv(
    x: Float32,
    w: Float32,
    offset: Float32,
    bias: Float32 | None = None,
    mask: Float32 | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int = 1,
    offset_group: int = 1,
):
    """`Conv` whose taps are moved: tap k of pixel p is the image at p * stride + k * dilation - pad + offset[k, p].

    x is [N, C, H, W], w [O, C / group, kh, kw], bias [O]. offset is [N, offset_group * kh * kw * 2, oh, ow], a row and
    a column for each tap, and each group of channels; mask [N, offset_group * kh * kw, oh, ow] are factors. Between
    elements the image is interpolated linearly, outside it is 0.
    """
    n, channels, height, width = x.shape
    o, per_group, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    at = [
        (np.arange(out) * s - b).astype(np.float32).reshape(shape) + (k * np.float32(d)).reshape(-1, 1, 1)
        for out, s, b, d, shape, k in zip(
            (oh, ow), strides, pads, dilations, ((-1, 1), (1, -1)), np.indices((kh, kw)).reshape(2, -1), strict=False
        )
    ]
    rows, columns = (a.astype(np.float32) + moves[:, :, :, i] for i, a in enumerate(at))
    images = x.reshape(n, offset_group, channels // offset_group, height, width).astype(np.float64)
    found = _interpolated(images, rows, columns)
    if mask is not None:
        found = found * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    depth = per_group * kh * kw
    found = found.reshape(n, group, depth, oh * ow)
    y = w.astype(np.float64).reshape(group, o // group, depth) @ found
    y = y.reshape(n, o, oh, ow)
    return (y if bias is None else y + bias.reshape(-1, 1, 1)).astype(x.dtype)


def _interpolated(images: Array, rows: Array, columns: Array) -> Array:
    """images[N, groups, C, H, W] at rows and columns [N, groups, ...]: [N, groups, C, ...]."""
    height, width = images.shape[-2:]
    out = np.zeros((*images.shape[:3], *rows.shape[2:]))
    inside = (rows > -1) & (columns > -1) & (rows < height) & (columns < width)
    rows, columns = np.where(inside, rows, 0), np.where(inside, columns, 0)
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    for n, g in np.ndindex(*images.shape[:2]):
        for dy, dx in np.ndindex(2, 2):
            r, c = top[n, g] + dy, left[n, g] + dx
            weight = (1 - np.abs(rows[n, g] - r)) * (1 - np.abs(columns[n, g] - c))
            known = inside[n, g] & (r >= 0) & (r < height) & (c >= 0) & (c < width)
            values = images[n, g][:, np.where(known, r, 0), np.where(known, c, 0)]
            out[n, g] += np.where(known, weight * values, 0)
    return out


@DeformConv.shape
def _(x: Arg, w: Arg, offset: Arg, bias: Arg | None, mask: Arg | None, **attrs: Any) -> TensorType:
    parts = attrs.pop("offset_group")
    if len(attrs["strides"]) != 2:
        raise ModelError(f"there are {len(attrs['strides'])} spatial axes", why="DeformConv has two")
    (y,) = Conv.infer([x, w, bias], attrs, 1)
    if parts < 1 or (x.shape is not None and isinstance(x.shape[1], int) and x.shape[1] % parts):
        raise ModelError(f"{parts} groups of offsets do not divide the channels of {x.type}")
    assert y.shape is not None
    for what, arg, each in (("offset", offset, 2), ("mask", mask, 1)):
        if arg is None or arg.shape is None:
            continue
        if len(arg.shape) != 4:
            raise ModelError(f"the {what} has rank {len(arg.shape)}, not 4")
        if w.shape is not None and isinstance(taps := product(w.shape[2:]), int):
            agree([arg.shape[1], parts * each * taps], f"channels of the {what}")
        dims = [agree([a, b], f"output and {what}") for a, b in zip((y.shape[0], *y.shape[2:]), (arg.shape[0], *arg.shape[2:]), strict=True)]  # fmt: skip  # noqa: E501
        y = y.with_shape((dims[0], y.shape[1], *dims[1:]))
        assert y.shape is not None
    return y


DeformConv.macs(conv_macs)


@DeformConv.samples
def _(rng):
    def case(x, w, bias=False, mask=False, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), parts=1, group=1):
        span = window.spread(w[2:], dilations)
        ends = window.resolve(x[2:], span, strides, pads, "")
        out = window.counts(x[2:], span, strides, ends)
        taps = parts * w[2] * w[3]
        offset = rng.uniform(-2.5, 2.5, (x[0], 2 * taps, *out)).astype(np.float32)
        operands = (x, w, offset, (w[0],) if bias else None, (x[0], taps, *out) if mask else None)
        attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group, "offset_group": parts}
        return operands[: 5 if mask else 4 if bias else 3], attrs

    yield case((1, 3, 7, 5), (4, 3, 3, 3))
    yield case((2, 4, 6, 7), (6, 2, 2, 3), True, True, (2, 1), (1, 0, 1, 2), (1, 2), 2, 2)
    yield case((1, 6, 9, 8), (9, 2, 3, 3), False, True, pads=(1, 1, 1, 1), parts=6, group=3)
    yield case((1, 1, 1, 1), (1, 1, 1, 1), True)
    yield case((1, 2, 1, 5), (3, 2, 1, 3), pads=(0, 1, 0, 1))
    yield case((1, 17, 11, 13), (5, 17, 3, 3), True, strides=(2, 2), pads=(1, 1, 1, 1))
    yield case((0, 2, 4, 4), (3, 2, 2, 2), True)
    operands, attrs = case((1, 1, 3, 3), (1, 1, 2, 2))
    whole = np.round(operands[2])  # exactly on elements, also those next to the border
    yield (*operands[:2], whole), attrs
