"""What commands about many models share: progress, and why a model did not pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minnow.cli._terminal import has_colors, is_redrawn, show

if TYPE_CHECKING:
    from minnow.workflow.result import CellResult, Check, Results

SHOWN = {"passed": "PASS", "warning": "WARN", "failed": "FAIL", "error": "ERROR", "skipped": "SKIP"}


def finish(results: Results, reports: Sequence[str], format_: str, quiet: bool, text: Callable[[], str]) -> None:
    """Writes the reports and prints the results, as the JSON report has them or as text."""
    from minnow.report.formats import write_reports

    # A JSON document stands alone on the standard output; GitHub reads annotations from standard error, too.
    write_reports(results, reports, sys.stderr if format_ == "json" else sys.stdout)
    if format_ == "json":
        import click

        from minnow.report.formats.json import document

        click.echo(document(results), nl=False)
    elif not quiet:
        show(text())


def reasons(cell: CellResult) -> Iterator[str]:
    """Lines for what did not pass, or was skipped."""
    for check in cell.checks:
        if check.status != "passed":
            yield f"{SHOWN[check.status]}  {cell.name}  {check.name}: {_line(check)}"
    if cell.status in ("failed", "error") and cell.reproduce:
        yield f"      {cell.reproduce}"


def _line(check: Check) -> str:
    text = check.message or check.rule
    return text if len(text) <= 300 else text[:297] + "..."


@contextmanager
def progress(total: int, quiet: bool) -> Iterator[Any]:
    """A bar if standard error is a terminal, and this is no CI job; otherwise a line for each cell that is done."""
    import sys

    if quiet:
        yield None
        return
    if not is_redrawn(sys.stderr):
        yield lambda result, count, all_: show(f"[{count}/{all_}] {_said(result)}", err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True, no_color=not has_colors(sys.stderr))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)

        def update(result: CellResult, count: int, all_: int) -> None:
            bar.update(task, completed=count, total=all_, description=_said(result))

        yield update


def _said(result: CellResult) -> str:
    took = " cached" if result.cached else f" {result.seconds['total']:.1f} s" if "total" in result.seconds else ""
    return f"{SHOWN[result.status]} {result.name}{took}"
