"""`CVMatrix`: a map of the plane by a matrix of 3 x 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]


def _numbers(values: Sequence[Any], what: str) -> list[float]:
    row = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
            raise UsageError(f"{what}: {value!r} is not a finite number")
        row.append(float(value))
    return row


def _list(values: Any, what: str) -> list[float]:
    if not isinstance(values, (list, tuple, np.ndarray)):
        raise UsageError(f"{what} takes lists of numbers, not {type(values).__name__}")
    return _numbers(np.asarray(values, object).ravel().tolist(), what)


def _scale(sx: float, sy: float, px: float = 0, py: float = 0) -> Array:
    return np.array([[sx, 0, px - sx * px], [0, sy, py - sy * py], [0, 0, 1]])


def _rotate(degrees: float, px: float = 0, py: float = 0) -> Array:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, -s, px - c * px + s * py], [s, c, py - s * px - c * py], [0, 0, 1]])


def _translate(dx: float, dy: float) -> Array:
    return np.array([[1, 0, dx], [0, 1, dy], [0, 0, 1]])


class CVMatrix:
    """A map of the plane: (x, y, 1) times a matrix of 3 x 3. A new one is the identity.

    `set...` replaces it, `pre...` does another map before it, and `post...` after it. Scaling and rotating may have a
    center (px, py), which stays where it is. Angles are degrees, clockwise in an image.
    """

    def __init__(self) -> None:
        self._m: Array = np.eye(3)

    @property
    def array(self) -> Array:
        """A copy of the matrix."""
        copy: Array = self._m.copy()
        return copy

    def _set(self, make: Any, arguments: Sequence[Any], counts: tuple[int, ...], what: str) -> Array:
        if len(arguments) not in counts:
            raise UsageError(f"{what} takes {' or '.join(map(str, counts))} numbers, not {len(arguments)}")
        made: Array = make(*_numbers(arguments, what))
        return made

    def setScale(self, *arguments: Any) -> None:
        """setScale(sx, sy[, px, py])"""
        self._m = self._set(_scale, arguments, (2, 4), "setScale")

    def preScale(self, *arguments: Any) -> None:
        """preScale(sx, sy[, px, py])"""
        self._m = self._m @ self._set(_scale, arguments, (2, 4), "preScale")

    def postScale(self, *arguments: Any) -> None:
        """postScale(sx, sy[, px, py])"""
        self._m = self._set(_scale, arguments, (2, 4), "postScale") @ self._m

    def setRotate(self, *arguments: Any) -> None:
        """setRotate(degrees[, px, py])"""
        self._m = self._set(_rotate, arguments, (1, 3), "setRotate")

    def preRotate(self, *arguments: Any) -> None:
        """preRotate(degrees[, px, py])"""
        self._m = self._m @ self._set(_rotate, arguments, (1, 3), "preRotate")

    def postRotate(self, *arguments: Any) -> None:
        """postRotate(degrees[, px, py])"""
        self._m = self._set(_rotate, arguments, (1, 3), "postRotate") @ self._m

    def setTranslate(self, *arguments: Any) -> None:
        """setTranslate(dx, dy)"""
        self._m = self._set(_translate, arguments, (2,), "setTranslate")

    def preTranslate(self, *arguments: Any) -> None:
        """preTranslate(dx, dy)"""
        self._m = self._m @ self._set(_translate, arguments, (2,), "preTranslate")

    def postTranslate(self, *arguments: Any) -> None:
        """postTranslate(dx, dy)"""
        self._m = self._set(_translate, arguments, (2,), "postTranslate") @ self._m

    def setPolyToPoly(self, source: Any, target: Any) -> None:
        """The map of 1 to 4 points to as many others: a translation, one with rotation and scale, an affine map, or a
        perspective.

        Args:
            source: x and y of each point, in one row.
            target: where they go.

        Raises:
            UsageError: there are none, more than 4, or there is no such map.
        """
        a, b = _list(source, "setPolyToPoly"), _list(target, "setPolyToPoly")
        if len(a) != len(b) or len(a) not in (2, 4, 6, 8):
            raise UsageError(f"setPolyToPoly takes 1 to 4 points, not {len(a)} and {len(b)} numbers")
        self._m = _to_points(np.reshape(a, (-1, 2)), np.reshape(b, (-1, 2)))

    def invert(self, *_: Any) -> None:
        """Replaces the map by its inverse.

        Raises:
            UsageError: it has none.
        """
        scale = abs(self._m).max()
        if not np.isfinite(scale) or scale == 0 or abs(np.linalg.det(self._m / scale)) < 1e-18:
            raise UsageError("the matrix has no inverse", why=f"{self.read()}")
        self._m = np.linalg.inv(self._m)

    def read(self) -> list[float]:
        """The matrix, row by row."""
        numbers: list[float] = self._m.astype(np.float32).ravel().tolist()
        return numbers

    def write(self, numbers: Any) -> None:
        """Sets the matrix, row by row; numbers that are left out at the end stay as they are."""
        row = _list(numbers, "write")
        if not 1 <= len(row) <= 9:
            raise UsageError(f"write takes up to 9 numbers, not {len(row)}")
        new = self._m.ravel().copy()
        new[: len(row)] = row
        self._m = new.reshape(3, 3)

    def __repr__(self) -> str:
        return f"CVMatrix({self.read()})"


def _to_points(a: Array, b: Array) -> Array:
    """The matrix that maps points to points."""
    n = len(a)
    rows: list[list[float]] = []
    right: list[float] = []
    for (x, y), (u, v) in zip(a, b, strict=True):
        if n == 1:
            return _translate(u - x, v - y)
        if n == 2:
            rows += [[x, -y, 1, 0], [y, x, 0, 1]]
        elif n == 3:
            rows += [[x, y, 1, 0, 0, 0], [0, 0, 0, x, y, 1]]
        else:
            rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    try:
        s = np.linalg.solve(np.array(rows), np.array(right))
    except np.linalg.LinAlgError:
        raise UsageError("there is no map of these points to those", why="some lie on one line, or are equal") from None
    if n == 2:
        return np.array([[s[0], -s[1], s[2]], [s[1], s[0], s[3]], [0, 0, 1]])
    return np.append(s, [0, 0, 1] if n == 3 else [1]).reshape(3, 3)
