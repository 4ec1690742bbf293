"""mnnconvert diff"""

from __future__ import annotations

from collections.abc import Sequence

import click

from minnow.cli._option import FORMAT, QUIET, Command, emit


@click.command(cls=Command)
@click.argument("base", type=click.Path())
@click.argument("head", type=click.Path())
@click.option("--max-increase", "increases", multiple=True, metavar="METRIC=N[%]", help="The largest increase of a "
              "metric from BASE to HEAD that passes: bytes=1%, bytes='10 kB', nodes=0. May be given several "
              "times.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["never", "limit", "worse", "removed"]), default="worse",
              show_default=True, help="What gives exit code 5. limit: a metric has increased by more than its limit; "
              "worse: also a model whose result is worse; removed: also one that is no longer there.")  # fmt: skip
@click.option("--allow-missing-base", is_flag=True, help="Pass if BASE does not exist, as in the first run.")
@click.option("--report", "reports", multiple=True, metavar="KIND=FILE", help="Also write a report: md, for a comment "
              "on a pull request, or json. May be given several times.")  # fmt: skip
@QUIET
@FORMAT
def command(
    base: str, head: str, increases: Sequence[str], fail_on: str, allow_missing_base: bool, reports: Sequence[str],
    quiet: bool, format_: str,
) -> int:  # fmt: skip
    """Compare two JSON reports of `mnnconvert ci`: BASE, for example of the main branch, and HEAD.

    Shows models that come and go, whose result has changed, and each metric with its change. A model or a metric that
    BASE does not have passes with a note. A latency counts as increased only if the confidence intervals of its ratios
    do not overlap.
    """
    from pathlib import Path
    from typing import cast

    from minnow.report.comparison import check_comparison_reports, plain, write_comparison
    from minnow.workflow.compare import FailOn, compare, increases_of, read_results

    check_comparison_reports(reports)
    limits = increases_of(increases)
    before = None if allow_missing_base and not Path(base).exists() else read_results(Path(base))
    found = compare(before, read_results(Path(head)), limits, cast(FailOn, fail_on))
    write_comparison(found, reports)
    if not quiet or format_ == "json":
        emit(found, format_, lambda: plain(found))
    return found.exit_code
