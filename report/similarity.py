"""How near the outputs of a model are to those of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.report.quantization import Similarity

Array = npt.NDArray[Any]

_MOST_DB = 300.0
"""Errors of outputs that are nothing but error."""

_FAR = Similarity(-_MOST_DB, 0.0, 1.0)


def similarities(wanted: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]) -> dict[str, Similarity]:
    """How near outputs are to those that are wanted, by name; each list has the outputs of all runs."""
    found = {}
    for name in wanted[0] if wanted else ():
        a = [np.asarray(w[name]) for w in wanted if name in w]
        b = [np.asarray(g[name]) for g in got if name in g]
        if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
            found[name] = _FAR
        else:
            found[name] = _similarity(*(np.concatenate([x.reshape(-1) for x in xs]) for xs in (a, b)))
    return found


def without_elements(wanted: Sequence[Mapping[str, Array]]) -> str:
    """What is to be said of outputs that have no elements in any run, so that nothing is known of them; or ""."""
    names = [name for name in (wanted[0] if wanted else ()) if not any(np.size(w.get(name, ())) for w in wanted)]
    if not names:
        return ""
    shown = ", ".join(f"'{name}'" for name in names)
    return f"what becomes of {shown} was not measured, for no input gives elements there: give real inputs"


def _similarity(want: Array, got: Array) -> Similarity:
    is_float = want.dtype.kind not in "iub"
    same = float(np.mean(want == got)) if want.size else 1.0
    x, y = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(x)
    if not np.isfinite(y[finite]).all():
        return _FAR
    x, y = x[finite], y[finite]
    error, power = float(np.square(y - x).sum()), float(np.square(x).sum())
    largest = float(np.abs(y - x).max(initial=0))
    size = float(np.abs(x).max(initial=0))
    sqnr = None if error == 0 else -_MOST_DB if power == 0 else float(10 * np.log10(power / error))
    norms = np.sqrt(power * float(np.square(y).sum()))
    cosine = 1.0 if error == 0 else float(x @ y) / norms if norms else 0.0
    shown = largest / size if size else float(largest > 0)
    return Similarity(sqnr, float(cosine) if is_float else same, shown, not is_float)
