"""How GPUs' memory is shared by results and by weights, on a device that only counts (memory_check.cpp)."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (
    "tests/runtime/gpu/memory_check.cpp",
    "kernels/cuda/block_pool.cpp",
    "runtime/src/gpu/weight_memory.cpp",
    "kernels/core/status.cpp",
)


def test_pieces_of_blocks_do_not_overlap_and_waste_little(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "check"
    flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", "-pthread"]
    subprocess.run([compiler, *flags, *(str(ROOT / s) for s in SOURCES), "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
