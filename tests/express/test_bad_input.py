"""Arguments of any kind give a result or a known error: a sample of what `fuzz_express.py` does by hand."""

from __future__ import annotations

import random
import warnings

import pytest
from fuzz_express import call, little_memory, targets

from minnow.errors import UsageError
from minnow.expr import Var


@pytest.mark.parametrize("block", [pytest.param(0), *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 12))])
def test_random_calls(block: int) -> None:
    names = targets()
    with warnings.catch_warnings(), little_memory():
        warnings.simplefilter("ignore")
        made = [call(random.Random(900_000 + 500 * block + i), names) for i in range(500)]
    assert len(set(made)) > 300


def test_vars_refuse_what_they_cannot_hold() -> None:
    for value in ("text", [1, "a"], [[1], [1, 2]], 2**70, 1j, object(), [None], {1: 2}):
        with pytest.raises(UsageError):
            Var(value)
