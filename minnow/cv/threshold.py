"""Thresholds, the same for a whole image or for each neighborhood; and blending of two images."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.arithmetic import plain_image, saturated, written
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import (
    ADAPTIVE_THRESH_GAUSSIAN_C,
    ADAPTIVE_THRESH_MEAN_C,
    BORDER_REPLICATE,
    THRESH_BINARY,
    THRESH_BINARY_INV,
    THRESH_OTSU,
    THRESH_TOZERO,
    THRESH_TOZERO_INV,
    THRESH_TRIANGLE,
    THRESH_TRUNC,
)
from minnow.cv.filter import GaussianBlur, boxFilter
from minnow.cv.pair import paired
from minnow.cv.thread import thread_count
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError


@paired(main=1)
def threshold(src: Array, thresh: float, maxval: float, type: int, dst: Array | None = None) -> tuple[float, Array]:
    """Compares the elements of an image with a threshold.

    Args:
        src: uint8, uint16, int16, float32 or float64, of any number of channels.
        thresh: the threshold; for integer images it is rounded down.
        maxval: what `THRESH_BINARY` and `THRESH_BINARY_INV` give.
        type: `THRESH_BINARY` (maxval above, else 0), `THRESH_BINARY_INV` (the reverse), `THRESH_TRUNC` (at most the
            threshold), `THRESH_TOZERO` (0 up to the threshold) or `THRESH_TOZERO_INV` (0 above). With `THRESH_OTSU`
            (uint8 and uint16) or `THRESH_TRIANGLE` (uint8) added, the threshold is found from the histogram.
        dst: an array for the result, or None.

    Returns:
        (the threshold, the image): a `PairVar`, which is the image alone for all else.

    Raises:
        UsageError: the image is of another type, or an argument is out of its range.
    """
    image = plain_image(src, "src", argument.PIXEL_DTYPES)
    kind = argument.integer(type, "type")
    limit, most = argument.number(thresh, "thresh"), argument.number(maxval, "maxval")
    automatic, kind = kind & ~7, kind & 7
    if kind not in (THRESH_BINARY, THRESH_BINARY_INV, THRESH_TRUNC, THRESH_TOZERO, THRESH_TOZERO_INV):
        raise UsageError(f"type is {type}: it must be THRESH_BINARY (0) to THRESH_TOZERO_INV (4)")
    if automatic not in (0, THRESH_OTSU, THRESH_TRIANGLE):
        raise UsageError(f"type is {type}: beside a kind it can have THRESH_OTSU (8) or THRESH_TRIANGLE (16)")
    if automatic:
        known = ("uint8", "uint16") if automatic == THRESH_OTSU else ("uint8",)
        argument.image(image, "src", dtypes=known, channels=(1,))
        counts = _counts(image)
        limit = float(vision.otsu(counts.tolist()) if automatic == THRESH_OTSU else _triangle(counts))
    if image.dtype.kind in "iu":
        limit, most = math.floor(limit), round(most)
    return float(limit), written(_compared(image, limit, most, kind), dst)


def _compared(image: npt.NDArray[Any], limit: float, most: float, kind: int) -> npt.NDArray[Any]:
    is_inside = True
    bound, top, zero = limit, most, 0.0
    if image.dtype.kind in "iu":
        least, largest = _limits(image.dtype)
        is_inside = least <= limit <= largest
        bound, top = (float(min(max(v, least), largest)) for v in (limit, most))
    elif image.dtype != np.float64:
        with np.errstate(over="ignore"):
            bound, top = (float(v) for v in np.array([limit, most]).astype(image.dtype))
    below: float | None
    otherwise: float | None
    below, otherwise = {
        THRESH_BINARY: (zero, top),
        THRESH_BINARY_INV: (top, zero),
        THRESH_TRUNC: (None, bound),
        THRESH_TOZERO: (zero, None),
        THRESH_TOZERO_INV: (None, zero),
    }[kind]
    if is_inside:
        result: npt.NDArray[Any] = np.empty(image.shape, image.dtype)
        vision.compare(argument.rows(image), result, bound, otherwise, below, thread_count())
        return result
    chosen = otherwise if limit < 0 else below  # all are above, or none
    return image.copy() if chosen is None else np.full_like(image, chosen)


@functools.cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Of a type of integers; numpy makes them anew each time."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _counts(image: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How often each value occurs."""
    if image.dtype == np.uint8:
        return np.array(vision.count_bytes(argument.rows(image), None), np.int64)
    return np.bincount(image.ravel(), minlength=np.iinfo(image.dtype).max + 1)


def _triangle(counts: npt.NDArray[np.int64]) -> int:
    """The bin farthest below the line from the peak to the longer end: G. W. Zack and others (1977)."""
    n = len(counts)
    used = np.flatnonzero(counts)
    left, right = max(int(used[0]) - 1, 0), min(int(used[-1]) + 1, n - 1)
    if used[-1] == 0:
        right = 1
    peak = int(np.argmax(counts))
    flipped = peak - left < right - peak
    if flipped:
        counts, left, peak = counts[::-1], n - 1 - right, n - 1 - peak
    bins = np.arange(left + 1, peak + 1)
    found = left
    if len(bins):
        distances = float(counts[peak]) * bins + float(left - peak) * counts[left + 1 : peak + 1]
        if distances.max() > 0:
            found = int(bins[np.argmax(distances)])
    found -= 1
    return n - 1 - found if flipped else found


@exported
def adaptiveThreshold(
    src: Array,
    maxValue: float,
    adaptiveMethod: int,
    thresholdType: int,
    blockSize: int,
    C: float,
    dst: Array | None = None,
) -> Array:
    """Compares each pixel with a mean of its neighborhood, minus a constant.

    Args:
        src: uint8 [height, width].
        maxValue: what pixels get that are above, or not above.
        adaptiveMethod: `ADAPTIVE_THRESH_MEAN_C` or `ADAPTIVE_THRESH_GAUSSIAN_C` (weighted mean).
        thresholdType: `THRESH_BINARY` or `THRESH_BINARY_INV`.
        blockSize: width and height of the neighborhood: 3, 5, 7, ...
        C: subtracted from the mean.
        dst: an array for the result, or None.

    Raises:
        UsageError: the image is another one, or an argument is out of its range.
    """
    image = argument.image(src, "src", dtypes=("uint8",), channels=(1,))
    most = argument.number(maxValue, "maxValue")
    size = argument.integer(blockSize, "blockSize", 3, 32767)
    if size % 2 == 0:
        raise UsageError(f"blockSize is {size}: it must be odd")
    kind = argument.integer(thresholdType, "thresholdType")
    if kind not in (THRESH_BINARY, THRESH_BINARY_INV):
        raise UsageError(f"thresholdType is {kind}: it must be THRESH_BINARY (0) or THRESH_BINARY_INV (1)")
    method = argument.integer(adaptiveMethod, "adaptiveMethod")
    if method not in (ADAPTIVE_THRESH_MEAN_C, ADAPTIVE_THRESH_GAUSSIAN_C):
        raise UsageError(
            f"adaptiveMethod is {method}: it must be ADAPTIVE_THRESH_MEAN_C (0) or ADAPTIVE_THRESH_GAUSSIAN_C (1)"
        )
    constant = argument.number(C, "C", -1e9, 1e9)
    plane = image.reshape(image.shape[:2])
    difference = np.subtract(plane, _means(plane, size, method == ADAPTIVE_THRESH_GAUSSIAN_C), dtype=np.int16)
    value = 0 if most < 0 else min(round(most), 255)
    binary = kind == THRESH_BINARY
    limit = -math.ceil(constant) if binary else -math.floor(constant)
    above = _compared(difference, limit, 1, THRESH_BINARY if binary else THRESH_BINARY_INV)
    return written(np.multiply(above, value, dtype=np.uint8, casting="unsafe"), dst)


def _means(plane: npt.NDArray[np.uint8], size: int, weighted: bool) -> npt.NDArray[np.uint8]:
    """Rounded means of neighborhoods; beyond the border its pixels repeat."""
    if not weighted:
        return np.asarray(boxFilter(plane, -1, (size, size), True, BORDER_REPLICATE))
    smooth = np.asarray(GaussianBlur(plane.astype(np.float32), (size, size), 0, 0, BORDER_REPLICATE))
    return saturated(smooth, np.uint8)


@exported
def blendLinear(src1: Array, src2: Array, weights1: Array, weights2: Array, dst: Array | None = None) -> Array:
    """The weighted mean of two images: (src1 * weights1 + src2 * weights2) / (weights1 + weights2 + 1e-5).

    Args:
        src1: uint8 or float32.
        src2: an image of the same shape and type.
        weights1: float32 [height, width].
        weights2: the same.
        dst: an array for the result, or None.

    Raises:
        UsageError: the images or weights do not fit together.
    """
    a, b = (plain_image(v, n, ("uint8", "float32")) for v, n in ((src1, "src1"), (src2, "src2")))
    if a.shape != b.shape or a.dtype != b.dtype:
        raise UsageError(
            f"src1 and src2 must have one shape and type, not {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
        )
    given = []
    for name, value in (("weights1", weights1), ("weights2", weights2)):
        w = argument.array(value, name)
        w = w[..., 0] if w.ndim == 3 and w.shape[2] == 1 else w
        if w.shape != a.shape[:2] or w.dtype != np.float32:
            raise UsageError(f"{name} must be float32 {list(a.shape[:2])}, not {w.dtype} {list(w.shape)}")
        given.append(argument.rows(w))
    result: npt.NDArray[Any] = np.empty(a.shape, a.dtype)
    vision.blend(argument.rows(a), argument.rows(b), *given, result, thread_count())
    return written(result, dst)
