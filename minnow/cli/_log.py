"""`-v` and `--log-file`: the records of the loggers below "minnow", on standard error and in a file.

Python's `logging` is imported only if one of the two is given, or by the parts of Minnow that use it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from minnow.cli._terminal import faint, show
from minnow.schema.errors import WriteError

if TYPE_CHECKING:
    from logging import Handler, LogRecord

_BEGIN = time.perf_counter()
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.")
"""How each entry of a log begins."""

_handlers: dict[str, Handler] = {}
"""By "screen" and "file" those that are in use."""


def flags() -> list[click.Parameter]:
    """The two options, which every command has. They take effect before others are looked at."""
    more: dict[str, Any] = {"expose_value": False, "is_eager": True}
    return [
        click.Option(
            ["-v", "--verbose"], count=True, callback=lambda ctx, param, value: _start(ctx, value, None),
            help="Show the steps and their times on standard error; -vv shows all details.", **more,
        ),
        click.Option(
            ["--log-file"], type=click.Path(), metavar="FILE",
            callback=lambda ctx, param, value: _start(ctx, 0, value),
            help="Append all details to this file, with the time of each.", **more,
        ),
    ]  # fmt: skip


def shows_steps() -> bool:
    """Whether steps are shown on standard error."""
    return "screen" in _handlers


def error(text: str) -> None:
    """Shows an error on standard error, and adds it to the log."""
    show(text, err=True)
    _to_file("ERROR", text.removeprefix("error: "))


def note(text: str) -> None:
    """Shows a note on standard error, and adds it to the log."""
    show(f"note: {text}", err=True)
    _to_file("INFO", f"note: {text}")


def traceback_of(error: BaseException | None) -> None:
    """Adds the traceback of an error, if there is one, to the log."""
    if error is not None and "file" in _handlers:
        import traceback

        _to_file("DEBUG", "".join(traceback.format_exception(error)).rstrip())


@contextmanager
def step(name: str) -> Iterator[None]:
    """Tells of a step of a command, and of its time."""
    if not _handlers:
        yield
        return
    import logging

    log, begin = logging.getLogger("minnow.cli"), time.perf_counter()
    log.info("%s", name)
    yield
    log.info("%s: %.2f s", name.partition(" ")[0], time.perf_counter() - begin)


def begin(args: list[str]) -> None:
    """Forgets the handlers of an earlier command line of this process, and keeps this one for the log."""
    _close()
    _command[:] = args


def end(code: int) -> None:
    """Logs the exit code, and closes the log."""
    if _handlers:
        import logging

        logging.getLogger("minnow.cli").info("exit code %d after %.2f s", code, time.perf_counter() - _BEGIN)
    _close()


_command: list[str] = []


def _close() -> None:
    if _handlers:
        import logging

        for handler in _handlers.values():
            logging.getLogger("minnow").removeHandler(handler)
            handler.close()
        _handlers.clear()


def _start(ctx: click.Context, verbose: int, path: str | None) -> None:
    """Takes one of the options. The same one before and after the command is one: details add up."""
    if not ctx.resilient_parsing:  # else the shell asks for completions
        if verbose:
            _add("screen", _screen(), "INFO" if verbose == 1 else "DEBUG")
        if path is not None:
            start_file(path)


def start_file(path: str) -> None:
    """Begins to write the log.

    Raises:
        UsageError, WriteError: as `minnow.output.target_of`. WriteError: the file is something else than a log.
    """
    if "file" in _handlers:
        return
    import platform
    import shlex

    import minnow
    from minnow.output import target_of, writing

    target = target_of(path)
    with writing(path):
        if target.exists():
            with target.open("rb") as file:
                head = file.read(64)
            if head and not _TIME.match(head):
                hint = "give the name of a new file, or of a log to continue"
                raise WriteError("cannot write the log", where=path, why="the file is not a log", hint=hint)
        stream = target.open("a", encoding="utf-8", errors="backslashreplace")
    _add("file", _log_file(stream, path), "DEBUG")
    line = shlex.join(["mnnconvert", *_command])
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, process {os.getpid()}"
    _to_file("INFO", f"Minnow {minnow.__version__}, {system}: {line}")


def _add(name: str, handler: Handler, level: str) -> None:
    import logging

    logger = logging.getLogger("minnow")
    if (old := _handlers.pop(name, None)) is not None:
        logger.removeHandler(old)
    handler.setLevel(level)
    _handlers[name] = handler
    logger.addHandler(handler)
    logger.setLevel(min(h.level for h in _handlers.values()))


def _to_file(level: str, text: str) -> None:
    """Adds an entry to the log only, for what is shown on standard error in another way."""
    if "file" in _handlers:
        import logging

        number = logging.getLevelName(level)
        _handlers["file"].handle(logging.LogRecord("minnow.cli", number, "", 0, text, None, None))


def _screen() -> Handler:
    import logging

    class Screen(logging.Handler):
        """Standard error: the time since the start, and the text."""

        def emit(self, record: LogRecord) -> None:
            passed = f"{time.perf_counter() - _BEGIN:7.2f} s"
            text = record.getMessage().replace("\n", "\n" + " " * 11)
            show(text, err=True, before=f"{faint(passed, sys.stderr)}  ")

    return Screen()


def _log_file(stream: TextIO, path: str) -> Handler:
    import logging
    from datetime import datetime

    class LogFile(logging.Handler):
        """A file: date and time, level, logger and text. Further lines of an entry are indented."""

        def emit(self, record: LogRecord) -> None:
            when = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
            text = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            indented = text.replace("\n", "\n    ")
            try:
                stream.write(f"{when} {record.levelname:7} {record.name}: {indented}\n")
                stream.flush()
            except OSError as e:  # for example, the disk is full
                logging.getLogger("minnow").removeHandler(_handlers.pop("file", self))
                show(f"note: the log {path} ends here: {e.strerror}", err=True)

        def close(self) -> None:
            with suppress(OSError):
                stream.close()
            super().close()

    return LogFile()
