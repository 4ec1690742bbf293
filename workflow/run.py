"""Runs all cells of a configuration on this machine: several conversions at a time, then what has to be timed."""

from __future__ import annotations

import logging
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import minnow
from minnow.schema.errors import MinnowError, VerifyError
from minnow.schema.limit import file_bytes
from minnow.workflow.cell import Cell
from minnow.workflow.child import Children
from minnow.workflow.convert_cell import failure, is_url
from minnow.workflow.perform import Performer
from minnow.workflow.receipt import check_fresh
from minnow.workflow.result import CellResult, Results
from minnow.workflow.schedule import LocalPool, Task, available_cores, estimated_memory
from minnow.workflow.time_cell import CHECK as LATENCY
from minnow.workflow.time_cell import latency_budgets

Progress = Callable[[CellResult, int, int], object]
"""Called with a result, the number of cells that are done, and that of all."""


_log = logging.getLogger("minnow.workflow")


@dataclass(frozen=True)
class Settings:
    """How cells are run.

    Attributes:
        jobs: how many conversions run at a time; 0: as many as there are processors, and memory for.
        cache: folder or URL of the cache; "" for none.
        latency: whether budgets of latency are measured.
    """

    jobs: int = 0
    cache: str = ""
    latency: bool = True


def run_cells(cells: Sequence[Cell], config: str, settings: Settings, progress: Progress | None = None) -> Results:
    """Converts, verifies and measures cells, and compares them with their budgets.

    Args:
        cells: what to do. config: path of their configuration, for the results.
        progress: called when a cell is done.

    Returns:
        The results, in the order of the cells.

    Raises:
        UsageError, WriteError: the cache cannot be used.
    """
    begin, started = time.perf_counter(), datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    store = None
    if settings.cache:
        from minnow.workflow.store import Store

        store = Store(settings.cache)
    jobs = min(settings.jobs or available_cores(), max(1, len(cells)))
    found: dict[str, CellResult] = {}
    with Children() as children, _ended_first(children):
        performer = Performer(children, store, _shares(jobs))
        by_name = {cell.name: cell for cell in cells}

        def work(name: str, timed: bool) -> CellResult:
            cell = by_name[name]
            try:
                return performer.time(cell, found[name]) if timed else performer.perform(cell)
            except MinnowError as e:
                return replace(_empty(cell), checks=failure(e))

        def report(done: Iterator[CellResult], total: int) -> None:
            for count, result in enumerate(done, 1):
                found[result.name] = result
                _log_result(result)
                if progress is not None:
                    progress(result, count, total)

        pool = LocalPool(jobs)
        tasks = [Task(cell.name, (cell.name, False), _memory(cell)) for cell in cells]
        report(_results(pool, work, tasks, by_name), len(tasks))
        timed = [c for c in cells if latency_budgets(c) and found[c.name].status in ("passed", "warning")]
        timed += [c for c in cells if latency_budgets(c) and _only_budgets(found[c.name])]
        tasks = [Task(cell.name, (cell.name, True), exclusive=True) for cell in timed if settings.latency]
        report(_results(pool, work, tasks, by_name), len(tasks))
    return Results(
        cells=tuple(found[cell.name] for cell in cells),
        version=minnow.__version__,
        config=config,
        started=started,
        seconds=time.perf_counter() - begin,
        host=platform.node(),
    )


def check_cells(cells: Sequence[Cell], config: str) -> Results:
    """Whether the outputs of cells are fresh; nothing is converted."""
    from minnow.workflow.key import FileHashes

    begin, started = time.perf_counter(), datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    hashes = FileHashes()
    checked = tuple(check_fresh(cell, hashes) for cell in cells)
    return Results(
        cells=checked, version=minnow.__version__, config=config, started=started,
        seconds=time.perf_counter() - begin, host=platform.node(),
    )  # fmt: skip


def timeless(results: Results) -> Results:
    """Results without what differs between runs: times, the machine, what a cache has saved."""

    def cell(one: CellResult) -> CellResult:
        checks = [replace(c, seconds=0.0) for c in one.checks if c.name != "cache"]
        checks = [replace(c, value=None, message="") if c.value and c.name == LATENCY else c for c in checks]
        metrics = {name: value for name, value in one.metrics.items() if name != "latency"}
        return replace(
            one,
            checks=tuple(checks),
            metrics=metrics,
            seconds={},
            interval=None,
            cached=False,
            worker="",
            log="",
            attempts=1,
        )

    return replace(results, cells=tuple(map(cell, results.cells)), started="", seconds=0.0, host="")


def exit_code_of(results: Results, fail_on: str) -> int:
    """The exit code of a run.

    Args:
        fail_on: "error"; "warning" also fails if there are only warnings, as a failed verification does; "never" does
            not fail.
    """
    if fail_on == "never":
        return 0
    warned = fail_on == "warning" and results.counts["warning"] > 0
    return results.exit_code or (VerifyError.exit_code if warned else 0)


def _results(
    pool: LocalPool, work: Callable[[str, bool], CellResult], tasks: Sequence[Task], cells: dict[str, Cell]
) -> Iterator[CellResult]:
    for done in pool.run(work, tasks):
        if isinstance(done.value, CellResult):
            yield done.value
        elif isinstance(done.error, Exception):
            yield replace(_empty(cells[done.task.name]), checks=failure(done.error))
        elif done.error is not None:
            raise done.error


def _log_result(result: CellResult) -> None:
    steps = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.seconds.items())
    _log.info("%s: %s%s", result.name, result.status, " (cached)" if result.cached else f"; {steps}" if steps else "")
    for check in result.checks:
        _log.debug(
            "%s: %s: %s %s %s", result.name, check.name, check.status, check.rule, check.details or check.message
        )
    if result.log:
        _log.debug("%s: what the conversion has printed:\n%s", result.name, result.log)


def _empty(cell: Cell) -> CellResult:
    return CellResult(
        model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, checks=(), place=cell.place
    )


def _only_budgets(result: CellResult) -> bool:
    """Whether budgets are all that a result fails, so that its output is there."""
    bad = [c for c in result.checks if c.status in ("failed", "error")]
    return bool(bad) and all(c.name.startswith("budget:") for c in bad)


def _memory(cell: Cell) -> int:
    """Estimated bytes that a conversion needs."""
    if cell.excluded:
        return 0
    source = 0 if is_url(cell.source) else file_bytes(Path(cell.source))
    if source and not is_url(cell.source):
        from minnow.workflow.key import source_files

        try:
            paths = source_files(Path(cell.source), cell.options).values()
            source = sum(file_bytes(path) for path in paths if path is not None)
        except (MinnowError, OSError):
            pass  # the conversion says what is wrong
    needed = estimated_memory(source, Path(cell.source).suffix.lower())
    return min(needed, cell.limits.memory) if cell.limits.memory else needed


def _shares(jobs: int) -> list[list[int]]:
    """The processors for each of several conversions at a time: without shares, each would use all."""
    if jobs < 2 or not hasattr(os, "sched_getaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i % len(cores) :: jobs] or cores for i in range(jobs)]


@contextmanager
def _ended_first(children: Children) -> Iterator[None]:
    """Lets Ctrl-C, SIGTERM and SIGHUP end the child processes first: threads that wait for them could not end else."""
    before: dict[int, Any] = {}

    def ended(number: int, frame: object) -> None:
        children.close()
        handler = before[number]
        if callable(handler):
            handler(number, frame)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(handler := signal.getsignal(number)):
            before[number] = handler
            signal.signal(number, ended)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
