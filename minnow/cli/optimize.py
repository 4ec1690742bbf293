"""mnnconvert optimize"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, QUIET, STATS, Command, emit, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.convert import WrittenOptions


@click.command(cls=Command)
@click.argument("model", type=MODEL_FILE)
@options("convert.WrittenOptions", required=["output"])
@STATS
@QUIET
@FORMAT
def command(model: str, options: WrittenOptions, stats: bool, quiet: bool, format_: str) -> None:
    """Optimize a .mnn file, or a model of any other format.

    The file is written only if the engine computes the same outputs with it as with MODEL.
    """
    from pathlib import Path

    from minnow.cli._report import effect_text, statistics_text
    from minnow.convert import convert_file
    from minnow.options.convert import ConvertOptions

    with spinner() as progress:
        report = convert_file(Path(model), ConvertOptions(**vars(options), progress=progress))

    def text() -> str:
        parts = [str(report), effect_text(report.before, report.after)]
        return "\n\n".join([*parts, statistics_text(report.statistics)] if stats else parts)

    if not quiet:
        emit(report, format_, text)
