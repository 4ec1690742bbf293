"""How many threads process an image."""

from __future__ import annotations

import os

from minnow.cv import argument
from minnow.cv.boundary import exported

_threads = 0


def thread_count() -> int:
    """The same as `getNumThreads`, for the modules of this package."""
    global _threads
    _threads = _threads or len(os.sched_getaffinity(0))
    return _threads


@exported
def getNumThreads() -> int:
    """The number of threads that functions of this package use: at first one for each processor of the process."""
    return thread_count()


@exported
def setNumThreads(nthreads: int) -> None:
    """Sets the number of threads that functions of this package use: 0 or 1 for the caller's alone, below 0 for one for
    each processor."""
    global _threads
    count = argument.integer(nthreads, "nthreads", most=256)
    _threads = 0 if count < 0 else max(count, 1)
