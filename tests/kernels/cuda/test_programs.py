"""The CUDA kernels against plain loops in C++: the programs of CMake's target `cuda_programs`, on a machine with a GPU.

Each prints a line per family of kernels, and ends with 1 where a result is wrong, with 3 where there is no device.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted(Path(__file__).parent.glob("check_*.cpp"))
NO_DEVICE = 3


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=[s.stem for s in SOURCES])
def test_kernels_compute_what_plain_loops_do(source: Path) -> None:
    built = sorted(ROOT.glob(f"build/*/cuda_{source.stem}"))
    if not built:
        pytest.skip("ninja cuda_programs has not been run: it takes nvcc and MINNOW_CUDA=ON")
    done = subprocess.run([built[-1]], capture_output=True, text=True, timeout=300)
    if done.returncode == NO_DEVICE:
        pytest.skip(f"no CUDA device: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout
    assert "checks" in done.stdout
