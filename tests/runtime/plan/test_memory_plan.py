"""The memory plan: exact places for small cases, and what must hold for all."""

from __future__ import annotations

import random
import time
from bisect import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minnow.runtime import _engine

KIB = 1024


@pytest.mark.parametrize(
    ("pieces", "offsets", "arena"),
    [
        ([], [], 0),
        ([(0, 0, 0)], [0], 0),
        ([(0, 3, 1)], [0], 64),
        # One after the other: the same place.
        ([(0, 1, 100), (2, 3, 100), (4, 5, 128)], [0, 0, 0], 128),
        # A chain: each needs its neighbors only, so two places do.
        ([(0, 1, KIB), (1, 2, KIB), (2, 3, KIB), (3, 4, KIB)], [0, KIB, 0, KIB], 2 * KIB),
        # The largest comes first; the others lie beside it, or below once it is gone.
        ([(0, 5, 64), (1, 2, 4 * KIB), (3, 4, KIB)], [4 * KIB, 0, 0], 4 * KIB + 64),
        # Of two gaps, the one it fits better.
        (
            [(0, 9, 10 * KIB), (0, 1, 5 * KIB), (0, 9, 4 * KIB), (0, 1, 3 * KIB), (0, 9, 2816), (2, 9, 2560)],
            [0, 10 * KIB, 15 * KIB, 19 * KIB, 22 * KIB, 19 * KIB],
            25344,
        ),
        # Both ends of a lifetime count: what is read at a step must not be overwritten in it.
        ([(0, 1, 64), (1, 2, 64)], [0, 64], 128),
    ],
)
def test_places(pieces, offsets, arena):
    assert _engine.plan_memory([list(p) for p in pieces]) == (offsets, arena)


def needed(pieces) -> int:
    return max(
        sum(-(-size // 64) * 64 for first, last, size in pieces if first <= k <= last)
        for k in range(max(p[1] for p in pieces) + 1)
    )


@pytest.mark.parametrize("seed", range(60))
def test_hardly_more_than_is_needed(seed):
    """Nets with short and long branches: within 5% of what lives at one time."""
    rng = random.Random(seed)
    pieces = []
    for i in range(rng.choice([20, 60, 150])):
        last = i + rng.choice([1, 1, 1, 1, 2, 3, rng.randint(1, 30)])
        pieces.append([i, last, 64 * rng.choice([1, 2, 4, 8, 16, 3, 5, 7, rng.randint(1, 200)])])
    _, arena = _engine.plan_memory(pieces)
    assert arena <= 1.05 * needed(pieces)


lifetimes = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 5000)).map(lambda t: [t[0], t[0] + t[1], t[2]]),
    max_size=40,
)


@given(lifetimes)
def test_nothing_overlaps_that_lives_together(pieces):
    offsets, arena = _engine.plan_memory(pieces)
    sizes = [-(-size // 64) * 64 for _, _, size in pieces]
    for i, ((first, last, _), offset) in enumerate(zip(pieces, offsets, strict=True)):
        assert offset % 64 == 0
        assert offset + sizes[i] <= arena
        for j in range(i):
            together = first <= pieces[j][1] and pieces[j][0] <= last
            apart = offset + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offset
            assert not together or apart or not sizes[i] or not sizes[j]
    assert arena <= sum(sizes)
    if pieces:
        assert arena >= needed(pieces)


def long_plan(kind: str, n: int) -> list[list[int]]:
    """More pieces than could be compared in pairs."""
    rng = random.Random(1)
    size = {"layers": lambda: 64 * rng.choice([1, 2, 4, 8, 3]), "equal": lambda: 128}.get(
        kind, lambda: rng.randint(1, 4000)
    )
    ends = {
        "layers": lambda i: i + rng.choice([1, 1, 1, 2, 3, 40 if rng.random() < 0.1 else 1]),
        "kept": lambda i: n,
        "equal": lambda i: i + rng.randint(1, 9),
        "mixed": lambda i: n if i % 2 else i + 1,
    }[kind]
    return [[i, ends(i), size()] for i in range(n)]


@pytest.mark.parametrize(("kind", "most"), [("layers", 1.05), ("kept", 1), ("equal", 1), ("mixed", 1.6)])
@pytest.mark.parametrize("n", [3000, 10000])
def test_long_plans(kind, most, n):
    """What few or all of many pieces live with is found out without a look at all pairs, and nothing overlaps."""
    pieces = long_plan(kind, n)
    begin = time.process_time()
    offsets, arena = _engine.plan_memory(pieces)
    assert time.process_time() - begin < 5
    ends: dict[int, list[int]] = {}
    live: list[tuple[int, int]] = []  # places, sorted
    now = least = 0
    for i, (first, last, size) in enumerate(pieces):
        for k in ends.pop(first - 1, ()):
            live.remove((offsets[k], -(-pieces[k][2] // 64) * 64))
            now -= -(-pieces[k][2] // 64) * 64
        mine = (offsets[i], -(-size // 64) * 64)
        at = bisect(live, mine)
        assert at == 0 or sum(live[at - 1]) <= mine[0], i
        assert at == len(live) or sum(mine) <= live[at][0], i
        assert sum(mine) <= arena
        live.insert(at, mine)
        ends.setdefault(last, []).append(i)
        now += mine[1]
        least = max(least, now)
    assert least <= arena <= most * least


@pytest.mark.parametrize("n", [1 << 14, 1 << 15], ids=["below zero", "back to zero"])
def test_sums_of_sizes_that_overflow_are_too_much(n: int) -> None:
    """Each piece is as large as a tensor can be; there is no machine with that much memory for all of them."""
    offsets, arena = _engine.plan_memory([[0, 1, 1 << 49]] * n)
    assert arena >= 1 << 55
    assert set(offsets) == {0}
