"""Filters and morphology, compared with OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from opencv_comparison import compare, picture

import minnow.cv as cv
from minnow.errors import UsageError

CHANNELS = (1, 3, 4)
DTYPES = ("uint8", "float32", "uint8", "int16", "uint8", "float64")
BORDERS = (cv.BORDER_CONSTANT, cv.BORDER_REPLICATE, cv.BORDER_REFLECT, cv.BORDER_REFLECT_101)
DEPTHS = {"uint8": (-1, cv.CV_16S, cv.CV_32F, cv.CV_64F), "float32": (-1,), "int16": (-1,), "float64": (-1,)}
ROUNDS = 18


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.mark.parametrize("border", BORDERS)
def test_blurs(border: int, rng: np.random.Generator) -> None:
    compared = 0
    for k in range(ROUNDS):
        dtype = DTYPES[k % 6]
        image = picture(rng, dtype, CHANNELS[k % 3])
        size = tuple(int(n) for n in rng.choice([1, 3, 5, 9, 15, 21], 2))
        sx, sy = (float(s) for s in rng.uniform(0.3, 5, 2))
        window, mean = tuple(int(n) for n in rng.integers(1, 14, 2)), bool(rng.integers(2))
        depth = DEPTHS[dtype][k % len(DEPTHS[dtype])]
        outside = {"borderType": border}
        compared += compare(rng, "GaussianBlur", image, size, sx, sigmaY=sy, **outside)
        compared += compare(rng, "GaussianBlur", image, size, 0, **outside)
        compared += compare(rng, "GaussianBlur", image, (0, 0), sx, **outside)
        compared += compare(rng, "boxFilter", image, depth, window, normalize=mean, **outside)
        compared += compare(rng, "blur", image, window, **outside)
        compared += compare(rng, "sqrBoxFilter", image, -1, window, normalize=mean, **outside)
    assert compared > 4 * ROUNDS


def test_means_of_small_windows(rng: np.random.Generator) -> None:
    for width, height in [(5, 1), (3, 3), (5, 2), (3, 6), (4, 5), (3, 7), (11, 3), (17, 15)]:
        for shape in [(7, 5), (40, 131, 3)]:
            image = rng.integers(0, 256, shape, np.uint8)
            np.testing.assert_array_equal(cv.blur(image, (width, height)), cv2.blur(image, (width, height)))
    for side in (1, 2, 4):  # OpenCV gives 101 with (2, 1)
        image = np.full((9, 70), 100, np.uint8)
        np.testing.assert_array_equal(cv.blur(image, (2, side)), image)


@pytest.mark.parametrize("border", BORDERS)
def test_derivatives_and_other_weights(border: int, rng: np.random.Generator) -> None:
    compared = 0
    for k in range(ROUNDS):
        dtype = DTYPES[k % 6]
        image = picture(rng, dtype, CHANNELS[k % 3])
        depth = DEPTHS[dtype][k % len(DEPTHS[dtype])]
        dx, dy = [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)][rng.integers(5)]
        size, scale = int(rng.choice([1, 3, 5, 7])), float(rng.choice([1, 0.5]))
        kernel = rng.normal(0, 0.3, rng.integers(1, 10, 2))
        row, column = rng.normal(0, 0.4, rng.integers(1, 9)), rng.normal(0, 0.4, rng.integers(1, 9))
        rest = {"delta": 1.5, "borderType": border}
        if dtype == "int16":  # OpenCV saturates numbers of 16 bits before it scales them
            image = image >> 7
        compared += compare(rng, "Sobel", image, depth, dx, dy, ksize=size, scale=scale, **rest)
        compared += compare(rng, "Scharr", image, depth, k % 2, 1 - k % 2, scale=scale, **rest)
        compared += compare(rng, "Laplacian", image, depth, ksize=size, scale=scale, **rest)
        compared += compare(rng, "filter2D", image, depth, kernel, **rest)
        compared += compare(rng, "sepFilter2D", image, depth, row, column, **rest)
    assert compared > 4 * ROUNDS


@pytest.mark.parametrize("border", BORDERS)
def test_bilateral_filter_and_gradients(border: int, rng: np.random.Generator) -> None:
    for k in range(8):
        image = picture(rng, DTYPES[k % 2], (1, 3)[k // 2 % 2])
        diameter, color, space = int(rng.integers(-1, 10)), float(rng.uniform(10, 80)), float(rng.uniform(0.5, 4))
        color = color if k % 2 == 0 else color / 255
        named = {"borderType": border, "tolerance": 1e-3}
        assert compare(rng, "bilateralFilter", image, diameter, color, space, **named)
    gray = picture(rng, "uint8", 1)
    if border in (cv.BORDER_DEFAULT, cv.BORDER_REPLICATE):
        assert compare(rng, "spatialGradient", gray, ksize=3, borderType=border, levels=0)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", ["dilate", "erode"])
def test_morphology(name: str, border: int, rng: np.random.Generator) -> None:
    for k in range(ROUNDS):
        image = picture(rng, DTYPES[k % 6], CHANNELS[k % 3])
        element = cv2.getStructuringElement(k % 3, tuple(int(n) for n in rng.integers(1, 12, 2)))
        times = int(rng.integers(0, 4))
        assert compare(rng, name, image, element, iterations=times, borderType=border, levels=0)
        assert compare(rng, name, image, None, levels=0)
        value = (3.0, 4.0, 5.0, 6.0)
        assert compare(rng, name, image, element, anchor=(0, 0), borderValue=value, levels=0)


def test_pyramids(rng: np.random.Generator) -> None:
    compared = 0
    for k in range(3 * ROUNDS):
        image = picture(rng, DTYPES[k % 6], CHANNELS[k % 3])
        compared += compare(rng, "pyrDown", image, borderType=BORDERS[1 + k % 3])
        compared += compare(rng, "pyrUp", image)
        smaller = tuple(max(n // 2, 1) for n in image.shape[1::-1])
        compared += compare(rng, "pyrDown", image, dstsize=smaller, borderType=BORDERS[1 + k % 3])
    assert compared > 5 * ROUNDS


def test_weights() -> None:
    for n in (1, 3, 5, 7, 9, 11, 31):
        for sigma in (-1, 0, 0.3, 1.7, 20):
            np.testing.assert_allclose(cv.getGaussianKernel(n, sigma), cv2.getGaussianKernel(n, sigma), atol=1e-12)
    for size in (1, 3, 5, 7, cv.FILTER_SCHARR):
        for dx, dy in ((1, 0), (0, 1), (1, 1), (2, 0), (2, 1)):
            for normalize in (False, True):
                try:
                    wanted = cv2.getDerivKernels(dx, dy, size, normalize=normalize)
                except cv2.error:
                    with pytest.raises(UsageError):
                        cv.getDerivKernels(dx, dy, size, normalize)
                    continue
                for got, want in zip(cv.getDerivKernels(dx, dy, size, normalize), wanted, strict=True):
                    assert np.asarray(got).dtype == want.dtype
                    np.testing.assert_allclose(got, want)
    for size in ((7, 9), (0, 0), (8, 5)):
        got = np.asarray(cv.getGaborKernel(size, 2.0, 0.6, 5.0, 0.7, 0.3))
        np.testing.assert_allclose(got, cv2.getGaborKernel(size, 2.0, 0.6, 5.0, 0.7, 0.3), atol=1e-12)
    for shape in range(3):
        for width in range(1, 9):
            for height in range(1, 9):
                got = np.asarray(cv.getStructuringElement(shape, (width, height)))
                np.testing.assert_array_equal(got, cv2.getStructuringElement(shape, (width, height)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: cv.GaussianBlur(a, (4, 3), 1), "must be odd"),
        (lambda a: cv.GaussianBlur(a, (0, 0), 0), "must be odd"),
        (lambda a: cv.GaussianBlur(a, (0, 0), 1e9), "at most 4096"),
        (lambda a: cv.GaussianBlur(a, (3, 3), 1, 0, cv.BORDER_WRAP), "BORDER_WRAP"),
        (lambda a: cv.GaussianBlur(a.astype(np.int8), (3, 3), 1), "not int8"),
        (lambda a: cv.Sobel(a, cv.CV_16S, 0, 0), "no derivative"),
        (lambda a: cv.Sobel(a, cv.CV_16S, 3, 0), "no derivative of order 3"),
        (lambda a: cv.Sobel(a, cv.CV_16S, 1, 0, 4), "ksize is 4"),
        (lambda a: cv.Sobel(a, 99, 1, 0), "ddepth is 99"),
        (lambda a: cv.Sobel(a.astype(np.float32), cv.CV_16S, 1, 0), "gives no result of int16"),
        (lambda a: cv.Scharr(a, -1, 1, 1), "dx \\+ dy must be 1"),
        (lambda a: cv.filter2D(a, -1, np.zeros((0, 3))), "matrix of weights"),
        (lambda a: cv.filter2D(a, -1, [[np.nan]]), "not finite"),
        (lambda a: cv.sepFilter2D(a, -1, np.ones((2, 2)), [1]), "vector of weights"),
        (lambda a: cv.boxFilter(a, -1, (0, 3)), "width in ksize is 0"),
        (lambda a: cv.boxFilter(a, -1, (9999, 3)), "larger than 4096"),
        (lambda a: cv.boxFilter(a, -1, (3, 3), anchor=(5, 0)), "x of anchor is 5"),
        (lambda a: cv.bilateralFilter(a[..., :2], 3, 1, 1), "1 or 3 channels"),
        (lambda a: cv.bilateralFilter(a, 10**6, 1, 1), "too large"),
        (lambda a: cv.dilate(a, np.zeros((3, 3))), "only zeros"),
        (lambda a: cv.dilate(a, np.ones((3, 3, 3))), "matrix of 1 and 0"),
        (lambda a: cv.erode(a, None, -1), "iterations is -1"),
        (lambda a: cv.pyrDown(a, (1, 1)), "dstsize"),
        (lambda a: cv.pyrDown(a, None, cv.BORDER_CONSTANT), "BORDER_CONSTANT"),
        (lambda a: cv.pyrUp(a, (90, 90)), "dstsize"),
        (lambda a: cv.spatialGradient(a), "1 channels"),
        (lambda a: cv.getGaussianKernel(4, 1), "must be odd"),
        (lambda a: cv.getStructuringElement(7, (3, 3)), "shape is 7"),
        (lambda a: cv.getDerivKernels(1, 0, 3, a), "normalize must be True or False"),
    ],
)
def test_wrong_arguments(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(np.zeros((14, 15, 3), np.uint8))  # type: ignore[operator]
