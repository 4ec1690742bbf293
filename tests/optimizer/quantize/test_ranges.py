"""Ranges of tensors: each method against a plain computation on the numbers themselves."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minnow.optimizer.quantize.activations import Step
from minnow.optimizer.quantize.histogram import Histogram
from minnow.optimizer.quantize.ranges import KL_BINS, divergence, methods, range_of
from minnow.options.calibration import RangeMethod

Array = np.ndarray


def counted(numbers: Array) -> Histogram:
    histogram = Histogram()
    histogram.add(numbers)
    return histogram


def normal(seed: int, relu: bool = False) -> Array:
    x = np.random.default_rng(seed).standard_t(3, 20_000).astype(np.float32)
    return np.maximum(x, 0) if relu else x


def error(x: Array, low: float, high: float) -> float:
    return float(np.square(Step.of(low, high).rounded(x).astype(np.float64) - x).sum())


def test_options_name_the_methods() -> None:
    assert set(get_args(RangeMethod)) == {"auto", *methods}


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(methods)), st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40))
def test_every_range_holds_zero_and_lies_within_the_numbers(method: str, numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    low, high = range_of(counted(x), method)
    assert min(x.min(), 0) <= low <= 0 <= high <= max(x.max(), 0)
    step = Step.of(low, high)
    assert 0 <= step.zero <= 255
    assert step.scale > 0
    assert step.rounded(np.zeros(1, np.float32))[0] == 0


def test_minmax() -> None:
    x = normal(1)
    assert range_of(counted(x), "minmax") == (float(x.min()), float(x.max()))
    assert range_of(counted(np.array([3, 5], np.float32)), "minmax") == (0, 5)
    assert range_of(Histogram(), "minmax") == (0, 0)


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_percentile(percentile: float) -> None:
    x = normal(2)
    h = counted(x)
    low, high = range_of(h, "percentile", percentile)
    cut = round(len(x) * (100 - percentile) / 200)
    np.testing.assert_allclose([low, high], np.sort(x)[[cut, -1 - cut]], atol=1.01 * h.width)


@pytest.mark.parametrize("relu", [False, True])
def test_mse_is_as_good_as_the_best_of_many_ranges(relu: bool) -> None:
    x = normal(3, relu)
    h = counted(x)
    found = error(x, *range_of(h, "mse"))
    shares = np.linspace(0.05, 1, 60)
    best = min(error(x, float(x.min()) * a, float(x.max()) * b) for a in (shares if not relu else [1]) for b in shares)
    assert found <= 1.02 * best
    assert found < error(x, *range_of(h, "minmax"))


def plain_divergence(counts: list[int], threshold: int, target: int) -> float:
    """As in the description of the method: written with loops."""
    p = [float(c) for c in counts[:threshold]]
    p[-1] += sum(counts[threshold:])
    q = [0.0] * threshold
    for k in range(target):
        members = [i for i in range(threshold) if i * target // threshold == k]
        full = [i for i in members if counts[i]]
        for i in full:
            q[i] = sum(counts[j] for j in members) / len(full)
    if not sum(q):
        return float("inf")
    p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0:
            total += a * np.log(a / b) if b > 0 else 20 * a
    return total


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=12, max_size=30), st.integers(4, 12), st.integers(2, 4))
def test_divergence(counts: list[int], threshold: int, target: int) -> None:
    found = divergence(np.array(counts, np.float64), threshold, target)
    assert found == pytest.approx(plain_divergence(counts, threshold, target), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("relu", [False, True])
def test_kl_takes_the_threshold_of_the_least_divergence(relu: bool) -> None:
    x = normal(4, relu)
    low, high = range_of(counted(x), "kl")
    largest = float(np.abs(x).max())
    counts = np.histogram(np.abs(x).astype(np.float64), KL_BINS, (0, largest))[0].astype(np.float64)
    counts[0] = counts[1]
    target = 256 if relu else 128
    found = divergence(counts, round(high * KL_BINS / largest - 0.5), target)
    best = min(divergence(counts, t, target) for t in (*range(target, KL_BINS, 7), KL_BINS))
    assert found <= best * 1.3
    assert low == (0 if relu else pytest.approx(max(-high, float(x.min())), rel=2e-3))


@pytest.mark.parametrize("relu", [False, True])
def test_admm_ends_where_scale_and_integers_fit_each_other(relu: bool) -> None:
    x = normal(5, relu)
    bound = 255 if relu else 127
    scale = float(np.abs(x).max()) / (2.5 * bound)
    for _ in range(300):
        q = np.clip(np.rint(x.astype(np.float64) / scale), -bound, bound)
        scale = float(q @ x) / float(q @ q)
    assert range_of(counted(x), "admm")[1] == pytest.approx(bound * scale, rel=0.02)


def test_step_of_a_range() -> None:
    assert Step.of(0, 255) == Step(np.float32(1), 0)
    assert Step.of(-128, 127) == Step(np.float32(1), 128)
    assert Step.of(3, 5).zero == 0
    assert Step.of(3, 5).high == pytest.approx(5)
    assert Step.of(0, 0).scale > 0


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


@pytest.mark.parametrize("method", sorted(methods))
def test_numbers_whose_function_is_the_same_need_no_place(method: str) -> None:
    """Below -3 HardSwish is 0: the range ends there, and its results are nearer than with the range of the numbers."""
    x = np.random.default_rng(7).normal(-4, 4, 20_000).astype(np.float32)
    low, high = range_of(counted(x), method, function=hard_swish)
    assert -3.01 < low <= 0
    plain = range_of(counted(x), method)
    errors = [np.square(hard_swish(Step.of(*ends).rounded(x)) - hard_swish(x)).sum() for ends in ((low, high), plain)]
    if method != "admm":  # which has the same magnitude at both ends
        assert errors[0] < errors[1]


def test_the_least_squared_error_is_that_of_the_function() -> None:
    x = np.random.default_rng(8).normal(0, 6, 20_000).astype(np.float32)

    def sigmoid(x: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-x)))

    ends, plain = range_of(counted(x), "mse", function=sigmoid), range_of(counted(x), "mse")
    errors = [np.square(sigmoid(Step.of(*e).rounded(x)) - sigmoid(x)).sum() for e in (ends, plain)]
    assert errors[0] < 0.5 * errors[1]
    assert range_of(counted(x), "minmax", function=np.zeros_like) == range_of(counted(x), "minmax")
