"""Random graphs of integers, optimized and written to a file: the engine gives exactly what the references give."""

from __future__ import annotations

import numpy as np
import pytest
from engine_oracle import model_of, run
from integer_graphs import Grower
from sampling import one_in

import minnow
from minnow.optimizer import optimize
from minnow.schema.mnn import encode
from minnow.schema.registry.interpreter import evaluate


@pytest.mark.parametrize(("int64", "level"), [("auto", 2), ("keep", 0)])
def test_integers_are_those_of_the_references(int64: str, level: int) -> None:
    for seed in range(1000, 1200, one_in(4)):
        grower = Grower(seed)
        with np.errstate(all="ignore"):
            wants = evaluate(grower.graph, grower.inputs)
        what = [f"seed {seed}: {node}" for node in grower.graph for _ in node.outputs]
        model = model_of(grower.graph)
        optimize(model, level, int64=int64)
        got = run(minnow.load(encode(model), threads=1), grower.inputs)
        for text, a, want in zip(what, got, wants, strict=True):
            assert a.dtype == want.dtype, text
            if want.dtype.kind in "iub":
                np.testing.assert_array_equal(a, want, err_msg=text)
            else:
                room = 2e-3 if want.dtype.itemsize == 2 else 1e-6
                np.testing.assert_allclose(a.astype(float), want.astype(float), rtol=room, err_msg=text)
