"""libminnow.so as a C program gets it: from an installed tree, with what it says it needs and nothing else."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

import minnow

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2_600_000  # of libminnow.so for x86-64, stripped, with the kernels of all ops for three instruction sets


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
def library(installed: Path) -> Path:
    return next(installed.glob("lib*/**/libminnow.so"))


def test_exports_the_c_api_and_nothing_else(library: Path) -> None:
    header = (ROOT / "runtime/include/minnow/minnow.h").read_text()
    declared = set(re.findall(r"^MINNOW_API[^;(]*?(minnow_\w+)\(", header, re.MULTILINE))
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert declared
    assert exported == declared


def test_needs_the_system_libraries_only(library: Path) -> None:
    needed = set(re.findall(r"NEEDED.*\[(.*?)\.so", run("readelf", "-d", library)))
    assert needed <= {"libc", "libm", "libstdc++", "libgcc_s", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the bound is for the three instruction sets of x86-64")
def test_is_small(library: Path, tmp_path: Path) -> None:
    if "CMAKE_BUILD_TYPE:STRING=Release" not in (build() / "CMakeCache.txt").read_text():
        pytest.skip("only a Release build has the size of one")
    run("strip", library, "-o", tmp_path / "libminnow.so")
    assert (tmp_path / "libminnow.so").stat().st_size < MOST_BYTES


def test_a_c_program_builds_against_it_and_reads_a_digit(installed: Path, library: Path, tmp_path: Path) -> None:
    model = tmp_path / "digits.mnn"
    minnow.convert(ROOT / "examples/digits/digits.onnx", output=model, verify=False)
    source = ROOT / "examples/embed"
    run("cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_C_FLAGS=-Werror")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build/recognize", model).startswith("a 0, with probability ")


def test_pkg_config_finds_it_wherever_the_tree_was_moved(installed: Path, library: Path) -> None:
    flags = run("pkg-config", "--cflags", "--libs", "minnow", PKG_CONFIG_PATH=str(library.parent / "pkgconfig")).split()
    folders = {flag[:2]: Path(flag[2:]).resolve() for flag in flags if flag[:2] in {"-I", "-L"}}
    assert folders == {"-I": installed / "include", "-L": library.parent}
    assert "-lminnow" in flags
