"""Tables, and where the pages are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table; `|` within its cells is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines) + "\n"


def cells(page: str) -> Iterator[list[str]]:
    """The lines of all tables of a page, cell by cell."""
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("|"):
            yield [cell.strip(" *") for cell in line.strip("|").split("|")]
