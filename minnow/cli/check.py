"""mnnconvert check"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minnow.cli._log import error
from minnow.cli._option import FORMAT, MODEL_FILE, QUIET, Command, emit, options

if TYPE_CHECKING:
    from minnow.options.read import ReadOptions


@click.command(cls=Command)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, shell_complete=MODEL_FILE.shell_complete)
@options("read.ReadOptions")
@QUIET
@FORMAT
def command(sources: tuple[str, ...], options: ReadOptions, quiet: bool, format_: str) -> int:
    """Check whether models can be converted, without doing it.

    Lists everything that is unsupported, with the nodes and what to try; exit code 3 if there is anything. With several
    models, all of them are checked, the exit code is that of the first one with a problem, and JSON is a list with a
    result or an error for each. --quiet shows only those with a problem.
    """
    from minnow.schema.errors import MinnowError, UnsupportedError

    if len(sources) == 1:
        found = _checked(sources[0], options)
        if not (quiet and found.convertible):
            emit(found, format_)
        return 0 if found.convertible else UnsupportedError.exit_code
    codes: list[int] = []
    results: list[Any] = []
    for source in sources:
        try:
            found = _checked(source, options)
            code = 0 if found.convertible else UnsupportedError.exit_code
        except MinnowError as e:
            found, code = e, e.exit_code
            error(f"error: {e}")
        codes.append(code)
        if format_ == "json":
            results += [found] if code or not quiet else []
        elif not isinstance(found, MinnowError) and not (quiet and not code):
            emit(found, format_)
    if format_ == "json":
        emit(results, format_)
    return next(filter(None, codes), 0)


def _checked(source: str, options: ReadOptions) -> Any:
    path = MODEL_FILE.convert(source, None, None)
    from pathlib import Path

    from minnow.check import check_file

    return check_file(Path(path), options)
