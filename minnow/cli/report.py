"""mnnconvert report"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, QUIET, Command, emit, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.report import ReportCommand


@click.command(cls=Command)
@click.argument("model", type=MODEL_FILE)
@click.argument("source", type=MODEL_FILE, required=False)
@options("report.ReportCommand")
@QUIET
@FORMAT
def command(model: str, source: str | None, options: ReportCommand, quiet: bool, format_: str) -> int:
    """Write a report of a model as one HTML page.

    It shows sizes, the verification, the graph, times and memory.

    MODEL is a .mnn file; with SOURCE, the model that it was made of, the report compares both. Or MODEL is a source,
    which is then converted for the report. Exit code 4 if the verification fails; the report is written nevertheless.
    """
    from pathlib import Path

    from minnow.model_report import write_report
    from minnow.schema.errors import VerifyError

    with spinner() as progress:
        made = write_report(Path(model), None if source is None else Path(source), options, progress)
    if not quiet:
        emit(made, format_)
    return VerifyError.exit_code if made.verdict == "fail" else 0
