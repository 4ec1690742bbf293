"""The fake device of `fake_device.cpp`: built once, and sessions on it beside those on the CPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.runtime import _engine
from minnow.runtime.session import Session

ROOT = Path(__file__).parents[3]
SOURCES = [Path(__file__).with_name("fake_device.cpp")] + [
    ROOT / "kernels/core" / name
    for name in ("interrupt.cpp", "status.cpp", "tensor.cpp", "thread_pool.cpp", "worker_placement.cpp")
]


def build(folder: Path, version: str = minnow.__version__) -> Path:
    """The folder for MINNOW_BACKENDS; built again when a file that it is made from has changed."""
    headers = sorted([*(ROOT / "kernels/core").glob("*.h"), *(ROOT / "runtime/src").rglob("*.h")])
    content = b"".join(path.read_bytes() for path in [*SOURCES, *headers]) + version.encode()
    target = folder / hashlib.sha256(content).hexdigest()[:16]
    library = target / "libminnow_fake.so"
    if not library.exists():
        compiler = shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            pytest.skip("needs a C++ compiler")
        target.mkdir(parents=True, exist_ok=True)
        made = target / f"{os.getpid()}.so"
        flags = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{ROOT}", "-pthread"]
        subprocess.run(
            [compiler, *flags, f'-DMINNOW_VERSION="{version}"', *SOURCES, "-o", made], check=True, capture_output=True
        )
        made.replace(library)
    return target


def open_on(model: bytes | str | os.PathLike[str], device: str, threads: int = 2) -> Session:
    loaded = _engine.load_bytes(model) if isinstance(model, bytes) else _engine.load_file(os.fspath(model))
    return Session(loaded.session(threads, 0, device=device))


def assert_same_bits(got: dict, want: dict, what: str) -> None:
    assert got.keys() == want.keys(), what
    for name, array in want.items():
        if isinstance(array, list):
            assert len(array) == len(got[name]), what
            pairs = list(zip(got[name], array, strict=True))
        else:
            pairs = [(got[name], array)]
        for a, b in pairs:
            if b is None:
                assert a is None, what
                continue
            assert (a.dtype, a.shape) == (b.dtype, b.shape), what
            assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes(), f"{what}: {name}"
