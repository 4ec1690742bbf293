"""Batches of a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow import data
from minnow.expr.var import Var
from minnow.schema.errors import UsageError


class Numbers(data.Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> Any:
        return [np.full((2, 3), index, np.float32), Var(index)], [np.int32(index % 3)]

    def __len__(self) -> int:
        return self.count


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_in_order_with_a_smaller_last_one(workers: int) -> None:
    loader = data.DataLoader(Numbers(10), 4, False, workers)
    assert (loader.iter_number, loader.size, len(loader)) == (3, 10, 3)
    for _ in range(2):
        loader.reset()
        batches = [loader.next() for _ in range(loader.iter_number)]
        shapes = [(inputs[0].shape, inputs[1].shape, targets[0].shape) for inputs, targets in batches]
        assert shapes == [([4, 2, 3], [4], [4]), ([4, 2, 3], [4], [4]), ([2, 2, 3], [2], [2])]
        np.testing.assert_array_equal(np.concatenate([i[0].read()[:, 0, 0] for i, _ in batches]), np.arange(10))
    with pytest.raises(UsageError, match="all 3 batches have been given"):
        loader.next()


def test_a_shuffled_pass_has_every_example_once_in_another_order() -> None:
    np.random.seed(3)
    loader = data.DataLoader(Numbers(37), 5)
    passes = [[int(n) for inputs, _ in loader for n in inputs[1].read()] for _ in range(2)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(37))
    np.random.seed(3)
    again = data.DataLoader(Numbers(37), 5)
    assert [int(n) for inputs, _ in again for n in inputs[1].read()] == passes[0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((3, 4), "no data set"), ((Numbers(3), 0), "batch_size is 0"), ((Numbers(3), 2, True, -1), "num_workers is -1")],
)
def test_bad_arguments(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        data.DataLoader(*arguments)


def test_examples_that_do_not_fit_are_named() -> None:
    class Uneven(Numbers):
        def __getitem__(self, index: int) -> Any:
            return [np.zeros(index + 1, np.float32)], [0]

    with pytest.raises(UsageError, match=r"input 0 of the examples 0, 1, .* differs") as error:
        data.DataLoader(Uneven(4), 2, False).next()
    assert error.value.where == "Uneven"

    class Single(Numbers):
        def __getitem__(self, index: int) -> Any:
            return np.zeros(3, np.float32)

    with pytest.raises(UsageError, match="no pair of inputs and targets"):
        data.DataLoader(Single(4), 2, False, 1).next()
