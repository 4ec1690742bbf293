"""Sessions, modules and optimizers called in any way: a sample of what `fuzz_modules.py` does by hand."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_express import little_memory
from fuzz_modules import World

import minnow
from minnow import nn, optim
from minnow.errors import UsageError


@pytest.mark.parametrize("block", [pytest.param(0), *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 12))])
def test_random_calls(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = World(random.Random(900_000 + block), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = []
        for _ in range(200):
            with little_memory():
                made.append(world.call())
    assert len(set(made)) > 100


@pytest.mark.parametrize("kind", ["StepSchedule", "ExponentialSchedule", "CosineSchedule"])
def test_a_schedule_is_of_an_optimizer(kind: str) -> None:
    with pytest.raises(UsageError, match="a schedule is of an optimizer, not of list"):
        getattr(optim, kind)([1e-3], 2)


@pytest.mark.parametrize("dims", [3, True, None, 2.0, "4", [4], np.zeros((0, 2))])
def test_a_normalization_of_other_axes(dims: Any) -> None:
    with pytest.raises(UsageError, match="not 2 or 4"):
        nn.batch_norm(3, dims)


def test_arrays_outlive_their_session(tmp_path: Path) -> None:
    world = World(random.Random(0), tmp_path)
    net = minnow.Interpreter(world.file)
    session = net.createSession({})
    tensor = net.getSessionInput(session)
    net.resizeTensor(tensor, (1, 3, 8, 8))
    net.resizeSession(session)
    tensor.getNumpyData()[...] = 0.5
    net.runSession(session)
    output = net.getSessionOutput(session)
    kept = output.getNumpyData()
    expected = kept.copy()
    world.things.clear()
    del net, session, tensor, output
    np.testing.assert_array_equal(kept, expected)
    assert abs(float(kept.sum()) - 1) < 1e-5
