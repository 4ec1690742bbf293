"""mnnconvert ci"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._option import FORMAT, QUIET, Command, emit, table
from minnow.cli._terminal import has_colors, is_redrawn, show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from minnow.workflow.result import CellResult, Check, Results

_SHOWN = {"passed": "PASS", "warning": "WARN", "failed": "FAIL", "error": "ERROR", "skipped": "SKIP"}


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The models of the configuration that the line names, or of the current folder."""
    from pathlib import Path

    from minnow.cli._complete import listed
    from minnow.workflow.config.cells import load_config

    path = ctx.params.get("config")
    cells = load_config(Path(path) if path else None).cells
    return listed(dict.fromkeys(name for cell in cells for name in (cell.model, cell.name)), incomplete)


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The kinds of reports, with the usual names of their files."""
    from minnow.cli._complete import listed
    from minnow.report.formats import format_of, kinds

    return listed((f"{kind}={file}" if (file := format_of(kind).file) else kind for kind in kinds()), incomplete)


@click.command(cls=Command)
@click.option("--config", metavar="FILE", type=click.Path(), help="The configuration; by default minnow.toml, or "
              "pyproject.toml with [tool.minnow], in the current folder or above it.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME", shell_complete=_names, help="Only this model, or MODEL/VARIANT; "
              "also a pattern. May be given several times.")  # fmt: skip
@click.option("--check", is_flag=True, help="Convert nothing: compare the outputs with their receipts, sources and "
              "options; exit code 4 if one is stale.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), help="How many conversions run at a time; by default as many as "
              "there are processors and memory for.")  # fmt: skip
@click.option("--cache", metavar="DIR|URL", help="Keep results here, and take those of unchanged models from here.")
@click.option("--latency/--no-latency", default=True, help="Measure latencies that have a budget.")
@click.option("--report", "reports", multiple=True, metavar="KIND=FILE", shell_complete=_kinds, help="Also write a "
              "report: junit, sarif, md, ...; `github` needs no file. May be given several times.")  # fmt: skip
@click.option("--deterministic", is_flag=True, help="Leave times and other things that differ between runs out of the "
              "results.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["error", "warning", "never"]), default="error", show_default=True,
              help="The least that gives a nonzero exit code; a warning gives 4.")  # fmt: skip
@click.option("--schema", is_flag=True, help="Print the JSON schema of the configuration, for editors, and exit.")
@QUIET
@FORMAT
def command(
    config: str | None, only: Sequence[str], check: bool, jobs: int | None, cache: str | None, latency: bool,
    reports: Sequence[str],
    deterministic: bool, fail_on: str, schema: bool, quiet: bool, format_: str,
) -> int:  # fmt: skip
    """Convert, verify and measure all models of a configuration.

    Each conversion runs in a process of its own, so that a crash, a timeout or a lack of memory is one failed row. An
    output is written only if its verification has not failed; if it exceeds a budget, it is written, and the exit code
    is 5. Beside each output is a receipt, OUTPUT.receipt.json, for --check. The exit code is that of the first of the
    worst results.
    """
    from pathlib import Path

    from minnow.workflow.config.cells import load_config

    if schema:
        import json

        from minnow.workflow.config.schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return 0
    found = load_config(Path(config) if config is not None else None)
    cells = found.only(only)
    if reports:
        from minnow.report.formats import check_reports

        check_reports(reports)  # a mistake in them is found before the work is done
    from minnow.workflow.run import Settings, check_cells, exit_code_of, run_cells, timeless

    if check:
        results = check_cells(cells, str(found.path))
    else:
        with _progress(len(cells), quiet) as progress:
            results = run_cells(cells, str(found.path), Settings(jobs or 0, cache or "", latency), progress)
    if deterministic:
        results = timeless(results)
    if reports:
        from minnow.report.formats import write_reports

        # A JSON document stands alone on the standard output; GitHub reads annotations from standard error, too.
        write_reports(results, reports, sys.stderr if format_ == "json" else sys.stdout)
    if not quiet or format_ == "json":
        emit(results, format_, lambda: _text(results))
    return exit_code_of(results, fail_on)


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
        rows.append([_SHOWN[cell.status], cell.name, *numbers, *([took] if timed else [])])
    parts = [table(header, rows, right=2)]
    if reasons := [line for cell in results.cells for line in _reasons(cell)]:
        parts.append("\n".join(reasons))
    counts = ", ".join(f"{number} {status}" for status, number in results.counts.items() if number)
    took = f" in {results.seconds:.1f} s" if results.started else ""
    parts.append(f"{len(results.cells)} cells{took}: {counts or 'none'}")
    return "\n\n".join(parts)


def _reasons(cell: CellResult) -> Iterator[str]:
    """Lines for what did not pass, or was skipped."""
    for check in cell.checks:
        if check.status != "passed":
            yield f"{_SHOWN[check.status]}  {cell.name}  {check.name}: {_line(check)}"
    if cell.status in ("failed", "error") and cell.reproduce:
        yield f"      {cell.reproduce}"


def _line(check: Check) -> str:
    text = check.message or check.rule
    return text if len(text) <= 300 else text[:297] + "..."


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Any]:
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
    return f"{_SHOWN[result.status]} {result.name}{took}"
