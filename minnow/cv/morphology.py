"""Morphology, and pyramids of smaller and larger images."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.cv import argument
from minnow.cv.argument import Image
from minnow.cv.arithmetic import saturated
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import BORDER_CONSTANT, BORDER_DEFAULT, BORDER_WRAP
from minnow.cv.filter import filter_border
from minnow.cv.geometry import border_of, shape_of, without_one
from minnow.cv.kernel import LARGEST_KERNEL, anchor_of
from minnow.cv.thread import thread_count
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError


def _morphology(
    src: Array,
    kernel: Array | None,
    iterations: Any,
    borderType: Any,
    anchor: Any,
    borderValue: Any,
    largest: bool,
) -> Image:
    image = argument.image(src)
    count = argument.integer(iterations, "iterations", 0)
    border = filter_border(borderType)
    given = None if kernel is None else argument.array(kernel, "kernel")
    given = None if given is not None and given.size == 0 else given
    if given is not None and (given.ndim != 2 or max(given.shape) > LARGEST_KERNEL):
        raise UsageError(f"kernel must be a matrix of 1 and 0, not an array {list(given.shape)}")
    shape = np.ones((3, 3), np.uint8) if given is None else (given != 0).astype(np.uint8)
    height, width = shape.shape
    x, y = anchor_of(anchor, width, height)
    value = [] if borderValue is None else list(argument.scalar(borderValue, "borderValue"))
    current = argument.rows(without_one(image))
    if count == 0 or shape.size == 1:
        unchanged: Image = current.copy()
        return unchanged
    if not shape.any():
        raise UsageError("kernel has only zeros: there are no pixels to choose from")
    if shape.all():  # several rectangles, one after the other, are a larger one, as in OpenCV
        merged = min(count, LARGEST_KERNEL)
        if merged * max(width, height) <= LARGEST_KERNEL:
            width, height, x, y = 1 + (width - 1) * merged, 1 + (height - 1) * merged, x * merged, y * merged
            shape, count = np.ones((height, width), np.uint8), 1
    flat = shape.ravel().tolist()
    for _ in range(count):
        result = np.empty_like(current)
        vision.morph(current, result, flat, [width, height, x, y], largest, border, value, thread_count())
        if count > 2 and np.array_equal(result, current):
            break
        current = result
    return result


@exported
def dilate(
    src: Array,
    kernel: Array | None,
    iterations: int = 1,
    borderType: int = BORDER_CONSTANT,
    anchor: Any = (-1, -1),
    borderValue: Any = None,
) -> Array:
    """The largest of the pixels where `kernel` is not 0, for each channel.

    Args:
        src: the image.
        kernel: a matrix [height, width], as `getStructuringElement` gives it; None: 3 x 3.
        iterations: how many times.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the matrix; -1: the middle.
        borderValue: the value outside with BORDER_CONSTANT; None: what lies outside does not count.
    """
    return _morphology(src, kernel, iterations, borderType, anchor, borderValue, largest=True)


@exported
def erode(
    src: Array,
    kernel: Array | None,
    iterations: int = 1,
    borderType: int = BORDER_CONSTANT,
    anchor: Any = (-1, -1),
    borderValue: Any = None,
) -> Array:
    """The smallest of the pixels where `kernel` is not 0, for each channel.

    Args:
        src: the image.
        kernel: a matrix [height, width], as `getStructuringElement` gives it; None: 3 x 3.
        iterations: how many times.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the matrix; -1: the middle.
        borderValue: the value outside with BORDER_CONSTANT; None: what lies outside does not count.
    """
    return _morphology(src, kernel, iterations, borderType, anchor, borderValue, largest=False)


def _pyramid_size(dstsize: Any, expected: tuple[int, int], slack: tuple[int, int]) -> tuple[int, int]:
    if dstsize is None or (isinstance(dstsize, tuple) and not dstsize):
        return expected
    given = argument.size(dstsize, "dstsize", least=0)
    if given == (0, 0):
        return expected
    if any(abs(a - b) > s for a, b, s in zip(given, expected, slack, strict=True)):
        raise UsageError(f"dstsize is {given}: (width, height) must be near {expected}")
    return given


def _of_size(image: Image, size: tuple[int, int]) -> Image:
    return argument.result(shape_of(size[1], size[0], argument.channels_of(image)), image.dtype)


@exported
def pyrDown(src: Array, dstsize: Any = None, borderType: int = BORDER_DEFAULT) -> Array:
    """Blurs an image and halves its size.

    Args:
        src: the image.
        dstsize: (width, height) of the result; None: half of that of the image, rounded up.
        borderType: what lies outside of the image; not BORDER_CONSTANT.
    """
    image = argument.image(src)
    border = border_of(borderType)
    if border in (BORDER_CONSTANT, BORDER_WRAP):
        raise UsageError("pyrDown has no BORDER_CONSTANT and no BORDER_WRAP")
    height, width = image.shape[:2]
    size = _pyramid_size(dstsize, ((width + 1) // 2, (height + 1) // 2), (1, 1))
    if any(abs(2 * a - b) > 2 or 2 * a - 1 > b for a, b in zip(size, (width, height), strict=True)):
        raise UsageError(f"dstsize is {size}: it must be half of {(width, height)}, rounded up, or 1 less")
    if image.dtype in (np.uint8, np.float32):
        small = _of_size(image, size)
        vision.pyramid(argument.rows(image), small, False, border, thread_count())
        return small
    weights = [w / 16 for w in (1.0, 4.0, 6.0, 4.0, 1.0)]
    full = np.empty_like(argument.rows(image))
    vision.separable(argument.rows(image), full, weights, weights, 2, 2, 0.0, -1, border, thread_count())
    small = full[: 2 * size[1] : 2, : 2 * size[0] : 2]
    return np.ascontiguousarray(without_one(small))


@exported
def pyrUp(src: Array, dstsize: Any = None, borderType: int = BORDER_DEFAULT) -> Array:
    """Doubles the size of an image and blurs it.

    Args:
        src: the image.
        dstsize: (width, height) of the result; None: twice that of the image.
        borderType: BORDER_DEFAULT, the only border there is.
    """
    image = argument.image(src)
    if border_of(borderType) != BORDER_DEFAULT:
        raise UsageError("pyrUp has only BORDER_DEFAULT")
    height, width = image.shape[:2]
    size = _pyramid_size(dstsize, (2 * width, 2 * height), (1, 1))
    if image.dtype in (np.uint8, np.float32):
        large = _of_size(image, size)
        vision.pyramid(argument.rows(image), large, True, BORDER_DEFAULT, thread_count())
        return large
    dtype = np.int32 if image.dtype.kind in "ui" else image.dtype
    up = _doubled(_doubled(image.astype(dtype), 0)[: size[1]], 1)[:, : size[0]]
    for axis, n in ((0, size[1]), (1, size[0])):
        if up.shape[axis] < n:  # one more of what is last
            up = np.concatenate([up, up.take([-1], axis)], axis)
    scaled = (up + 32) >> 6 if dtype == np.int32 else up * up.dtype.type(1 / 64)
    result = saturated(scaled, image.dtype.name)
    return np.ascontiguousarray(without_one(result))


def _doubled(image: Image, axis: int) -> Image:
    """Twice as many rows: at each one, and between it and the next, with weights whose sum is 8."""
    n = image.shape[axis]
    before = image.take([1 if n > 1 else 0, *range(n - 1)], axis)
    after = image.take([*range(1, n), n - 1], axis)
    shape = list(image.shape)
    shape[axis] *= 2
    result = np.empty(shape, image.dtype)
    at = [slice(None)] * image.ndim
    at[axis] = slice(0, None, 2)
    result[tuple(at)] = before + image * 6 + after
    at[axis] = slice(1, None, 2)
    result[tuple(at)] = (image + after) * 4
    return result
