"""Ops of 16-bit floats in a model: the engine computes in f32 what it has no kernel of 16 bits for."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from engine_oracle import assert_close, graph_of, run, session_of

from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType
from minnow.schema.ops import Op, Sample, Trait, all_ops

_MOST = 24
"""Samples of an op."""

_LEFT_OUT = {Trait.CONTROL_FLOW, Trait.EXACT_TYPES, Trait.RANDOM}

OPS = [op for op in all_ops() if not _LEFT_OUT & op.traits and op.name != "Raw"]


def _halved(op: Op, sample: Sample, dtype: DType) -> Sample | None:
    if op.name == "GridSample" and sample.attrs.get("mode") == "nearest":
        return None  # halves lie between two pixels
    inputs = [a.astype(dtype.numpy) if a is not None and a.dtype == np.float32 else a for a in sample.inputs]
    if all(a is b for a, b in zip(inputs, sample.inputs, strict=True)):
        return None
    return Sample(tuple(inputs), sample.attrs, sample.n_outputs, sample.rtol)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_of_halves(op: Op, dtype: DType) -> None:
    for sample in islice(filter(None, (_halved(op, s, dtype) for s in op.cases())), _MOST):
        try:
            want = op.evaluate(sample.inputs, sample.attrs)
            graph, feeds = graph_of(op, sample, len(sample.inputs))
        except MinnowError:
            continue  # it has no such form
        got = run(session_of(graph), feeds)
        for g, w in zip(got, want, strict=False):
            assert_close(g, w, 2, f"{op.name} {sample}")
