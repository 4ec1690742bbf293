"""How the build groups source files, and what it says where something that it needs is missing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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


def sources_of(command: dict[str, str]) -> list[Path]:
    """The source files that a row of compile_commands.json compiles: those of a group, or the one."""
    file = Path(command["file"])
    if "groups" not in file.parts:
        return [file]
    return [ROOT / name for name in re.findall(r'#include "([^"]+)"', file.read_text())]


def targets_of(source: Path) -> set[str]:
    """What a source file is compiled for: the engine, or libraries of GPUs."""
    if {"gpu", "opencl", "vulkan", "cuda"} & set(source.parts):
        return {"minnow_gpu", "minnow_opencl", "minnow_vulkan", "minnow_cuda"}
    return {"minnow_kernels", "minnow_engine"}


def test_every_source_file_is_compiled_once() -> None:
    python = "cp" + sysconfig.get_config_var("py_version_nodot")
    (database,) = (ROOT / "build").glob(f"{python}-*/compile_commands.json")
    counts: Counter[tuple[Path, str]] = Counter()
    for command in json.loads(database.read_text()):
        (target,) = re.findall(r"CMakeFiles/(\w+)", command["command"].rpartition(" -o ")[2])[:1] or [""]
        counts.update((source, target) for source in sources_of(command))
    built = {target for _, target in counts}
    sources = {*(ROOT / "kernels").rglob("*.cpp"), *(ROOT / "runtime/src").rglob("*.cpp")}
    # A library of a GPU may not be built here: what no compiler for it is there for.
    absent = {kind for kind in ("opencl", "vulkan", "cuda") if f"minnow_{kind}" not in built}
    if len(absent) == 3:
        absent |= {"gpu"}
    sources = {source for source in sources if not absent & {source.stem, *source.parts}}
    compiled = {source: sum(counts[source, target] for target in targets_of(source)) for source in sources}
    assert compiled == dict.fromkeys(sources, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "compiler"),
    [(0, "g++"), (1 << 30, "g++"), (1 << 30, "clang++")],
    ids=["each by itself", "as few as possible", "with clang"],
)
def test_source_files_compile_in_groups_of_any_size(most: int, compiler: str, tmp_path: Path) -> None:
    """Each includes what it needs, and no two with the same options use one name for two things."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    settings = [f"-DMINNOW_GROUP_BYTES={most}", "-DCMAKE_CXX_FLAGS=-DHWY_COMPILE_ONLY_STATIC"]
    settings += [f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *settings], capture_output=True, check=True)
    subprocess.run(["ninja", "-C", tmp_path, "minnow_schema_header"], capture_output=True, check=True)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())

    def errors(command: dict[str, str]) -> str:
        check = [*shlex.split(command["command"]), "-fsyntax-only", "-o", os.devnull]
        return subprocess.run(check, cwd=command["directory"], capture_output=True, text=True, check=False).stderr

    assert len(commands) < 12 if most else len(commands) > 150
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert "".join(pool.map(errors, commands)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench_conv", "bench_gemm"])
def test_the_benchmarks_of_kernels_compile(name: str) -> None:
    """No other test builds them: they are built when somebody asks for them."""
    if (compiler := shutil.which("c++")) is None:
        pytest.skip("there is no C++ compiler")
    command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{ROOT}", ROOT / f"bench/kernels/{name}.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("checkout", [True, False])
def test_warnings_stop_contributors_only(checkout: bool, tmp_path: Path) -> None:
    """A compiler that warns of what ours does not builds a release, too: the source distribution has no tests."""
    for name in ("CMakeLists.txt", "cmake", "kernels", "minnow", "runtime", "schema", *["tests"] * checkout):
        (tmp_path / name).symlink_to(ROOT / name)
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja"]
    subprocess.run(command, capture_output=True, text=True, check=True)
    commands = (tmp_path / "build/compile_commands.json").read_text()
    assert "-Wextra" in commands
    assert ("-Werror" in commands) == checkout
