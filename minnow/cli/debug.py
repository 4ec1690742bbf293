"""mnnconvert debug"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, emit, optimizing, reading


@click.group()
def command() -> None:
    """Find out what is wrong in a conversion."""


@command.command()
@click.argument("source", type=MODEL_FILE)
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE.mnn",
    help="Where to write the small model, with FILE.txt and FILE.npz beside it; by default bisect.mnn, and nothing "
    "where nothing is wrong.",
)  # fmt: skip
@reading
@optimizing
@click.option("--engine", is_flag=True, help="Run the files by the engine, instead of the graphs by the reference.")
@click.option("--data", type=click.Path(), multiple=True, help="An .npz file with one array per input, to compare on.")
@FORMAT
def bisect(
    source: str, output: str | None, reading: dict[str, Any], optimizing: dict[str, Any], engine: bool,
    data: tuple[str, ...], format_: str,
) -> int:  # fmt: skip
    """Find the first rule of the optimizer that changes the numbers, and write a small model that shows it.

    Exit code 0: none does. 4: one does, which is named.
    """
    from minnow.bisection import bisect as search
    from minnow.cli.convert import progress_bar
    from minnow.runtime.verify.data import read_npz
    from minnow.schema.errors import VerifyError

    with progress_bar() as progress:
        result = search(
            source,
            engine=engine,
            data=[read_npz(path) for path in data],
            output=output or "bisect.mnn",
            progress=progress,
            **reading,
            **optimizing,
        )
    emit(result, format_)
    return 0 if result.passed else VerifyError.exit_code
