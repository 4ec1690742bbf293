"""The range of a tensor that its 256 integers stand for: one function for each method.

A small range has small steps, a large one cuts off few numbers. Each method is a function from a `Histogram` to the two
ends; all results hold 0, and lie within what was measured.

Where nothing but a function of one number reads a tensor, its results count: a range need not hold the numbers beyond
which they stay the same, such as those below -3 for HardSwish, and the squared errors are those of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.histogram import Histogram

Array = npt.NDArray[Any]
Range = tuple[float, float]
Function = Callable[[Array], Array]
"""Of numbers, one by one."""

STEPS = 255

_LEAST = 1e-30
"""Ranges below it have no steps that are normal numbers."""

_Method = Callable[[Histogram, float, Function], Range]

methods: dict[str, _Method] = {}
"""By name, with what they are given: a histogram, the share of numbers that "percentile" keeps, and what reads them."""


def _method(name: str) -> Callable[[_Method], _Method]:
    def add(function: _Method) -> _Method:
        methods[name] = function
        return function

    return add


def range_of(histogram: Histogram, method: str, percentile: float = 99.99, function: Function | None = None) -> Range:
    """The ends of the range for a tensor.

    Args:
        histogram: of its numbers.
        method: a name of `methods`.
        percentile: for the method of that name: how many of 100 numbers lie in the range.
        function: what alone reads the tensor; None for others than functions of one number.
    """
    least, most = _measured(histogram) if histogram.total else (0.0, 0.0)
    if most - least < _LEAST:
        return least, most
    low, high = methods[method](histogram, percentile, function or _same)
    if function is not None:
        first, last = _ends_of(histogram, function)
        low, high = max(low, first), min(high, last)
    ends = max(min(low, 0.0), least), min(max(high, 0.0), most)
    return ends if ends[0] < ends[1] else (least, most)


def _same(x: Array) -> Array:
    return x


def _ends_of(h: Histogram, function: Function) -> Range:
    """The numbers beyond which the results of a function stay the same, among those that were measured."""
    numbers = h.centers[np.flatnonzero(h.counts)]
    found = function(numbers)
    differ = np.flatnonzero(found != found[0])
    if not differ.size:
        return _measured(h)
    first = int(differ[0]) - 1
    last = int(np.flatnonzero(found != found[-1])[-1]) + 1
    low, high = _measured(h)
    return numbers[first] if first > 0 else low, numbers[last] if last < len(numbers) - 1 else high


def _measured(h: Histogram) -> Range:
    return min(h.low, 0.0), max(h.high, 0.0)


@_method("minmax")
def _minmax(h: Histogram, percentile: float, function: Function) -> Range:
    """From the least to the largest number."""
    return _measured(h)


@_method("percentile")
def _percentile(h: Histogram, percentile: float, function: Function) -> Range:
    """Without the most extreme numbers, the same share at both ends."""
    cut = round(h.total * (100 - percentile) / 200, 6)
    sums = np.cumsum(h.counts)
    first = int(np.searchsorted(sums, cut, side="right"))
    last = int(np.searchsorted(sums, h.total - cut, side="left"))
    edges = np.arange(-len(sums) // 2, len(sums) // 2 + 1) * h.width
    return float(edges[first]), float(edges[min(last, len(sums) - 1) + 1])


def square_error(numbers: Array, counts: Array, low: float, high: float, function: Function = _same) -> float:
    """The sum of squared errors of a function of numbers, with how often each is there, quantized to a range."""
    scale = (high - low) / STEPS
    zero = np.rint(-low / scale)
    # There are no more than 256 results, however many numbers there are.
    results = function((np.arange(STEPS + 1) - zero) * scale)
    rounded = results[np.clip(np.rint(numbers / scale) + zero, 0, STEPS).astype(np.int64)]
    return float(np.square(rounded - function(numbers)) @ counts)


_SHARES = np.linspace(1.0, 0.2, 41)
_FINE = np.linspace(1.08, 0.92, 9)


@_method("mse")
def _mse(h: Histogram, percentile: float, function: Function) -> Range:
    """The least squared error: both ends moved together, then each by itself."""
    low, high = _measured(h)
    used = np.flatnonzero(h.counts)
    numbers, counts = h.centers[used], h.counts[used].astype(np.float64)

    def error(ends: Range) -> float:
        return square_error(numbers, counts, *ends, function)

    best = min(((low * s, high * s) for s in _SHARES), key=error)
    for _ in range(2):
        for shares in (_SHARES, _FINE):
            start = best
            tried = [best, *((start[0], max(min(high, start[1] * s), 0.0)) for s in shares)]
            best = min((t for t in tried if t[0] < t[1]), key=error)
            start = best
            tried = [best, *((min(max(low, start[0] * s), 0.0), start[1]) for s in shares)]
            best = min((t for t in tried if t[0] < t[1]), key=error)
    return best


KL_BINS = 2048
_KL_LEAST = 128


@_method("kl")
def _kl(h: Histogram, percentile: float, function: Function) -> Range:
    """Keeps the distribution of magnitudes: the least Kullback-Leibler divergence from it to its quantized form."""
    low, high = _measured(h)
    largest = max(high, -low)
    half = len(h.counts) // 2
    sums = np.concatenate([[0], np.cumsum(h.counts[half:] + h.counts[half - 1 :: -1])])
    # The ends of these bins lie within those of the histogram, whose numbers are divided in proportion.
    ends = np.linspace(0, largest, KL_BINS + 1)
    counts = np.diff(np.interp(ends, np.arange(half + 1) * h.width, sums))
    counts[-1] += h.total - counts.sum()
    counts[0] = counts[1]  # 0 has an integer of its own: how many numbers a Relu has made 0 does not matter
    target = _KL_LEAST if low < 0 else 2 * _KL_LEAST
    # With all bins nothing is cut off: what many numbers are at the very end would otherwise have no place.
    thresholds = range(target, KL_BINS + 1)
    best = min(thresholds, key=lambda t: divergence(counts, t, target))
    most = (best + 0.5) * largest / KL_BINS
    return (-most if low < 0 else 0.0), most


def divergence(counts: Array, threshold: int, target: int) -> float:
    """The Kullback-Leibler divergence between magnitudes that are cut off at a threshold, and those in few bins.

    Args:
        counts: of magnitudes, in bins of equal width.
        threshold: how many of the bins are kept; what lies beyond goes into the last one.
        target: the number of bins that they become.
    """
    kept = counts[:threshold].astype(np.float64)
    clipped = kept.copy()
    clipped[-1] += counts[threshold:].sum()
    places = np.arange(threshold) * target // threshold
    filled = kept > 0
    sums = np.bincount(places, kept, target)
    members = np.bincount(places, filled, target)
    spread = np.where(filled, (sums / np.maximum(members, 1))[places], 0.0)
    if not spread.any():
        return float("inf")
    p, q = clipped / clipped.sum(), spread / spread.sum()
    both = (p > 0) & (q > 0)
    lost = float(p[(p > 0) & (q == 0)].sum())
    # What has no counterpart would be an infinite divergence: it counts as much as a very unlikely number.
    return float((p[both] * np.log(p[both] / q[both])).sum()) + lost * 20.0


_ADMM_ROUNDS = 300


@_method("admm")
def _admm(h: Histogram, percentile: float, function: Function) -> Range:
    """Integers and scale fitted to each other in turns, from a small scale on: a local least squared error."""
    low, high = _measured(h)
    bound = STEPS // 2 if low < 0 else STEPS
    used = np.flatnonzero(h.counts)
    numbers, counts = h.centers[used], h.counts[used].astype(np.float64)
    scale = max(high, -low) / (2.5 * bound)
    for _ in range(_ADMM_ROUNDS):
        integers = np.clip(np.rint(numbers / scale), -bound, bound)
        power = float(np.square(integers) @ counts)
        if power == 0:
            break
        fitted = float((integers * numbers) @ counts) / power
        if fitted == scale or fitted <= 0:
            break
        scale = fitted
    return (-bound * scale if low < 0 else 0.0), bound * scale
