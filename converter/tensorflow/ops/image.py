"""Resampling of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, channels_second
from minnow.converter.decomposition.image import resize_bicubic, resize_bilinear, resize_nearest
from minnow.converter.operand import bounded, constant, ints, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@tf.op("ResizeBilinear")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    image = cast(b, x, DType.F32)
    return resize_bilinear(b, image, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


@tf.op("ResizeBicubic")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    image = cast(b, x, DType.F32)
    sizes = (x.type.shape or ())[1:3]
    if not size.is_const or len(sizes) != 2 or not all(isinstance(d, int) for d in sizes):
        return resize_bicubic(b, image, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    parts = _wanted(size, sizes)
    return weighted(b, image, *(_bicubic(n, out, align_corners, half_pixel_centers) for n, out in parts))


def _bicubic(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Weights as TensorFlow has them: of places rounded to 1 / 1024 of the distance of two elements."""
    f32, steps = np.float32, 1024
    a = -0.5 if half_pixel_centers else -0.75
    scale = f32(size - 1) / f32(out - 1) if align_corners and out > 1 else f32(size) / f32(out)
    i = np.arange(out, dtype=f32)
    places = (i + f32(0.5)) * scale - f32(0.5) if half_pixel_centers else i * scale
    base = np.floor(places)
    delta = np.rint((places - base) * f32(steps)) / steps
    near, far = (a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a)
    weights = np.stack([np.polyval(far, 1 + delta), np.polyval(near, delta), np.polyval(near, 1 - delta),
                        np.polyval(far, 2 - delta)], 1)  # fmt: skip
    at = base.astype(np.int64)[:, None] + np.arange(-1, 3)
    if half_pixel_centers:
        weights = np.where((at < 0) | (at >= size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((out, size))
    np.add.at(matrix, (np.arange(out)[:, None], np.clip(at, 0, size - 1)), weights)
    return matrix


@tf.op("ResizeNearestNeighbor")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    return resize_nearest(b, x, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


def _wanted(size: Value, sizes: Sequence[Any]) -> list[tuple[int, int]]:
    """Old and new dimensions of rows and columns. Raises ModelError for none, and for more than there can be."""
    wanted = ints(size, "the size")
    if len(wanted) != 2 or min(wanted) < 1 or any(not isinstance(d, int) or d < 1 for d in sizes):
        raise ModelError(f"an image of the size {list(sizes)} cannot be resized to {list(wanted)}")
    for old, new in zip(sizes, wanted, strict=True):
        bounded(4 * int(old) * new, "the matrix of a resampling")
    return [(int(old), new) for old, new in zip(sizes, wanted, strict=True)]


def weighted(b: Builder, x: Value, rows: Array, columns: Array) -> Value:
    """x[N, H, W, C] with its rows and columns mixed by matrices [out, in]."""
    image = channels_second(b, cast(b, x, DType.F32), 2)
    wider = b.MatMul(image, np.ascontiguousarray(columns.T.astype(np.float32)))
    return channels_last(b, b.MatMul(rows.astype(np.float32), wider), 2)


def _area(size: int, out: int, align_corners: bool) -> Array:
    """How much of each element lies under each element of the result."""
    f32 = np.float32
    scale = f32(size - 1) / f32(out - 1) if align_corners and out > 1 else f32(size) / f32(out)
    matrix = np.zeros((out, size))
    for i in range(out):
        start, end = f32(i) * scale, f32(i + 1) * scale
        for j in range(int(np.floor(start)), int(np.ceil(end))):
            part = (scale if j + 1 > end else j + 1 - start) if j < start else (end - j if j + 1 > end else 1.0)
            matrix[i, min(max(j, 0), size - 1)] += part / scale
    return matrix


@tf.op("ResizeArea")
def _(b, x, size, *, align_corners=False):
    parts = _wanted(size, [static_dim(x.type, i, "an image resized by area") for i in (1, 2)])
    return weighted(b, x, *(_area(old, new, align_corners) for old, new in parts))


def _lanczos(radius: int) -> Callable[[Array], Array]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def _cubic(p: Sequence[float], q: Sequence[float]) -> Callable[[Array], Array]:
    return lambda x: np.where(x < 1, np.polyval(p, x), np.where(x < 2, np.polyval(q, x), 0))


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(x < 1.5, np.exp(-(x**2) / (2 * 0.5**2)), 0)),
    "box": (1, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1, lambda x: np.maximum(1 - x, 0)),
    "keyscubic": (2, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}


def _scaled(size: int, out: int, scale: float, shift: float, kernel_type: str, antialias: bool) -> Array:
    radius, kernel = _KERNELS[kernel_type]
    # In float32, as there: at the edge of a kernel the last bit decides.
    f32 = np.float32
    inverse = f32(1) / f32(scale)
    width = max(inverse, f32(1)) if antialias else f32(1)
    matrix = np.zeros((out, size))
    for i in range(out):
        at = f32(i + 0.5) * inverse - inverse * f32(shift)
        if not 0 <= at <= size:
            continue
        reach = f32(radius) * width
        start = min(max(int(np.ceil(at - reach - f32(0.5))), 0), size - 1)
        end = min(max(int(np.floor(at + reach - f32(0.5))), 0), size - 1) + 1
        weights = kernel(np.abs((np.arange(start, end, dtype=f32) + f32(0.5) - at) / width))
        if abs(weights.sum()) > 1e-30:
            matrix[i, start:end] = weights / weights.sum()
    return matrix


@tf.op("ScaleAndTranslate")
def _(b, x, size, scale, translation, *, kernel_type="lanczos3", antialias=True):
    dimensions = _wanted(size, [static_dim(x.type, i, "an image that is scaled") for i in (1, 2)])
    moves = zip(constant(scale, "the scale").tolist(), constant(translation, "the translation").tolist(), strict=True)
    parts = [(*sizes, *move) for sizes, move in zip(dimensions, moves, strict=True)]
    return weighted(b, x, *(_scaled(*part, kernel_type, antialias) for part in parts))
