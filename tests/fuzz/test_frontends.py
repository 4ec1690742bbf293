"""The readers under a few hundred files that nobody meant, the same ones each time, and all that once broke something.

`./dev fuzz TARGET` looks for more.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz import samples
from fuzz.probe import Finding, Target, little_memory, probe
from fuzz.targets import TARGETS

from minnow.converter.file import door
from minnow.converter.tensorflow.file import keras
from minnow.schema.errors import FormatError, UsageError

_FILES = 80
_SLOW = {"diffusion", "export", "mnn_llm", "torchscript"}  # their files take long to make, or to read


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "strict", False)
    # The folder of another test's file would be removed as soon as a file is asked for here, which opens it.
    monkeypatch.setattr(keras, "_last", None)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in _SLOW)) for n in TARGETS])
@pytest.mark.filterwarnings("ignore")
def test_whatever_the_bytes(name: str, tmp_path: Path) -> None:
    """A result, or an error with the exit code 3 or 6: nothing else is opened, written or started."""
    target, dice = TARGETS[name], random.Random(zlib.crc32(name.encode()))
    seeds = target.seeds()
    with little_memory():
        assert all(probe(target, data, tmp_path) == "read" for data in seeds)
        for data in samples.kept(name):
            probe(target, data, tmp_path)
        made = [target.damage(dice.choice(seeds), dice.choice(seeds), dice) for _ in range(_FILES)]
        found = Counter(probe(target, data, tmp_path) for data in made)
    assert len(set(made)) > _FILES // 2
    assert found["read"] > 5
    assert found["FormatError"] + found["ModelError"] + found["UnsupportedError"] > _FILES // 5


def _loop(path: Path) -> None:
    while True:
        pass


def _read_elsewhere(path: Path) -> None:
    Path("/etc/hostname").read_text()


def _usage() -> None:
    raise UsageError("no")


def _connect() -> None:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 9))


def _leave(path: Path) -> None:
    path.with_name("left").write_text("x")
    raise FormatError("no")


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "another exception": (lambda p: {}[p], "KeyError"),
    "another exit code": (lambda p: _usage(), "exit code 2"),
    "time": (_loop, "slow"),
    "memory": (lambda p: np.zeros(3 << 30, np.uint8), "MemoryError"),
    "another file": (_read_elsewhere, "opens"),
    "a file outside": (lambda p: (p.parents[1] / "out").write_text("x"), "writes"),
    "a file that stays": (_leave, "leaves a file"),
    "a process": (lambda p: subprocess.run([sys.executable, "-c", ""], check=True), "subprocess.Popen"),
    "the network": (lambda p: _connect(), "socket."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_must_not_happen_is_seen(name: str, tmp_path: Path) -> None:
    """The tests above can fail."""
    run, what = WRONG[name]
    (tmp_path / "folder").mkdir()
    target = Target("wrong", "file", lambda path, _: run(path), lambda a, b, c: a, list)
    with little_memory(), pytest.raises(Finding) as e:
        probe(target, b"x", tmp_path / "folder", seconds=0.3)
    assert e.value.what.startswith(what)
