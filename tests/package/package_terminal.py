"""Programs of an environment that has the wheel, and what a plain `pip install` brings with it, on a terminal.

MINNOW_PACKAGE is the folder of these programs. `./dev package` and `./dev wheels` make such environments.
"""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(os.environ.get("MINNOW_PACKAGE", ""))

in_an_environment = [
    pytest.mark.slow,
    pytest.mark.skipif("MINNOW_PACKAGE" not in os.environ, reason="`./dev package` makes the environment"),
]


def on_terminal(folder: Path, program: str, *arguments: str | Path) -> tuple[int, str]:
    """The exit code of a program of the environment, and all that it shows on a terminal of its own."""
    outer, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "PATH": str(PROGRAMS)}
    environment = {k: v for k, v in environment.items() if not k.startswith(("PYTHON", "PYTEST", "CI", "NO_COLOR"))}
    command = [str(PROGRAMS / program), *map(str, arguments)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    shown = bytearray()
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:  # how Linux says that nobody has the other end open any more
            break
        if not part:
            break
        shown += part
    os.close(outer)
    return process.wait(timeout=60), shown.decode(errors="replace").replace("\r\n", "\n")
