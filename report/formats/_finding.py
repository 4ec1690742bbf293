"""Checks as findings of a code review, with a level and a place in the repository."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass

from minnow.report.formats._cleaned import repository_path
from minnow.report.formats._text import one_line
from minnow.workflow.result import STATUSES, CellResult, Check, Results
from minnow.workflow.rule import RULES, Level, Rule

LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""From bad to harmless."""


@dataclass(frozen=True)
class Finding:
    """A check that did not pass, or that is a note.

    Attributes:
        cell, check, rule: what was found.
        level: how bad it is.
        path, line: where the configuration has the cell, relative to the root of the repository; otherwise the source.
        fingerprint: the same in every run for the same finding, whatever its numbers and line are.
        count: 1, or more if there are several findings of that fingerprint.
    """

    cell: CellResult
    check: Check
    rule: Rule
    level: Level
    path: str
    line: int
    fingerprint: str
    count: int = 1

    @property
    def title(self) -> str:
        """One line: the cell and the rule."""
        return f"{self.cell.name}: {self.rule.title}"

    @property
    def text(self) -> str:
        """The message; what the rule means if there is none that could be shown."""
        return self.check.message if one_line(self.check.message) else self.rule.title


def findings(results: Results) -> list[Finding]:
    """All findings, the worst first, otherwise in the order of the results."""
    found: list[Finding] = []
    seen: Counter[str] = Counter()
    for cell in results.cells:
        path, line = place_of(results, cell)
        for check in cell.checks:
            if check.status == "skipped" or (check.status == "passed" and not check.rule):
                continue
            rule = rule_named(check.rule)
            print_ = _fingerprint(cell, check, rule)
            seen[print_] += 1
            found.append(Finding(cell, check, rule, _level(check, rule), path, line, print_, seen[print_]))
    return sorted(found, key=lambda f: (LEVELS.index(f.level), -STATUSES.index(f.check.status)))


def is_note(check: Check) -> bool:
    """Whether it is a note of the conversion, and not something that can fail."""
    return check.status == "passed" and bool(check.rule)


def rule_named(name: str) -> Rule:
    """A rule by its name; a report of a newer version can have rules that this one does not know."""
    return RULES.get(name) or Rule(name or "unknown", name or "A check without a reason.", "")


def place_of(results: Results, cell: CellResult) -> tuple[str, int]:
    """The file and the line that a cell comes from, relative to the root of the repository."""
    if cell.place.file:
        file = os.path.join(os.path.dirname(results.config), cell.place.file)
        return repository_path(file), max(cell.place.line, 1)
    return repository_path(cell.source or results.config or cell.name), 1


def _level(check: Check, rule: Rule) -> Level:
    if check.status in ("failed", "error"):
        return "error"
    return "warning" if check.status == "warning" and rule.level != "note" else "note"


def _fingerprint(cell: CellResult, check: Check, rule: Rule) -> str:
    # Several notes of a cell differ in their messages only; other messages have numbers that change with every edit.
    parts = (cell.model, cell.variant, check.name, rule.name, check.message if rule.level == "note" else "")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
