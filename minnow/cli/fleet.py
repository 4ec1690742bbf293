"""mnnconvert fleet"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._cells import finish
from minnow.cli._option import FORMAT, QUIET, Command, emit, options, table

if TYPE_CHECKING:
    from minnow.options.workflow import FleetCommand
    from minnow.workflow.result import CellResult, Results

_ROWS = 50
"""Failed models that are listed; reports have all."""
_EVERY = 10.0
"""Seconds between lines of progress."""


@click.command(cls=Command)
@click.argument("plan", type=click.Path(), required=False)
@options("workflow.FleetCommand")
@QUIET
@FORMAT
def command(plan: str | None, options: FleetCommand, quiet: bool, format_: str) -> int:
    """Convert many models, here or on a cluster, into a store.

    PLAN is a configuration as for `mnnconvert ci`; by default minnow.toml in the current folder or above it. What the
    store has is not converted again, so a run that was interrupted goes on when the command is repeated. Failures that
    would come again are kept, too; crashes, timeouts and lack of memory are not.
    """
    from pathlib import Path

    from minnow.schema.errors import UsageError
    from minnow.workflow.config.cells import load_config

    found = load_config(Path(plan) if plan is not None else None)
    cells = found.only(options.only)
    url = options.store or found.store
    if not url:
        raise UsageError("there is no store", where=str(found.path), hint="give --store FOLDER, or set `store` in it")
    if "://" not in url:
        url = str(Path(url).absolute())
    if options.report:
        from minnow.report.formats import check_reports

        check_reports(options.report)  # a mistake in them is found before the work is done
    from minnow.workflow.fleet.run import run_plan, scheduler
    from minnow.workflow.fleet.work import Settings

    local = options.scheduler in ("local", "dask")
    if options.gc:
        from minnow.workflow.fleet.sweep import sweep

        swept = sweep(cells, url)
        emit(vars(swept), format_, lambda: f"removed {swept.removed} files, {swept.removed_bytes:,} bytes; "
             f"kept {swept.kept}, {swept.kept_bytes:,} bytes")  # fmt: skip
        return 0
    where = "local" if options.status else options.scheduler
    outputs = local if options.outputs is None else options.outputs
    with scheduler(where, options.jobs or 0) as (runner, here), _progress(len(cells), quiet) as progress:
        own = Settings(
            store=url,
            retry_failed=options.retry_failed,
            look=options.status,
            jobs=here,
            outputs=outputs and not options.status,
        )
        results = run_plan(cells, str(found.path), own, runner, progress)
    finish(results, options.report, format_, quiet, lambda: _text(results))
    return 0 if options.status else results.exit_code


def _text(results: Results) -> str:
    """A row for each status, the first failures, and the counts."""
    from minnow.cli._cells import reasons

    cells = results.cells
    bad = [cell for cell in cells if cell.status in ("failed", "error")]
    rows = [line for cell in bad[:_ROWS] for line in reasons(cell)]
    if len(bad) > _ROWS:
        rows.append(f"... and {len(bad) - _ROWS} more; --report has all")
    models: dict[str, list[CellResult]] = {}
    for cell in cells:
        models.setdefault(cell.model.partition(".")[0], []).append(cell)
    header = ["models", "cells", "good", "bad", "skipped", "from store", "output bytes"]
    groups = [
        [name, len(own), sum(c.status in ("passed", "warning") for c in own),
         sum(c.status in ("failed", "error") for c in own), sum(c.status == "skipped" for c in own),
         sum(c.cached for c in own), f"{sum(c.metrics.get('bytes', 0) for c in own):,.0f}"]
        for name, own in models.items()
    ]  # fmt: skip
    counts = ", ".join(f"{number} {status}" for status, number in results.counts.items() if number)
    cached = sum(cell.cached for cell in cells)
    number = f"{len(cells)} cell{'s' if len(cells) != 1 else ''}"
    total = f"{number} in {results.seconds:.1f} s: {counts or 'none'}; {cached} from the store"
    return "\n\n".join(filter(None, [table(header, groups[:_ROWS], right=1), "\n".join(rows), total]))


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Any]:
    """A bar if standard error is a terminal; otherwise a line from time to time."""
    import sys
    import time

    from minnow.cli._cells import progress
    from minnow.cli._terminal import is_redrawn, show

    if quiet or is_redrawn(sys.stderr):
        with progress(total, quiet) as update:
            yield update
        return
    last, cached, bad = time.monotonic(), 0, 0

    def line(result: CellResult, count: int, all_: int) -> None:
        nonlocal last, cached, bad
        cached, bad = cached + result.cached, bad + bool(result.exit_code)
        if count == all_ or time.monotonic() > last + _EVERY:
            last = time.monotonic()
            show(f"[{count}/{all_}] {cached} from the store, {bad} bad", err=True)

    yield line
