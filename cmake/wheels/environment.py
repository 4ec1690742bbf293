"""Environments to install wheels into: Pythons of other Debian releases, or of another processor.

An environment has a program `python` that starts such a Python with the libraries of its own release, under an emulator
where the processor is another one. It then behaves like one that `python -m venv` made, without chroot and root.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from debian import Release
from targets import BUILD, OLDEST_PYTHON, PYTHONS, Environment

LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


def unpacked(python: str, machine: str) -> Path:
    """The Python, with all libraries that it needs; made once."""
    folder = BUILD / f"python{python}-{machine}"
    done = folder / ".done"
    if not done.exists():
        print(f"unpacking Python {python} of Debian {PYTHONS[python]} for {machine}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        # The C++ library is what wheels of others may take for granted; Minnow's own do not need it.
        packages = [f"python{python}", "libstdc++6"]
        Release(PYTHONS[python], machine, BUILD / "apt").unpack(packages, folder, dependencies=True)
        done.touch()
    return folder


def create(environment: Environment) -> Path:
    """A new and empty environment; its folder of programs."""
    root, folder = unpacked(environment.python, environment.machine), environment.folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / f"lib/python{environment.python}/site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {root}/usr/bin\ninclude-system-site-packages = false\n")
    # qemu 7 computes some sums of numpy's matrix products wrongly with the vectors of the extension SVE.
    processor = {"aarch64": "max,sve=off"}.get(environment.machine, "max")
    qemu = shutil.which(f"qemu-{environment.machine}-static")
    emulator = "" if environment.native else f'{qemu} -cpu {processor} -0 "$0" '
    folders = [root / f"{part}/{environment.machine}-linux-gnu" for part in ("lib", "usr/lib")]
    loaders = [path for part in folders for path in part.glob(LOADERS[environment.machine])]
    libraries = ":".join(map(str, folders))
    named = '--argv0 "$0"'
    if environment.python == OLDEST_PYTHON:  # whose loader gives a program no other name than its own
        named = ""
    program = folder / "bin" / "python"
    program.write_text(
        f"#!/bin/sh\n{'' if named else f'PYTHONHOME={root}/usr '}exec {emulator}{loaders[0]} "
        f'--library-path {libraries} {named} {root}/usr/bin/python{environment.python} "$@"\n'
    )
    program.chmod(0o755)
    return program.parent
