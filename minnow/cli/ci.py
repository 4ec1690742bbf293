"""mnnconvert ci"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._cells import SHOWN, finish, progress, reasons
from minnow.cli._option import FORMAT, QUIET, Command, options, table

if TYPE_CHECKING:
    from minnow.options.workflow import CiCommand
    from minnow.workflow.result import Results


@click.command(cls=Command)
@options("workflow.CiCommand")
@QUIET
@FORMAT
def command(options: CiCommand, quiet: bool, format_: str) -> int:
    """Convert, verify and measure all models of a configuration.

    Each conversion runs in a process of its own, so that a crash, a timeout or a lack of memory is one failed row. An
    output is written only if its verification has not failed; if it exceeds a budget, it is written, and the exit code
    is 5. Beside each output is a receipt, OUTPUT.receipt.json, for --check. The exit code is that of the first of the
    worst results.
    """
    from pathlib import Path

    from minnow.workflow.config.cells import load_config

    if options.schema:
        import json

        from minnow.workflow.config.schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return 0
    found = load_config(None if options.config is None else Path(options.config))
    cells = found.only(options.only)
    if options.report:
        from minnow.report.formats import check_reports

        check_reports(options.report)  # a mistake in them is found before the work is done
    from minnow.workflow.run import Settings, check_cells, exit_code_of, run_cells, timeless

    if options.check:
        results = check_cells(cells, str(found.path))
    else:
        with progress(len(cells), quiet) as report:
            results = run_cells(
                cells, str(found.path), Settings(options.jobs or 0, options.cache, options.latency), report
            )
    if options.deterministic:
        results = timeless(results)
    finish(results, options.report, format_, quiet, lambda: _text(results))
    return exit_code_of(results, options.fail_on)


def _text(results: Results) -> str:
    """The table of all cells, the reasons of those that did not pass, and the counts."""
    from minnow.workflow.metric import METRICS, shown

    metrics = [m for m in METRICS.values() if any(m.name in c.metrics for c in results.cells)]
    timed = any(c.seconds for c in results.cells)
    header = ["result", "model", *(m.title for m in metrics), *(["seconds"] if timed else [])]
    rows = []
    for cell in results.cells:
        numbers = [shown(cell.metrics[m.name], m.unit) if m.name in cell.metrics else "" for m in metrics]
        took = "cached" if cell.cached else f"{cell.seconds['total']:.1f}" if "total" in cell.seconds else ""
        rows.append([SHOWN[cell.status], cell.name, *numbers, *([took] if timed else [])])
    parts = [table(header, rows, right=2)]
    if said := [line for cell in results.cells for line in reasons(cell)]:
        parts.append("\n".join(said))
    counts = ", ".join(f"{number} {status}" for status, number in results.counts.items() if number)
    took = f" in {results.seconds:.1f} s" if results.started else ""
    number = f"{len(results.cells)} cell{'s' if len(results.cells) != 1 else ''}"
    parts.append(f"{number}{took}: {counts or 'none'}")
    return "\n\n".join(parts)
