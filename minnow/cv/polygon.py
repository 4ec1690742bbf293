"""Arrays of points (x, y) as arguments: contours, polygons and other sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.schema.errors import UsageError

INT32 = np.iinfo(np.int32)


def points_of(value: Any, name: str) -> npt.NDArray[Any]:
    """Points [n, 2] of int32 or float32, from arrays [n, 2], [n, 1, 2] or [1, n, 2]; other floats become float32.

    Raises:
        UsageError: it is something else, or coordinates are not finite or beyond the range of int32.
    """
    result = argument.array(value, name)
    if result.size == 0:
        return np.zeros((0, 2), np.float32 if result.dtype.kind == "f" else np.int32)
    if not (
        (result.ndim == 2 and result.shape[1] == 2)
        or (result.ndim == 3 and result.shape[2] == 2 and 1 in result.shape[:2])
    ):
        raise UsageError(f"{name} must be points of shape [n, 2] or [n, 1, 2], not {list(result.shape)}")
    result = result.reshape(-1, 2)
    if result.dtype.kind == "f":
        result = result.astype(np.float32)
        if not np.isfinite(result).all():
            raise UsageError(f"{name} has coordinates that are not finite")
        return result
    if result.min() < INT32.min or result.max() > INT32.max:
        raise UsageError(f"{name} has coordinates beyond the range of int32")
    return result.astype(np.int32)


def integer_points(value: Any, name: str) -> npt.NDArray[np.int32]:
    """The same, of whole numbers."""
    result = points_of(value, name)
    if result.dtype.kind != "f":
        return result
    if not (np.rint(result) == result).all() or np.abs(result).max(initial=0) > INT32.max - 64:
        raise UsageError(f"{name} must be points of int32, not of {np.asarray(value).dtype}")
    return result.astype(np.int32)


def polygons(value: Any, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A sequence of arrays of points as one array [n, 2], and the number of points in each.

    Raises:
        UsageError: it is something else.
    """
    items = argument.items(value, name, "arrays of points")
    arrays = [integer_points(item, f"{name}[{i}]") for i, item in enumerate(items)]
    points = np.concatenate([np.zeros((0, 2), np.int64), *arrays]).astype(np.int64)
    return points, np.array([len(a) for a in arrays], np.int64)
