"""What each rule and pass makes of its own example, MNN's own runtime runs, and it gives the numbers of the reference.

Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

from pathlib import Path

import mnn_oracle
import numpy as np
import pytest
from rewriting import ALL, golden, inputs_for, read, run

from minnow.optimizer import optimize
from minnow.schema.ir import Model

pytestmark = mnn_oracle.needs_mnn


@pytest.mark.parametrize("level", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_examples_of_rules(tmp_path: Path, level: int) -> None:
    names, wanted, jobs = [], [], []
    for name, item in ALL.items():
        texts = golden(item)
        if item.target == "minnow" or texts is None:
            continue
        before, after = read(texts[0]), read(texts[0])
        model = Model(after)
        model.inputs = [(p.name, p.type) for p in after.params]
        model.outputs = [(f"out{i}", v.type) for i, v in enumerate(after.outputs)]
        arrays = inputs_for([p.type for p in before.params])
        optimize(model, level)
        if model.notices:  # ops and types that MNN does not have, before and after
            continue
        names.append(name)
        wanted.append(run(before, arrays))
        jobs.append(mnn_oracle.Job(model, dict(zip([n for n, _ in model.inputs], arrays, strict=True))))
    assert len(names) > 200
    for name, want, answer in zip(names, wanted, mnn_oracle.run(jobs, tmp_path), strict=True):
        assert answer.outputs, f"{name}: {answer.log}"
        for w, g in zip(want, answer.outputs, strict=True):
            assert g.shape == w.shape, name
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=1e-4, atol=1e-5, err_msg=name)
