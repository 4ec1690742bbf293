"""mnnconvert check"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import BATCH, FORMAT, INPUT, emit


@click.command()
@click.argument("source", type=click.Path())
@click.option("-f", "--framework", help="Format of the source; found by content when left out.")
@INPUT
@BATCH
@FORMAT
def command(source: str, framework: str | None, inputs: Any, batch: int | None, format_: str) -> int:
    """Say whether a model can be converted, without converting it.

    Lists everything that cannot be, with the nodes and what to try; exit code 3 if there is something.
    """
    from minnow.check import check
    from minnow.schema.errors import UnsupportedError

    found = check(source, framework=framework, inputs=dict(inputs), batch=batch)
    emit(found, format_)
    return 0 if found.convertible else UnsupportedError.exit_code
