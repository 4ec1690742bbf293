"""Formats of the reports of `mnnconvert ci`: a module for each kind, unless its name begins with an underscore.

A kind is a function from `Results` to text, with the decorator `report`. `write_reports` writes several of them in one
run; `check_reports` finds mistakes in the arguments before the run.

Paths below the current folder are shown relative to it. Results without a start (`Results.started` is "") give reports
without times, which do not differ between runs.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from minnow.schema.errors import UsageError
from minnow.workflow.result import Results

Deliver = Callable[[Results, str, TextIO], None]
"""Writes a report without a file to where it belongs: the results, their report, and a stream for what is printed."""


@dataclass(frozen=True)
class Format:
    """A kind of report.

    Attributes:
        kind: its name in `--report KIND=FILE`; also that of its module.
        about: one line for help texts.
        file: the usual name of the file; "" if it is written without one, to where the CI service reads it.
        text: the report of results that `cleaned` has returned, for a file in the given folder.
        deliver: for a report without a file.
    """

    kind: str
    about: str
    file: str
    text: Callable[[Results, Path], str]
    deliver: Deliver | None = None


_FORMATS: dict[str, Format] = {}


def report(
    kind: str, about: str, *, file: str = "", deliver: Deliver | None = None, beside: bool = False
) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Registers a function from `Results` to text as a kind of report; the arguments are the attributes of `Format`.

    The function gets results with relative paths; see `minnow.report.formats._cleaned`. With `beside` it also gets the
    folder of the report, to find other files in it.
    """

    def decorate(function: Callable[..., str]) -> Callable[..., str]:
        from minnow.report.formats._cleaned import cleaned

        @functools.wraps(function)
        def text(results: Results, *folder: Path) -> str:
            return function(cleaned(results), *folder)

        def made(results: Results, folder: Path) -> str:
            return text(results, folder) if beside else text(results)

        _FORMATS[kind] = Format(kind, about, file, made, deliver)
        return text

    return decorate


def kinds() -> list[str]:
    """The names of all kinds, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def format_of(kind: str) -> Format:
    """A kind of report by its name.

    Raises:
        UsageError: there is none of that name.
    """
    if kind not in kinds():
        raise UsageError(f"unknown kind of report '{kind}'", hint=f"use one of {', '.join(kinds())}")
    importlib.import_module(f"{__name__}.{kind}")
    return _FORMATS[kind]


def check_reports(specs: Sequence[str]) -> list[tuple[Format, Path | None]]:
    """The formats and files of reports, each given as "KIND=FILE", or as "KIND" if it needs no file.

    Raises:
        UsageError: a kind is unknown, a file is missing or given twice, or its folder does not exist.
        WriteError: a file cannot be written.
    """
    found: list[tuple[Format, Path | None]] = []
    for spec in specs:
        kind, is_given, file = spec.partition("=")
        chosen = format_of(kind)
        if not chosen.file and is_given:
            raise UsageError(f"the report '{kind}' takes no file", where=spec, hint=f"give --report {kind}")
        found.append((chosen, checked_file(kind, file, chosen.file) if chosen.file else None))
        if found[-1] in found[:-1] or any(at and at == found[-1][1] for _, at in found[:-1]):
            raise UsageError("a report is given twice", where=spec, hint="give each report a file of its own")
    return found


def checked_file(kind: str, file: str, usual: str) -> Path:
    """The file of a report, which can be written.

    Args:
        kind: of the report.
        file: as it was given.
        usual: its usual name, for a hint.

    Raises:
        UsageError, WriteError: as `minnow.output.target_of`. UsageError: the file is "".
    """
    from minnow.output import check_text_target

    if not file:
        raise UsageError(f"the report '{kind}' needs a file", hint=f"give one, for example --report {kind}={usual}")
    check_text_target(file)
    return Path(file)


def write_reports(results: Results, specs: Sequence[str], annotations: TextIO | None = None) -> None:
    """Writes reports, each given as "KIND=FILE" or "KIND"; each file is written completely or not at all.

    Args:
        results: of the run.
        specs: the reports.
        annotations: where `github` prints; by default the standard output. GitHub reads the standard error, too.

    Raises:
        UsageError, WriteError: as `check_reports`.
    """
    from minnow.output import write_text

    for chosen, path in check_reports(specs):
        text = chosen.text(results, Path() if path is None else path.parent)
        if path is not None:
            write_text(path, text)
        elif chosen.deliver is not None:
            chosen.deliver(results, text, annotations or sys.stdout)
