"""Crops, projections and patches of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import same_pads
from minnow.converter.operand import bounded, ints, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast, wide
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_MAX_NODES = 2048
"""Of windows and images that are written out one by one."""


@tf.op("CropAndResize")
def _(b, image, boxes, owners, size, *, method="bilinear", extrapolation_value=0.0):
    out = ints(size, "the size of crops")
    bounded(out[0] * out[1], "a crop")
    image = cast(b, image, DType.F32)
    height, width = (b.Shape(image, start=i, end=i + 1) for i in (1, 2))
    corners = b.Split(boxes, axis=1, sizes=(1, 1, 1, 1), n_outputs=4)
    places, inside = [], []
    for i, dimension in enumerate((height, width)):
        last = b.Cast(b.Sub(dimension, 1), to=DType.F32)
        first, second = corners[i], corners[i + 2]
        if out[i] > 1:
            step = b.Div(b.Mul(b.Sub(second, first), last), float(out[i] - 1))
            place = b.Add(b.Mul(first, last), b.Mul(step, np.arange(out[i], dtype=np.float32)[None]))
        else:
            place = b.Mul(b.Mul(b.Add(first, second), 0.5), last)
        inside.append(b.And(b.GreaterOrEqual(place, 0.0), b.LessOrEqual(place, last)))
        places.append(b.Min(b.Max(place, 0.0), last))
    y, x = b.Unsqueeze(places[0], axes=(2,)), b.Unsqueeze(places[1], axes=(1,))
    flat = b.Reshape(image, b.Concat(np.array([-1]), b.Shape(image, start=3), axis=0))
    base = b.Mul(b.Reshape(wide(b, owners), np.array([-1, 1, 1])), height)

    def taken(row: Value, column: Value) -> Any:
        at = b.Add(b.Mul(b.Add(base, b.Cast(row, to=DType.I64)), width), b.Cast(column, to=DType.I64))
        return b.Gather(flat, at)

    if method == "nearest":
        found = taken(b.Floor(b.Add(y, 0.5)), b.Floor(b.Add(x, 0.5)))
    else:
        top, left = b.Floor(y), b.Floor(x)
        dy, dx = (b.Unsqueeze(b.Sub(v, f), axes=(3,)) for v, f in ((y, top), (x, left)))
        rows = []
        for row in (top, b.Ceil(y)):
            near, far = taken(row, left), taken(row, b.Ceil(x))
            rows.append(b.Add(near, b.Mul(b.Sub(far, near), dx)))
        found = b.Add(rows[0], b.Mul(b.Sub(rows[1], rows[0]), dy))
    valid = b.And(b.Unsqueeze(inside[0], axes=(2, 3)), b.Unsqueeze(inside[1], axes=(1, 3)))
    return b.Where(valid, found, b.const(np.array(extrapolation_value, np.float32)))


@tf.op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _(b, image, transforms, size, fill=None, *, interpolation, fill_mode="CONSTANT"):
    if fill_mode not in ("CONSTANT", "NEAREST"):
        raise UnsupportedError(f"ImageProjectiveTransform with fill_mode {fill_mode} is not supported")
    out = ints(size, "the size of a projection")
    bounded(out[0] * out[1], "a projection")
    height, width = (b.Shape(image, start=i, end=i + 1) for i in (1, 2))
    # One row of coefficients (a0 a1 a2 b0 b1 b2 c0 c1) for each image, or for all of them.
    c = [b.Reshape(b.Gather(transforms, np.array(i), axis=1), np.array([-1, 1, 1])) for i in range(8)]
    x, y = np.arange(out[1], dtype=np.float32)[None, None], np.arange(out[0], dtype=np.float32)[None, :, None]

    def line(i: int, last: Any) -> Any:
        return b.Add(b.Add(b.Mul(c[i], x), b.Mul(c[i + 1], y)), last)

    depth = line(6, 1.0)
    places = [b.Div(line(i, c[i + 2]), depth) for i in (3, 0)]  # rows, columns
    lasts = [b.Cast(b.Sub(v, 1), to=DType.F32) for v in (height, width)]
    numbers = cast(b, image, DType.F32)
    flat = b.Reshape(numbers, b.Concat(np.array([-1]), b.Shape(numbers, start=3), axis=0))
    owner = b.Range(np.array(0), b.Squeeze(b.Shape(image, start=0, end=1), axes=(0,)), np.array(1))
    base = b.Mul(b.Reshape(owner, np.array([-1, 1, 1])), height)
    outside = b.const(np.zeros((), np.float32)) if fill is None else fill

    def taken(row: Value, column: Value) -> Any:
        inner = [b.Min(b.Max(v, 0.0), last) for v, last in zip((row, column), lasts, strict=True)]
        at = b.Add(b.Mul(b.Add(base, b.Cast(inner[0], to=DType.I64)), width), b.Cast(inner[1], to=DType.I64))
        found = b.Gather(flat, at)
        if fill_mode == "NEAREST":
            return found
        same = [b.Equal(v, i) for v, i in zip((row, column), inner, strict=True)]
        return b.Where(b.Unsqueeze(b.And(*same), axes=(3,)), found, outside)

    if fill_mode == "NEAREST":
        places = [b.Min(b.Max(v, 0.0), last) for v, last in zip(places, lasts, strict=True)]
    if interpolation == "NEAREST":
        y = taken(*(b.Round(v, halves="away") for v in places))
    else:
        top, left = (b.Floor(v) for v in places)
        dy, dx = (b.Unsqueeze(b.Sub(v, f), axes=(3,)) for v, f in zip(places, (top, left), strict=True))
        rows = []
        for row in (top, b.Add(top, 1.0)):
            near, far = taken(row, left), taken(row, b.Add(left, 1.0))
            rows.append(b.Add(b.Mul(near, b.Add(b.Neg(dx), 1.0)), b.Mul(far, dx)))
        y = b.Add(b.Mul(rows[0], b.Add(b.Neg(dy), 1.0)), b.Mul(rows[1], dy))
    return cast(b, y, image.type.dtype)


def few(count: int, what: str) -> int:
    """A number of nodes that are made one by one."""
    if not 0 < count <= _MAX_NODES:
        raise UnsupportedError(f"{what} of {count} elements is not supported")
    return count


def _patches(b: Builder, x: Value, kernel: Any, strides: Any, rates: Any, padding: str) -> Any:
    """The elements of each window over the axes between the first and the last one, one after another."""
    n = len(kernel)
    few(int(np.prod(kernel)), "a window")
    sizes = [static_dim(x.type, i + 1, "an image in patches") for i in range(n)]
    pads = same_pads(sizes, kernel, strides, rates) if padding == "SAME" else (0,) * 2 * n
    if any(pads):
        x = b.Pad(x, np.array([0, 0, *(p for pair in zip(pads[:n], pads[n:], strict=True) for p in pair), 0, 0]))
    spans = [(s + pads[i] + pads[n + i] - (kernel[i] - 1) * rates[i] - 1) // strides[i] * strides[i] + 1
             for i, s in enumerate(sizes)]  # fmt: skip
    parts = []
    for tap in np.ndindex(*kernel):
        start = np.array(tap) * np.array(rates)
        parts.append(b.Slice(x, start, start + np.array(spans), np.arange(1, n + 1), np.array(strides)))
    return b.Concat(*parts, axis=n + 1) if len(parts) > 1 else parts[0]


@tf.op("ExtractImagePatches")
def _(b, x, *, ksizes, strides, rates, padding):
    return _patches(b, x, ksizes[1:-1], strides[1:-1], rates[1:-1], padding)


@tf.op("ExtractVolumePatches")
def _(b, x, *, ksizes, strides, padding):
    return _patches(b, x, ksizes[1:-1], strides[1:-1], (1, 1, 1), padding)
