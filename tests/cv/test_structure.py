"""Rectangles, hulls and areas of points, and connected components, compared with OpenCV's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UsageError
from tests.cv import scenes


def some_points(rng: np.random.Generator) -> np.ndarray:
    count, reach = int(rng.integers(1, 30)), int(rng.choice([2, 3, 5, 9, 30, 1000]))
    kind = int(rng.integers(0, 3))
    if kind == 0:
        return (rng.random((count, 1, 2)) * reach).astype(np.float32)
    points = rng.integers(0, reach, (count, 1, 2)).astype(np.int32)
    if kind == 1:
        return points
    filled = cv2.fillPoly(np.zeros((40, 40), np.uint8), [points % 40], 1)
    return max(cv2.findContours(filled, 0, 2)[0], key=len)


def compare_points(points: np.ndarray) -> bool:
    """Whether the least rectangle is the same; one of two of equal area counts as another one."""
    assert cv.boundingRect(points) == cv2.boundingRect(points)
    for oriented in (False, True):
        assert cv.contourArea(points, oriented) == pytest.approx(cv2.contourArea(points, oriented), rel=1e-12, abs=1e-9)
    distinct = len(np.unique(points.reshape(-1, 2), axis=0)) == len(points)
    for clockwise in (False, True):
        expected = cv2.convexHull(points, clockwise=clockwise)
        found = np.asarray(cv.convexHull(points, clockwise=clockwise))
        assert found.dtype == points.dtype
        if distinct:  # among equal points OpenCV's choice, and where it begins, depend on its sorting
            np.testing.assert_array_equal(found, expected)
            indices = cv.convexHull(points, clockwise=clockwise, returnPoints=False)
            np.testing.assert_array_equal(indices, cv2.convexHull(points, clockwise=clockwise, returnPoints=False))
        else:
            assert sorted(found.reshape(-1, 2).tolist()) == sorted(expected.reshape(-1, 2).tolist())
    (center, size, angle), expected = cv.minAreaRect(points), cv2.minAreaRect(points)
    assert -90 <= angle < 0
    assert size[0] * size[1] == pytest.approx(expected[1][0] * expected[1][1], rel=1e-4, abs=1e-2)
    np.testing.assert_allclose(cv.boxPoints(expected), cv2.boxPoints(expected), rtol=1e-5, atol=1e-4)
    found, wanted = np.r_[center, size, angle], np.r_[expected[0], expected[1], expected[2]]
    return bool(np.allclose(found, wanted, rtol=1e-4, atol=2e-3 * max(1, np.abs(points).max() / 100)))


def test_points() -> None:
    rng = np.random.default_rng(0)
    same = [compare_points(some_points(rng)) for _ in range(300)]
    assert np.mean(same) > 0.98


@pytest.mark.slow
def test_many_points() -> None:
    rng = np.random.default_rng(1)
    same = [compare_points(some_points(rng)) for _ in range(20000)]
    assert np.mean(same) > 0.99


def test_few_points() -> None:
    for points in ([[0, 0]], [[0, 0], [5, 5]], [[3, 3], [3, 3]], [[0, 3], [0, 1], [0, 2]], [[0, 0], [4, 0], [2, 0]]):
        assert compare_points(np.array(points, np.int32).reshape(-1, 1, 2))
    none = np.zeros((0, 1, 2), np.int32)
    assert cv.convexHull(none) is None
    assert cv.boundingRect(none) == cv2.boundingRect(none)
    assert cv.contourArea(none) == 0
    assert cv.minAreaRect(none) == cv2.minAreaRect(none)
    assert cv.minAreaRect([[1, 2], [4, 2], [4, 9]]) == cv2.minAreaRect(np.array([[1, 2], [4, 2], [4, 9]], np.int32))


def test_the_rectangle_around_the_nonzero_pixels() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        image = scenes.shapes(rng)
        assert cv.boundingRect(image) == cv2.boundingRect(image)


def compare_components(image: np.ndarray) -> None:
    for connectivity in (4, 8):
        expected = cv2.connectedComponentsWithStats(image, connectivity=connectivity)
        found = cv.connectedComponentsWithStats(image, connectivity=connectivity)
        assert found[0] == expected[0]
        for ours, theirs in zip(found[1:], expected[1:], strict=True):
            assert np.asarray(ours).dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def test_connected_components() -> None:
    rng = np.random.default_rng(4)
    for _ in range(80):
        compare_components(scenes.shapes(rng))
    compare_components(np.full((5, 4), 7, np.uint8))
    labels = cv.connectedComponentsWithStats(np.eye(4, dtype=np.uint8), connectivity=4, ltype=2)[1]
    np.testing.assert_array_equal(labels, np.diag([1, 2, 3, 4]))
    assert np.asarray(labels).dtype == np.uint16


@pytest.mark.slow
def test_connected_components_of_large_images() -> None:
    rng = np.random.default_rng(5)
    for share in (0.1, 0.4, 0.5, 0.6, 0.9):
        compare_components((rng.random((1081, 1923)) < share).astype(np.uint8))


def test_wrong_arguments() -> None:
    image = np.zeros((10, 10), np.uint8)
    for call, message in (
        (lambda: cv.boundingRect(np.zeros((3, 3, 3))), "must be points of shape"),
        (lambda: cv.contourArea("x"), "must be an array"),
        (lambda: cv.contourArea([[np.nan, 1]]), "not finite"),
        (lambda: cv.minAreaRect([[1, 2, 3]]), "must be points of shape"),
        (lambda: cv.convexHull([[1, 2**40]]), "beyond the range of int32"),
        (lambda: cv.boxPoints((1, 2)), "box must be"),
        (lambda: cv.boxPoints(((1, 2), (3, 4), "a")), "box must be a number"),
        (lambda: cv.connectedComponentsWithStats(image, connectivity=6), "connectivity is 6"),
        (lambda: cv.connectedComponentsWithStats(image, ltype=0), "ltype is 0"),
        (lambda: cv.connectedComponentsWithStats(np.zeros((3, 3, 3), np.uint8)), "must have 1 channels"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
