"""The choice between the schemes of a GPU's kernels, on a device that only counts (tuner_check.cpp)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (
    "tests/runtime/gpu/tuner_check.cpp",
    "runtime/src/gpu/tuner.cpp",
    "kernels/gpu/convert.cpp",
    "kernels/gpu/table.cpp",
    *(f"kernels/core/{name}.cpp" for name in ("kernel_table", "status", "tensor")),
)


def test_the_fastest_scheme_is_chosen(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "check"
    flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", '-DMINNOW_VERSION="0"', "-pthread"]
    subprocess.run([compiler, *flags, *(str(ROOT / s) for s in SOURCES), "-o", str(program)], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "MINNOW_TUNING"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
