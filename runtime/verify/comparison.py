"""Comparison of one output with its reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = {"float16": 1e-2, "bfloat16": 2e-2}
"""Largest error, as a fraction of the output's scale (largest magnitude of the reference), by dtype of the source."""

DEFAULT_TOLERANCE = 1e-4

LOW_TOLERANCE = 5e-2
"""The smallest default tolerance for precision "low": bfloat16 keeps 8 bits, and errors accumulate over layers."""

# Two units in the last place of a float32 near 1: the error that any runtime's exp may have, however small the result.
FLOOR = 2.0**-22
SMALL = 1e-5


BINS_PER_DECADE = 2
LEAST_ERROR, MOST_ERROR = -16, 4
"""The decades of an error histogram."""
_WORST = 10
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Errors:
    """How the absolute errors of an output are distributed.

    Attributes:
        counts: elements by error: `BINS_PER_DECADE` bins for each power of ten from `LEAST_ERROR` to `MOST_ERROR`; what
            is outside is in the first or last bin.
        exact: elements that are equal.
        worst: the largest errors: index, value, and value in the source.
    """

    counts: list[int]
    exact: int
    worst: list[tuple[tuple[int, ...], float, float]]


@dataclass
class OutputComparison:
    """How far one output is from its reference.

    Attributes:
        name, shape, dtype: of the reference.
        max_abs, max_rel: largest absolute error; largest error relative to the element, unless that is near zero.
        scale: largest magnitude in the reference.
        cosine: cosine of the angle between both, seen as vectors.
        needed: the minimum passing tolerance, as a fraction of the scale.
        tolerance: the tolerance of this comparison.
        worst: index of the largest error, with both values.
        passed: needed <= tolerance, equal shapes, and NaN and infinities at the same places.
        reason: why it did not pass, if the numbers do not show it.
        random: it depends on random numbers, so that only its type and rank were compared.
        inconclusive: why passing proves nothing: no run has made this output vary, so it could not have been wrong.
        floor: the absolute error that passes with any tolerance; 0 if the user gave a tolerance.
        errors: the distribution of the errors, if it was asked for and there are numbers to compare.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    cosine: float = 1.0
    needed: float = 0.0
    tolerance: float = DEFAULT_TOLERANCE
    worst: tuple[tuple[int, ...], float, float] | None = None
    passed: bool = True
    reason: str = ""
    random: bool = False
    inconclusive: str = ""
    floor: float = 0.0
    errors: Errors | None = field(default=None, repr=False)

    @property
    def by_floor(self) -> bool:
        """It passes only because its absolute error is below the rounding error of values near 1."""
        return self.passed and self.needed > self.tolerance and self.max_abs <= self.floor

    def __str__(self) -> str:
        verdict = "FAIL" if not self.passed else "INCONCLUSIVE" if self.inconclusive else "PASS"
        if self.random:
            reason = f"; {self.reason}" if self.reason else ""
            return f"{verdict}  {self.name} {list(self.shape)}: random, so only type and rank were compared{reason}"
        text = (
            f"{verdict}  {self.name} {list(self.shape)}: max abs error {self.max_abs:.3g}, max rel {self.max_rel:.3g}, "
            f"cosine {self.cosine:.6f}, tolerance {self.tolerance:g} (minimum passing tolerance {self.needed:.3g})"
        )
        if self.by_floor:
            text += f"; passes because the error is below {self.floor:.1e}, the rounding error of float32 near 1"
        text += "".join(f"; {why}" for why in (self.reason, self.inconclusive) if why)
        if not self.passed and self.worst is not None:
            text += f"; largest error at {list(self.worst[0])}: {self.worst[1]:.7g}, in the source {self.worst[2]:.7g}"
        return text


def compare(
    name: str,
    got: Array | None,
    want: Array,
    tolerance: float | None = None,
    precision: str = "high",
    quanta: float = 0,
    floor: float = FLOOR,
    details: bool = False,
) -> OutputComparison:
    """Compares an output with its reference. Integers and bool must be equal.

    `tolerance` None chooses by dtype and by the precision of the session: for "low" at least LOW_TOLERANCE. An
    absolute error of up to `quanta`, or for floating-point outputs up to `floor`, passes with any tolerance. With
    `details` the result has the distribution of the errors.
    """
    exact = want.dtype.kind in "iub"
    floor = 0.0 if exact else floor
    if tolerance is None:
        tolerance = 0.0 if exact else TOLERANCE.get(want.dtype.name, DEFAULT_TOLERANCE)
        if precision == "low" and not exact:
            tolerance = max(tolerance, LOW_TOLERANCE)
    out = OutputComparison(name, tuple(want.shape), want.dtype.name, tolerance=tolerance, floor=floor)
    if got is None or got.shape != want.shape or got.dtype != want.dtype:
        have = "nothing" if got is None else f"{got.dtype}{list(got.shape)}"
        return _failed(out, f"it is {have}, expected {want.dtype}{list(want.shape)}")
    if want.size == 0:
        return out
    a, b = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    finite = np.isfinite(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(a[np.isinf(b)], b[np.isinf(b)]):
        return _failed(
            out, f"NaN or infinite elements differ: {np.sum(~np.isfinite(a))} here, {np.sum(~finite)} in the source"
        )
    if not np.isfinite(a[finite]).all():
        return _failed(out, "it has infinities that the source does not have")
    a, b = np.where(finite, a, 0), np.where(finite, b, 0)
    error = np.abs(a - b)
    at = int(error.argmax())
    out.scale = float(np.abs(b).max())
    out.max_abs = float(error[at])
    if details:
        out.errors = errors_of(error, a, b, want.shape)
    near_zero = max(out.scale * 1e-6, 1e-30)
    out.max_rel = float((error / np.maximum(np.abs(b), near_zero)).max())
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    out.cosine = float(a @ b / norm) if norm > 0 else float(out.max_abs == 0)
    # An output of zeros has no scale; then the absolute error counts.
    out.needed = out.max_abs / out.scale if out.scale > 0 else out.max_abs
    out.worst = (tuple(int(i) for i in np.unravel_index(at, want.shape)), float(a[at]), float(b[at]))
    out.passed = out.needed <= tolerance or out.max_abs <= max(quanta, floor)
    if exact and 0 < out.max_abs <= quanta:
        out.reason = f"integers that represent real numbers: a difference of {quanta:g} passes"
    if out.scale < SMALL and not exact:
        out.reason = f"its scale is only {out.scale:.2g}: these inputs hardly test it"
    return out


def errors_of(error: Array, got: Array, want: Array, shape: tuple[int, ...]) -> Errors:
    """The distribution of errors; apart from the three flat arrays this takes memory for one part of them at a time."""
    bins = (MOST_ERROR - LEAST_ERROR) * BINS_PER_DECADE
    counts = np.zeros(bins, np.int64)
    exact = 0
    candidates: list[int] = []
    for start in range(0, error.size, _CHUNK):
        part = error[start : start + _CHUNK]
        positive = part[part > 0]
        exact += part.size - positive.size
        place = np.floor((np.log10(positive) - LEAST_ERROR) * BINS_PER_DECADE).astype(np.int64)
        counts += np.bincount(np.clip(place, 0, bins - 1), minlength=bins)
        top = np.argpartition(part, -min(_WORST, part.size))[-_WORST:]
        candidates += (start + top).tolist()
    ranked = sorted((i for i in candidates if error[i] > 0), key=lambda i: (-error[i], i))[:_WORST]
    worst = [(tuple(int(k) for k in np.unravel_index(i, shape)), float(got[i]), float(want[i])) for i in ranked]
    return Errors(counts.tolist(), int(exact), worst)


def compare_random(name: str, got: Array | None, want: Array) -> OutputComparison:
    """Compares the type and rank of an output that depends on random numbers; its shape may depend on them, too."""
    out = OutputComparison(name, tuple(want.shape), want.dtype.name, random=True)
    if got is None or got.ndim != want.ndim or got.dtype != want.dtype:
        have = "nothing" if got is None else f"{got.dtype}{list(got.shape)}"
        return _failed(out, f"it is {have}, expected {want.dtype}{list(want.shape)}")
    return out


def _failed(out: OutputComparison, reason: str) -> OutputComparison:
    out.passed, out.reason, out.needed = False, reason, float("inf")
    return out
