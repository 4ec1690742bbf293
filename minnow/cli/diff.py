"""mnnconvert diff"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, QUIET, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.workflow import DiffCommand


@click.command(cls=Command)
@click.argument("base", type=click.Path())
@click.argument("head", type=click.Path())
@options("workflow.DiffCommand")
@QUIET
@FORMAT
def command(base: str, head: str, options: DiffCommand, quiet: bool, format_: str) -> int:
    """Compare two JSON reports of `mnnconvert ci`, BASE and HEAD.

    BASE is, for example, the report of the main branch, and HEAD that of a pull request.

    Shows models that come and go, whose result has changed, and each metric with its change. A model or a metric that
    BASE does not have passes with a note. A latency counts as increased only if the confidence intervals of its ratios
    do not overlap.
    """
    from pathlib import Path

    from minnow.report.comparison import check_comparison_reports, plain, write_comparison
    from minnow.workflow.compare import compare, increases_of, read_results

    check_comparison_reports(options.report)
    limits = increases_of(options.max_increase)
    before = None if options.allow_missing_base and not Path(base).exists() else read_results(Path(base))
    found = compare(before, read_results(Path(head)), limits, options.fail_on)
    write_comparison(found, options.report)
    if not quiet or format_ == "json":
        emit(found, format_, lambda: plain(found))
    return found.exit_code
