"""Arguments of any kind give a result or a known error: a sample of what `fuzz_express.py` does by hand."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from fuzz_express import call, little_memory, targets

import minnow.numpy as mnp
from minnow import expr
from minnow.errors import UsageError
from minnow.expr import Var


@pytest.mark.parametrize("block", [pytest.param(0), *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 12))])
def test_random_calls(block: int) -> None:
    names = targets()
    with warnings.catch_warnings(), little_memory():
        warnings.simplefilter("ignore")
        made = [call(random.Random(900_000 + 500 * block + i), names) for i in range(500)]
    assert len(set(made)) > 300


@pytest.mark.parametrize("shape", [(4,), (2, 3), (0, 5), (3, 0)])
def test_differences_of_more_turns_than_there_are_elements(shape: tuple[int, ...]) -> None:
    """numpy takes each of the turns."""
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for more in ({}, {"axis": 0}, {"prepend": 1.0}, {"append": a, "axis": -1}):
        for n in (0, 1, 2, 3, 20):
            np.testing.assert_array_equal(np.asarray(mnp.diff(a, n, **more)), np.diff(a, n, **more))
        assert mnp.diff(a, 2**70, **more).shape == list(np.diff(a, 20, **more).shape)
        assert mnp.diff(a, np.int64(2**62), **more).shape == list(np.diff(a, 20, **more).shape)


@pytest.mark.parametrize("array", [np.zeros(5, object), np.zeros((2, 2), "c8"), np.zeros((2, 2), "U3"), [[1, "a"]]])
def test_linear_algebra_is_of_numbers(array: object) -> None:
    for function in (lambda a: mnp.linalg.norm(a, 3.0), mnp.linalg.svd, mnp.linalg.inv, mnp.linalg.det):
        with pytest.raises(UsageError, match="refuses its arguments"):
            function(array)
    with pytest.raises(UsageError, match="refuses its arguments"):
        mnp.linalg.norm(array, [0])


def test_moved_axes_need_as_many_places() -> None:
    with pytest.raises(UsageError, match="2 axes are moved to 1 places"):
        mnp.moveaxis(expr.placeholder([2, 3, 4]), [0, 1], [2])


def test_vars_refuse_what_they_cannot_hold() -> None:
    for value in ("text", [1, "a"], [[1], [1, 2]], 2**70, 1j, object(), [None], {1: 2}):
        with pytest.raises(UsageError):
            Var(value)
