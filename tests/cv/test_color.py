"""Conversions of colors, compared with OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from opencv_comparison import compare, picture

import minnow.cv as cv
from minnow.cv.color import CONVERSIONS
from minnow.errors import UsageError

NAMES = {code: name for name, code in reversed(vars(cv).items()) if name.startswith("COLOR_")}
PERCEPTION = [code for code, c in CONVERSIONS.items() if c.back and c.space in ("Lab", "Luv")]


def test_each_code_has_a_meaning() -> None:
    """All that MNN has: its largest code is that of BGRA to planar YUV."""
    assert {n for n in NAMES if n <= 134} == {n for n in CONVERSIONS if n <= 134}
    assert len(CONVERSIONS) == 117


@pytest.mark.parametrize("code", CONVERSIONS, ids=lambda code: NAMES[code])
def test_conversion(code: int) -> None:
    rng = np.random.default_rng(code)
    meaning = CONVERSIONS[code]
    compared = 0
    for k in range(6):
        for dtype in ("uint8", "uint16", "float32"):
            channels = meaning.source[k % len(meaning.source)]
            image = picture(rng, dtype, channels)
            tolerance = 1e-5
            if meaning.video:
                height, width = 2 * rng.integers(1, 20, 2)
                height = height * 3 // 2 if meaning.back and channels == 1 else height
                shape = (height, width) if channels == 1 else (height, width, channels)
                image = rng.integers(0, 256, shape).astype(dtype)
            elif meaning.space in ("Lab", "Luv"):
                tolerance = 6e-3  # OpenCV's floats come from tables of 33 x 33 x 33 colors
                if meaning.back and dtype != "uint16":  # of colors that there are
                    rgb = rng.uniform(0, 1, (*image.shape[:2], 3)).astype(np.float32)
                    rgb = rgb if dtype == "float32" else (rgb * 255).astype(np.uint8)
                    image = cv2.cvtColor(rgb, cv2.COLOR_RGB2Lab if meaning.space == "Lab" else cv2.COLOR_RGB2Luv)
            elif meaning.back and meaning.space in ("HSV", "HLS") and dtype == "float32":
                image = image * np.float32([360, 1, 1])
            is_compared = compare(rng, "cvtColor", image, code, tolerance=tolerance)
            compared += is_compared
            if not is_compared:
                with pytest.raises(UsageError):
                    cv.cvtColor(image, code)
    assert compared >= 6


def assert_like_opencv(image: np.ndarray, code: int) -> None:
    """Of bytes: Lab is the same, and Luv within one level, at hardly a pixel."""
    difference = np.abs(cv.cvtColor(image, code).read().astype(np.int16) - cv2.cvtColor(image, code))
    if CONVERSIONS[code].space == "Lab":
        assert not difference.any()
    else:
        assert difference.max() <= 1
        assert (difference > 0).mean() < 1e-4


@pytest.mark.parametrize("code", PERCEPTION, ids=lambda code: NAMES[code])
def test_any_bytes_from_lab_and_luv(code: int) -> None:
    assert_like_opencv(np.random.default_rng(code).integers(0, 256, (500, 500, 3), np.uint8), code)


@pytest.mark.slow
@pytest.mark.parametrize("code", [cv.COLOR_Lab2BGR, cv.COLOR_Lab2LBGR, cv.COLOR_Luv2BGR, cv.COLOR_Luv2LBGR])
def test_all_bytes_from_lab_and_luv(code: int) -> None:
    second, third = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    for first in range(0, 256, 8):
        planes = [np.stack([np.full_like(second, first + k), second, third], -1) for k in range(8)]
        assert_like_opencv(np.concatenate(planes), code)


@pytest.mark.parametrize("code", range(90, 98))
def test_two_planes(code: int) -> None:
    rng = np.random.default_rng(code)
    luma = rng.integers(0, 256, (38, 54), np.uint8)
    chroma = rng.integers(0, 256, (19, 27, 2), np.uint8)
    got = np.asarray(cv.cvtColorTwoPlane(luma, chroma, code))
    np.testing.assert_array_equal(got, cv2.cvtColorTwoPlane(luma, chroma, code))
    with pytest.raises(UsageError, match=r"shape \[19, 27, 2\]"):
        cv.cvtColorTwoPlane(luma, chroma[:-1], code)


def test_alpha_on_request() -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    for channels in (3, 4):
        np.testing.assert_array_equal(
            cv.cvtColor(image, cv.COLOR_HSV2RGB, channels).read(),
            cv2.cvtColor(image, cv2.COLOR_HSV2RGB, dstCn=channels),
        )


@pytest.mark.parametrize(
    ("image", "code", "message"),
    [
        (np.zeros((4, 4, 3), np.uint8), 9999, "no code"),
        (np.zeros((4, 4), np.uint8), cv.COLOR_BGR2RGB, "images of 3 channels"),
        (np.zeros((4, 4, 3), np.float64), cv.COLOR_BGR2RGB, "not float64"),
        (np.zeros((4, 4), np.uint8), cv.COLOR_YUV2BGR_NV12, "even"),
        (np.zeros((6, 5), np.uint8), cv.COLOR_YUV2BGR_NV12, "even"),
        (np.zeros((5, 4, 3), np.uint8), cv.COLOR_BGR2YUV_I420, "even"),
        (np.zeros((5, 4, 3, 1), np.uint8), cv.COLOR_BGR2RGB, "height, width"),
        (np.zeros((5, 4, 3), np.uint8), 4.5, "whole number"),
    ],
)
def test_wrong_arguments(image: object, code: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cv.cvtColor(image, code)


def test_numbers_that_are_no_colors() -> None:
    odd = np.float32([[[np.nan, np.inf, -np.inf], [1e38, -1e38, 0], [-1e-40, 1e38, 1]]])
    for code, meaning in CONVERSIONS.items():
        if meaning.source[0] == 3 and meaning.space in ("HSV", "HLS", "Lab", "Luv", "XYZ", "YUV"):
            cv.cvtColor(odd, code)
