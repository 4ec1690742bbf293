"""mnnconvert json"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, QUIET, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.convert import JsonCommand


@click.command(cls=Command)
@click.argument("source", type=click.Path())
@options("convert.JsonCommand")
@QUIET
@FORMAT
def command(source: str, options: JsonCommand, quiet: bool, format_: str) -> None:
    """Convert a .mnn file to JSON, or such JSON to a .mnn file.

    Nothing is lost or optimized: the fields of the file by their names, numbers with as many digits as they need. MNN's
    converter reads this form (-f JSON), and what it writes (--JsonFile) is read.
    """
    from pathlib import Path

    from minnow.json_file import is_json, write_json, write_mnn

    back = is_json(Path(source))
    target = (
        Path(options.output) if options.output is not None else Path(source).with_suffix(".mnn" if back else ".json")
    )
    notes = (write_mnn if back else write_json)(Path(source), target)
    if not quiet:
        result = {"source": source, "output": str(target), "notices": notes}
        emit(result, format_, lambda: "\n".join([f"{source} -> {target}", *(f"note: {n}" for n in notes)]))
