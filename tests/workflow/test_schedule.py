"""The local pool: every task once, within the limits of jobs and memory, and some alone."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from minnow.workflow.schedule import LocalPool, Task, estimated_memory


@dataclass
class Meter:
    """Counts what runs at the same time."""

    now: int = 0
    most: int = 0
    beside: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, value: int, alone: bool = False) -> int:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.003)
        with self.lock:
            if alone:
                self.beside.append(self.now)
            self.now -= 1
        if value == 13:
            raise ValueError("unlucky")
        return value


def test_every_task_ends_once_and_errors_are_results() -> None:
    meter = Meter()
    done = list(LocalPool(jobs=3).run(meter.run, (Task(str(i), (i,)) for i in range(40))))
    assert sorted(d.task.args[0] for d in done) == list(range(40))
    assert [d.task.args[0] for d in done if d.error is not None] == [13]
    assert meter.most == 3


@pytest.mark.parametrize(("memory", "most"), [(100, 2), (39, 1), (1000, 4)])
def test_estimates_of_memory_limit_how_many_run(memory: int, most: int) -> None:
    meter = Meter()
    list(LocalPool(jobs=4, memory=memory).run(meter.run, [Task(str(i), (i,), memory=40) for i in range(12)]))
    assert meter.most == most


def test_exclusive_tasks_run_alone() -> None:
    meter = Meter()
    tasks = [Task(str(i), (i, i % 5 == 0), exclusive=i % 5 == 0) for i in range(20)]
    assert len(list(LocalPool(jobs=4).run(meter.run, tasks))) == 20
    assert meter.beside == [1, 1, 1, 1]
    assert meter.most == 4


def test_tasks_are_taken_when_they_can_start() -> None:
    taken = []

    def tasks() -> object:
        for i in range(1000):
            taken.append(i)
            yield Task(str(i), (i,))

    run = LocalPool(jobs=2).run(Meter().run, tasks())  # type: ignore[arg-type]
    for _ in range(10):
        next(run)
    run.close()  # type: ignore[attr-defined]
    assert len(taken) <= 13


def test_memory_grows_with_the_source_and_its_reference_runtime() -> None:
    assert estimated_memory(1 << 30) > 4 << 30
    assert estimated_memory(0, ".pb") > estimated_memory(0, ".onnx") + (512 << 20)
