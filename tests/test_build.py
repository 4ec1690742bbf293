"""What the build says where something that it needs is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("SYSTEM_ENVIRONMENT", "CMAKE_SYSTEM", "CMAKE_ENVIRONMENT")
NOWHERE = [f"-DCMAKE_FIND_USE_{place}_PATH=OFF" for place in PLACES]


@pytest.mark.parametrize("python", [True, False], ids=["package", "library"])
def test_all_that_is_missing_is_named_at_once(python: bool, tmp_path: Path) -> None:
    tools = [f"-DCMAKE_CXX_COMPILER={shutil.which('c++')}", f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}"]
    command = ["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *tools, *NOWHERE, f"-DSKBUILD={int(python)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    packages = "flatbuffers-compiler libflatbuffers-dev libhwy-dev" + " protobuf-compiler" * python
    assert f"apt-get install {packages}\n" in done.stderr, done.stderr
    for name in ("flatc", "flatbuffers/flatbuffers.h", "hwy/highway.h"):
        assert name in done.stderr


def test_options_are_for_files_that_exist(tmp_path: Path) -> None:
    """A kernel that was renamed keeps no options by its old name: it would be slow without a word."""
    for name in ("cmake", "kernels", "minnow", "runtime", "schema"):
        (tmp_path / name).symlink_to(ROOT / name)
    lists = (ROOT / "CMakeLists.txt").read_text()
    assert "cpu/conv/winograd" in lists
    (tmp_path / "CMakeLists.txt").write_text(lists.replace("cpu/conv/winograd", "cpu/conv/winegrad"))
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "options for kernels/cpu/conv/winegrad.cpp" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench_conv", "bench_gemm"])
def test_the_benchmarks_of_kernels_compile(name: str) -> None:
    """No other test builds them: they are built when somebody asks for them."""
    if (compiler := shutil.which("c++")) is None:
        pytest.skip("there is no C++ compiler")
    command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{ROOT}", ROOT / f"bench/kernels/{name}.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
