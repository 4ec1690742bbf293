"""mnnconvert ci"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from minnow.cli._cells import SHOWN, finish, model_names, progress, reasons, report_kinds
from minnow.cli._option import FORMAT, QUIET, Command, table

if TYPE_CHECKING:
    from minnow.workflow.result import Results


@click.command(cls=Command)
@click.option("--config", metavar="FILE", type=click.Path(), help="The configuration; by default minnow.toml, or "
              "pyproject.toml with [tool.minnow], in the current folder or above it.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME", shell_complete=model_names,
              help="Only this model, or MODEL/VARIANT; "
              "also a pattern. May be given several times.")  # fmt: skip
@click.option("--check", is_flag=True, help="Convert nothing: compare the outputs with their receipts, sources and "
              "options; exit code 4 if one is stale.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), help="How many conversions run at a time; by default as many as "
              "there are processors and memory for.")  # fmt: skip
@click.option("--cache", metavar="DIR|URL", help="Keep results here, and take those of unchanged models from here.")
@click.option("--latency/--no-latency", default=True, help="Measure latencies that have a budget.")
@click.option("--report", "reports", multiple=True, metavar="KIND=FILE", shell_complete=report_kinds,
              help="Also write a "
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
        with progress(len(cells), quiet) as report:
            results = run_cells(cells, str(found.path), Settings(jobs or 0, cache or "", latency), report)
    if deterministic:
        results = timeless(results)
    finish(results, reports, format_, quiet, lambda: _text(results))
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
        rows.append([SHOWN[cell.status], cell.name, *numbers, *([took] if timed else [])])
    parts = [table(header, rows, right=2)]
    if said := [line for cell in results.cells for line in reasons(cell)]:
        parts.append("\n".join(said))
    counts = ", ".join(f"{number} {status}" for status, number in results.counts.items() if number)
    took = f" in {results.seconds:.1f} s" if results.started else ""
    parts.append(f"{len(results.cells)} cells{took}: {counts or 'none'}")
    return "\n\n".join(parts)
