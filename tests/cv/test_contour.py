"""Contours, their hierarchy and their approximations are those of OpenCV, point by point."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UnsupportedError, UsageError
from tests.cv import scenes

MODES = (cv2.RETR_EXTERNAL, cv2.RETR_LIST, cv2.RETR_CCOMP, cv2.RETR_TREE)
METHODS = (
    cv2.CHAIN_APPROX_NONE,
    cv2.CHAIN_APPROX_SIMPLE,
    cv2.CHAIN_APPROX_TC89_L1,
    cv2.CHAIN_APPROX_TC89_KCOS,
)


def compare(image: np.ndarray, mode: int, method: int, offset: tuple[int, int] = (0, 0)) -> int:
    expected, links = cv2.findContours(image, mode, method, offset=offset)
    found, hierarchy = cv.findContours(image, mode, method, offset=offset)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.asarray(ours).dtype == np.int32
        np.testing.assert_array_equal(ours, theirs)
    if links is None:
        assert hierarchy is None
    else:
        assert np.asarray(hierarchy).dtype == np.int32
        np.testing.assert_array_equal(hierarchy, links)
    return len(found)


def compare_many(seed: int, count: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(
        compare(image, mode, method, (3, -2))
        for image in (scenes.shapes(rng) for _ in range(count))
        for mode in MODES
        for method in METHODS
    )


def test_random_images() -> None:
    assert compare_many(0, 60) > 1000


@pytest.mark.slow
def test_many_random_images() -> None:
    compare_many(1, 1500)


def test_nested_shapes_and_borders_of_the_image() -> None:
    image = np.zeros((60, 130), np.uint8)
    for k in range(7):
        cv2.rectangle(image, (k * 4, k * 4), (59 - k * 4, 59 - k * 4), 255 * (k % 2 == 0), -1)
        cv2.circle(image, (95, 30), 34 - 5 * k, 255 * (k % 2 == 0), -1)
    for mode in MODES:
        assert compare(image, mode, cv2.CHAIN_APPROX_SIMPLE) >= 2
        assert compare(np.full((5, 7), 255, np.uint8), mode, cv2.CHAIN_APPROX_NONE) == 1
        assert compare(np.zeros((5, 7), np.uint8), mode, cv2.CHAIN_APPROX_NONE) == 0
    assert len(cv.findContours(image[::2, ::3] > 0, cv.RETR_LIST, cv.CHAIN_APPROX_NONE)[0]) > 2
    assert len(cv.findContours(image[..., None], cv.RETR_LIST, cv.CHAIN_APPROX_NONE)[0]) > 2


def test_levels_of_drawn_contours() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        image = scenes.shapes(rng)
        for mode in (cv2.RETR_CCOMP, cv2.RETR_TREE):
            contours, links = cv2.findContours(image, mode, cv2.CHAIN_APPROX_SIMPLE)
            if not contours:
                continue
            for index in (-1, int(rng.integers(len(contours)))):
                for level in (-1, 0, 1, 2, 99):
                    thickness = int(rng.choice([1, 2, -1]))
                    expected = cv2.drawContours(np.zeros_like(image), contours, index, 255, thickness, 8, links, level)
                    found = cv.drawContours(np.zeros_like(image), contours, index, 255, thickness, 8, links, level)
                    np.testing.assert_array_equal(found, expected)


def test_what_is_found_can_be_drawn() -> None:
    image = scenes.shapes(np.random.default_rng(8))
    contours, links = cv.findContours(cv.flip(image, 0), cv.RETR_CCOMP, cv.CHAIN_APPROX_NONE)
    again = np.zeros_like(image)
    cv.drawContours(again, contours, -1, 1, cv.FILLED, hierarchy=links)
    np.testing.assert_array_equal(again, image[::-1] != 0)


def test_hierarchies_with_cycles_end() -> None:
    square = np.array([[0, 0], [3, 0], [3, 3]], np.int32)
    links = np.array([[1, 0, 1, 1], [0, 1, 0, 0]], np.int32)
    for index in (-1, 0, 1):
        cv.drawContours(np.zeros((5, 5), np.uint8), [square, square], index, 1, -1, 8, links, 5)
    wild = np.full((2, 4), 10**9, np.int32)
    cv.drawContours(np.zeros((5, 5), np.uint8), [square, square], 0, 1, 1, 8, wild, 5)


def test_wrong_arguments() -> None:
    image = np.zeros((10, 10), np.uint8)
    for call, message in (
        (lambda: cv.findContours(image, 5, 1), "mode is 5: it must be RETR_EXTERNAL"),
        (lambda: cv.findContours(image, 0, 0), "method is 0: it must be CHAIN_APPROX_NONE"),
        (lambda: cv.findContours(np.zeros((4, 4, 3), np.uint8), 0, 1), "must have 1 channels"),
        (lambda: cv.findContours(image.astype(np.float32), 0, 1), "must be of type uint8"),
        (lambda: cv.findContours(image[:0], 0, 1), "empty"),
        (lambda: cv.findContours(None, 0, 1), "must be an array"),
        (lambda: cv.findContours(image, 0, 1, offset=3), "offset must be"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    with pytest.raises(UnsupportedError, match="RETR_FLOODFILL is not supported"):
        cv.findContours(image, cv.RETR_FLOODFILL, 1)
