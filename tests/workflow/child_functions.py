"""Functions that tests call in child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def add(a: int, b: int) -> int:
    os.write(1, b"adding\n")
    return a + b


def count(n: int, then: str = "") -> Iterator[int]:
    yield from range(n)
    if then == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)


def refuse() -> None:
    raise ValueError("no")


def allocate(mebibytes: int) -> int:
    return len(bytearray(mebibytes << 20))


def fill(mebibytes: int) -> int:
    blocks = [os.urandom(1 << 20) for _ in range(mebibytes)]
    return len(blocks)


def multiply(size: int) -> float:
    """A product that a library computes with threads."""
    import numpy as np

    return float((np.ones((size, size), np.float32) @ np.ones((size, size), np.float32)).sum())


def sleep(path: str, seconds: float) -> None:
    """Writes the process's number, and removes the file at its end."""
    Path(path).write_text(str(os.getpid()))
    try:
        time.sleep(seconds)
    finally:
        Path(path).unlink()


def sleep_below(path: str) -> None:
    """The same in a process of the child's, which knows nothing of limits."""
    program = f"import os, pathlib, time; pathlib.Path({path!r}).write_text(str(os.getpid())); time.sleep(60)"
    subprocess.run([sys.executable, "-c", program], check=False)


def serve_sleeping(path: str) -> None:
    """A caller whose child sleeps."""
    from minnow.workflow.child import Child

    Child(()).call("child_functions:sleep_below", path, scratch=os.path.dirname(path))
