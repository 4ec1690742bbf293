"""How the numbers of a tensor are distributed, over all runs of a calibration: exact counts in little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BINS = 8192
"""Bins on each side of 0: at least 16 for a step of the 255 that a range is divided into."""

_CHUNK = 1 << 18
"""Numbers that are counted at a time, so that temporary arrays stay in the processor's caches."""
_LEAST_EXPONENT = -100


class Histogram:
    """Counts of numbers in bins of equal width from -limit to limit, which is a power of two.

    The limit doubles when a number lies beyond it, and bins are joined in pairs. So the counts depend on the numbers
    alone: not on their order, on the parts that they come in, or on the number of threads.

    Attributes:
        low, high: the least and the largest finite number, infinity and minus infinity before the first one.
        total: how many finite numbers were counted.
        strange: how many were NaN or infinity.
        exponent: the limit is 2 to the power of it.
        counts: i64[2 * BINS].
    """

    def __init__(self) -> None:
        self.low, self.high = float("inf"), float("-inf")
        self.total = self.strange = 0
        self.exponent = _LEAST_EXPONENT
        self.counts = np.zeros(2 * BINS, np.int64)

    @property
    def limit(self) -> float:
        """The upper end of the last bin."""
        return float(2.0**self.exponent)

    @property
    def width(self) -> float:
        """The width of a bin."""
        return self.limit / BINS

    @property
    def centers(self) -> Array:
        """The middle of each bin, f64[2 * BINS]."""
        return (np.arange(-BINS, BINS) + 0.5) * self.width

    def add(self, array: Array) -> None:
        """Counts the numbers of an array of float32."""
        flat = np.ascontiguousarray(array, np.float32).reshape(-1)
        for i in range(0, flat.size, _CHUNK):
            self._add(flat[i : i + _CHUNK])

    def _add(self, x: Array) -> None:
        low, high = float(x.min()), float(x.max())
        if not np.isfinite([low, high]).all():
            finite = np.isfinite(x)
            self.strange += int(x.size - finite.sum())
            x = x[finite]
            if not x.size:
                return
            low, high = float(x.min()), float(x.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._grow(max(high, -low))
        # A product with a power of two is exact, and so is the rounding down.
        places = np.floor(x.astype(np.float64) * (BINS / self.limit)).astype(np.int64)
        self.counts += np.bincount(places + BINS, minlength=2 * BINS)
        self.total += x.size

    def _grow(self, largest: float) -> None:
        exponent = max(int(np.frexp(largest)[1]), _LEAST_EXPONENT) if largest else _LEAST_EXPONENT
        if exponent <= self.exponent:
            return
        if self.total:
            used = np.flatnonzero(self.counts)
            places = (used - BINS) >> min(exponent - self.exponent, 62)
            counts = np.zeros_like(self.counts)
            np.add.at(counts, places + BINS, self.counts[used])
            self.counts = counts
        self.exponent = exponent

    def join(self, other: Histogram) -> None:
        """Adds what another one has counted."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.strange += other.strange
        if not other.total:
            return
        self._grow(max(other.high, -other.low))
        used = np.flatnonzero(other.counts)
        places = (used - BINS) >> min(self.exponent - other.exponent, 62)
        np.add.at(self.counts, places + BINS, other.counts[used])
        self.total += other.total

    def beyond(self, low: float, high: float) -> float:
        """The share of numbers outside of a range, to the precision of a bin."""
        if not self.total:
            return 0.0
        ends = np.arange(-BINS, BINS + 1) * self.width
        outside = (ends[1:] <= low) | (ends[:-1] > high)
        return float(self.counts[outside].sum() / self.total)


class Channels:
    """What is known of each channel of a tensor.

    Attributes:
        axis: that of the channels.
        largest: the largest magnitude, f64[channels].
        mean: the mean, f64[channels].
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.largest = np.zeros(0)
        self._sums = np.zeros(0)
        self._count = 0

    @property
    def mean(self) -> Array:
        return self._sums / max(self._count, 1)

    def add(self, array: Array) -> None:
        """Takes the numbers of an array; infinities and NaN count as 0."""
        rows = np.moveaxis(np.asarray(array), self.axis, 0).reshape(array.shape[self.axis], -1)
        if not np.isfinite(rows).all():
            rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
        largest = np.abs(rows).max(1, initial=0).astype(np.float64)
        sums = rows.sum(1, dtype=np.float64)
        if not self._count:
            self.largest, self._sums = largest, sums
        else:
            self.largest, self._sums = np.maximum(self.largest, largest), self._sums + sums
        self._count += rows.shape[1]
