"""Tokens without a place in the caches of PagedAttention, and several with the same place."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import MinnowError
from minnow.schema.ops import get
from tests.kernels.gpu.test_ops_on_gpu import device  # noqa: F401

RNG = np.random.default_rng(8)
ATTRS = {"num_heads": 2, "num_kv_heads": 1, "scale": 0.5, "window": 0, "soft_cap": 0.0}


def operands(starts: list[int], lengths: list[int], blocks: list[list[int]], tokens: int = 4) -> list[np.ndarray]:
    """Of heads with 3 features, and caches with 5 blocks of 2 tokens."""
    shapes = [(tokens, 6), (tokens, 3), (tokens, 3), (5, 1, 3, 2), (5, 1, 2, 3)]
    floats = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    return floats + [np.array(places, np.int32) for places in (starts, lengths, blocks)]


@pytest.mark.parametrize(
    ("starts", "lengths", "blocks", "message"),
    [
        ([1, 2, 4], [0, 0], [[0, 1], [2, 3]], "sequence 0 has the rows from 1 to 2"),
        ([0, 3, 2], [0, 0], [[0, 1], [2, 3]], "sequence 1 has the rows from 3 to 2"),
        ([0, 1, 5], [0, 0], [[0, 1], [2, 3]], "sequence 1 has the rows from 1 to 5"),
        ([0, 2, 4], [0, 3], [[0, 1], [2, 3]], "sequence 1 has 3 tokens and gets 2"),
        ([0, 2, 4], [-1, 0], [[0, 1], [2, 3]], "sequence 0 has -1 tokens and gets 2"),
        ([0, 2, 4], [0, 2**31 - 1], [[0, 1], [2, 3]], "sequence 1 has 2147483647 tokens"),
        ([0, 2, 4], [0, 1], [[0, 9], [2, 5]], "block 1 of sequence 1 is 5"),
        ([0, 2, 4], [0, 1], [[-1, 9], [2, 3]], "block 0 of sequence 0 is -1"),
    ],
)
def test_tokens_without_a_place(
    device: str,  # noqa: F811
    starts: list[int],
    lengths: list[int],
    blocks: list[list[int]],
    message: str,
) -> None:
    with pytest.raises(MinnowError, match=message):
        _engine.run_op("PagedAttention", ATTRS, operands(starts, lengths, blocks), 3, 1, device=device)


def test_of_two_tokens_in_one_place_the_last_is_kept(device: str) -> None:  # noqa: F811
    given = operands([0, 2, 4], [1, 1], [[3, 1], [3, 1]])
    got = _engine.run_op("PagedAttention", ATTRS, given, 3, 1, device=device)
    for a, b in zip(got, get("PagedAttention").evaluate(given, ATTRS), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)
