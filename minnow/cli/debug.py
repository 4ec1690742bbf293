"""mnnconvert debug"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.convert import BisectOptions


@click.group()
def command() -> None:
    """Find out what is wrong in a conversion."""


@command.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@options("convert.BisectOptions")
@FORMAT
def bisect(source: str, options: BisectOptions, format_: str) -> int:
    """Find the first rewrite of the optimizer that changes the numbers, and write a small model that shows it.

    Exit code 0: none does. 4: one does, which is named.
    """
    from dataclasses import replace
    from pathlib import Path

    from minnow.bisection import bisect_file
    from minnow.cli.convert import progress_bar
    from minnow.runtime.verify.data import read_npz
    from minnow.schema.errors import VerifyError

    data = [read_npz(path) for path in options.data]
    output = options.output or "bisect.mnn"
    with progress_bar() as progress:
        result = bisect_file(Path(source), replace(options, data=data, output=output, progress=progress))
    emit(result, format_)
    return 0 if result.passed else VerifyError.exit_code
