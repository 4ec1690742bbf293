"""Whole graphs, planned and packed for the shorter vectors of other processors, on each instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minnow.runtime import _engine

MODULE = Path(__file__).with_name("test_random_graphs.py")


@pytest.mark.slow
@pytest.mark.parametrize("isa", [isa for isa in ("avx512", "avx2", "sse4") if isa != _engine.isa()])
def test_random_graphs(isa: str) -> None:
    # The choice is made once per process.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", MODULE],
        env={**os.environ, "MINNOW_ISA": isa},
        cwd=MODULE.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if "this machine has no such instruction set" in done.stdout:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
