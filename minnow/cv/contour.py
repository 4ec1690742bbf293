"""Contours of binary images, and drawing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.cv.canvas import drawn
from minnow.cv.constant import (
    CHAIN_APPROX_NONE,
    CHAIN_APPROX_SIMPLE,
    CHAIN_APPROX_TC89_KCOS,
    CHAIN_APPROX_TC89_L1,
    LINE_8,
    RETR_CCOMP,
    RETR_EXTERNAL,
    RETR_FLOODFILL,
    RETR_LIST,
    RETR_TREE,
)
from minnow.cv.drawing import Target, pixel_point, thickness_of
from minnow.cv.polygon import integer_points
from minnow.runtime import _engine
from minnow.schema.errors import UnsupportedError, UsageError

RETRIEVALS = {
    RETR_EXTERNAL: "RETR_EXTERNAL",
    RETR_LIST: "RETR_LIST",
    RETR_CCOMP: "RETR_CCOMP",
    RETR_TREE: "RETR_TREE",
}
METHODS = {
    CHAIN_APPROX_NONE: "CHAIN_APPROX_NONE",
    CHAIN_APPROX_SIMPLE: "CHAIN_APPROX_SIMPLE",
    CHAIN_APPROX_TC89_L1: "CHAIN_APPROX_TC89_L1",
    CHAIN_APPROX_TC89_KCOS: "CHAIN_APPROX_TC89_KCOS",
}


def _one_of(value: Any, name: str, names: dict[int, str]) -> int:
    result = argument.integer(value, name)
    if result not in names:
        known = argument.listed([f"{text} ({number})" for number, text in names.items()])
        raise UsageError(f"{name} is {result}: it must be {known}")
    return result


def binary_plane(value: Any, name: str) -> npt.NDArray[np.uint8]:
    """An image of one channel of bytes, [height, width], contiguous."""
    given = argument.array(value, name)
    if given.dtype == bool:
        given = given.view(np.uint8)
    image = argument.image(given, name, dtypes=("uint8", "int8"), channels=(1,))
    return np.ascontiguousarray(image.reshape(image.shape[:2])).view(np.uint8)


@exported
def findContours(
    image: Array,
    mode: int,
    method: int,
    contours: None = None,
    hierarchy: None = None,
    offset: Sequence[int] = (0, 0),
) -> tuple[tuple[Array, ...], Array | None]:
    """The borders between zero and nonzero pixels of an image of bytes [height, width].

    Args:
        image: the image; it is not changed.
        mode: `RETR_EXTERNAL` (the outermost borders), `RETR_LIST` (all), `RETR_CCOMP` (the borders of components and
            of their holes, in two levels) or `RETR_TREE` (each below the one that encloses it).
        method: `CHAIN_APPROX_NONE` (all pixels), `CHAIN_APPROX_SIMPLE` (without those on horizontal, vertical and
            diagonal lines), `CHAIN_APPROX_TC89_L1` or `CHAIN_APPROX_TC89_KCOS` (dominant points by Teh and Chin).
        contours: accepted for programs written for OpenCV; must be None.
        hierarchy: the same.
        offset: added to all points.

    Returns:
        (contours, hierarchy): a tuple of int32 arrays [n, 1, 2] of points (x, y), and an int32 array [1, contours, 4]
        with the indices of the next and the previous contour of the same level, the first child and the parent, -1
        where there is none. The hierarchy is None where there are no contours.

    Raises:
        UsageError: the image is not one of bytes with one channel, or an argument is out of its range.
    """
    if contours is not None or hierarchy is not None:
        raise UsageError("contours and hierarchy must be None: they are results")
    retrieval = argument.integer(mode, "mode")
    if retrieval == RETR_FLOODFILL:
        raise UnsupportedError("RETR_FLOODFILL is not supported", hint="use RETR_CCOMP on an image of bytes")
    retrieval = _one_of(retrieval, "mode", RETRIEVALS)
    approximation = _one_of(method, "method", METHODS)
    dx, dy = pixel_point(offset, "offset")
    plane = binary_plane(image, "image")
    points, counts, links = _engine.find_contours(plane, retrieval, approximation, dx, dy)
    if not len(counts):
        return (), None
    points, ends = points.reshape(-1, 1, 2), np.cumsum(counts).tolist()
    pieces = tuple(points[begin:end] for begin, end in zip([0, *ends], ends, strict=False))
    return pieces, links.reshape(1, -1, 4)


def _chosen(count: int, index: int, links: npt.NDArray[np.int64] | None, level: int) -> list[int]:
    """Which contours to draw: one or all; with a level other than 0, those below it too that are not deeper than that,
    counted from the outermost ones."""
    first, last = (0, count) if index < 0 else (index, index + 1)
    if links is None or level == 0:
        return list(range(first, last))
    depth = np.zeros(count, np.int64)
    belongs = np.zeros(count, bool)
    belongs[first:last] = True
    at = links[:, 3].copy()
    for _ in range(count):  # each contour goes up to its parent, all at once
        inside = (at >= 0) & (at < count)
        if not inside.any():
            break
        depth[inside] += 1
        belongs[inside] |= at[inside] == index
        at[inside] = links[at[inside], 3]
    return [int(i) for i in np.flatnonzero(belongs & (depth <= level))]


@drawn
def drawContours(
    image: Array,
    contours: Sequence[Array],
    contourIdx: int,
    color: float | Sequence[float],
    thickness: int = 1,
    lineType: int = LINE_8,
    hierarchy: Array | None = None,
    maxLevel: int = 2147483647,
    offset: Sequence[int] = (0, 0),
) -> Array:
    """Draws contours into an image, or fills what they enclose where `thickness` is negative.

    Args:
        image: the image, which is changed.
        contours: as `findContours` gives them.
        contourIdx: which one; negative: all.
        color: a number per channel.
        thickness: of the lines, in pixels.
        lineType: `LINE_8`, `LINE_4` or `LINE_AA`.
        hierarchy: as `findContours` gives it, for `maxLevel`.
        maxLevel: 0: only the contours themselves; n: those below them too, down to n levels below the outermost.
        offset: added to all points.

    Raises:
        UsageError: the image cannot be drawn on, or an argument is something else.
    """
    target = Target(image)
    kind, paint = target.line(lineType), target.color(color)
    width = thickness_of(thickness)
    move = np.array(pixel_point(offset, "offset"), np.int64)
    items = argument.items(contours, "contours", "arrays of points")
    index = argument.integer(contourIdx, "contourIdx")
    if index >= len(items):
        raise UsageError(f"contourIdx is {index}, but there are {len(items)} contours")
    if not items:
        return target.finish()
    links = None
    if hierarchy is not None:
        links = argument.array(hierarchy, "hierarchy")
        if links.shape not in ((1, len(items), 4), (len(items), 4)) or links.dtype.kind not in "iu":
            raise UsageError(
                f"hierarchy must be an int32 array [1, {len(items)}, 4], not {links.dtype} {list(links.shape)}"
            )
        links = links.reshape(-1, 4).astype(np.int64)
    chosen = _chosen(len(items), index, links, argument.integer(maxLevel, "maxLevel"))
    arrays = [integer_points(items[i], f"contours[{i}]").astype(np.int64) for i in chosen]
    arrays = [a for a in arrays if len(a)]
    if width >= 0:
        for a in arrays:
            _engine.draw_polyline(target.canvas, np.roll(a, -1, axis=0) + move, True, paint, width, kind, 0)
    elif arrays:
        counts = np.array([len(a) for a in arrays], np.int64)
        _engine.fill_polygons(target.canvas, np.concatenate(arrays), counts, paint, kind, 0, int(move[0]), int(move[1]))
    return target.finish()
