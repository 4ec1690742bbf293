"""Runs many tasks at once: the interface that a local pool and a cluster share, and the local pool.

A scheduler gets tasks one by one and gives their results as they come. It takes no more tasks than it can start soon,
so that a plan of a million cells is never in memory as a whole.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

BASE_MEMORY = 128 << 20
"""Bytes of a process that converts a small model."""
MEMORY_FACTOR = 4.5
"""Bytes of memory per byte of the source: its weights as read, as written, and in two runtimes; measured: 4.1."""
_REFERENCES = {
    **dict.fromkeys(
        ("", ".pb", ".pbtxt", ".h5", ".hdf5", ".keras"), 640 << 20
    ),  # TensorFlow; "": a SavedModel's folder
    **dict.fromkeys((".pt", ".pth", ".pt2", ".ts", ".jit"), 512 << 20),  # PyTorch
}
"""Bytes that the reference runtime alone takes, by the suffix of the source; hardly any for the others."""
_MEMORY_SHARE = 0.8
"""The part of the machine's free memory that conversions may fill."""


@dataclass(frozen=True)
class Task:
    """A call to make.

    Attributes:
        name: readable and unique.
        args: of the function; JSON values.
        memory: estimated bytes that it needs.
        exclusive: nothing else runs meanwhile on the same machine, because it measures time.
        group: what dashboards show together.
    """

    name: str
    args: tuple[Any, ...] = ()
    memory: int = 0
    exclusive: bool = False
    group: str = "task"


@dataclass(frozen=True)
class Done:
    """A task that has ended: with a value, or with an error."""

    task: Task
    value: Any = None
    error: BaseException | None = None
    worker: str = ""


class Scheduler(Protocol):
    """Runs tasks."""

    def run(self, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Done]:
        """Calls `function(*task.args)` for all tasks; gives each once, in the order in which they end.

        Closing the iterator starts no more tasks; those that run are waited for.
        """

    def close(self) -> None:
        """Ends what is still there."""


def estimated_memory(source_bytes: int, suffix: str = ".onnx") -> int:
    """Bytes of memory that the conversion of a source needs, with verification, apart from large activations.

    Args:
        source_bytes: of all its files. suffix: of its name, in lower case.
    """
    return BASE_MEMORY + _REFERENCES.get(suffix, 0) + int(MEMORY_FACTOR * source_bytes)


def available_memory() -> int:
    """Bytes of memory that this machine, or the control group of this process, has left."""
    group = Path("/sys/fs/cgroup")
    try:
        rows = Path("/proc/meminfo").read_text().splitlines()
        least = next(int(row.split()[1]) * 1024 for row in rows if row.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        least = 4 << 30
    try:
        left = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # "max": no limit
        return least
    return min(least, max(0, left))


def available_cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class LocalPool:
    """Threads of this process, of which each waits for the child process that does the work.

    Attributes:
        jobs: how many tasks run at once; 0: as many as there are processors.
        memory: bytes that the estimates of the running tasks may add up to; 0: most of what is free. A task that needs
            more than that runs alone.
    """

    jobs: int = 0
    memory: int = 0
    _results: queue.SimpleQueue[Done] = field(default_factory=queue.SimpleQueue, repr=False)

    def __post_init__(self) -> None:
        self.jobs = self.jobs or available_cores()
        self.memory = self.memory or int(_MEMORY_SHARE * available_memory())

    def run(self, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Done]:
        work: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._serve, args=(function, work), daemon=True, name=f"cell-{i}")
            for i in range(self.jobs)
        ]
        for thread in threads:
            thread.start()
        source, later = iter(tasks), deque[Task]()
        running: dict[str, Task] = {}
        waiting: Task | None = None
        try:
            while True:
                while len(running) < self.jobs:
                    waiting = waiting or next((t for t in source if not _deferred(t, later)), None)
                    if waiting is None and not running and later:
                        waiting = later.popleft()
                    if waiting is None or not self._fits(waiting, running):
                        break
                    running[waiting.name] = waiting
                    work.put(waiting)
                    waiting = None
                if not running:
                    return
                done = self._results.get()
                del running[done.task.name]
                yield done
        finally:
            for _ in threads:
                work.put(None)
            for _ in running:
                self._results.get()

    def close(self) -> None:
        """Nothing is left: the threads end with `run`."""

    def _serve(self, function: Callable[..., Any], work: queue.SimpleQueue[Task | None]) -> None:
        while (task := work.get()) is not None:
            try:
                done = Done(task, function(*task.args))
            except BaseException as e:  # noqa: BLE001  # the caller decides
                done = Done(task, error=e)
            self._results.put(done)

    def _fits(self, task: Task, running: dict[str, Task]) -> bool:
        if not running:
            return True
        if task.exclusive or any(t.exclusive for t in running.values()):
            return False
        return task.memory + sum(t.memory for t in running.values()) <= self.memory


def _deferred(task: Task, later: deque[Task]) -> bool:
    """Puts a task that must run alone at the end: before each the others would have to end."""
    if task.exclusive:
        later.append(task)
    return task.exclusive
