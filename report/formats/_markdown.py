"""Pieces of GitHub's Markdown that show any text as it is."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from minnow.report.formats._text import one_line, plain
from minnow.workflow.result import Status

RESULTS: dict[Status, str] = {
    "passed": "✅ passed",
    "skipped": "⏭️ skipped",
    "warning": "⚠️ warning",
    "failed": "❌ failed",
    "error": "❌ error",
}

_MARKS = re.compile(r"([\\`*_\[\]{}#!|~$@]|:(?=\S)|(?<=[wW]{3})\.)")


def text(given: str) -> str:
    """One line of text, also for the cell of a table; nothing in it is a mark, a tag, or the address of a link."""
    return _MARKS.sub(r"\\\1", html.escape(one_line(given), quote=False))


def code(given: str) -> str:
    """One line as code, also for the cell of a table; "" for no text."""
    shown = one_line(given)
    if not shown:
        return ""
    ticks = "`" * (_longest_run(shown) + 1)
    gap = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}".replace("|", "\\|")


def block(given: str) -> str:
    """Lines as a block of code."""
    shown = plain(given).strip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def folded(summary: str, inner: str) -> str:
    """A section that opens on a click.

    Args:
        summary: plain text.
        inner: Markdown.
    """
    return f"<details>\n<summary>{html.escape(one_line(summary))}</summary>\n\n{inner}\n\n</details>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown; columns after the first two are right-aligned."""
    marks = ["---" if i < 2 else "---:" for i in range(len(header))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, marks, *rows))


def _longest_run(given: str) -> int:
    return max(map(len, re.findall("`+", given)), default=0)
