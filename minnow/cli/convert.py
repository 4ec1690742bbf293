"""mnnconvert convert"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, QUIET, STATS, Command, emit, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.convert import ConvertOptions


@click.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@options("convert.ConvertOptions")
@STATS
@QUIET
@FORMAT
def command(source: str, options: ConvertOptions, stats: bool, quiet: bool, format_: str) -> None:
    """Convert a model file to .mnn, and verify the result.

    The file is written only if everything, the verification included, has succeeded.
    """
    from pathlib import Path

    from minnow.convert import convert_file

    with spinner() as progress:
        report = convert_file(Path(source), replace(options, progress=progress))
    if not quiet:
        emit(report, format_, lambda: report_text(report, stats, options.explain))


def report_text(report: Any, stats: bool, explain: str) -> str:
    """The report of a conversion, with statistics and explanations if they are asked for."""
    from minnow.cli._report import effect_text, statistics_text

    rows = [str(report), "", effect_text(report.before, report.after)]
    if stats:
        rows += ["", statistics_text(report.statistics)]
    if explain:
        rows += _explained(report, *explain.partition("@")[::2])
    return "\n".join(rows)


def _explained(report: Any, name: str, node: str) -> Iterator[str]:
    """Where a rule or pass was applied, and for the other nodes the reason why not."""
    from minnow.optimizer.rewrite import rules

    if name in report.unused:
        yield f"{name}: {report.unused[name]}"
        return
    hits = report.statistics.get(name, {}).get("hits", 0)
    yield f"{name}: applied {hits:.0f} times"
    yield from (f"{rule} at {place}: applied" for rule, place in report.applied)
    yield from (f"{rule} at {place}: {reason}" for rule, place, reason in report.explained)
    if not report.applied and not report.explained and (node or not hits):
        ops = dict.fromkeys(p.op for p in rules[name].patterns) if name in rules else ()
        yield (
            f"{name}@{node}: there is no {' or '.join(ops) or 'node'} of that name"
            if node
            else (
                f"{name}: not applied, since the model has no {' or '.join(ops)}"
                if ops
                else f"{name}: not applied, since there was nothing to change"
            )
        )
