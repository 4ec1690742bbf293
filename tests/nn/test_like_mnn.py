"""Modules of files and layers give what those of MNN give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from oracles.mnn_oracle import PYTHON, needs_mnn

from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

WORKER = Path(__file__).parent / "module_worker.py"


def small_model() -> bytes:
    """A convolution, a pooling and a matrix product: [N, 3, 12, 10] -> [N, 7]."""
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", 3, 12, 10)), "data")
    b = Builder(graph)
    y = b.Conv(x, rng.random((5, 3, 3, 3), np.float32), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    y.name = "conv"
    y = b.MatMul(b.ReduceMean(y, axes=(2, 3), keepdims=False), rng.random((5, 7), np.float32))
    graph.outputs = [y]
    return encode(Model(graph, [("data", x.type)], [("prob", y.type)]))


@needs_mnn
def test_modules_give_what_those_of_mnn_give(tmp_path: Path) -> None:
    model = tmp_path / "model.mnn"
    model.write_bytes(small_model())
    given = []
    for name, start in (("mnn", [PYTHON]), ("minnow", [sys.executable, "-m", "minnow.compat"])):
        target = tmp_path / f"{name}.npz"
        done = subprocess.run(
            [*start, str(WORKER), str(model), str(target)],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": "error"},
        )  # fmt: skip
        assert target.exists(), done.stdout + done.stderr
        given.append(dict(np.load(target)))
    theirs, ours = given
    assert list(ours) == list(theirs)
    for name, want in theirs.items():
        if want.dtype.kind == "f":
            np.testing.assert_allclose(ours[name], want, rtol=2e-5, atol=2e-5, err_msg=name)
            assert ours[name].shape == want.shape, name
        else:
            np.testing.assert_array_equal(ours[name], want, err_msg=name)
