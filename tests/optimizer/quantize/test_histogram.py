"""Histograms of a calibration: exact counts that depend on the numbers alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minnow.optimizer.quantize.histogram import BINS, Channels, Histogram

_numbers = arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.floats(-(2.0**60), 2.0**60, width=32) | st.floats(-4, 4, width=32) | st.just(np.float32(0)),
)


def counted(numbers: np.ndarray) -> Histogram:
    histogram = Histogram()
    histogram.add(numbers)
    return histogram


def assert_same(a: Histogram, b: Histogram) -> None:
    assert (a.low, a.high, a.total, a.strange, a.exponent) == (b.low, b.high, b.total, b.strange, b.exponent)
    np.testing.assert_array_equal(a.counts, b.counts)


@settings(max_examples=60, deadline=None)
@given(_numbers, st.randoms())
def test_counts_are_those_of_numpy_in_any_order_and_in_any_parts(numbers: np.ndarray, random: object) -> None:
    whole = counted(numbers)
    edges = np.arange(-BINS, BINS + 1) * whole.width
    wanted, _ = np.histogram(numbers.astype(np.float64), edges)
    np.testing.assert_array_equal(whole.counts, wanted)
    assert (whole.low, whole.high, whole.total) == (numbers.min(), numbers.max(), numbers.size)
    order = list(range(numbers.size))
    random.shuffle(order)  # type: ignore[attr-defined]
    parts = [counted(numbers[part]) for part in np.array_split(np.array(order), 3) if part.size]
    joined = Histogram()
    for part in parts:
        joined.join(part)
    assert_same(joined, whole)
    one_by_one = Histogram()
    for i in order:
        one_by_one.add(numbers[i : i + 1])
    assert_same(one_by_one, whole)


def test_what_is_no_finite_number_is_counted_apart() -> None:
    histogram = counted(np.array([np.nan, 1, np.inf, -2, -np.inf], np.float32))
    assert (histogram.strange, histogram.total, histogram.low, histogram.high) == (3, 2, -2.0, 1.0)
    nothing = counted(np.array([np.nan], np.float32))
    assert (nothing.total, nothing.strange) == (0, 1)


def test_share_beyond_a_range() -> None:
    histogram = counted(np.linspace(-1, 1, 1001, dtype=np.float32))
    assert abs(histogram.beyond(-0.5, 1.0) - 0.25) < 0.01
    assert histogram.beyond(-1, 1) == 0


def test_channels() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(3)]
    channels = Channels(1)
    for part in parts:
        channels.add(part)
    whole = np.concatenate(parts).astype(np.float64)
    np.testing.assert_allclose(channels.mean, whole.mean((0, 2)), rtol=1e-6)
    np.testing.assert_array_equal(channels.largest, np.abs(whole).max((0, 2)))
