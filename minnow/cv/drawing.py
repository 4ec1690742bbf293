"""Lines, rectangles, circles and polygons, drawn into an image.

The functions change the image that they are given and return it. What lies outside of it is left out. Points are
(x, y); with `shift`, their last `shift` bits are a fraction. `thickness` is in pixels; `FILLED` (-1) fills a shape.
`lineType` is `LINE_8`, `LINE_4` or `LINE_AA` (smooth: for images of bytes with 1, 3 or 4 channels; others get
`LINE_8`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.cv import argument
from minnow.cv.arithmetic import DTYPES, saturated
from minnow.cv.boundary import Array
from minnow.cv.canvas import drawn, writable
from minnow.cv.constant import LINE_4, LINE_8, LINE_AA
from minnow.cv.polygon import polygons
from minnow.runtime import _engine
from minnow.schema.errors import UsageError

MOST_THICKNESS = 32767
MOST_SHIFT = 16

Point = Sequence[float]
Color = float | Sequence[float]


class Target:
    """An image in the form that the engine draws on: contiguous, with channels."""

    def __init__(self, image: Any) -> None:
        self.image = argument.image(writable(image), "img", dtypes=DTYPES, channels=(1, 2, 3, 4))
        shape = (*image.shape[:2], argument.channels_of(image))
        self.canvas = np.ascontiguousarray(image).reshape(shape)

    def color(self, value: Any) -> bytes:
        """The color of one pixel, in the type of the image: rounded, and limited to its range."""
        numbers = np.array(argument.scalar(value, "color")[: self.canvas.shape[2]])
        return saturated(numbers, self.canvas.dtype).tobytes()

    def line(self, line_type: Any) -> int:
        kind = argument.integer(line_type, "lineType")
        if kind in (0, 1):  # OpenCV's older numbers
            kind = LINE_8 if kind == 0 else LINE_4
        if kind not in (LINE_4, LINE_8, LINE_AA):
            raise UsageError(f"lineType is {kind}: it must be LINE_4 (4), LINE_8 (8) or LINE_AA (16)")
        if kind != LINE_AA or self.canvas.dtype != np.uint8:
            return LINE_8 if kind == LINE_AA else kind
        if self.canvas.shape[2] == 2:
            raise UsageError("LINE_AA needs an image with 1, 3 or 4 channels, not 2", hint="use LINE_8")
        return kind

    def finish(self) -> Array:
        """The image, changed."""
        if not np.shares_memory(self.canvas, self.image):
            self.image[...] = self.canvas.reshape(self.image.shape)
        return self.image


def thickness_of(value: Any, least: int = -MOST_THICKNESS) -> int:
    result = argument.integer(value, "thickness", -MOST_THICKNESS, MOST_THICKNESS)
    if result < least or (result == 0 and least > 0):
        raise UsageError(f"thickness is {result}: it must be at least {least}")
    return result


def _shift(value: Any) -> int:
    return argument.integer(value, "shift", 0, MOST_SHIFT)


def pixel_point(value: Any, name: str) -> tuple[int, int]:
    x, y = argument.pair(value, name, "(x, y)")
    return argument.integer(x, f"x of {name}"), argument.integer(y, f"y of {name}")


@drawn
def line(
    img: Array,
    pt1: Point,
    pt2: Point,
    color: Color,
    thickness: int = 1,
    lineType: int = LINE_8,
    shift: int = 0,
) -> Array:
    """A line between two points. Thick lines have round ends.

    Raises:
        UsageError: the image cannot be drawn on, or an argument is out of its range.
    """
    target = Target(img)
    points = np.array([pixel_point(pt1, "pt1"), pixel_point(pt2, "pt2")], np.int64)
    bits, kind = _shift(shift), target.line(lineType)
    _engine.draw_polyline(target.canvas, points, False, target.color(color), thickness_of(thickness, 1), kind, bits)
    return target.finish()


@drawn
def arrowedLine(
    img: Array,
    pt1: Point,
    pt2: Point,
    color: Color,
    thickness: int = 1,
    line_type: int = LINE_8,
    shift: int = 0,
    tipLength: float = 0.1,
) -> Array:
    """A line with a tip at `pt2`, whose two sides are `tipLength` times as long as the line.

    Raises:
        UsageError: the image cannot be drawn on, or an argument is out of its range.
    """
    target = Target(img)
    start, end = pixel_point(pt1, "pt1"), pixel_point(pt2, "pt2")
    bits, kind = _shift(shift), target.line(line_type)
    width, paint = thickness_of(thickness, 1), target.color(color)
    length = math.hypot(start[0] - end[0], start[1] - end[1]) * argument.number(tipLength, "tipLength", -1e4, 1e4)
    angle = math.atan2(start[1] - end[1], start[0] - end[0])
    sides = [
        (round(end[0] + length * math.cos(angle + turn)), round(end[1] + length * math.sin(angle + turn)))
        for turn in (math.pi / 4, -math.pi / 4)
    ]
    for other in (start, *sides):
        points = np.array([other, end], np.int64)
        _engine.draw_polyline(target.canvas, points, False, paint, width, kind, bits)
    return target.finish()


@drawn
def rectangle(img: Array, *args: Any, **kwargs: Any) -> Array:
    """A rectangle: `rectangle(img, pt1, pt2, color, thickness=1, lineType=LINE_8, shift=0)` with two opposite corners,
    both included, or `rectangle(img, rec, color, ...)` with (x, y, width, height).

    Raises:
        UsageError: the image cannot be drawn on, or an argument is out of its range.
        TypeError: arguments are missing, or have other names.
    """
    first: Any = args[0] if args else kwargs.get("rec", kwargs.get("pt1"))
    count = len(first) if isinstance(first, (tuple, list)) or (isinstance(first, np.ndarray) and first.ndim) else 0
    with_size = "rec" in kwargs or count == 4
    return (_rectangle_of_size if with_size else _rectangle)(img, *args, **kwargs)


def _rectangle(
    img: Array, pt1: Point, pt2: Point, color: Color, thickness: int = 1, lineType: int = LINE_8, shift: int = 0
) -> Array:
    return _between(Target(img), pixel_point(pt1, "pt1"), pixel_point(pt2, "pt2"), color, thickness, lineType, shift)


def _rectangle_of_size(
    img: Array, rec: Sequence[int], color: Color, thickness: int = 1, lineType: int = LINE_8, shift: int = 0
) -> Array:
    try:
        x, y, width, height = (argument.integer(v, "rec") for v in rec)
    except (TypeError, ValueError):
        raise UsageError(f"rec must be (x, y, width, height), not {argument.described(rec)}") from None
    one, target = 1 << _shift(shift), Target(img)
    rows, columns = target.canvas.shape[:2]
    # OpenCV moves far sides to the pixels beside the image, where thick ones can be seen.
    left, top = max(x, -one), max(y, -one)
    right, bottom = min(x + width, (columns + 1) * one), min(y + height, (rows + 1) * one)
    if left >= right or top >= bottom:
        return target.image
    return _between(target, (left, top), (right - one, bottom - one), color, thickness, lineType, shift)


def _between(
    target: Target, start: tuple[int, int], end: tuple[int, int], color: Any, thickness: Any, lineType: Any, shift: Any
) -> Array:
    (x0, y0), (x1, y1) = start, end
    corners = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.int64)
    width, kind, bits = thickness_of(thickness), target.line(lineType), _shift(shift)
    paint = target.color(color)
    if width >= 0:
        _engine.draw_polyline(target.canvas, corners, True, paint, width, kind, bits)
    else:
        _engine.fill_convex(target.canvas, corners, paint, kind, bits)
    return target.finish()


@drawn
def circle(
    img: Array,
    center: Point,
    radius: int,
    color: Color,
    thickness: int = 1,
    lineType: int = LINE_8,
    shift: int = 0,
) -> Array:
    """A circle; filled where `thickness` is negative.

    Raises:
        UsageError: the image cannot be drawn on, or an argument is out of its range.
    """
    target = Target(img)
    (x, y), kind, bits = pixel_point(center, "center"), target.line(lineType), _shift(shift)
    reach = argument.integer(radius, "radius", 0)
    width = thickness_of(thickness)
    _engine.draw_circle(target.canvas, x, y, reach, target.color(color), width, kind, bits)
    return target.finish()


@drawn
def fillPoly(
    img: Array,
    pts: Sequence[Array],
    color: Color,
    lineType: int = LINE_8,
    shift: int = 0,
    offset: Point = (0, 0),
) -> Array:
    """Fills what polygons enclose together: where they overlap, twice covered parts stay as they are.

    Args:
        img: the image.
        pts: arrays of points (x, y) of int32, each [n, 2] or [n, 1, 2].
        color: a number per channel.
        lineType: how the borders are drawn.
        shift: how many bits of the coordinates are a fraction.
        offset: added to all points.

    Raises:
        UsageError: the image cannot be drawn on, or an argument is something else.
    """
    target = Target(img)
    kind, bits = target.line(lineType), _shift(shift)
    points, counts = polygons(pts, "pts")
    dx, dy = pixel_point(offset, "offset")
    _engine.fill_polygons(target.canvas, points, counts, target.color(color), kind, bits, dx, dy)
    return target.finish()
