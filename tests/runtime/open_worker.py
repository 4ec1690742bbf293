"""Loads a model and runs it on small numbers, in a process of its own: exits with the code of the error.

The last line that it prints is its peak memory in bytes, which the kernel counts from the start of the program on.

python open_worker.py FILE
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from minnow.runtime.session import load
from minnow.schema.errors import MinnowError


def main(path: str) -> int:
    try:
        session = load(path, threads=1)
        for value in (0, 1):
            shapes = [[d if isinstance(d, int) else 2 for d in i.shape or ()] for i in session.inputs]
            session.run({i.name: np.full(s, value, i.dtype) for i, s in zip(session.inputs, shapes, strict=True)})
    except MinnowError as error:
        print(error)
        return error.exit_code
    return 0


def peak_bytes() -> int:
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


if __name__ == "__main__":
    code = main(sys.argv[1])
    print(peak_bytes())
    sys.exit(code)
