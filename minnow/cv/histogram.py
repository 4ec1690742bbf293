"""Histograms of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.arithmetic import mask_bytes, written
from minnow.cv.boundary import Array, exported
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError

MOST_DIMENSIONS = 32


@exported
def calcHist(
    images: Sequence[Array],
    channels: Sequence[int],
    mask: Array | None,
    histSize: Sequence[int],
    ranges: Sequence[float],
    hist: Array | None = None,
    accumulate: bool = False,
) -> Array:
    """Counts how often values, or combinations of values of several channels, occur.

    Args:
        images: images of one height, width and type: uint8, uint16 or float32.
        channels: which channels: those of the first image come first, then those of the second, and so on.
        mask: where to count: an image of bytes [height, width]; None: everywhere.
        histSize: the number of bins for each of the channels.
        ranges: the lower bound (included) and the upper bound (excluded) for each; empty for uint8: 0 and 256.
        hist: with `accumulate`, counts to add to.
        accumulate: whether to do that.

    Returns:
        float32 [bins, 1] for one channel, else an array with a dimension per channel.

    Raises:
        UsageError: the images do not fit together, or an argument is out of its range.
    """
    planes: list[npt.NDArray[np.generic]] = []
    for i, item in enumerate(argument.items(images, "images", "images")):
        image = argument.image(item, f"images[{i}]", dtypes=("uint8", "uint16", "float32"))
        if planes and (image.shape[:2] != planes[0].shape or image.dtype != planes[0].dtype):
            raise UsageError(f"images[{i}] has another shape or type than images[0]")
        planes.extend(np.moveaxis(image.reshape(*image.shape[:2], -1), 2, 0))
    if not planes:
        raise UsageError("images is empty")
    chosen = [argument.integer(c, "channels") for c in argument.items(channels, "channels")]
    sizes = [argument.integer(s, "histSize", 1, 1 << 24) for s in argument.items(histSize, "histSize")]
    if len(chosen) != len(sizes) or not 1 <= len(sizes) <= MOST_DIMENSIONS:
        raise UsageError(f"histSize has {len(sizes)} numbers, but channels has {len(chosen)}: one each is needed")
    for c in chosen:
        if not 0 <= c < len(planes):
            raise UsageError(f"channels has {c}, but the images have {len(planes)} channels")
    bounds = [argument.number(r, "ranges") for r in argument.items(ranges, "ranges")]
    if not bounds and planes[0].dtype == np.uint8:
        bounds = [0.0, 256.0] * len(chosen)
    if len(bounds) != 2 * len(chosen):
        raise UsageError(f"ranges has {len(bounds)} numbers: two for each of {len(chosen)} channels are needed")
    if math.prod(sizes) > 1 << 28:
        raise UsageError(f"a histogram of shape {sizes} is too large")
    for low, high in zip(bounds[::2], bounds[1::2], strict=True):
        if not low < high:
            raise UsageError(f"ranges has {low} and {high}: the lower bound must be less than the upper one")
    where = None if mask is None else mask_bytes(mask, planes[0])
    counts = _counts([planes[c] for c in chosen], sizes, bounds, where)
    result = counts.astype(np.float32).reshape(sizes if len(sizes) > 1 else (-1, 1))
    if argument.flag(accumulate, "accumulate") and hist is not None:
        given = argument.array(hist, "hist")
        if given.shape != result.shape or given.dtype != np.float32:
            raise UsageError(f"hist must be float32 {list(result.shape)}, not {given.dtype} {list(given.shape)}")
        result = given + result
    return written(result, hist)


def _counts(
    planes: list[npt.NDArray[np.generic]],
    sizes: list[int],
    bounds: list[float],
    mask: npt.NDArray[np.uint8] | None,
) -> npt.NDArray[np.float64]:
    if len(planes) == 1 and planes[0].dtype == np.uint8:  # how often each of 256 values occurs says all
        values = np.array(vision.count_bytes(argument.rows(planes[0]), mask), np.int64)
        if sizes[0] == 256 and bounds == [0.0, 256.0]:
            return values.astype(np.float64)
        bins, valid = _bins_of(np.arange(256, dtype=np.float64), sizes[0], bounds[0], bounds[1])
        return np.asarray(np.bincount(bins[valid], values[valid], sizes[0]), np.float64)
    chosen = planes if mask is None else [plane[mask != 0] for plane in planes]
    index = np.zeros(chosen[0].shape, np.int64)
    inside = np.ones(index.shape, bool)
    for plane, n, low, high in zip(chosen, sizes, bounds[::2], bounds[1::2], strict=True):
        bins, valid = _bins(plane, n, low, high)
        index = index * n + bins
        inside &= valid
    return np.bincount(index[inside].ravel(), minlength=math.prod(sizes)).astype(np.float64)


def _bins(
    values: npt.NDArray[np.generic], n: int, low: float, high: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The bin of each value, 0 where it has none; and where it has one."""
    if values.dtype == np.uint8:
        table = np.arange(256, dtype=np.float64)
        bins, valid = _bins_of(table, n, low, high)
        return bins[values], valid[values]
    return _bins_of(values.astype(np.float64), n, low, high)


def _bins_of(
    values: npt.NDArray[np.float64], n: int, low: float, high: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    scale = n / (high - low)
    places = np.floor(values * scale - scale * low)
    valid = (places >= 0) & (places < n)
    return np.where(valid, places, 0).astype(np.int64), valid
