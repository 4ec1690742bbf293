"""What the two output streams can show: colors, and a line that is redrawn. All that is colored is colored here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

_COLORS = {
    "PASS": "green", "FAIL": "red", "ERROR": "red", "INCONCLUSIVE": "yellow", "WARN": "yellow", "SKIP": "cyan",
    "error:": "red", "Error:": "red", "note:": "cyan",
}  # fmt: skip
_COLORED = re.compile(rf"^((?:\[\d+/\d+\])? *)({'|'.join(_COLORS)})(?=\s)", re.MULTILINE)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but tabs and line breaks."""


def has_colors(stream: Any) -> bool:
    """Whether text for a stream is colored: on terminals, unless an environment variable decides otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return _is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_redrawn(stream: Any) -> bool:
    """Whether a line of a stream may be drawn again: on terminals, but not in the log of a CI job."""
    in_job = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return _is_terminal(stream) and os.environ.get("TERM") != "dumb" and not in_job


def show(text: str, err: bool = False, before: str = "") -> None:
    """Prints text with a line break; verdicts and the kinds of messages are colored where the stream has colors.

    Args:
        before: what stands in front of it, colored already.
    """
    text = plain(text)
    colored = has_colors(sys.stderr if err else sys.stdout)
    painted = _COLORED.sub(_paint, text) if colored else text
    click.echo(f"{before}{painted}", err=err, color=True if colored else None)


def plain(text: str) -> str:
    """The text with control characters written out: names in models must not command the terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def faint(text: str, stream: Any) -> str:
    """The text in a color that is less visible, where the stream has colors."""
    return click.style(text, dim=True) if has_colors(stream) else text


@contextmanager
def spinner() -> Iterator[Callable[[str], None] | None]:
    """A line with the current step and its time on standard error; nothing where that cannot be redrawn, or has `-v`.

    Gives the function that takes the name of each step.
    """
    from minnow.cli._log import shows_steps

    if shows_steps() or not is_redrawn(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True, no_color=not has_colors(sys.stderr))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("read")
        yield lambda name: bar.update(task, description=name)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _paint(found: re.Match[str]) -> str:
    return found[1] + click.style(found[2], fg=_COLORS[found[2]], bold=True)
