"""Rotations as vectors, whose direction is the axis and whose length the angle, and as matrices: O. Rodrigues."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.boundary import Array
from minnow.cv.pair import paired
from minnow.schema.errors import UsageError

Matrix = npt.NDArray[np.float64]

CROSS = np.array(
    [[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]], [[0, -1, 0], [1, 0, 0], [0, 0, 0]]],
    np.float64,
)
"""The derivatives of [v]x, the matrix of the cross product with v, by the three coordinates."""


@paired(main=0)
def Rodrigues(src: Array, dst: None = None, jacobian: None = None) -> tuple[Array, Array]:
    """The matrix of a rotation vector, or the vector of a rotation matrix.

    Args:
        src: float32 or float64: a vector of three numbers, or a matrix [3, 3], of which the next rotation is taken.
        dst: accepted for programs written for OpenCV; must be None.
        jacobian: the same.

    Returns:
        (matrix [3, 3], derivatives [3, 9]) or (vector [3, 1], derivatives [9, 3]), in the type of `src`. Rows of the
        derivatives belong to elements of `src`, columns to elements of
        the result. It is a `PairVar`, which is the matrix or vector alone for all else.

    Raises:
        UsageError: it is neither, or not of floating point.
    """
    if dst is not None or jacobian is not None:
        raise UsageError("dst and jacobian must be None: they are results")
    given = argument.array(src, "src")
    if given.dtype not in (np.float32, np.float64):
        raise UsageError(f"src must be of float32 or float64, not {given.dtype}")
    values = argument.matrix(given, "src", (3, 1), (1, 3), (3,), (3, 3), (1, 1, 3), (1, 3, 1), (3, 1, 1))
    if values.size == 3:
        result, derivatives = rotation_matrix(values.ravel()), _derivatives_of_matrix(values.ravel())
    else:
        u, _, v = np.linalg.svd(values)
        vector, derivatives = _vector(u @ v)
        result = vector.reshape(3, 1)
    return result.astype(given.dtype), derivatives.astype(given.dtype)


def rotation_matrix(vector: Matrix) -> Matrix:
    """[3, 3] of a vector [3]."""
    angle = float(np.linalg.norm(vector))
    if angle < np.finfo(np.float64).eps:
        return np.eye(3)
    axis = vector / angle
    c, s = math.cos(angle), math.sin(angle)
    result: Matrix = c * np.eye(3) + (1 - c) * np.outer(axis, axis) + s * np.einsum("i,ijk", axis, CROSS)
    return result


def rotation_vector(matrix: Matrix) -> Matrix:
    """[3] of a rotation matrix [3, 3]."""
    return _vector(matrix)[0]


def _derivatives_of_matrix(vector: Matrix) -> Matrix:
    angle = float(np.linalg.norm(vector))
    if angle < np.finfo(np.float64).eps:
        return np.array(CROSS.reshape(3, 9))
    axis = vector / angle
    c, s = math.cos(angle), math.sin(angle)
    square, cross = np.outer(axis, axis), np.einsum("i,ijk", axis, CROSS)
    rows = []
    for i in range(3):
        turned = (np.eye(3)[i] - axis[i] * axis) / angle  # the derivative of the axis
        changed = np.outer(turned, axis) + np.outer(axis, turned)
        row = -s * axis[i] * np.eye(3) + s * axis[i] * square + (1 - c) * changed
        rows.append((row + c * axis[i] * cross + s * np.einsum("i,ijk", turned, CROSS)).ravel())
    return np.array(rows)


def _vector(r: Matrix) -> tuple[Matrix, Matrix]:
    """The vector, and its derivatives [9, 3] by the elements of the matrix."""
    odd = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])  # twice the sine times the axis
    s = float(np.linalg.norm(odd)) / 2
    c = min(max((float(np.trace(r)) - 1) / 2, -1.0), 1.0)
    angle = math.acos(c)
    of_odd = np.einsum("ijk->jki", CROSS).reshape(9, 3)
    if s < 1e-5:
        if c > 0:
            return np.zeros(3), of_odd / 2
        # Half a turn: the matrix is 2 a a^T - 1.
        axis = np.sqrt(np.maximum((np.diag(r) + 1) / 2, 0))
        axis[1] *= -1 if r[0, 1] < 0 else 1
        axis[2] *= -1 if r[0, 2] < 0 else 1
        if abs(axis[0]) < min(abs(axis[1]), abs(axis[2])) and (r[1, 2] > 0) != (axis[1] * axis[2] > 0):
            axis[2] = -axis[2]
        return axis * (angle / np.linalg.norm(axis)), np.zeros((9, 3))
    factor = angle / (2 * s)
    # The angle and 1 / sine depend on the trace.
    by_trace = -1 / (2 * s) / (2 * s) + angle * c / (4 * s**3)
    return odd * factor, factor * of_odd + np.outer(np.eye(3).ravel(), odd) * by_trace
