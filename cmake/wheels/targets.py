"""What `./dev wheels` builds, and where it tests it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD, DIST = ROOT / "build" / "wheels", ROOT / "dist"
MACHINES = ("x86_64", "aarch64")
# The Debian release whose C and C++ libraries the wheels are linked with, the oldest to be had, and its Python.
OLDEST, OLDEST_PYTHON = "bullseye", "3.9"
# The Debian release that has a version of Python. None has 3.10 or 3.12.
PYTHONS = {OLDEST_PYTHON: OLDEST, "3.11": "bookworm", "3.13": "trixie", "3.14": "forky", "3.15": "forky"}


@dataclass(frozen=True)
class Wheel:
    """A wheel: built with the headers of one version of Python, for all of `pythons`."""

    tag: str  # of Python and of its ABI
    headers: str
    pythons: tuple[str, ...]


WHEELS = (Wheel("cp311-cp311", "3.11", ("3.11",)), Wheel("cp312-abi3", "3.13", ("3.13", "3.14", "3.15")))


@dataclass(frozen=True)
class Environment:
    """A Python and a processor to test a wheel on."""

    wheel: Wheel
    python: str
    machine: str

    @property
    def name(self) -> str:
        return f"{self.python}-{self.machine}"

    @property
    def folder(self) -> Path:
        return BUILD / "environments" / self.name

    @property
    def native(self) -> bool:
        return self.machine == os.uname().machine

    def file(self) -> Path:
        """The wheel itself. Raises FileNotFoundError if it has not been built."""
        for path in DIST.glob(f"*-{self.wheel.tag}-*{self.machine}.whl"):
            return path
        raise FileNotFoundError(f"there is no {self.wheel.tag} wheel for {self.machine} in {DIST}")


def oldest() -> Iterator[Environment]:
    """The oldest C library, with a Python that is too old for Minnow, but can load the engine of a wheel."""
    return (Environment(wheel, OLDEST_PYTHON, machine) for machine in MACHINES for wheel in WHEELS[-1:])


def environments() -> Iterator[Environment]:
    """All of them; under an emulator one Python for each wheel."""
    for machine in MACHINES:
        for wheel in WHEELS:
            native = machine == os.uname().machine
            for python in wheel.pythons if native else wheel.pythons[:1]:
                yield Environment(wheel, python, machine)
