"""mnnconvert check"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.read import ReadOptions


@click.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@options("read.ReadOptions")
@FORMAT
def command(source: str, options: ReadOptions, format_: str) -> int:
    """Check whether a model can be converted, without converting it.

    Lists everything that is unsupported, with the nodes and what to try; exit code 3 if there is anything.
    """
    from pathlib import Path

    from minnow.check import check_file
    from minnow.schema.errors import UnsupportedError

    found = check_file(Path(source), options)
    emit(found, format_)
    return 0 if found.convertible else UnsupportedError.exit_code
