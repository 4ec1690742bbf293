"""Python's collector of cycles is left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from minnow.schema.collector import SeldomCollected


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_looks_less_often_inside_and_as_before_afterwards() -> None:
    gc.set_threshold(700, 10, 10)
    with SeldomCollected():
        assert gc.get_threshold()[0] > 10_000
        with SeldomCollected():
            pass
        assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_changes_nothing() -> None:
    gc.set_threshold(500, 9, 8)

    @SeldomCollected()
    def fail() -> None:
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            fail()
    assert gc.get_threshold() == (500, 9, 8)


@pytest.mark.parametrize("mine", [(0, 10, 10), (1_000_000, 5, 5)])
def test_who_wants_it_less_often_still_is_obeyed(mine: tuple[int, int, int]) -> None:
    gc.set_threshold(*mine)
    with SeldomCollected():
        assert gc.get_threshold() == mine
    assert gc.get_threshold() == mine
