"""A comparison of two results as Markdown, for a comment on a pull request, and as plain text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from minnow.report.formats import checked_file
from minnow.report.formats._markdown import RESULTS, code, table, text
from minnow.report.formats._text import change, one_line, quantity, title_of
from minnow.schema.errors import UsageError
from minnow.workflow.compare import CellChange, Change, Comparison
from minnow.workflow.metric import METRICS

LIMIT = 60_000
"""Characters; GitHub and GitLab refuse comments of more than 65,536 and 1,000,000."""


def headline(found: Comparison) -> str:
    """The counts in one line of plain text."""
    counts = {state: sum(cell.state == state for cell in found.cells) for state in _STATES}
    breaches = sum(len(cell.breaches) for cell in found.cells)
    parts = [f"{count} {_STATES[state]}" for state, count in counts.items() if count]
    parts += [f"{breaches} limit{'s' if breaches > 1 else ''} exceeded"] if breaches else []
    return ", ".join(parts) or "no models"


_STATES = {
    "worse": "worse",
    "better": "better",
    "changed": "changed",
    "added": "added",
    "removed": "removed",
    "same": "unchanged",
}


def markdown(found: Comparison) -> str:
    """A table of what differs, the worst first, and a sentence about the rest."""
    result = "❌" if found.exit_code else "✅"
    parts = [f"### {result} Minnow: {text(headline(found))}\n"]
    parts += [f"{text(found.note)}\n"] if found.note else []
    if found.base_version and found.base_version != found.head_version:
        parts.append(f"Minnow {text(found.base_version)} → {text(found.head_version)}\n")
    used = [
        m for m in METRICS if any(_is_shown(cell, c) for cell in found.cells for c in cell.metrics if c.metric == m)
    ]
    shown = sorted((c for c in found.cells if c.state != "same" or c.breaches), key=_order)
    header = ["model", "result", *map(title_of, used)]
    rows, size = [], len("".join(parts)) + 1000
    for cell in shown:
        row = [code(cell.name), _status(cell), *(_metric(cell, name) for name in used)]
        size += sum(map(len, row)) + 3 * len(row)
        if size > LIMIT:
            break
        rows.append(row)
    if rows:
        parts.append(table(header, rows))
    if len(rows) < len(shown):
        parts.append(f"{len(shown) - len(rows)} more models are left out: there is no room for them.\n")
    same = sum(c.state == "same" for c in found.cells)
    if same:
        parts.append(f"{same} model{'s are' if same > 1 else ' is'} unchanged.\n")
    notes = dict.fromkeys(f"{code(cell.name)}: {text(note)}" for cell in found.cells for note in cell.notes)
    if notes:
        more = f"\n- and {len(notes) - 20} more" if len(notes) > 20 else ""
        parts.append("\n".join(f"- {note}" for note in list(notes)[:20]) + more + "\n")
    return "\n".join(parts)


def plain(found: Comparison) -> str:
    """The same for a terminal: a line for each cell and metric that differs, and the reasons why it fails."""
    lines = [headline(found)]
    lines += [found.note] if found.note else []
    for cell in sorted((c for c in found.cells if c.state != "same" or c.breaches), key=_order):
        lines.append(f"{one_line(cell.name)}: {_plain_status(cell)}")
        for c in cell.metrics:
            if c.is_change and cell.base and cell.head:
                limit = f", at most +{c.increase.text}" if c.is_breach and c.increase else ""
                lines.append(f"  {title_of(c.metric)}: {_values(c, '->')}{limit}")
    lines += [f"{one_line(cell.name)}: {note}" for cell in found.cells for note in cell.notes]
    lines += [f"failed: {one_line(reason)}" for reason in found.reasons]
    return "\n".join(lines)


def document(found: Comparison) -> str:
    """As JSON."""
    return json.dumps(found.as_dict(), indent=1, allow_nan=False) + "\n"


KINDS = {"md": (markdown, "diff.md"), "json": (document, "diff.json")}
"""The reports of a comparison: what makes one, and the usual name of its file."""


def check_comparison_reports(specs: Sequence[str]) -> list[tuple[str, Path]]:
    """Kinds and files of reports given as "KIND=FILE".

    Raises:
        UsageError, WriteError: a kind is unknown, or a file cannot be written.
    """
    found = []
    for spec in specs:
        kind, _, file = spec.partition("=")
        if kind not in KINDS:
            raise UsageError(f"unknown kind of report '{kind}'", hint=f"use one of {', '.join(KINDS)}")
        found.append((kind, checked_file(kind, file, KINDS[kind][1])))
    return found


def write_comparison(found: Comparison, specs: Sequence[str]) -> None:
    """Writes reports given as "KIND=FILE"; errors as `check_comparison_reports`."""
    from minnow.output import write_text

    for kind, path in check_comparison_reports(specs):
        write_text(path, KINDS[kind][0](found))


def _order(cell: CellChange) -> tuple[bool, int]:
    return not cell.breaches, list(_STATES).index(cell.state)


def _status(cell: CellChange) -> str:
    if cell.base is None or cell.head is None:
        return f"added: {RESULTS[cell.head]}" if cell.head else "removed"
    return RESULTS[cell.head] if cell.base == cell.head else f"{RESULTS[cell.base]} → {RESULTS[cell.head]}"


def _plain_status(cell: CellChange) -> str:
    if cell.base is None or cell.head is None:
        return f"added, {cell.head}" if cell.head else "removed"
    return str(cell.head) if cell.base == cell.head else f"{cell.base} -> {cell.head}"


def _is_shown(cell: CellChange, c: Change) -> bool:
    return c.is_change and cell.state != "removed"


def _metric(cell: CellChange, name: str) -> str:
    found = next((c for c in cell.metrics if c.metric == name), None)
    if found is None or cell.head is None:
        return ""
    shown = _values(found, "→")
    return f"**{shown}** ❌ at most +{text(found.increase.text)}" if found.is_breach and found.increase else shown


def _values(c: Change, arrow: str) -> str:
    if c.base is None or c.head is None or not c.is_change:
        return quantity(c.metric, c.head)
    return f"{quantity(c.metric, c.base)} {arrow} {quantity(c.metric, c.head)} ({change(c.base, c.head)})"
