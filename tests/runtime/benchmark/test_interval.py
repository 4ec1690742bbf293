"""The interval of a ratio of latencies: against published tables, and on simulated noise with a known ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minnow.runtime.benchmark.interval import LEAST_STARTS, Ratio, _quartile, _rank, ratio_of, signed_rank_ratio

# Critical values of the signed-rank test, two-sided 5 %, from the tables in textbooks of statistics: the largest sum
# that is significant.
CRITICAL = {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 12: 13, 15: 25, 20: 52, 25: 89, 30: 137, 40: 264, 50: 434}


def test_the_ranks_are_those_of_the_tables():
    assert {n: _rank(n) - 1 for n in CRITICAL} == CRITICAL


def test_many_measurements_continue_the_exact_distribution():
    exact, approximate = _rank(100), _rank(101)
    assert 0 < approximate - exact < 60
    assert _rank(400) / (400 * 401 / 4) > exact / (100 * 101 / 4)


def starts(rng, ratio, *, count=10, rounds=6, runs=5, spikes=0.0, height=0.5, drift=0.0, memory=0.0):
    """Samples of two contestants whose latencies have a known ratio, on a machine with noise.

    spikes: part of the runs that an interruption makes longer, by `height` on average. drift: standard deviation of the
    change of the machine's speed from one turn to the next. memory: that of the speed of a process.
    """
    first, second = [], []
    level = 0.0
    for _ in range(count):
        own = rng.normal(0, memory, 2)
        samples = [[], []]
        for r in range(rounds):
            for i in (0, 1) if r % 2 == 0 else (1, 0):
                level += rng.normal(0, drift)
                times = np.exp(level + own[i]) * (1 + np.abs(rng.normal(0, 0.02, runs)))
                times *= 1 + (rng.random(runs) < spikes) * rng.exponential(height, runs)
                samples[i].append(times * (ratio if i == 0 else 1.0))
        first.append(samples[0])
        second.append(samples[1])
    return first, second


@pytest.mark.parametrize(
    "noise",
    [{}, {"drift": 0.05}, {"spikes": 0.5}, {"spikes": 0.3, "drift": 0.02, "memory": 0.02}],
    ids=str,
)  # fmt: skip
def test_the_interval_holds_the_ratio_as_often_as_it_claims(noise):
    """19 of 20 times; of 150 cases, 134 are three standard deviations fewer."""
    rng = np.random.default_rng(7)
    found = [ratio_of(*starts(rng, 1.07, **noise)) for _ in range(150)]
    held = sum(r.low <= 1.07 <= r.high for r in found)
    assert held >= 134
    assert math.exp(np.mean([math.log(r.value) for r in found])) == pytest.approx(1.07, rel=0.01)


def test_rounds_of_one_process_would_promise_too_much():
    """Why each start counts once: memory that lies well or badly stays so as long as the process lives."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        first, second = starts(rng, 1.0, count=1, rounds=20, memory=0.02)
        alone = signed_rank_ratio(
            np.log([np.median(a) / np.median(b) for a, b in zip(first[0], second[0], strict=True)])
        )
        held += alone.low <= 1 <= alone.high
    assert held < 70


def test_a_real_difference_is_shown_and_none_is_not():
    rng = np.random.default_rng(3)
    assert ratio_of(*starts(rng, 1.10, spikes=0.2, memory=0.01)).verdict == "slower"
    assert ratio_of(*starts(rng, 0.90, spikes=0.2, memory=0.01)).verdict == "faster"
    assert ratio_of(*starts(rng, 1.10, spikes=0.2, memory=0.01)).inverse().verdict == "faster"


def test_interruptions_of_whole_starts_hardly_move_the_ratio():
    rng = np.random.default_rng(5)
    first, second = starts(rng, 1.2, memory=0.005)
    for i in (2, 7):
        first[i] = [times * 3 for times in first[i]]
    found = ratio_of(first, second)
    assert found.value == pytest.approx(1.2, rel=0.02)
    assert found.low > 1


def test_equal_samples_give_exactly_one():
    samples = [[[0.1, 0.2], [0.3]]] * 8
    assert ratio_of(samples, samples) == Ratio(1.0, 1.0, 1.0)
    assert ratio_of(samples, samples).verdict == "no difference shown"


def test_few_starts_have_no_interval():
    for n in range(1, 9):
        found = ratio_of([[[2.0]]] * n, [[[1.0]]] * n)
        assert found.value == pytest.approx(2)
        assert (found.low is None) == (found.high is None) == (n < LEAST_STARTS)
    assert Ratio(2.0).verdict == "no difference shown"
    assert Ratio(2.0).inverse() == Ratio(0.5)


def test_the_quartile_is_that_of_numpy():
    rng = np.random.default_rng(0)
    for n in range(1, 12):
        numbers = rng.random(n)
        assert _quartile(numbers) == pytest.approx(np.quantile(numbers, 0.25))


def test_rounds_without_samples_are_left_out():
    assert ratio_of([[[2.0], []]], [[[1.0], [5.0]]]).value == pytest.approx(2)
    with pytest.raises(ValueError, match="no round"):
        ratio_of([[[]]], [[[1.0]]])


def test_the_same_samples_give_the_same_interval():
    samples = starts(np.random.default_rng(2), 1.05, spikes=0.3)
    assert ratio_of(*samples) == ratio_of(*samples)
    assert ratio_of(*samples).as_dict().keys() == {"ratio", "low", "high", "verdict"}
