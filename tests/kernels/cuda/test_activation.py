"""GELU as the CUDA kernels compute it for results of 16 bits, for all numbers of f16, against erfc in double."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
#include <cmath>
#include <cstdio>
#include "kernels/cuda/activation.h"
int main() {
  float z;
  while (std::fread(&z, sizeof z, 1, stdin) == 1) {
    const float log = minnow::cuda::log2_of_tail(std::fmin(z, minnow::cuda::kMostTail));
    std::fwrite(&log, sizeof log, 1, stdout);
  }
}
"""


def test_gelu_is_within_a_twentieth_of_a_rounding_of_f16(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    source, program = tmp_path / "tail.cpp", tmp_path / "tail"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-std=c++17", "-O2", "-I", ROOT, source, "-o", program], check=True)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].astype(np.float32)
    done = subprocess.run([program], input=np.abs(x).tobytes(), capture_output=True, check=True)
    log = np.frombuffer(done.stdout, np.float32).astype(np.float64)
    # ex2.approx is off by 2^-22 of it at most, fmaf by 2^-24: nothing beside this.
    got = np.maximum(x, 0) - np.minimum(np.abs(x), 8.0) * np.exp2(log)
    want = x * np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)])
    step = np.maximum(2.0 ** (np.floor(np.log2(np.maximum(np.abs(want), 1e-30))) - 10), 2.0**-24)
    assert np.max(np.abs(got - want) / step) < 0.05
    small = np.abs(x) > 0
    small &= np.abs(x) < 4.2
    assert np.max(np.abs(got[small] / want[small] - 1)) < 1.2e-5
