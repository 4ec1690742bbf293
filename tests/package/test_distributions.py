"""The wheels in dist/, as `./dev wheels` builds them: what is in them, and where they claim to run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from test_dependencies import declared, package

import minnow

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("MINNOW_WHEEL_TOOLS", ""))
WHEELS = sorted((ROOT / "dist").glob("*.whl")) if "MINNOW_WHEEL_TOOLS" in os.environ else []
KINDS = {(tag, machine) for tag in ("cp311-cp311", "cp312-abi3") for machine in ("x86_64", "aarch64")}
MOST_BYTES = 5_000_000
NEWEST_GLIBC = 28  # 2.28, of 2018: RHEL 8, Debian 10, Ubuntu 18.10

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("MINNOW_WHEEL_TOOLS" not in os.environ, reason="`./dev wheels` builds the wheels"),
]
each_wheel = pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)


def tool(*command: str | Path) -> str:
    environment = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def tag_of(wheel: Path) -> tuple[str, list[int], str]:
    """Python and ABI; the minor versions of glibc that it says it runs with; the processor."""
    tags = parse_wheel_filename(wheel.name)[3]
    ((python, abi),) = {(tag.interpreter, tag.abi) for tag in tags}
    platforms = [re.fullmatch(r"manylinux(?:_2_(\d+)|2014)_(x86_64|aarch64)", tag.platform) for tag in tags]
    found = [match for match in platforms if match]
    assert len(found) == len(platforms), wheel.name
    ((machine),) = {match[2] for match in found}
    return f"{python}-{abi}", [int(match[1] or 17) for match in found], machine


def contents() -> set[str]:
    """The files of the project's Python folders, as they are installed: code and data, and nothing that is compiled."""
    folders = re.findall(r'^"(minnow[\w/]*)" = "(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(folders) >= 5
    tracked = tool("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    kept = [path for path in tracked if not path.endswith((".cpp", ".h", ".md", ".proto"))]
    pairs = [(path, source, target) for target, source in folders for path in kept]
    found = {path.replace(source, target, 1) for path, source, target in pairs if path.startswith(source + "/")}
    return found | {"minnow/converter/caffe/caffe_descriptor.py", "minnow/converter/tensorflow/graph_descriptor.py"}


def test_there_is_one_wheel_of_each_kind() -> None:
    assert sorted((kind, machine) for kind, _, machine in map(tag_of, WHEELS)) == sorted(KINDS)


@each_wheel
def test_a_wheel_runs_on_old_systems(wheel: Path) -> None:
    _, glibc, _ = tag_of(wheel)
    assert max(glibc) <= NEWEST_GLIBC
    shown = " ".join(tool(TOOLS / "auditwheel", "show", wheel).split())
    claimed = re.search(r'platform tag: "manylinux_2_(\d+)_', shown)
    assert claimed, shown
    assert min(glibc) >= int(claimed[1])


@each_wheel
def test_a_wheel_is_small_and_holds_the_package_only(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST_BYTES
    kind, _, machine = tag_of(wheel)
    suffix = "abi3" if kind == "cp312-abi3" else f"cpython-311-{machine}-linux-gnu"
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
    metadata = {name.partition("/")[2] for name in names if ".dist-info/" in name}
    written = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert metadata - {"sboms/auditwheel.cdx.json"} == written
    pages = {Path(name).name for name in names if ".data/data/share/man/man1/" in name}
    assert pages == {path.name for path in (ROOT / "docs/man").iterdir()}
    installed = {name for name in names if not re.match(r"minnow-[^/]*\.(dist-info|data)/", name)}
    assert installed == contents() | {f"minnow/runtime/_engine.{suffix}.so"}


@each_wheel
def test_a_wheel_requires_what_is_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(file.read(name).decode())
    required = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {package(item.name) for item in required if "extra ==" not in str(item.marker)}
    assert always == declared()[0]
    assert metadata["Requires-Python"] == ">=3.10"


def symbols(wheel: Path, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Section, binding and name (with its version) of each dynamic symbol of the engine."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".so"))
        path = Path(file.extract(name, folder))
    assert ".symtab" not in tool("readelf", "--wide", "--sections", path), "not stripped"
    for line in tool("readelf", "--wide", "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0][:-1].isdigit():
            yield fields[6], fields[4], fields[7]


@each_wheel
def test_the_engine_finds_all_that_it_needs_in_the_libraries_it_names(wheel: Path, tmp_path: Path) -> None:
    """A function whose library is not linked has no version: it may be found in the C library of newer systems only."""
    needed = [name for section, binding, name in symbols(wheel, tmp_path) if section == "UND" and binding == "GLOBAL"]
    assert len(needed) > 100
    assert not [name for name in needed if "@" not in name and not re.match("_?Py", name)]
    assert not [name for name in needed if "GLIBCXX" in name or "CXXABI" in name]  # libstdc++ is part of it


@each_wheel
def test_the_engine_shows_others_nothing_of_its_c_library(wheel: Path, tmp_path: Path) -> None:
    """Symbols of a library that is linked into it could replace those of other modules in the same process."""
    shown = [name for section, _, name in symbols(wheel, tmp_path) if section != "UND"]
    assert "PyInit__engine" in shown
    assert not [name for name in shown if re.match(r"_ZNSt6locale|_ZNSi|_ZNSo|_ZSt4cout|_Unwind|exp|pow|log", name)]


@each_wheel
def test_the_tools_for_wheels_find_no_fault(wheel: Path) -> None:
    tool(TOOLS / "twine", "check", "--strict", wheel)
    tool(TOOLS / "check-wheel-contents", wheel)
    if tag_of(wheel)[0].endswith("abi3"):
        audit = tool(TOOLS / "abi3audit", "--strict", "--report", wheel)
        assert ast.literal_eval(re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", audit[audit.index("{") :])))


def test_the_source_distribution_has_no_fault() -> None:
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    tool(TOOLS / "twine", "check", "--strict", sdist)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_engine_runs_with_an_old_c_library(machine: str, tmp_path: Path) -> None:
    """That of Debian 11, the oldest to be had. Its Python is too old for Minnow, but not for the engine's C API."""
    (wheel,) = (wheel for wheel in WHEELS if tag_of(wheel)[0::2] == ("cp312-abi3", machine))
    programs, _ = tool(sys.executable, ROOT / "cmake/wheels", "create", f"3.9-{machine}").splitlines()[0].split()
    names = [name for section, _, name in symbols(wheel, tmp_path) if section == "UND" and re.match("_?Py", name)]
    source, stub = tmp_path / "stub.c", tmp_path / "stub.so"
    source.write_text("".join(f"char {name}[64];\n" for name in names))
    tool(f"{machine}-linux-gnu-gcc", "-shared", "-fPIC", "-nostdlib", "-o", stub, source)

    minnow.convert(ROOT / "examples/digits/digits.onnx", output=tmp_path / "digits.mnn", verify=False)
    image = np.load(ROOT / "examples/digits/digits_test.npz")["images"][:1].astype(np.float32)
    (tmp_path / "image").write_bytes(image.tobytes())
    (engine,) = tmp_path.glob("minnow/runtime/_engine.*.so")
    worker = Path(__file__).with_name("old_system_worker.py")
    command = [Path(programs) / "python", worker, stub, engine, tmp_path / "digits.mnn", tmp_path / "image"]
    system, numbers = tool(*command).splitlines()
    assert system == "glibc 2.31"
    (want,) = minnow.load(tmp_path / "digits.mnn").run({"image": image}).values()
    np.testing.assert_allclose(np.array(numbers.split(), np.float32), want.ravel(), atol=1e-6)
