"""Matrices of affine and perspective transforms."""

from __future__ import annotations

import math

import numpy as np

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.schema.errors import UsageError


def _solved(a: Array, b: Array, what: str) -> Array:
    """The solution of a linear system from points. Raises UsageError where these do not determine a transform."""
    scale = np.abs(a).max(axis=1, keepdims=True)
    scale[scale == 0] = 1
    if np.linalg.cond(a / scale) > 1e15:
        raise UsageError(what)
    return np.linalg.solve(a, b)


@exported
def getAffineTransform(src: Array, dst: Array) -> Array:
    """The affine transform that maps three points to three others.

    Args:
        src: three points (x, y).
        dst: where they go.

    Returns:
        A float64 matrix [2, 3].

    Raises:
        UsageError: these are not three points each, or the three in `src` lie on one line.
    """
    p, q = argument.matrix(src, "src", (3, 2), (3, 1, 2)), argument.matrix(dst, "dst", (3, 2), (3, 1, 2))
    a = np.c_[p.reshape(3, 2), np.ones(3)]
    return np.ascontiguousarray(_solved(a, q.reshape(3, 2), "the three points in src lie on one line").T)


@exported
def getPerspectiveTransform(src: Array, dst: Array, solveMethod: int = 0) -> Array:
    """The perspective transform that maps four points to four others.

    Args:
        src: four points (x, y).
        dst: where they go.
        solveMethod: accepted for programs written for OpenCV; the result is the same.

    Returns:
        A float64 matrix [3, 3] whose last element is 1.

    Raises:
        UsageError: these are not four points each, or three of them lie on one line.
    """
    argument.integer(solveMethod, "solveMethod")
    p = argument.matrix(src, "src", (4, 2), (4, 1, 2)).reshape(4, 2)
    q = argument.matrix(dst, "dst", (4, 2), (4, 1, 2)).reshape(4, 2)
    one, zero = np.ones(4), np.zeros(4)
    x, y, u, v = p[:, 0], p[:, 1], q[:, 0], q[:, 1]
    a = np.r_[
        np.c_[x, y, one, zero, zero, zero, -x * u, -y * u],
        np.c_[zero, zero, zero, x, y, one, -x * v, -y * v],
    ]
    h = _solved(a, np.r_[u, v], "the four points determine no transform: do three of them lie on one line?")
    return np.r_[h, 1.0].reshape(3, 3)


@exported
def getRotationMatrix2D(center: tuple[float, float], angle: float, scale: float) -> Array:
    """The affine transform that rotates by `angle` degrees, counter-clockwise, around a point (x, y), and scales.

    Returns:
        A float64 matrix [2, 3].
    """
    x, y = (float(np.float32(c)) for c in argument.point(center, "center"))  # as OpenCV keeps points
    radians = math.radians(argument.number(angle, "angle"))
    factor = argument.number(scale, "scale")
    a, b = factor * math.cos(radians), factor * math.sin(radians)
    return np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]])


@exported
def invertAffineTransform(M: Array) -> Array:
    """The inverse of an affine transform [2, 3], in the same type; zeros where there is none."""
    given = argument.array(M, "M")
    m = argument.matrix(given, "M", (2, 3))
    inverse = inverse_affine(m)
    return inverse.astype(np.float32) if given.dtype == np.float32 else inverse


def inverse_affine(m: Array) -> Array:
    """The same for float64."""
    determinant = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    d = 1 / determinant if determinant != 0 else 0.0
    a = np.array([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]]) * d
    return np.c_[a, -(a @ m[:, 2])]
