"""Whether an output is the expected one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KIND_TOLERANCE = {"dynamic": 2e-2}
"""What is quantized while it is computed with is off by the quanta of a tensor that is not seen from outside."""

HALF = 2e-3


def difference(got: Array, want: Array, tolerance: float, quantum: float = 0.0) -> str:
    """What is wrong with an output, "" for nothing.

    Args:
        tolerance: of floats, relative to the largest finite number that is expected.
        quantum: how far off, absolutely, a value may be that was computed in integers.
    """
    if got.dtype != want.dtype:
        return f"type {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind not in "fc":
        if want.dtype.kind in "iu" and quantum:
            off = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
            return f"off by {off} quanta" if off > quantum else ""
        wrong = np.count_nonzero(got != want)
        return f"{wrong} of {want.size} elements" if wrong else ""
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "not finite in other places"
    scale = max(float(np.abs(b[finite]).max(initial=0.0)), 1e-3)
    allowed = max((HALF if want.dtype == np.float16 else tolerance) * scale, quantum * 1.01)
    off = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return f"off by {off:.2g}, {off / scale:.1e} of scale" if off > allowed else ""
