"""Rotations and poses, compared with OpenCV's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import minnow.cv as cv
from minnow.errors import UnsupportedError, UsageError

SPREAD = np.array([0.1, 0.05, 0.005, 0.005, 0.02, 0.05, 0.02, 0.01, 0.005, 0.005, 0.005, 0.005, 0.02, 0.02])
"""Of the coefficients of distortion."""


def test_rotations_and_their_derivatives() -> None:
    rng = np.random.default_rng(0)
    for k in range(300):
        vector = rng.normal(size=3)
        vector *= rng.choice([1e-20, 1e-9, 1e-4, 0.1, 1, 2.5, 3.1415, np.pi, 7]) / np.linalg.norm(vector)
        if k % 10 == 0:
            vector = np.eye(3)[k % 3] * np.pi
        matrix, derivatives = cv2.Rodrigues(vector)
        ours, slopes = cv.Rodrigues(vector.reshape((3, 1) if k % 2 else (3,)))
        np.testing.assert_allclose(ours, matrix, atol=1e-13)
        np.testing.assert_allclose(slopes, derivatives, atol=1e-13)
        inexact = matrix + rng.normal(size=(3, 3)) * (1e-3 if k % 2 else 0)
        back, derivatives = cv2.Rodrigues(inexact)
        ours, slopes = cv.Rodrigues(inexact)
        np.testing.assert_allclose(ours, back, atol=1e-6)
        np.testing.assert_allclose(slopes, derivatives, atol=1e-3 * max(1, np.abs(derivatives).max()))


def test_a_rotation_is_an_array_and_a_pair() -> None:
    vector = np.float32([0.1, 0.2, 0.3])
    result = cv.Rodrigues(vector)
    assert result.shape == [3, 3] == result[0].shape
    assert result[1].shape == [3, 9]
    assert np.asarray(result).dtype == np.float32
    np.testing.assert_allclose(np.asarray(cv.Rodrigues(result)).ravel(), vector, atol=1e-6)


def compare_poses(seed: int, count: int) -> tuple[list[float], list[float]]:
    """How far rotation and relative translation are from OpenCV's, for points in space and in planes."""
    rng = np.random.default_rng(seed)
    differences: tuple[list[float], list[float]] = ([], [])
    for k in range(count):
        flat = k % 4 == 1
        points = rng.uniform(-1, 1, (int(rng.integers(4, 20)) if flat else int(rng.integers(8, 30)), 3))
        if flat:
            points[:, 2] = 0
            points = points @ cv2.Rodrigues(rng.normal(size=3))[0].T + rng.normal(size=3)
        focal = rng.uniform(300, 900, 2)
        camera = np.array([[focal[0], 0, 320], [0, focal[1], 240], [0, 0, 1]])
        terms = int(rng.choice([0, 4, 5, 8, 12, 14]))
        distortion = rng.normal(size=terms) * SPREAD[:terms] if terms else None
        shift = np.array([rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(4, 10)])
        seen = cv2.projectPoints(points, rng.normal(size=3), shift, camera, distortion)[0].reshape(-1, 2)
        seen += rng.normal(size=seen.shape) * rng.choice([0, 0.5])
        if k % 3 == 0:
            points, seen = points.astype(np.float32), seen.astype(np.float32)
        for flags in (cv2.SOLVEPNP_ITERATIVE, cv2.SOLVEPNP_SQPNP):
            _, rotation, translation = cv2.solvePnP(points, seen, camera, distortion, flags=flags)
            ok, ours, moved = cv.solvePnP(points, seen, camera, distortion, flags=flags)
            assert ok
            assert np.asarray(ours).shape == np.asarray(moved).shape == (3, 1)
            turned = np.abs(cv2.Rodrigues(np.asarray(ours))[0] - cv2.Rodrigues(rotation)[0]).max()
            away = np.abs(np.asarray(moved) - translation).max() / np.linalg.norm(translation)
            differences[flat].append(max(turned, away))
    return differences


def test_poses() -> None:
    in_space, in_planes = compare_poses(0, 24)
    assert max(in_space) < 1e-4
    assert max(in_planes) < 1e-4


@pytest.mark.slow
def test_many_poses() -> None:
    in_space, in_planes = compare_poses(1, 600)
    assert max(in_space) < 1e-4
    # A plane is seen nearly alike from two sides: with noise, either may be the local minimum that is found.
    assert np.mean(np.array(in_planes) < 1e-4) > 0.98


def test_a_pose_from_a_first_one_and_the_arguments_of_mnn() -> None:
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, (4, 3))
    camera = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    turn, shift = np.array([[0.1], [0.2], [0.3]]), np.array([[0.1], [0.2], [5.0]])
    seen = cv2.projectPoints(points, turn, shift, camera, None)[0]
    ok, rotation, translation = cv.solvePnP(points, seen, camera, None, turn + 0.1, shift + 0.2, True)
    assert ok
    np.testing.assert_allclose(rotation, turn, atol=1e-6)
    np.testing.assert_allclose(translation, shift, atol=1e-6)
    ok, rotation, _ = cv.solvePnP(points, seen, camera, np.zeros(5), cv.SOLVEPNP_SQPNP)
    assert ok
    np.testing.assert_allclose(rotation, turn, atol=1e-6)


def test_wrong_arguments() -> None:
    points, seen, camera = np.random.default_rng(3).uniform(1, 2, (5, 3)), np.ones((5, 2)), np.eye(3)
    line = np.outer(np.arange(6), [1, 2, 3])
    for call, message in (
        (lambda: cv.Rodrigues(np.array([1, 2, 3])), "must be of float32 or float64"),
        (lambda: cv.Rodrigues(np.ones(4)), "src must have the shape"),
        (lambda: cv.Rodrigues(np.ones(3) * np.nan), "not finite"),
        (lambda: cv.solvePnP(points, seen[:4], camera, None), "there are 5 objectPoints, but 4 imagePoints"),
        (lambda: cv.solvePnP(points, seen, camera, None), "do not lie in a plane: SOLVEPNP_ITERATIVE needs at least 6"),
        (lambda: cv.solvePnP(line, line[:, :2], camera, None), "lie on one line"),
        (lambda: cv.solvePnP(points, points, camera, None), r"must be points of shape \[n, 2\]"),
        (lambda: cv.solvePnP(points, seen, np.zeros((3, 3)), None), "focal length of 0"),
        (lambda: cv.solvePnP(points, seen, camera, np.ones(6)), "distCoeffs has 6 coefficients"),
        (lambda: cv.solvePnP(points[:2], seen[:2], camera, None, flags=8), "at least 3 are needed"),
        (lambda: cv.solvePnP(points, seen, camera, None, np.ones(2), np.ones(3), True), "three numbers each"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    with pytest.raises(UnsupportedError, match="no method 1"):
        cv.solvePnP(points, seen, camera, None, flags=cv.SOLVEPNP_EPNP)
