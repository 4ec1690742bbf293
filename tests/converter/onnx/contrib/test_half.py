"""Contrib operators in models of 16-bit floats, which onnxruntime computes in 32 bits or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from contrib.test_attention import decoding, many_heads, packed
from contrib.test_layers import convolutions, elementwise, norms, products
from contrib.test_rotary import grouped, rotary
from onnx_contrib import Case, assert_same, engine_runs, onnxruntime_runs


def wide(case: Case) -> Case:
    """The case with its floats rounded to 16 bits."""
    rounded = [a.astype(np.float16).astype(np.float32) if a is not None and a.dtype == np.float32 else a
               for a in case.inputs]  # fmt: skip
    return replace(case, inputs=rounded)


def narrow(case: Case) -> Case:
    inputs = [a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for a in case.inputs]
    declared = dict.fromkeys(case.declared, 10)
    return replace(case, inputs=inputs, close=2e-2, declared=declared)


CASES = [
    *elementwise(), *products(), *convolutions(), *norms(), *packed(), *many_heads(), *decoding(), *rotary(), *grouped()
]  # fmt: skip


def is_comparable(case: Case) -> bool:
    """It has floats, and no result that stays in 32 bits or holds the lowest number of its type."""
    statistics = case.op == "SimplifiedLayerNormalization" and case.outputs == 2
    floats = any(a is not None and a.dtype == np.float32 for a in case.inputs)
    return floats and not statistics and not case.declared


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [c for c in CASES if is_comparable(c)], ids=str)
def test_halves_give_what_floats_give(case: Case, tmp_path: Path) -> None:
    model, feed = narrow(case).model()
    got = engine_runs(model, feed, tmp_path)
    want = onnxruntime_runs(*wide(case).model())
    assert_same(got, [w.astype(np.float16) if w.dtype == np.float32 else w for w in want], narrow(case))
