"""Shapes of sets of points: rectangles around them, hulls, areas; connected components of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import CV_16U, CV_32S
from minnow.cv.contour import binary_plane
from minnow.cv.polygon import points_of
from minnow.runtime import _engine
from minnow.schema.errors import UsageError

RotatedRectangle = tuple[tuple[float, float], tuple[float, float], float]


@exported
def boundingRect(array: Array) -> tuple[int, int, int, int]:
    """The upright rectangle around points, or around the nonzero pixels of an image of bytes.

    Args:
        array: points (x, y) of int32 or float32, [n, 2] or [n, 1, 2], or an image [height, width] of bytes.

    Returns:
        (x, y, width, height) in whole pixels; zeros where there is nothing.
    """
    given = argument.array(array, "array")
    if given.dtype in (np.uint8, np.int8, np.bool_) and given.ndim == 2:
        rows, columns = np.flatnonzero(given.any(axis=1)), np.flatnonzero(given.any(axis=0))
        if not len(rows):
            return 0, 0, 0, 0
        x, y = int(columns[0]), int(rows[0])
        return x, y, int(columns[-1]) - x + 1, int(rows[-1]) - y + 1
    points = points_of(given, "array")
    if not len(points):
        return 0, 0, 0, 0
    (x, y), (right, bottom) = (np.floor(v(points, axis=0)).astype(np.int64).tolist() for v in (np.min, np.max))
    return x, y, right - x + 1, bottom - y + 1


@exported
def contourArea(contour: Array, oriented: bool = False) -> float:
    """The area inside of a polygon.

    Args:
        contour: its corners (x, y), of int32 or float32.
        oriented: whether the sign says the direction: positive where it is clockwise as pictures are shown.
    """
    oriented = argument.flag(oriented, "oriented")
    points = points_of(contour, "contour").astype(np.float64)
    if not len(points):
        return 0.0
    before = np.roll(points, 1, axis=0)
    area = 0.5 * float(np.sum(before[:, 0] * points[:, 1] - before[:, 1] * points[:, 0]))
    return area if oriented else abs(area)


@exported
def convexHull(points: Array, hull: None = None, clockwise: bool = False, returnPoints: bool = True) -> Array | None:
    """The convex hull of points, without those on its edges.

    Args:
        points: (x, y) of int32 or float32, [n, 2] or [n, 1, 2].
        hull: accepted for programs written for OpenCV; must be None.
        clockwise: the direction, with y upwards.
        returnPoints: whether to return points, rather than their indices.

    Returns:
        The corners, [m, 1, 2] in the type of the points, or their indices, int32 [m, 1]; None where there are none.
    """
    if hull is not None:
        raise UsageError("hull must be None: it is the result")
    clockwise, returnPoints = argument.flag(clockwise, "clockwise"), argument.flag(returnPoints, "returnPoints")
    given = points_of(points, "points")
    if not len(given):
        return None
    indices: npt.NDArray[np.int32] = _engine.convex_hull(given.astype(np.float64), clockwise)
    return given[indices.ravel()].reshape(-1, 1, 2) if returnPoints else indices


@exported
def minAreaRect(points: Array) -> RotatedRectangle:
    """The rotated rectangle of least area around points.

    Returns:
        ((x, y) of the center, (width, height), angle in degrees in [-90, 0)).
    """
    given = points_of(points, "points").astype(np.float64)
    if not len(given):
        return (0.0, 0.0), (0.0, 0.0), -90.0
    corners = given[_engine.convex_hull(given, False).ravel()].astype(np.float32)
    if len(corners) == 1:
        return _rectangle(corners[0], (0.0, 0.0), -90.0)
    if len(corners) == 2:
        x, y = (corners[0].astype(np.float64) - corners[1]).tolist()
        return _rectangle(corners.mean(axis=0), (math.hypot(x, y), 0.0), math.degrees(math.atan2(y, x)))
    x, y, along_x, along_y, across_x, across_y = _engine.least_rectangle(corners)
    center = np.array([x + (along_x + across_x) / 2, y + (along_y + across_y) / 2])
    size = math.hypot(along_x, along_y), math.hypot(across_x, across_y)
    return _rectangle(center, size, math.degrees(math.atan2(along_y, along_x)))


def _rectangle(center: npt.NDArray[Any], size: tuple[float, float], angle: float) -> RotatedRectangle:
    """With the angle in [-90, 0), in single precision."""
    width, height = size
    turns = math.floor(angle / 90) + 1
    angle -= 90 * turns
    if angle >= 0:  # rounded up
        angle -= 90
        turns += 1
    if turns % 2:
        width, height = height, width
    x, y = (float(np.float32(c)) for c in center)
    return (x, y), (float(np.float32(width)), float(np.float32(height))), float(np.float32(angle))


@exported
def boxPoints(box: RotatedRectangle) -> Array:
    """The corners of a rotated rectangle ((x, y), (width, height), angle in degrees), float32 [4, 2].

    Raises:
        UsageError: it is something else.
    """
    try:
        (x, y), (width, height), angle = box
    except (TypeError, ValueError):
        raise UsageError(f"box must be ((x, y), (width, height), angle), not {argument.described(box)}") from None
    x, y, width, height, angle = (argument.number(v, "box") for v in (x, y, width, height, angle))
    radians = math.radians(angle)
    down = np.array([-math.sin(radians), math.cos(radians)]) * height / 2
    right = np.array([math.cos(radians), math.sin(radians)]) * width / 2
    offsets = np.array([down - right, -down - right, right - down, right + down])
    return (np.array([x, y]) + offsets).astype(np.float32)


@exported
def connectedComponentsWithStats(
    image: Array,
    labels: None = None,
    stats: None = None,
    centroids: None = None,
    connectivity: int = 8,
    ltype: int = CV_32S,
) -> tuple[int, Array, Array, Array]:
    """The connected components of nonzero pixels.

    Args:
        image: an image of bytes [height, width].
        labels: accepted for programs written for OpenCV; must be None, as stats and centroids.
        stats: the same.
        centroids: the same.
        connectivity: 8 or 4 neighbors.
        ltype: the type of the labels: `CV_32S` or `CV_16U`.

    Returns:
        (number of labels, labels [height, width], stats int32 [n, 5], centroids float64 [n, 2]). Label 0 is that of
        the zero pixels. Columns of stats: left, top, width, height, area. Centroids are (x, y).

    Raises:
        UsageError: the image is not one of bytes with one channel, or an argument is out of its range.
    """
    if labels is not None or stats is not None or centroids is not None:
        raise UsageError("labels, stats and centroids must be None: they are results")
    if (neighbors := argument.integer(connectivity, "connectivity")) not in (4, 8):
        raise UsageError(f"connectivity is {neighbors}: it must be 4 or 8")
    if (kind := argument.integer(ltype, "ltype")) not in (CV_16U, CV_32S):
        raise UsageError(f"ltype is {kind}: it must be CV_32S (4) or CV_16U (2)")
    found, rows = _engine.label_components(binary_plane(image, "image"), neighbors == 8)
    if kind == CV_16U:
        if len(rows) > 65536:
            raise UsageError(f"there are {len(rows)} labels, more than CV_16U holds", hint="use CV_32S")
        found = found.astype(np.uint16)
    left, top, right, bottom, area, sum_x, sum_y = rows.T
    table = np.c_[left, top, right - left + 1, bottom - top + 1, area].astype(np.int32)
    if area[0] == 0:
        table[0] = (-1, 2147483647, 0, 0, 0)  # what OpenCV gives where no pixel is zero
    with np.errstate(invalid="ignore"):
        middle = np.c_[sum_x, sum_y] / area[:, None]
    return len(rows), found, table, middle
