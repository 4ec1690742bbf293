"""libminnow.so as C and C++ programs get it: from an installed tree, with what it says it needs and nothing else."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

ROOT = Path(__file__).parents[1]
MOST_BYTES = 3_081_000  # of libminnow.so for x86-64, stripped, with the kernels of all ops for three instruction sets


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build() -> Path:
    """Where pip has built the engine."""
    python = "cp" + sysconfig.get_config_var("py_version_nodot")
    (folder,) = (ROOT / "build").glob(f"{python}-*/")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cmake --install` puts below a prefix."""
    prefix = tmp_path_factory.mktemp("minnow")
    run("cmake", "--install", build(), "--component", "library", "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def moved(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed tree at another place, which nothing in it knows."""
    prefix = tmp_path_factory.mktemp("moved") / "a place with spaces"
    shutil.copytree(installed, prefix, symlinks=True)
    texts = [path for path in prefix.rglob("*") if path.suffix in {".cmake", ".pc"}]
    assert len(texts) >= 4
    assert not [path for path in texts if str(installed) in path.read_text()]
    return prefix


@pytest.fixture(scope="module")
def library(installed: Path) -> Path:
    return next(installed.glob("lib*/**/libminnow.so"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("model") / "digits.mnn"
    minnow.convert(ROOT / "examples/digits/digits.onnx", output=model, verify=False)
    return model


def pkg_config(prefix: Path, *arguments: str, fails: bool = False) -> list[str]:
    (folder,) = prefix.glob("lib*/**/pkgconfig")
    command = ["pkg-config", *arguments]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return shlex.split(done.stdout)


def test_exports_the_c_api_with_its_version_and_nothing_else(library: Path) -> None:
    header = (ROOT / "runtime/include/minnow/minnow.h").read_text()
    declared = set(re.findall(r"^MINNOW_API[^;(]*?(minnow_\w+)\(", header, re.MULTILINE))
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert declared
    assert exported == {f"{name}@@MINNOW_0.1" for name in declared} | {"MINNOW_0.1"}  # the last is the version itself


EVERY_INITIALIZER = """
#include <minnow/minnow.h>
#include <minnow/minnow.h>
int main(void) {
  minnow_options options = MINNOW_OPTIONS;
  minnow_tensor_info info = MINNOW_TENSOR_INFO;
  minnow_stats stats = MINNOW_STATS;
  return minnow_create_session(NULL, &options, NULL) + info.rank + stats.threads;
}
"""
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason="not installed"))
    for name in ("gcc", "clang")
]


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_header_compiles_without_a_warning(compiler: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_text(EVERY_INITIALIZER)
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", f"-std={standard}"]
    language = "c++" if "+" in standard else "c"
    run(compiler, *flags, f"-I{ROOT}/runtime/include", "-x", language, source)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_header_for_cpp_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("#include <minnow/minnow.hpp>\n#include <minnow/minnow.hpp>\nint main() { return 0; }\n")
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion", "-fsyntax-only", "-std=c++17"]
    run(compiler, *flags, f"-I{ROOT}/runtime/include", source)


def test_needs_the_system_libraries_only(library: Path) -> None:
    needed = set(re.findall(r"NEEDED.*\[(.*?)\.so", run("readelf", "-d", library)))
    assert needed <= {"libc", "libm", "libstdc++", "libgcc_s", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the bound is for the three instruction sets of x86-64")
def test_is_small(library: Path, tmp_path: Path) -> None:
    if "CMAKE_BUILD_TYPE:STRING=Release" not in (build() / "CMakeCache.txt").read_text():
        pytest.skip("only a Release build has the size of one")
    run("strip", library, "-o", tmp_path / "libminnow.so")
    assert (tmp_path / "libminnow.so").stat().st_size < MOST_BYTES


def test_programs_build_with_cmake_against_a_moved_tree(moved: Path, digits: Path, tmp_path: Path) -> None:
    flags = [f"-DCMAKE_{language}_FLAGS=-Wall -Wextra -pedantic -Werror" for language in ("C", "CXX")]
    run("cmake", "-S", ROOT / "examples/embed", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={moved}", *flags)
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "recognize", digits).startswith("a 0, with probability ")
    assert run(tmp_path / "recognize_cpp", digits).startswith("a 1, with probability ")
    assert run(tmp_path / "camera", digits).splitlines() == [
        *(f"frame {i}: a 1" for i in range(3)),
        "status 2: input 'image' has the shape [1,1,2,2], the model wants [N,1,8,8]: axis 2 is fixed",
    ]
    watched = run(tmp_path / "watch", digits).splitlines()
    assert re.fullmatch(r"(\d+) nodes begun, \1 done; the last: Softmax gives 10 numbers", watched[0])
    assert watched[1:] == ["stopped by the watcher: 1", "thrown by the watcher", "cancelled: 1",
                           "10 numbers without watchers"]  # fmt: skip
    assert run(tmp_path / "sessions", digits, digits).splitlines() == [
        "error 2: this process may not run on processor 100000",
        "200 of 200 results alike",
        "alike in the arena, which stays as large",
    ]
    assert run(tmp_path / "stream", counter(tmp_path)).splitlines() == [
        "2 states",
        "goes on alike: 1",
        "from zero alike: 1",
        "error 6: these are no saved states, or not all of their bytes",
    ]


def counter(folder: Path) -> Path:
    """A model that adds up what it is given, and counts the runs."""
    graph = Graph("main")
    b = Builder(graph)
    x, total, runs = (graph.add_param(TensorType(DType.F32, (3,)), n) for n in ("x", "total", "runs"))
    total_next, runs_next = b.Add(total, x), b.Add(runs, np.float32(1))
    graph.outputs = [b.Mul(total_next, runs_next), total_next, runs_next]
    named = [("y", x.type), ("total_next", x.type), ("runs_next", x.type)]
    model = Model(graph, [("x", x.type), ("total", x.type), ("runs", x.type)], named)
    zeros = np.zeros(3, np.float32)
    model.states = [State("total", "total_next", zeros), State("runs", "runs_next", zeros)]
    optimize(model, target="minnow")
    (folder / "counter.mnn").write_bytes(encode(model))
    return folder / "counter.mnn"


@pytest.mark.parametrize("kind", ["--static", "--shared"])
def test_a_program_builds_with_pkg_config_against_a_moved_tree(
    moved: Path, digits: Path, kind: str, tmp_path: Path
) -> None:
    """There is no static library: with --static, the flags are those of the shared one."""
    flags = pkg_config(moved, "--cflags", "--libs", *([kind] if kind == "--static" else []), "minnow")
    folders = {flag[:2]: Path(flag[2:]).resolve() for flag in flags if flag[:2] in {"-I", "-L"}}
    assert folders["-I"] == moved / "include"
    source = ROOT / "examples/embed/recognize.c"
    run("cc", "-std=c99", source, *flags, f"-Wl,-rpath,{folders['-L']}", "-o", tmp_path / "recognize")
    assert run(tmp_path / "recognize", digits).startswith("a 0, with probability ")


LIBRARY_BETWEEN = """
cmake_minimum_required(VERSION 3.22)
project(between LANGUAGES C)
find_package(minnow REQUIRED)
foreach(kind IN ITEMS STATIC SHARED)
  add_library(reader_${kind} ${kind} reader.c)
  target_link_libraries(reader_${kind} PRIVATE minnow::minnow)
  add_executable(program_${kind} program.c)
  target_link_libraries(program_${kind} PRIVATE reader_${kind})
endforeach()
"""


@pytest.mark.slow
def test_static_and_shared_libraries_can_use_it(moved: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(LIBRARY_BETWEEN)
    (tmp_path / "reader.c").write_text(
        "#include <minnow/minnow.h>\nconst char* engine(void);\nconst char* engine(void) { return minnow_version(); }\n"
    )
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\nconst char* engine(void);\nint main(void) { return puts(engine()) < 0; }\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("STATIC", "SHARED"):
        assert run(tmp_path / f"build/program_{kind}") == f"{minnow.__version__}\n"


MAJOR, MINOR, PATCH = (int(part) for part in re.findall(r"\d+", minnow.__version__)[:3])


@pytest.mark.parametrize(
    ("wanted", "is_there"),
    [
        ("", True),
        (f"{MAJOR}.{MINOR}", True),
        (f"{minnow.__version__} EXACT", True),
        (f"{MAJOR}.{MINOR}.{PATCH + 1}", False),
        (f"{MAJOR}.{MINOR + 1}", False),
        (f"{MAJOR + 1}", False),
        ("0.0.9", False),  # before 1.0 each minor version may change everything
    ],
)
def test_find_package_takes_the_versions_that_it_is_compatible_with(
    moved: Path, tmp_path: Path, wanted: str, is_there: bool
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(wants LANGUAGES NONE)\n"
        f"find_package(minnow {wanted} CONFIG REQUIRED)\nmessage(STATUS version=${{minnow_VERSION}})\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if is_there:
        assert f"version={minnow.__version__}" in done.stdout, done.stderr
    else:
        assert done.returncode != 0
        assert "compatible with requested version" in " ".join(done.stderr.split()), done.stderr
        assert f"version: {minnow.__version__}" in done.stderr


def test_pkg_config_knows_the_version(moved: Path) -> None:
    assert pkg_config(moved, "--modversion", "minnow") == [minnow.__version__]
    pkg_config(moved, "--exists", f"minnow >= {minnow.__version__}")
    pkg_config(moved, "--exists", f"minnow >= {MAJOR}.{MINOR + 1}", fails=True)
