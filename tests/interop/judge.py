"""Whether the outputs of a file are what its source computes, whatever types the format has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from caffe_suite.judge import arranged

Array = np.ndarray[Any, Any]


def difference(got: Array, want: Array, tolerance: float, quantum: float = 0.0, rows: bool = False) -> str:
    """What is wrong with the numbers of an output, "" for nothing; shapes are not looked at, only sizes.

    Args:
        tolerance: of floats, relative to the largest finite number expected. quantum: an error allowed, absolutely.
        rows: boxes that were found, in whatever order.
    """
    if rows:
        want = arranged(want)
        if got.size % want.shape[-1]:
            return f"shape {got.shape}, expected rows of {want.shape[-1]}"
        got = arranged(got.reshape(-1, want.shape[-1]))
    if got.size != want.size:
        return f"shape {got.shape}, expected {want.shape}"
    a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "not finite in other places"
    a, b = a[finite], b[finite]
    off = float(np.abs(a - b).max(initial=0.0))
    if want.dtype.kind in "iub":
        return f"{np.count_nonzero(a != b)} of {want.size} elements, by {off:g}" if off > quantum else ""
    scale = max(float(np.abs(b).max(initial=0.0)), 1e-3)
    half = 4e-3 if want.dtype.itemsize == 2 else 0.0
    if off > max(max(tolerance, half) * scale, quantum * 1.01):
        return f"off by {off:.2g}, {off / scale:.1e} of scale"
    return ""


def wrong(got: Mapping[str, Array], want: Mapping[str, Array], case: Mapping[str, Any]) -> str:
    """What is wrong with the outputs of a case."""
    found = []
    for name, right in want.items():
        if name not in got:
            found.append(f"no output {name}")
        elif text := difference(got[name], right, case["tolerance"], case["quanta"].get(name, 0.0), case["rows"]):
            found.append(f"{name}: {text}")
    return "; ".join(found)
