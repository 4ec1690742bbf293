"""mnnconvert check"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, emit, reading


@click.command()
@click.argument("source", type=MODEL_FILE)
@reading
@FORMAT
def command(source: str, reading: dict[str, Any], format_: str) -> int:
    """Say whether a model can be converted, without converting it.

    Lists everything that cannot be, with the nodes and what to try; exit code 3 if there is something.
    """
    from minnow.check import check
    from minnow.schema.errors import UnsupportedError

    found = check(source, **reading)
    emit(found, format_)
    return 0 if found.convertible else UnsupportedError.exit_code
