"""Programs for MNN, run by MNN and by Minnow: they get the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.mnn_oracle import PYTHON, needs_mnn

from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent


def small_model(two: bool = False) -> bytes:
    """A convolution, a pooling and a matrix product: [N, 3, 12, 10] -> [N, 7]; with the image of the convolution, whose
    name comes before, as a second output."""
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", 3, 12, 10)), "data")
    b = Builder(graph)
    w = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(5).astype(np.float32)
    conv = b.Conv(x, w, bias, strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    conv.name = "conv"
    y = b.ReduceMean(b.Relu(conv), axes=(2, 3), keepdims=False)
    y = b.MatMul(y, rng.standard_normal((5, 7)).astype(np.float32))
    y.name = "prob"
    graph.outputs = [y, b.Sigmoid(conv)] if two else [y]
    outputs = list(zip(["prob", "also"], (v.type for v in graph.outputs), strict=False))
    return encode(Model(graph, [("data", x.type)], outputs))


def results(program: str, python: str, folder: Path, *arguments: str) -> dict[str, Array]:
    """What a program gives."""
    target = folder / f"{'minnow' if python == sys.executable else 'mnn'}.npz"
    start = [python, "-m", "minnow.compat"] if python == sys.executable else [python]
    done = subprocess.run(
        [*start, str(HERE / program), *arguments, str(target)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert target.exists(), done.stdout + done.stderr
    return dict(np.load(target))


def compare(ours: dict[str, Array], theirs: dict[str, Array], tolerance: float) -> None:
    assert list(ours) == list(theirs)
    for name, want in theirs.items():
        got = ours[name]
        assert got.shape == want.shape, name
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=name)


@needs_mnn
@pytest.mark.parametrize("two", [False, True])
def test_sessions_give_what_those_of_mnn_give(two: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.mnn"
    path.write_bytes(small_model(two))
    theirs = results("session_worker.py", PYTHON, tmp_path, str(path))
    compare(results("session_worker.py", sys.executable, tmp_path, str(path)), theirs, 1e-4)
    for name in ("from channels last", "from a tuple", "from a transposed array"):
        np.testing.assert_array_equal(theirs[name], theirs["output"])


@needs_mnn
def test_images_become_what_they_become_in_mnn(tmp_path: Path) -> None:
    theirs = results("image_worker.py", PYTHON, tmp_path)
    ours = results("image_worker.py", sys.executable, tmp_path)
    # In a turned image MNN takes a pixel or two of each border for a part of it that lie less than one pixel outside.
    wide = {name for name in theirs if name.startswith(("turned", "padded"))}
    compare({k: v for k, v in ours.items() if k not in wide}, {k: v for k, v in theirs.items() if k not in wide}, 1e-5)
    for name in wide:
        assert np.mean(np.abs(ours[name] - theirs[name]) > 0.05) < 0.04, name
