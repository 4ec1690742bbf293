"""Makes every test that optimizes a model compare it with the reference after every step, where that is quick."""

from __future__ import annotations

import functools
import os
import zlib
from typing import Any

import numpy as np

from minnow.optimizer import pipeline
from minnow.optimizer.rewrite import Trace
from minnow.runtime.verify.proof import StepCheck
from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Model
from minnow.schema.registry.cost import UnknownDimensionError, macs

_MOST_NODES = 150
_MOST_MACS = 2_000_000
_MOST_BYTES = 1_000_000
_SECONDS = 1.0
_SWALLOWING = 1e4


def check_every_step() -> None:
    """From now on `optimize` is held to the numbers of the model that it is given, in all tests."""
    optimize = pipeline.optimize

    @functools.wraps(optimize)
    def checked(model: Model, *args: Any, log: Trace | None = None, check: Any = None, **options: Any) -> Any:
        log = log or Trace()
        steps = _check_of(model, log)

        def both(name: str, now: Model) -> None:
            for each in filter(None, (check, steps)):
                each(name, now)

        summary = optimize(model, *args, log=log, check=both, **options)
        if steps is not None:
            steps.finish(model)
        return summary

    pipeline.optimize = checked


def _check_of(model: Model, log: Trace) -> StepCheck | None:
    if log.stop_after is not None or not _is_chosen() or not is_small(model) or _swallows(model):
        return None
    try:
        return StepCheck(model, log.hits, seconds=_SECONDS)
    except MinnowError:
        return None  # the reference runs on none of the inputs: shapes that fit nothing are a case of their own


def _is_chosen() -> bool:
    """All tests of the optimizer and of whole models; of the thousands of others, which it slows down, every eighth."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    return test.startswith(("tests/optimizer", "tests/e2e")) or zlib.crc32(test.encode()) % 8 == 0


def _swallows(model: Model) -> bool:
    """16-bit floats near the end of their range take in what is added to them, a mask all scores: wider ones do not."""
    halves = [v.array for g in model.graph.walk() for v in g.constants() if v.type.dtype is DType.F16]
    return any(a is not None and a.size and float(np.nanmax(np.abs(a))) >= _SWALLOWING for a in halves)


def is_small(model: Model) -> bool:
    """The reference runs it in no time."""
    graphs: list[Graph] = list(model.graph.walk())
    if sum(map(len, graphs)) > _MOST_NODES or len(model.inputs) != len(model.graph.params):
        return False
    if any((v.type.count or 0) * v.type.dtype.size > _MOST_BYTES for g in graphs for v in g.values()):
        return False
    extents = {d: 4 for _, t in model.inputs for d in t.shape or () if isinstance(d, str)}
    try:
        return macs(model.graph, extents) < _MOST_MACS
    except UnknownDimensionError:
        return True
