"""The source distribution: what a wheel is built from, and nothing else. `./dev wheels` builds the wheels from it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; from scikit_build_core.build import build_sdist as b; b(sys.argv[1])"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the source distribution of this checkout."""
    folder = tmp_path_factory.mktemp("sdist")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("minnow-*.tar.gz")
    with tarfile.open(archive) as file:
        return {name.partition("/")[2] for name in file.getnames()}


@pytest.fixture(scope="module")
def read() -> set[str]:
    """The files of the project that the compilers read when this checkout was built, and CMake before them."""
    built = [path.parent for path in ROOT.glob("build/cp3*/.ninja_deps")]
    assert built, "there is no build: ./dev setup"
    folder = max(built, key=lambda path: (path / ".ninja_deps").stat().st_mtime)
    listed = subprocess.run(["ninja", "-C", folder, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    listed += (folder / "build.ninja").read_text()
    found = set()
    for word in re.findall(r"[^\s:|=$\"']+\.(?:h|cpp|cmake|txt|in|fbs|proto|map|py)\b", listed):
        path = (folder / word).resolve()
        if path.is_relative_to(ROOT) and path.is_file():
            found.add(str(path.relative_to(ROOT)))
    return {name for name in found if not name.startswith(("build/", ".venv/"))}


@pytest.mark.slow
def test_what_the_build_reads_is_there(names: set[str], read: set[str]) -> None:
    assert {"CMakeLists.txt", "schema/mnn/mnn.fbs", "runtime/binding.cpp", "cmake/python.cmake"} <= read
    assert len(read) > 250
    assert not read - names


KINDS = ("gpu", "opencl", "vulkan", "cuda")  # of GPUs, whose libraries are built where they are asked for


def test_the_whole_package_is_there(names: set[str]) -> None:
    folders = re.findall(r'^"minnow[\w/]*" = "(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(folders) >= 5
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    tracked = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(tracked) > 500
    assert not {name for name in tracked if (ROOT / name).is_file()} - names


def test_nothing_else_is_there(names: set[str], read: set[str]) -> None:
    """C++ that the build of the module does not read is for those who embed the engine, or have a GPU."""
    code = {name for name in names if name.endswith((".cpp", ".h", ".txt", ".proto", ".fbs"))}
    others = ("cmake/", "runtime/include/", "runtime/src/gpu/", "runtime/text/", *(f"kernels/{k}/" for k in KINDS))
    assert not {name for name in code - read if not name.startswith(others)}
    assert not {name for name in names if name.startswith("docs/") and not name.startswith("docs/man/")}
    assert not {name.partition("/")[0] for name in names} & {"tests", "bench", "examples", "requirements", ".ci"}
    top = {"CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert {name for name in names if "/" not in name} == top
