"""Matrices of transforms, compared with OpenCV's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UsageError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_transforms_from_points(rng: np.random.Generator) -> None:
    for _ in range(50):
        p, q = rng.uniform(-100, 100, (2, 4, 2)).astype(np.float32)
        affine = np.asarray(cv.getAffineTransform(p[:3], q[:3]))
        assert affine.shape == (2, 3)
        assert affine.dtype == np.float64
        np.testing.assert_allclose(affine, cv2.getAffineTransform(p[:3], q[:3]), rtol=1e-5, atol=1e-6)
        perspective = np.asarray(cv.getPerspectiveTransform(p, q))
        np.testing.assert_allclose(perspective, cv2.getPerspectiveTransform(p, q), rtol=1e-5, atol=1e-6)


def test_rotations_and_inverses(rng: np.random.Generator) -> None:
    for _ in range(20):
        center, angle, scale = tuple(rng.uniform(-50, 50, 2)), rng.uniform(-400, 400), rng.uniform(0.1, 3)
        m = np.asarray(cv.getRotationMatrix2D(center, angle, scale))
        np.testing.assert_allclose(m, cv2.getRotationMatrix2D(center, angle, scale), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(cv.invertAffineTransform(m), cv2.invertAffineTransform(m), rtol=1e-10, atol=1e-12)
    single = np.asarray(cv.invertAffineTransform(m.astype(np.float32)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, cv2.invertAffineTransform(m.astype(np.float32)), rtol=1e-5)
    assert not np.asarray(cv.invertAffineTransform(np.zeros((2, 3)))).any()


def test_points_that_determine_no_transform() -> None:
    line = np.float32([[0, 0], [1, 1], [2, 2]])
    with pytest.raises(UsageError, match="lie on one line"):
        cv.getAffineTransform(line, line)
    with pytest.raises(UsageError, match="lie on one line"):
        cv.getPerspectiveTransform(np.r_[line, [[0, 5]]], np.zeros((4, 2)))
    with pytest.raises(UsageError, match=r"src must have the shape \[3, 2\]"):
        cv.getAffineTransform(line[:2], line)
    with pytest.raises(UsageError, match="not finite"):
        cv.getAffineTransform(line * np.nan, line)
    with pytest.raises(UsageError, match="center must be"):
        cv.getRotationMatrix2D(3, 1, 1)
