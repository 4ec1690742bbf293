"""How large GPUs compute products and reductions: large tiles, and sums in parts, on a device of this machine.

`MINNOW_GPU_SCHEMES=large` has the device compute small shapes so. The reference is numpy, in float64.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.ops import get
from tests.kernels.gpu.test_ops_on_gpu import check, device  # noqa: F401

# op, shapes of the operands, attributes
CASES: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("MatMul", [(130, 37), (37, 150)], {}),
    ("MatMul", [(2, 40, 300), (300, 131)], {}),
    ("MatMul", [(3, 66, 17), (1, 129, 17)], {"transpose_b": True}),
    ("MatMul", [(5, 1000), (1000, 70)], {}),  # in parts
    ("Linear", [(70, 300), (200, 300), (200,), (70, 200)], {"activation": "relu"}),
    ("Linear", [(1, 1500), (50, 1500), (50,)], {"activation": "silu"}),
    ("Conv", [(2, 35, 9, 11), (70, 35, 3, 3), (70,)], {"pads": [1, 1, 1, 1]}),
    ("Conv", [(1, 96, 8, 9), (160, 96, 1, 1), (160,), (1, 160, 8, 9)], {"activation": "relu6"}),
    ("Conv", [(1, 64, 19, 17), (72, 32, 3, 3)], {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("Conv", [(1, 300, 3, 3), (20, 300, 3, 3), (20,)], {"pads": [1, 1, 1, 1]}),  # in parts
    ("ReduceMean", [(3, 9000)], {"axes": [1]}),
    ("ReduceL2", [(2, 5000, 2)], {"axes": [1]}),
    ("GlobalAveragePool", [(1, 3, 90, 70)], {}),
]


def wrong() -> list[str]:
    """Runs all cases on the device that the first argument names; says what is wrong."""
    rng = np.random.default_rng(5)
    failures = []
    for name, shapes, attrs in CASES:
        full = dict(attrs)
        if name == "Conv":
            full = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], **attrs}
        operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        got = _engine.run_op(name, full, operands, 1, 1, device=sys.argv[1])[0]
        lists = {k: tuple(v) if isinstance(v, list) else v for k, v in full.items()}
        want = get(name).evaluate(operands, lists)[0]
        error = np.abs(np.asarray(got) - want).max() / np.abs(want).max()
        if not error < 4e-6:
            failures.append(f"{name} {shapes} {attrs}: off by {error:.2g} of the largest")
    return failures + check("PagedAttention", sys.argv[1])[2]  # keys in parts


@pytest.mark.slow
def test_large_tiles_and_parts(device: str) -> None:  # noqa: F811
    done = subprocess.run(
        [sys.executable, "-m", __name__, device],
        env={**os.environ, "MINNOW_GPU_SCHEMES": "large"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


if __name__ == "__main__":
    print(json.dumps(wrong()))  # noqa: T201
