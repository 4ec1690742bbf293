"""MNN's own converter, run in a child process without network, by the Python that MINNOW_MNN_PYTHON names.

Only the native module of its wheel is imported: its Python package contacts a server.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from oracles.mnn_oracle import PYTHON

_CODE = "import sys, MNN, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"
_ALONE = ["unshare", "-rn"] if shutil.which("unshare") else []


def convert(*words: str | Path, folder: Path) -> str:
    """Runs a command line in a folder, into which the converter may write; returns all that it prints."""
    command = [*_ALONE, PYTHON, "-c", _CODE, *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", cwd=folder, timeout=120, check=False
    )
    return done.stdout + done.stderr
