"""Images of other sizes, and pixels at other places, compared with OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from opencv_comparison import compare, picture

import minnow.cv as cv
from minnow.errors import UsageError

CHANNELS = (1, 3, 4)
DTYPES = ("uint8", "float32")
BORDERS = (cv.BORDER_CONSTANT, cv.BORDER_REPLICATE, cv.BORDER_REFLECT, cv.BORDER_WRAP, cv.BORDER_REFLECT_101)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.mark.parametrize("how", range(7))
@pytest.mark.parametrize("dtype", [*DTYPES, "uint16", "int16", "float64"])
def test_resize(dtype: str, how: int, rng: np.random.Generator) -> None:
    compared = 0
    for k in range(18):
        image = picture(rng, dtype, CHANNELS[k % 3])
        named = {"interpolation": how, "levels": 1 if dtype == "uint8" else 24}  # of 65536; INTER_LINEAR_EXACT
        compared += compare(rng, "resize", image, tuple(int(n) for n in rng.integers(1, 80, 2)), **named)
        fx, fy = rng.uniform(0.3, 2.5, 2)
        compared += compare(rng, "resize", image, None, fx=fx, fy=fy, **named)
        twice = np.repeat(np.repeat(image, 2, 0), 2, 1)
        compared += compare(rng, "resize", twice, image.shape[1::-1], **named)
    assert compared > 20


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("how", [cv.INTER_NEAREST, cv.INTER_LINEAR, cv.INTER_CUBIC, cv.INTER_LANCZOS4])
def test_warps(how: int, border: int, rng: np.random.Generator) -> None:
    compared = 0
    value = (7, 8, 9, 10)
    for k in range(9):
        image = picture(rng, DTYPES[k % 2], CHANNELS[k % 3])
        size = tuple(int(n) for n in rng.integers(1, 80, 2))
        affine = np.eye(2, 3) + rng.normal(0, 0.3, (2, 3)) * [1, 1, 20]
        perspective = np.vstack([affine, [*rng.normal(0, 1e-3, 2), 1]])
        outside = {"borderMode": border, "borderValue": value}
        compared += compare(rng, "warpAffine", image, affine, size, flags=how, **outside)
        flags = how | cv.WARP_INVERSE_MAP
        compared += compare(rng, "warpPerspective", image, perspective, size, flags=flags, **outside)
        x, y = rng.uniform(-6, 80, (2, 19, 23)).astype(np.float32)
        compared += compare(rng, "remap", image, x, y, how, **outside)
        pixels, fractions = cv2.convertMaps(x, y, cv2.CV_16SC2)
        compared += compare(rng, "remap", image, pixels, fractions, how, **outside)
    assert compared == 36


@pytest.mark.parametrize("border", [cv.BORDER_REFLECT, cv.BORDER_REFLECT_101, cv.BORDER_REPLICATE, cv.BORDER_CONSTANT])
@pytest.mark.parametrize("how", [cv.INTER_NEAREST, cv.INTER_LINEAR, cv.INTER_CUBIC])
def test_warps_of_places_far_away(how: int, border: int, rng: np.random.Generator) -> None:
    """Beyond 16 bits, near the horizon, OpenCV takes the place at their limit."""
    for channels in CHANNELS:
        image = picture(rng, "uint8", channels)
        outside = {"borderMode": border, "flags": how | cv.WARP_INVERSE_MAP}
        perspective = np.array([[1, 0.2, -3], [0.1, 1, 2], [rng.uniform(-0.03, -0.02), 1e-4, 1]])
        assert compare(rng, "warpPerspective", image, perspective, (61, 67), levels=0, **outside)
        affine = np.array([[rng.uniform(1500, 2500), 7.3, -5], [3.1, -rng.uniform(1500, 2500), 9]])
        assert compare(rng, "warpAffine", image, affine, (61, 67), levels=0, **outside)
        x, y = rng.uniform(-1e5, 1e5, (2, 19, 23)).astype(np.float32)
        assert compare(rng, "remap", image, x, y, how, borderMode=border, levels=0)


def test_maps(rng: np.random.Generator) -> None:
    x, y = rng.uniform(-6, 80, (2, 19, 23)).astype(np.float32)
    for nearest in (False, True):
        assert compare(rng, "convertMaps", x, y, cv.CV_16SC2, nninterpolation=nearest, levels=0)
    pixels, fractions = cv2.convertMaps(x, y, cv2.CV_16SC2)
    assert compare(rng, "convertMaps", pixels, fractions, cv.CV_32FC1)
    both = np.dstack([x, y])
    image = picture(rng, "uint8", 3)
    assert (np.asarray(cv.remap(image, both)) == np.asarray(cv.remap(image, x, y))).all()


def test_rectangles_between_pixels(rng: np.random.Generator) -> None:
    for k in range(40):
        image = picture(rng, DTYPES[k % 2], (1, 3)[k // 2 % 2], least=7)
        height, width = image.shape[:2]
        size = tuple(int(rng.integers(1, n)) for n in (width, height))
        center = tuple(float(rng.uniform(s / 2, n - s / 2)) for s, n in zip(size, (width, height), strict=True))
        assert compare(rng, "getRectSubPix", image, size, center)
    beyond = cv.getRectSubPix(np.float32([[1, 2], [3, 4]]), (3, 3), (-5.0, 9.0))
    assert (np.asarray(beyond) == 3).all()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64"])
def test_rotate(dtype: str, rng: np.random.Generator) -> None:
    for channels in CHANNELS:
        image = picture(rng, dtype, channels)
        for code in range(3):
            assert compare(rng, "rotate", image, code, levels=0)


@pytest.mark.parametrize("channels", CHANNELS)
def test_colors_and_normalization_in_one_pass(channels: int, rng: np.random.Generator) -> None:
    """The same as one function after the other."""
    codes = {
        1: [cv.COLOR_GRAY2BGR],
        3: [cv.COLOR_BGR2RGB, cv.COLOR_RGB2GRAY, cv.COLOR_BGR2BGRA, cv.COLOR_BGR2YCrCb],
        4: [cv.COLOR_BGRA2RGB, cv.COLOR_BGRA2GRAY, cv.COLOR_RGBA2BGRA],
    }
    matrix = np.float32([[0.7, 0.1, 3], [-0.2, 0.9, 2]])
    for code in (None, *codes[channels]):
        image = rng.integers(0, 256, (37, 53, channels), np.uint8)
        converted = image.squeeze() if code is None else cv2.cvtColor(image, code)
        planes = 1 if converted.ndim == 2 else converted.shape[2]
        mean, norm = [10.0 + i for i in range(planes)], [0.5 + i for i in range(planes)]
        if planes == 1:
            subtracted, factor = np.float32(10), np.float32(0.5)
        else:
            subtracted, factor = np.float32(mean), np.float32(norm)
        finish = {"code": code, "mean": mean, "norm": norm}
        for got, before in (
            (cv.resize(image, (29, 17), **finish), cv2.resize(image, (29, 17))),
            (cv.warpAffine(image, matrix, (29, 17), **finish), cv2.warpAffine(image, matrix, (29, 17))),
        ):
            colored = before if code is None else cv2.cvtColor(before, code)
            wanted = (colored.astype(np.float32) - subtracted) * factor
            assert np.asarray(got).dtype == np.float32
            assert (np.abs(np.asarray(got) - wanted) <= 1.001 * factor).all()  # one gray level of each channel
        same_size = np.asarray(cv.resize(image, image.shape[1::-1], **finish))
        np.testing.assert_array_equal(same_size, (converted.astype(np.float32) - subtracted) * factor)


def test_one_number_normalizes_all_channels() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    for mean in (10, np.float32(10), np.array(10.0), [10], np.array([10, 10, 10])):
        np.testing.assert_array_equal(cv.resize(image, (4, 2), mean=mean, norm=0.5), (image - np.float32(10)) * 0.5)


def test_threads_change_nothing(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (301, 203, 3), np.uint8)
    results = []
    try:
        for threads in (1, 2, 3):
            cv.setNumThreads(threads)
            assert cv.getNumThreads() == threads
            results.append([np.asarray(a) for a in (cv.resize(image, (97, 111)), cv.GaussianBlur(image, (7, 5), 2),
                                                     cv.warpAffine(image, np.eye(2, 3) * 1.3, (99, 98)))])  # fmt: skip
    finally:
        cv.setNumThreads(-1)
    for others in results[1:]:
        for a, b in zip(results[0], others, strict=True):
            assert (a == b).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: cv.resize(a), "needs dsize, or fx and fy"),
        (lambda a: cv.resize(a, (0, 5)), "width in dsize is 0"),
        (lambda a: cv.resize(a, (-1, 5)), "width in dsize is -1"),
        (lambda a: cv.resize(a, (1 << 20, 1 << 20)), "too large"),
        (lambda a: cv.resize(a, (2.5, 3)), "must be a whole number"),
        (lambda a: cv.resize(a, 7), r"must be \(width, height\)"),
        (lambda a: cv.resize(a, None, float("nan"), 1), "finite"),
        (lambda a: cv.resize(a, (3, 3), interpolation=9), "interpolation is 9"),
        (lambda a: cv.resize(a, (3, 3), mean=[1, 2]), "mean has 2 numbers for 3 channels"),
        (lambda a: cv.resize(a, (3, 3), norm=[[1, 2], [3]]), "an element of norm must be a number"),
        (lambda a: cv.resize(a, (3, 3), mean=object()), "an element of mean must be a number"),
        (lambda a: cv.resize(a, (3, 3), code=90), "no conversion of single pixels"),
        (lambda a: cv.resize(a[None], (3, 3)), "one by one"),
        (lambda a: cv.resize(a[:0], (3, 3)), "empty"),
        (lambda a: cv.resize(a.astype(np.int64), (3, 3)), "not int64"),
        (lambda a: cv.resize(None, (3, 3)), "src must be an array"),
        (lambda a: cv.resize("photo.jpg", (3, 3)), "src must be an array"),
        (lambda a: cv.warpAffine(a, np.eye(2), (3, 3)), r"M must have the shape \[2, 3\]"),
        (lambda a: cv.warpAffine(a, np.full((2, 3), np.nan), (3, 3)), "not finite"),
        (lambda a: cv.warpAffine(a, np.eye(2, 3), (3, 3), borderMode=5), "BORDER_TRANSPARENT"),
        (lambda a: cv.warpAffine(a, np.eye(2, 3), (3, 3), 5), "flags is 5"),
        (lambda a: cv.warpPerspective(a, np.eye(2, 3), (3, 3)), r"\[3, 3\]"),
        (lambda a: cv.remap(a, np.zeros((3, 3), np.float32)), "float maps"),
        (lambda a: cv.remap(a, np.zeros((3, 3), np.float32), np.zeros((3, 4), np.float32)), "map2"),
        (lambda a: cv.getRectSubPix(a, (3, 3), (np.inf, 0)), "finite"),
        (lambda a: cv.rotate(a, 3), "rotateCode is 3"),
    ],
)
def test_wrong_arguments(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(np.zeros((4, 5, 3), np.uint8))  # type: ignore[operator]


def test_places_far_away() -> None:
    """Coordinates that fit no integer."""
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for border in BORDERS:
        for m in (np.full((2, 3), 1e300), np.array([[1e12, 0, -1e18], [0, 1e-300, 1e18]])):
            cv.warpAffine(image, m, (5, 6), cv.INTER_CUBIC | cv.WARP_INVERSE_MAP, border)
        cv.warpPerspective(image, [[1, 0, 0], [0, 1, 0], [1e300, 0, 0]], (5, 6), borderMode=border)
        maps = np.float32([[np.nan, np.inf, -np.inf, 1e30]])
        for how in (0, 1, 2, 4):
            assert np.asarray(cv.remap(image, maps, maps, how, border)).shape == (1, 4)
