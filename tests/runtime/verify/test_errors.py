"""The distribution of errors: nothing is counted twice or lost, and the worst elements are the worst."""

from __future__ import annotations

import numpy as np
import pytest

import minnow.runtime.verify.comparison as module
from minnow.runtime.verify.comparison import BINS_PER_DECADE, LEAST_ERROR, compare


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_every_element_is_in_one_bin(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    rng = np.random.default_rng(0)
    want = np.zeros((4, 25), np.float64)
    got = want + 10.0 ** rng.uniform(-15, 3, want.shape)
    got[0, :5] = 0
    errors = compare("y", got, want, details=True).errors
    assert errors is not None
    assert errors.exact == 5
    assert sum(errors.counts) == 95
    for k, count in enumerate(errors.counts):  # against numpy, element by element
        low, high = (10.0 ** (LEAST_ERROR + (k + i) / BINS_PER_DECADE) for i in (0, 1))
        assert count == np.sum((got >= low) & (got < high)), k
    order = np.argsort(-got.reshape(-1))[:10]
    assert [index for index, _, _ in errors.worst] == [divmod(int(i), 25) for i in order]
    assert errors.worst[0][1:] == (float(got.max()), 0.0)


def test_errors_outside_of_the_decades_are_in_the_last_bins() -> None:
    got = np.array([1e-30, 1e20, 0.0])
    errors = compare("y", got, np.zeros(3), details=True).errors
    assert errors is not None
    assert (errors.counts[0], errors.counts[-1], errors.exact) == (1, 1, 1)


def test_without_being_asked_nothing_is_counted() -> None:
    assert compare("y", np.ones(3), np.zeros(3)).errors is None
