"""Drawing gives the same pixels as OpenCV: all kinds of lines, on images of all types, inside and outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UsageError
from tests.cv import scenes

LINES = {cv2.LINE_4: "sides", cv2.LINE_8: "corners", cv2.LINE_AA: "smooth"}
DTYPES = ("uint8", "uint8", "uint8", "int8", "uint16", "int16", "int32", "float32", "float64")


def both(draw: Callable[[Any, np.ndarray], Any], image: np.ndarray) -> None:
    """Draws with OpenCV and with us on copies of an image, and compares."""
    expected = np.array(image, order="C")
    draw(cv2, expected)
    found = image.copy()
    assert draw(cv, found) is found
    np.testing.assert_array_equal(found, expected)


def compare(kind: int, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        dtype = str(rng.choice(DTYPES))
        channels = (0, 1, 3, 4, 2)[int(rng.integers(0, 4 if kind == cv2.LINE_AA else 5))]
        image = scenes.image(rng, dtype, channels)
        height, width = image.shape[:2]
        shift = int(rng.choice([0, 0, 0, 1, 4, 16]))
        reach = float(rng.choice([1, 1, 3, 50]))

        def point(size: tuple[int, int] = (width, height), shift: int = shift, reach: float = reach) -> tuple[int, int]:
            x, y = rng.uniform(-0.2 * reach, 1 + 0.2 * reach, 2) * size * (1 << shift)
            return int(x), int(y)

        p, q = point(), point()
        color = tuple(int(v) for v in rng.integers(0, 256, 4))
        thickness = int(rng.choice([1, 1, 1, 2, 3, 4, 5, 8, 25]))
        filled = int(rng.choice([thickness, cv2.FILLED]))
        radius = int(rng.choice([0, 1, 2, 3, 5, 9, 12, 17, 33, 60])) << shift
        polygons = [
            np.array([point() for _ in range(int(rng.integers(1, 9)))], np.int32)
            for _ in range(int(rng.integers(1, 4)))
        ]
        offset = tuple(int(v) for v in rng.integers(-5, 6, 2) * (rng.random() < 0.3))
        both(lambda m, i: m.line(i, p, q, color, thickness, kind, shift), image)  # noqa: B023
        both(lambda m, i: m.rectangle(i, p, q, color, filled, kind, shift), image)  # noqa: B023
        both(lambda m, i: m.circle(i, p, radius, color, filled, kind, shift), image)  # noqa: B023
        both(lambda m, i: m.arrowedLine(i, p, q, color, thickness, kind, shift, 0.3), image)  # noqa: B023
        both(lambda m, i: m.fillPoly(i, polygons, color, kind, shift, offset), image)  # noqa: B023
        if not shift:
            both(lambda m, i: m.drawContours(i, polygons, -1, color, filled, kind, None, 9, offset), image)  # noqa: B023


@pytest.mark.parametrize("kind", LINES, ids=LINES.values())
def test_random_shapes(kind: int) -> None:
    compare(kind, 1, 80)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINES, ids=LINES.values())
def test_many_random_shapes(kind: int) -> None:
    compare(kind, 2, 5000)


def test_a_rectangle_by_its_size() -> None:
    rng = np.random.default_rng(4)
    image = np.zeros((17, 13), np.uint8)
    for shift in (0, 0, 1, 4):
        for _ in range(20):
            box = tuple(int(v) for v in rng.integers([-30, -30, 0, 0], [20, 20, 60, 60]) << shift)
            both(lambda m, i: m.rectangle(i, box, 200, 1, 8, shift), image)  # noqa: B023
            both(lambda m, i: m.rectangle(i, box, 200, -1, 8, shift), image)  # noqa: B023
            both(lambda m, i: m.rectangle(i, rec=box, color=3, thickness=2, shift=shift), image)  # noqa: B023


def test_colors_are_rounded_and_limited() -> None:
    for dtype in ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64"):
        for color in (7, 3.7, 2.5, 3.5, (300, -5, 2.5), (1.5, -7e8, 1e6), (-200.5,), [1, 2]):
            both(lambda m, i: m.line(i, (0, 0), (4, 4), color), np.full((6, 6, 3), 9, dtype))  # noqa: B023


def test_a_view_is_changed_and_nothing_else() -> None:
    image = np.zeros((20, 30, 3), np.uint8)
    view = image[2:18:3, 5:25:2]
    assert cv.circle(view, (4, 3), 3, (1, 2, 3), -1) is view
    expected = cv2.circle(np.zeros(view.shape, np.uint8), (4, 3), 3, (1, 2, 3), -1)
    np.testing.assert_array_equal(view, expected)
    view[...] = 0
    assert not image.any()


def test_a_var_is_changed() -> None:
    image = cv.flip(np.zeros((12, 10, 3), np.uint8), 1)
    assert cv.line(image, (1, 1), (8, 9), (10, 20, 30), 2) is image
    np.testing.assert_array_equal(image, cv2.line(np.zeros((12, 10, 3), np.uint8), (1, 1), (8, 9), (10, 20, 30), 2))
    assert cv.fillPoly(img=image, pts=[np.array([[0, 0], [5, 0], [0, 5]])], color=(9, 9, 9)) is image
    assert np.asarray(image)[1, 1].tolist() == [9, 9, 9]


def test_huge_shapes_end_soon() -> None:
    """OpenCV takes half a minute for the rectangle, as it goes through all rows."""
    image = np.zeros((30, 40), np.uint8)
    far = 2**31 - 1
    both(lambda m, i: m.line(i, (-far, -far), (far, far), 1, 3), image)
    assert cv.rectangle(image.copy(), (-far, -far), (far, far), 1, cv.FILLED).all()
    assert cv.circle(image.copy(), (20, 15), far, 1, cv.FILLED).all()
    assert cv.circle(image.copy(), (20 - far, 15), far, 1)[:, 19:21].any(axis=1).all()
    corners = np.array([[-(10**8), -1000], [10**8, -1000], [15, 20]], np.int32)
    filled = cv.fillPoly(image.copy(), [corners], 1)
    assert filled[:19].all()
    assert not filled[21:].any()


def test_wrong_arguments() -> None:
    image = np.zeros((10, 10, 3), np.uint8)
    dot = np.zeros((1, 1, 2), int)
    read_only = image.copy()
    read_only.flags.writeable = False
    for call, message in (
        (lambda: cv.line("x", (0, 0), (1, 1), 1), "must be a numpy array or a Var"),
        (lambda: cv.line(read_only, (0, 0), (1, 1), 1), "read-only"),
        (lambda: cv.line(np.zeros((4, 4, 5), np.uint8), (0, 0), (1, 1), 1), "1, 2, 3 or 4 channels"),
        (lambda: cv.line(np.zeros((4, 4), np.int64), (0, 0), (1, 1), 1), "must be of type"),
        (lambda: cv.line(image, (0, 0.5), (1, 1), 1), "y of pt1 must be a whole number"),
        (lambda: cv.line(image, (0,), (1, 1), 1), r"pt1 must be \(x, y\)"),
        (lambda: cv.line(image, (0, 1 << 31), (1, 1), 1), "y of pt1 is 2147483648"),
        (lambda: cv.line(image, (0, 0), (1, 1), (1, 2, 3, 4, 5)), "color must be a number or up to 4 numbers"),
        (lambda: cv.line(image, (0, 0), (1, 1), "red"), "color must be"),
        (lambda: cv.line(image, (0, 0), (1, 1), 1, 0), "thickness is 0: it must be at least 1"),
        (lambda: cv.line(image, (0, 0), (1, 1), 1, 1, 7), "lineType is 7"),
        (lambda: cv.line(image[..., :2], (0, 0), (1, 1), 1, 1, cv.LINE_AA), "LINE_AA needs"),
        (lambda: cv.line(image, (0, 0), (1, 1), 1, 1, 8, 17), "shift is 17"),
        (lambda: cv.circle(image, (0, 0), -1, 1), "radius is -1"),
        (lambda: cv.rectangle(image, (1, 2, "a", 4), 1), "rec must be a whole number"),
        (lambda: cv.fillPoly(image, 5, 1), "pts must be a list of arrays of points"),
        (lambda: cv.fillPoly(image, [np.zeros((3, 3))], 1), "must be points of shape"),
        (lambda: cv.fillPoly(image, [np.array([[0.5, 1]])], 1), "must be points of int32"),
        (lambda: cv.drawContours(image, [dot], 0, 1, hierarchy=np.zeros((1, 2, 4), int)), "hierarchy must be"),
        (lambda: cv.drawContours(image, [], "a", 1), "contourIdx must be a whole number"),
        (lambda: cv.drawContours(image, [dot], 1, 1), "contourIdx is 1, but there are 1 contours"),
        (
            lambda: cv.drawContours(image, [np.zeros((1, 2), int)], 0, 1, hierarchy=np.zeros((1, 2, 4), int)),
            "hierarchy",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            call()
