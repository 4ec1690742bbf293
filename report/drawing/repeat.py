"""Where a long sequence can be divided: at repeated subsequences, and where few values cross."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_LONGEST = 400
"""The most items of one period."""

_LEAST = 4
"""The fewest items of one period; of a sequence that is there only twice, twice as many."""


def repeats(signs: Sequence[str], crossings: Sequence[int]) -> list[tuple[int, int, int]]:
    """Divides a sequence into repetitions and what is between them.

    Args:
        signs: items with equal signs are alike.
        crossings: for each position, the number of values that cross it; blocks begin where few do.

    Returns:
        (start, period, count) in order: `count` blocks of `period` items each; a count of 1 is no repetition.
    """
    numbers = {sign: k for k, sign in enumerate(dict.fromkeys(signs))}
    return _divide(np.array([numbers[s] for s in signs], np.int32), crossings, 0)


def _divide(signs: np.ndarray, crossings: Sequence[int], base: int) -> list[tuple[int, int, int]]:
    if not len(signs):
        return []
    best = (0, 0, 0, 0)
    for period in range(_LEAST, min(_LONGEST, len(signs) // 2) + 1):
        start, length = _longest_run(signs[:-period] == signs[period:])
        count = (length + period) // period if length else 0
        if count < 2 or (count == 2 and period < 2 * _LEAST):
            continue
        if len(np.unique(signs[start : start + period])) == 1:
            continue  # one op many times in a row is no block
        # The longest period of which all are multiples: a shorter one with the same cover comes first, and stays.
        if period * count > best[0] * 1.1:
            best = (period * count, start, period, length)
    _, start, period, length = best
    if not period:
        return [(base, len(signs), 1)]
    count, first = _phase(crossings, base + start, period, length + period)
    first -= base
    left = _divide(signs[:first], crossings, base)
    right = _divide(signs[first + count * period :], crossings, base + first + count * period)
    return [*left, (base + first, period, count), *right]


def _longest_run(same: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    k = int(np.argmax(ends - starts))
    return int(starts[k]), int(ends[k] - starts[k])


def _phase(crossings: Sequence[int], start: int, period: int, cover: int) -> tuple[int, int]:
    """Number of blocks, and the start of the first one: where the fewest values cross, at most one block is lost."""
    most = cover // period
    options = []
    for shift in range(min(period, cover - 2 * period + 1)):
        count = (cover - shift) // period
        cost = sum(crossings[start + shift + k * period] for k in range(count + 1)) / (count + 1)
        options.append((cost + (most - count) * 0.5, shift, count))
    _, shift, count = min(options)
    return count, start + shift


def parts(crossings: Sequence[int], size: int) -> list[int]:
    """The bounds of parts of about `size` items, each cut near there where the fewest values cross."""
    total = len(crossings) - 1
    bounds = [0]
    while total - bounds[-1] > size * 1.5:
        ideal = bounds[-1] + size
        slack = size // 4
        bounds.append(min(range(ideal - slack, ideal + slack + 1), key=lambda k: (crossings[k], abs(k - ideal))))
    return [*bounds, total]
