"""Arithmetic, joins, norms, linear equations, thresholds and histograms, compared with OpenCV's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UsageError
from tests.cv import scenes
from tests.sampling import some_of

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64")


def compare(call: Callable[[Any], Any], levels: float = 0, relative: float = 0) -> None:
    """Runs a call with OpenCV and with us. Integers may differ by `levels`, floats by `relative`."""
    expected, found = call(cv2), call(cv)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for theirs, ours in zip(expected, found, strict=True):
        if not isinstance(theirs, np.ndarray):
            assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)
            continue
        ours = np.asarray(ours)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(
                ours, theirs, rtol=relative, atol=relative * max(1, np.abs(theirs).max(initial=0))
            )
        else:
            assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0) <= levels


def pairs(seed: int, count: int) -> Any:
    rng = np.random.default_rng(seed)
    for _ in range(some_of(count, 5)):
        dtype, channels = str(rng.choice(DTYPES)), int(rng.choice([0, 0, 1, 2, 3, 4]))
        a = scenes.image(rng, dtype, channels)
        yield rng, a, scenes.image(rng, dtype, channels, a.shape[:2]), (rng.random(a.shape[:2]) < 0.5).astype(np.uint8)


def test_weighted_sums() -> None:
    for rng, a, b, _ in pairs(0, 300):
        alpha, beta = rng.uniform(-0.5, 0.5, 2)  # int32 overflows otherwise, for which OpenCV has no rule
        gamma, depth = rng.normal() * 20, int(rng.choice([-1, 5, 6]))
        compare(lambda m: m.addWeighted(a, alpha, b, beta, gamma), 0 if a.dtype.itemsize == 1 else 1, 1e-5)  # noqa: B023
        compare(lambda m: m.addWeighted(a, alpha, b, beta, gamma, None, depth), 1, 1e-5)  # noqa: B023


def test_bits() -> None:
    for _, a, b, mask in pairs(1, 200):
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            for call in (
                lambda m: getattr(m, name)(a, b),  # noqa: B023
                lambda m: getattr(m, name)(a, b, mask=mask),  # noqa: B023
                lambda m: getattr(m, name)(a, b, b.copy(), mask),  # noqa: B023
            ):
                expected, found = call(cv2), np.asarray(call(cv))
                assert found.dtype == expected.dtype
                assert found.tobytes() == expected.tobytes()  # bits of floats may be no numbers
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    compare(lambda m: m.bitwise_and(image, (15, 3, 1, 0)))
    compare(lambda m: m.bitwise_xor(image[..., 0], 255))


def test_copies_with_masks() -> None:
    for _, a, b, mask in pairs(2, 100):
        compare(lambda m: m.copyTo(a, mask))  # noqa: B023
        compare(lambda m: m.copyTo(a, None))  # noqa: B023
        target = np.ascontiguousarray(b)
        compare(lambda m: m.copyTo(a, mask, target.copy()))  # noqa: B023
        cv.copyTo(a, mask, target)
        np.testing.assert_array_equal(target, np.where(mask.reshape(mask.shape + (1,) * (a.ndim - 2)), a, b))


def test_joins_and_parts() -> None:
    for rng, a, b, mask in pairs(3, 100):
        code = int(rng.integers(-2, 3))
        compare(lambda m: m.flip(a, code))  # noqa: B023
        compare(lambda m: m.hconcat([a, b, a]))  # noqa: B023
        compare(lambda m: m.vconcat([a, b]))  # noqa: B023
        compare(lambda m: m.merge([a, b]))  # noqa: B023
        compare(lambda m: m.split(a))  # noqa: B023
        if a.dtype != np.int32:  # OpenCV adds these in 32 bits
            compare(lambda m: m.mean(a))  # noqa: B023
            compare(lambda m: m.mean(a, mask))  # noqa: B023
    assert cv.hconcat([]) is None
    assert cv.mean(np.full((2, 2), -(2**31), np.int32)) == (-(2.0**31), 0, 0, 0)


@pytest.mark.parametrize("norm", [cv2.NORM_INF, cv2.NORM_L1, cv2.NORM_L2, cv2.NORM_MINMAX])
def test_normalize(norm: int) -> None:
    for rng, a, _, mask in pairs(norm, 80):
        size, depth = float(rng.choice([1, 100, 255])), int(rng.choice([-1, -1, 0, 5, 6]))
        compare(lambda m: m.normalize(a, None, size, 0, norm, depth), 1, 1e-5)  # noqa: B023
        if norm != cv2.NORM_MINMAX or a.ndim == 2:
            compare(lambda m: m.normalize(a, None, size, 0, norm, depth, mask), 1, 1e-5)  # noqa: B023
    compare(lambda m: m.normalize(np.full((3, 3), 5, np.uint8), None, 0, 255, norm))
    compare(lambda m: m.normalize(np.zeros((3, 3), np.float32), None, 1, 0, norm))


def test_equations() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, dtype = int(rng.integers(1, 7)), (np.float32, np.float64)[int(rng.integers(2))]
        a = rng.normal(size=(n + int(rng.integers(0, 3)), n)).astype(dtype)
        b = rng.normal(size=(len(a), 2)).astype(dtype)
        square = (a.T @ a + np.eye(n)).astype(dtype)
        tolerance = 1e-7 if dtype == np.float64 else 2e-2  # both are of single precision
        for flags in (cv2.DECOMP_SVD, cv2.DECOMP_QR, cv2.DECOMP_NORMAL, cv2.DECOMP_NORMAL | cv2.DECOMP_QR):
            compare(lambda m: m.solve(a, b, flags=flags), 0, tolerance)  # noqa: B023
        for flags in (cv2.DECOMP_LU, cv2.DECOMP_SVD, cv2.DECOMP_EIG, cv2.DECOMP_CHOLESKY, cv2.DECOMP_QR):
            compare(lambda m: m.solve(square, b[:n], flags=flags), 0, tolerance)  # noqa: B023
    ones = np.ones((4, 4))
    compare(lambda m: m.solve(ones, ones[:, :1]), 0, 1e-9)
    compare(lambda m: m.solve(ones, ones[:, :1], flags=cv2.DECOMP_SVD), 0, 1e-9)
    compare(lambda m: m.solve(ones, ones[:, 0], flags=cv2.DECOMP_QR), 0, 1e-9)


def test_thresholds() -> None:
    rng = np.random.default_rng(6)
    for _ in range(60):
        dtype = ("uint8", "uint16", "int16", "float32", "float64")[int(rng.integers(5))]
        image = scenes.image(rng, dtype, int(rng.integers(0, 4)))
        level, value = float(rng.choice([rng.normal() * 100, -5, 300, 127])), float(rng.uniform(-10, 300))
        for kind in range(5):
            compare(lambda m: m.threshold(image, level, value, kind))  # noqa: B023


def test_thresholds_from_histograms() -> None:
    rng = np.random.default_rng(7)
    for _ in range(80):
        image = scenes.image(rng, "uint8", 0)
        if rng.random() < 0.7:
            image = np.clip(rng.normal(100, 30, image.shape) + 80 * (rng.random(image.shape) < 0.3), 0, 255)
            image = image.astype(np.uint8)
        kind = int(rng.integers(5))
        compare(lambda m: m.threshold(image, 0, 255, cv2.THRESH_OTSU | kind))  # noqa: B023
        compare(lambda m: m.threshold(image, 0, 255, cv2.THRESH_TRIANGLE | kind))  # noqa: B023
        compare(lambda m: m.threshold(image.astype(np.uint16) * 3, 0, 255, cv2.THRESH_OTSU | kind))  # noqa: B023


def test_the_result_of_threshold_is_an_image_and_a_pair() -> None:
    image = np.array([[10, 200], [100, 101]], np.uint8)
    result = cv.threshold(image, 100, 255, cv.THRESH_BINARY)
    level, bright = result
    assert level == 100 == result[0]
    assert np.asarray(bright).tolist() == np.asarray(result).tolist() == np.asarray(result[1]).tolist()
    assert result.shape == [2, 2]
    assert np.asarray(result[0:1]).tolist() == [[0, 255]]
    assert np.asarray(cv.flip(result, 0)).tolist() == [[0, 255], [0, 255]]


def test_adaptive_thresholds() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        image = scenes.image(rng, "uint8", 0)
        size, constant = int(rng.choice([3, 5, 7, 9, 11, 15, 31])), float(rng.choice([0, 2, -3, 2.5, -2.5]))
        value, kind = float(rng.choice([255, 100.4, 300, -5])), int(rng.integers(2))
        for method in (cv2.ADAPTIVE_THRESH_MEAN_C, cv2.ADAPTIVE_THRESH_GAUSSIAN_C):
            compare(lambda m: m.adaptiveThreshold(image, value, method, kind, size, constant))  # noqa: B023


def test_blends() -> None:
    rng = np.random.default_rng(9)
    for _ in range(40):
        dtype, channels = ("uint8", "float32")[int(rng.integers(2))], int(rng.integers(0, 5))
        a = scenes.image(rng, dtype, channels)
        b = scenes.image(rng, dtype, channels, a.shape[:2])
        first, second = rng.random((2, *a.shape[:2])).astype(np.float32)
        compare(lambda m: m.blendLinear(a, b, first, second), 1, 1e-5)  # noqa: B023


def test_histograms() -> None:
    rng = np.random.default_rng(10)
    for _ in range(some_of(300, 5)):
        image = scenes.image(rng, ("uint8", "uint16", "float32")[int(rng.integers(3))], int(rng.integers(0, 5)))
        available = 1 if image.ndim == 2 else image.shape[2]
        count = int(rng.integers(1, min(available, 3) + 1))
        channels = [int(c) for c in rng.integers(0, available, count)]
        sizes = [int(s) for s in rng.integers(1, 20, count)]
        low = float(rng.choice([0, 0.5, -20, 10]))
        ranges = [low, low + float(rng.choice([256, 100, 33.3]))] * count
        mask = (rng.random(image.shape[:2]) < 0.5).astype(np.uint8)
        compare(lambda m: m.calcHist([image], channels, None, sizes, ranges))  # noqa: B023
        compare(lambda m: m.calcHist([image], channels, mask, sizes, ranges))  # noqa: B023
    image = scenes.image(rng, "uint8", 3)
    compare(lambda m: m.calcHist([image, image[..., 0]], [3, 1], None, [4, 3], [0, 256, 0, 100]))
    compare(lambda m: m.calcHist([image], [0], None, [256], []))
    compare(lambda m: m.calcHist([image], [0], None, [4], [0, 256], np.ones((4, 1), np.float32), True))


def test_wrong_arguments() -> None:
    image, other = np.zeros((4, 5), np.uint8), np.zeros((4, 6), np.uint8)
    for call, message in (
        (lambda: cv.addWeighted(image, 1, other, 1, 0), "must have one shape"),
        (lambda: cv.addWeighted(image, 1, image.astype(np.float32), 1, 0), "given by dtype"),
        (lambda: cv.addWeighted(image, 1, image, np.nan, 0), "beta must be a finite number"),
        (lambda: cv.addWeighted(image, 1, image, 1, 0, None, 7), "dtype is 7"),
        (lambda: cv.bitwise_and(image, image.astype(np.int8)), "one type"),
        (lambda: cv.bitwise_and(image, image, mask=other), "mask must be an image of bytes"),
        (lambda: cv.copyTo("x"), "src must be an array"),
        (lambda: cv.flip(image, None), "flipCode must be"),
        (lambda: cv.hconcat([image, other.T]), r"src\[1\] of uint8 \[6, 4\] does not fit beside src\[0\]"),
        (lambda: cv.vconcat(3), "src must be a list of images"),
        (lambda: cv.mean(np.zeros((2, 2, 5))), "1, 2, 3 or 4 channels"),
        (lambda: cv.merge([]), "mv is empty"),
        (lambda: cv.merge([image, other]), "does not fit"),
        (lambda: cv.split(np.zeros(3)), "must be an image"),
        (lambda: cv.normalize(image, None, 0, 1, 7), "norm_type is 7"),
        (lambda: cv.normalize(np.zeros((2, 2, 3)), None, 0, 1, 32, -1, np.ones((2, 2), np.uint8)), "one channel"),
        (lambda: cv.solve(np.eye(2, dtype=int), np.eye(2)), "must be a matrix of float32 or float64"),
        (lambda: cv.solve(np.eye(2), np.ones((3, 1))), "src2 must be a float64 matrix of 2 rows"),
        (lambda: cv.solve(np.ones((3, 2)), np.ones((3, 1))), "needs a square matrix"),
        (lambda: cv.solve(np.ones((2, 3)), np.ones((2, 1)), flags=1), "fewer equations than unknowns"),
        (lambda: cv.solve(np.full((2, 2), np.inf), np.ones((2, 1))), "not finite"),
        (lambda: cv.threshold(image, 1, 2, 5), "type is 5"),
        (lambda: cv.threshold(image.astype(np.float32), 1, 2, 8), "must be of type uint8 or uint16"),
        (lambda: cv.threshold(image.astype(np.int8), 1, 2, 0), "must be of type"),
        (lambda: cv.adaptiveThreshold(image, 255, 0, 0, 4, 0), "must be odd"),
        (lambda: cv.adaptiveThreshold(image, 255, 2, 0, 3, 0), "adaptiveMethod is 2"),
        (lambda: cv.adaptiveThreshold(image, 255, 0, 2, 3, 0), "thresholdType is 2"),
        (lambda: cv.blendLinear(image, image, image, image), "weights1 must be float32"),
        (lambda: cv.calcHist([], [0], None, [4], [0, 1]), "images is empty"),
        (lambda: cv.calcHist([image], [1], None, [4], [0, 1]), "channels has 1, but"),
        (lambda: cv.calcHist([image], [0], None, [4, 4], [0, 1]), "histSize has 2 numbers"),
        (lambda: cv.calcHist([image], [0], None, [4], [1, 0]), "lower bound"),
        (lambda: cv.calcHist([image], [0] * 4, None, [999] * 4, [0, 1] * 4), "too large"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
