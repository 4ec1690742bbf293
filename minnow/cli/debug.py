"""mnnconvert debug"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, Command, emit, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.convert import BisectOptions


@click.group()
def command() -> None:
    """Debug a conversion with wrong results."""


@command.command(cls=Command)
@click.argument("source", type=MODEL_FILE)
@options("convert.BisectOptions")
@FORMAT
def bisect(source: str, options: BisectOptions, format_: str) -> int:
    """Find the first optimizer rewrite that changes the outputs.

    Writes a small model that reproduces it.

    Exit code 0: no rewrite changes them. 4: the rewrite that does is printed.
    """
    from dataclasses import replace
    from pathlib import Path

    from minnow.bisection import bisect_file
    from minnow.runtime.verify.data import read_npz
    from minnow.schema.errors import VerifyError

    data = [read_npz(path) for path in options.data]
    output = options.output or "bisect.mnn"
    with spinner() as progress:
        result = bisect_file(Path(source), replace(options, data=data, output=output, progress=progress))
    emit(result, format_)
    return 0 if result.passed else VerifyError.exit_code
