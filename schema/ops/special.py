"""Numerics that numpy lacks, for the references: computed in float64, returned in the type that came in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def keep(function: Callable[..., Any], x: Array, *others: Array) -> Array:
    """Applies a float function in float64 and rounds once to the dtype of `x`."""
    x = np.asarray(x)
    wide = [np.asarray(v).astype(np.float64) for v in (x, *others)]
    return np.asarray(function(*wide)).astype(x.dtype)


def erf(x: Array) -> Array:
    """Error function of a float64 array."""
    return _erf(np.asarray(x))


def erfc(x: Array) -> Array:
    """Complementary error function of a float64 array."""
    return _erfc(np.asarray(x))


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
