"""Lists of the cases of a suite that do not pass: sections "[outcome] reason", with a case per line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

Known = dict[str, tuple[str, str]]
"""Outcome and reason, by case."""


def read(path: Path) -> Known:
    """The cases of a list."""
    found: Known = {}
    section = ("", "")
    for line in path.read_text().splitlines():
        if line.startswith("["):
            outcome, _, reason = line[1:].partition("] ")
            section = outcome, reason
        elif line and not line.startswith("#"):
            assert line not in found, f"{line} is listed twice"
            found[line] = section
    return found


def check(known: Known, names: Collection[str], outcomes: Collection[str]) -> None:
    """The list names cases that there are, outcomes that there are, and reasons."""
    assert set(known) <= set(names)
    for case, (outcome, reason) in known.items():
        assert outcome in outcomes, case
        assert len(reason) > 10, case
