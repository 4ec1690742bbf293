"""Recurrent layers so large that several threads share one, against the numpy references."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.ops import get

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def operands(op: str, batch: int, hidden: int, steps: int = 5, features: int = 3, directions: int = 1) -> list:
    rng = np.random.default_rng(hidden + batch)

    def floats(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    d, rows = directions, GATES[op] * hidden
    lens = rng.integers(0, steps + 1, batch).astype(np.int32)
    weights = [floats(d, rows, features), floats(d, rows, hidden), floats(d, 2 * rows)]
    states = [floats(d, batch, hidden) for _ in range(2 if op == "LSTM" else 1)]
    peepholes = [floats(d, 3 * hidden)] if op == "LSTM" else []
    return [floats(steps, batch, features), *weights, lens, *states, *peepholes]


CASES = [("LSTM", {}), ("GRU", {"linear_before_reset": True}), ("GRU", {"linear_before_reset": False}), ("RNN", {})]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("op", "attrs"), CASES, ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v)))
@pytest.mark.parametrize(("batch", "hidden"), [(1, 517), (2, 512), (3, 405), (7, 384), (9, 391)])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_large_layers(op, attrs, batch, hidden, threads, direction):
    attrs = {**attrs, "direction": direction, "hidden": hidden}
    values = operands(op, batch, hidden, directions=2 if direction == "bidirectional" else 1)
    outputs = 3 if op == "LSTM" else 2
    got = _engine.run_op(op, attrs, values, outputs, threads, False)
    for a, b in zip(got, get(op).evaluate(values, attrs), strict=False):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_threads_do_not_change_the_numbers():
    values = operands("LSTM", 1, 530, steps=40)
    attrs = {"direction": "forward", "hidden": 530}
    one, *more = (_engine.run_op("LSTM", attrs, values, 3, threads, False) for threads in (1, 2, 5, 2, 2))
    for other in more:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
