"""The ratio of two latencies that were measured in turns, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

CONFIDENCE = 0.95
LEAST_STARTS = 6
"""With fewer starts than this no interval of signed ranks has a confidence of 95 %."""

Verdict = Literal["faster", "slower", "no difference shown"]
Samples = Sequence[Sequence[Sequence[float]]]
"""Seconds of each inference, by start of the process and by round."""


class Ratio(NamedTuple):
    """A ratio of latencies, with its interval of 95 % confidence.

    Attributes:
        value: the ratio; above 1 the first latency is the longer one.
        low, high: the ends of the interval; None with fewer than `LEAST_STARTS` starts.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def inverse(self) -> Ratio:
        """The ratio of the second latency to the first."""
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Ratio(1 / self.value, low, high)

    @property
    def verdict(self) -> Verdict:
        """Whether the first one is faster or slower than the second: the whole interval is on one side of 1."""
        if self.high is not None and self.high < 1:
            return "faster"
        return "slower" if self.low is not None and self.low > 1 else "no difference shown"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values: `ratio`, `low`, `high`, `verdict`."""
        return {"ratio": self.value, "low": self.low, "high": self.high, "verdict": self.verdict}

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} (95 %: {self.low:.3f} to {self.high:.3f})"


def ratio_of(first: Samples, second: Samples) -> Ratio:
    """The ratio of two latencies that were measured in turns, in several starts of their processes.

    The quotient of the lower quartiles of a round is one measurement. Noise that lasts longer than a round cancels in
    it, since both were timed directly one after the other; shorter noise mostly stays above the quartile, since it only
    makes runs longer. (The minimum varies more where a round has few runs, the median where many are disturbed.)
    The rounds of a start are not independent, since the speed of a process also depends on where its memory happens to
    lie: the interval of the rounds of one start would be too narrow. So each start counts once, with the estimate below
    over its rounds.

    Ratio and interval are those of Wilcoxon's signed ranks: if two contestants are equally fast, each is as likely to
    be the faster one in a start, by any factor. The logarithms of the quotients are then distributed symmetrically
    around that of the ratio, and the interval has the confidence that it claims, however the noise is distributed.
    The ratio is the Hodges-Lehmann estimate that belongs to it, the median of the means of all pairs of logarithms,
    which a few starts or rounds with interruptions hardly move. Both are functions of the samples alone.

    Args:
        first, second: round j of start i of one is the partner of round j of start i of the other; rounds where one has
            no samples are left out.

    Raises:
        ValueError: no round has samples of both.
    """
    logs = []
    for rounds in zip(first, second, strict=True):
        pairs = [(_quartile(a), _quartile(b)) for a, b in zip(*rounds, strict=True) if len(a) and len(b)]
        if pairs:
            logs.append(float(np.median(_means(np.array([math.log(a / b) for a, b in pairs])))))
    if not logs:
        raise ValueError("no round has samples of both")
    return signed_rank_ratio(np.array(logs))


def signed_rank_ratio(logs: np.ndarray[Any, Any]) -> Ratio:
    """The ratio and its interval from independent measurements of its logarithm, an array of shape [n]."""
    n, means = len(logs), np.sort(_means(logs))
    value = math.exp(float(np.median(means)))
    if n < LEAST_STARTS:
        return Ratio(value)
    rank = _rank(n)
    return Ratio(value, math.exp(means[rank - 1]), math.exp(means[len(means) - rank]))


def _quartile(seconds: Sequence[float]) -> float:
    """The lower quartile, as of `numpy.quantile`, which takes longer for a few numbers."""
    ordered = sorted(seconds)
    i, part = divmod(len(ordered) - 1, 4)
    return ordered[i] + part / 4 * (ordered[i + 1] - ordered[i]) if part else ordered[i]


def _means(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The means of all pairs, each number with itself included."""
    rows, columns = np.triu_indices(len(numbers))
    means: np.ndarray[Any, Any] = (numbers[rows] + numbers[columns]) / 2
    return means


@cache
def _rank(n: int) -> int:
    """Which of the sorted means, counted from 1, is the lower end; the upper end is as far from the largest one.

    The smallest sum of signed ranks that is not in the lower tail. The distribution is exact up to 100 measurements.
    """
    tail = (1 - CONFIDENCE) / 2
    if n > 100:
        mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(1, math.floor(mean - 1.959964 * deviation))
    # chances[s]: that the ranks with a positive sign add up to s, each sign being as likely as the other.
    chances = np.zeros(n * (n + 1) // 2 + 1)
    chances[0] = 1
    for k in range(1, n + 1):
        chances[k:] = (chances[k:] + chances[:-k]) / 2
        chances[:k] /= 2
    return max(1, int(np.searchsorted(np.cumsum(chances), tail)))


def in_nanoseconds(samples: Samples) -> list[list[list[float]]]:
    """The samples rounded to nanoseconds, for short JSON."""
    return [[[round(s, 9) for s in rounds] for rounds in start] for start in samples]
