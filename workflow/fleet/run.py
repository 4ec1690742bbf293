"""Runs a plan: its units on a scheduler, and then what has to be timed."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone

import minnow
from minnow.schema.errors import UsageError
from minnow.workflow.cell import Cell
from minnow.workflow.convert_cell import failure
from minnow.workflow.fleet import work
from minnow.workflow.fleet.unit import Unit, absolute, units
from minnow.workflow.fleet.work import Settings, build_digest, empty_result, run_unit, time_unit
from minnow.workflow.result import CellResult, Check, Results
from minnow.workflow.rule import RULES
from minnow.workflow.schedule import Done, LocalPool, Scheduler, Task
from minnow.workflow.store import Store
from minnow.workflow.time_cell import latency_budgets

Progress = Callable[[CellResult, int, int], object]
"""Called with a result, the number of cells that are done, and that of all."""

DASK = "dask"
_PREFIX = "dask://"


@contextmanager
def scheduler(name: str, jobs: int = 0) -> Iterator[tuple[Scheduler, int]]:
    """A scheduler, and how many tasks it runs at once on this machine; 0 if they run elsewhere.

    Args:
        name: "local", "dask" for a cluster of processes of this machine, or "dask://HOST:PORT".
        jobs: how many tasks run at once; 0: as many as there are processors.

    Raises:
        UsageError: there is none of this name, distributed is not installed, or nothing answers at the address.
    """
    if name == "local":
        pool = LocalPool(jobs)
        try:
            yield pool, pool.jobs
        finally:
            work.close()
        return
    if name != DASK and not name.startswith(_PREFIX):
        raise UsageError(f"unknown scheduler '{name}'", hint="use local, dask, or dask://HOST:PORT")
    from minnow.workflow.fleet.cluster import Cluster

    address = f"tcp://{name[len(_PREFIX) :]}" if name != DASK else ""
    if address and jobs:
        raise UsageError("the number of jobs of a cluster is that of its workers' threads", hint="omit --jobs")
    with Cluster(address, jobs) as cluster:
        cluster.check_build(build_digest, build_digest())
        yield cluster, 0 if address else cluster.threads


def run_plan(
    cells: Sequence[Cell], config: str, settings: Settings, on: Scheduler, progress: Progress | None = None
) -> Results:
    """The results of all cells of a plan, in its order.

    Args:
        config: path of the plan, for the results.
        settings: of the run; `build` is filled in.
        progress: called when a cell is done.

    Raises:
        UsageError, WriteError: the store cannot be used.
    """
    begin, started = time.perf_counter(), datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    settings = replace(settings, build=build_digest())
    Store(settings.store)  # what is wrong with its name is no matter of the models
    places = {cell.name: i for i, cell in enumerate(cells)}
    found: list[CellResult | None] = [None] * len(cells)

    def take(results: Iterable[CellResult], total: int) -> None:
        for count, result in enumerate(results, 1):
            place = places[result.name]
            found[place] = replace(result, source=cells[place].source, output=cells[place].output)
            if progress is not None:
                progress(result, count, total)

    take(_converted(cells, settings, on), len(cells))
    if not settings.look:
        timed = [c for c in cells if latency_budgets(c) and _has_output(found[places[c.name]])]
        take(_timed(timed, {c.name: found[places[c.name]] for c in timed}, settings, on), len(timed))
    return Results(
        cells=tuple(result for result in found if result is not None),
        version=minnow.__version__,
        config=config,
        started=started,
        seconds=time.perf_counter() - begin,
        host=platform.node(),
    )


def _converted(cells: Sequence[Cell], settings: Settings, on: Scheduler) -> Iterator[CellResult]:
    for cell in cells:
        if cell.excluded:
            yield replace(empty_result(cell), checks=(Check("convert", "skipped", message=cell.excluded),))
    names: dict[str, Unit] = {}

    def tasks() -> Iterator[Task]:
        given = asdict(settings)
        for unit in units(map(absolute, cells)):
            names[unit.name] = unit
            arguments = [cell.as_dict() for cell in unit.cells]
            yield Task(unit.name, (arguments, given), unit.memory, group=unit.cells[0].model.partition(".")[0])

    for done in on.run(run_unit, tasks()):
        unit = names.pop(done.task.name)
        if done.error is None:
            yield from map(CellResult.of, done.value)
        else:
            yield from (_lost(cell, done) for cell in unit.cells)


def _timed(
    cells: Sequence[Cell], results: Mapping[str, CellResult | None], settings: Settings, on: Scheduler
) -> Iterator[CellResult]:
    by_name = {cell.name: cell for cell in cells}

    def tasks() -> Iterator[Task]:
        for cell in cells:
            result = results[cell.name]
            assert result is not None
            arguments = absolute(cell).as_dict(), asdict(result), asdict(settings)
            yield Task(f"time {cell.name}", arguments, exclusive=True, group="time")

    for done in on.run(time_unit, tasks()):
        name = done.task.name.partition(" ")[2]
        yield CellResult.of(done.value) if done.error is None else _lost(by_name[name], done)


def _lost(cell: Cell, done: Done) -> CellResult:
    """The result of a cell whose worker has ended, or has refused it."""
    error = done.error
    if type(error).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError"):
        message = f"the worker has ended: {type(error).__name__}"
        return replace(
            empty_result(cell), checks=(Check("convert", "error", RULES["crashed"].name, message, str(error)),)
        )
    if not isinstance(error, Exception):
        assert error is not None
        raise error
    return replace(empty_result(cell), checks=failure(error))


def _has_output(result: CellResult | None) -> bool:
    """Whether there is a model to time: if anything is wrong with it, then only its budgets."""
    bad = [c for c in result.checks if c.status in ("failed", "error")] if result is not None else []
    return result is not None and result.status != "skipped" and all(c.name.startswith("budget:") for c in bad)
