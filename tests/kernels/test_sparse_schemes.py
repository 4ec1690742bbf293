"""Convolutions with weights that are mostly 0, by the kernels that leave zeros out, against the numpy reference."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.runtime import _engine
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import save
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

ISAS = ("avx512", "avx2", "sse4")

# input, outputs, kernel, stride, dilation, padding, groups, whether the input is added and what follows is Relu
CASES: dict[str, tuple[tuple[int, ...], int, int, int, int, int, int, bool]] = {
    "pointwise": ((1, 256, 14, 14), 256, 1, 1, 1, 0, 1, False),
    "odd channels": ((2, 261, 13, 9), 133, 1, 1, 1, 0, 1, False),
    "pointwise with stride": ((1, 256, 15, 14), 128, 1, 2, 1, 0, 1, False),
    "3x3": ((1, 128, 9, 14), 132, 3, 1, 1, 1, 1, False),
    "stride": ((2, 64, 15, 14), 128, 3, 2, 1, 1, 1, False),
    "dilation": ((1, 128, 15, 14), 64, 3, 1, 2, 2, 1, False),
    "long steps": ((1, 96, 15, 19), 64, 5, 3, 2, 1, 1, False),
    "mostly padding": ((1, 128, 3, 3), 64, 7, 2, 1, 6, 1, False),
    "groups": ((1, 256, 14, 14), 256, 3, 1, 1, 1, 2, False),
    "residual": ((1, 256, 14, 14), 256, 1, 1, 1, 0, 1, True),
    "residual, 3x3": ((1, 128, 14, 13), 128, 3, 1, 1, 1, 1, True),
    "images of a pixel": ((70, 256, 1, 1), 190, 1, 1, 1, 0, 1, False),
}


def _model(name: str, block: int) -> tuple[Model, dict[str, Any]]:
    shape, outputs, k, stride, dilation, pad, group, adds = CASES[name]
    rng = np.random.default_rng(block)
    w = rng.standard_normal((outputs, shape[1] // group * k * k)).astype(np.float32)
    kept = rng.random((-(-outputs // block), w.shape[1])) > 0.96
    w *= kept.repeat(block, axis=0)[:outputs]
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, shape), "x")
    b = Builder(graph, origin="test")
    y = b.Conv(
        x, w.reshape(outputs, -1, k, k), rng.standard_normal(outputs).astype(np.float32), strides=(stride,) * 2,
        pads=(pad,) * 4, dilations=(dilation,) * 2, group=group,
    )  # fmt: skip
    y = b.Relu(b.Add(y, x)) if adds else y
    y.name = "y"
    graph.outputs = [y]
    return Model(graph, [("x", x.type)], [("y", y.type)]), {"x": rng.standard_normal(shape).astype(np.float32)}


def failures(threads: int) -> list[str]:
    lines, seen = [], set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.mnn"
        for block in (1, 4):
            for name in CASES:
                model, inputs = _model(name, block)
                save(model, path)
                session = minnow.load(path, threads=threads)
                schemes = [row["scheme"] for row in session.profile(inputs, 1)]
                seen |= (found := {"sparse", "sparse4"} & set(schemes))
                if not found:
                    lines.append(f"{name}, blocks of {block}: computed by {schemes}")
                for special in (False, True):
                    if special:  # 0 times infinity is NaN
                        inputs["x"].flat[[7, -3]] = np.inf, np.nan
                    with np.errstate(invalid="ignore"):
                        (want,) = evaluate(model.graph, list(inputs.values()))
                    got, finite = session.run(inputs)["y"], np.isfinite(want)
                    what = f"{name}, blocks of {block}, {'infinity' if special else 'numbers'}"
                    if not np.array_equal(np.isnan(got), np.isnan(want)):
                        lines.append(f"{what}: NaN elsewhere")
                    elif finite.any() and np.abs(got[finite] - want[finite]).max() > 2e-6 * np.abs(want[finite]).max():
                        lines.append(f"{what}: off by {np.abs(got[finite] - want[finite]).max():.3g}")
    if len(seen) < 2:
        lines.append(f"only {seen} was used")
    return lines


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", ISAS)
def test_matches_the_reference(isa: str, threads: int) -> None:
    env = {**os.environ, "MINNOW_ISA": isa, "MINNOW_CALIBRATION": "off"}
    done = subprocess.run(
        [sys.executable, __file__, str(threads)], env=env, capture_output=True, text=True, check=False
    )
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(isa)


if __name__ == "__main__":
    found = failures(int(sys.argv[1]))
    sys.stdout.write("\n".join([_engine.isa(), *found, ""]))
    sys.exit(bool(found))
