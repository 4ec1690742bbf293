"""Markdown: one table of all cells, and folded details of those that need attention."""

from __future__ import annotations

from collections.abc import Callable

from minnow.report.formats import report
from minnow.report.formats._markdown import RESULTS, block, code, folded, table, text
from minnow.report.formats._text import change, clipped, last_part, quantity, title_of
from minnow.workflow.metric import METRICS, shown
from minnow.workflow.result import STATUSES, CellResult, Check, Results

LIMIT = 900_000
"""Bytes; GitHub refuses the summary of a step above 1 MiB, in which other reports may stand, too."""

_DETAILS = 4_000


@report("md", "Markdown, a table for comments and summaries of pull requests", file="report.md")
def markdown(results: Results) -> str:
    """The table and the details, as many as GitHub shows; a sentence tells how many are left out."""
    used = [name for name in METRICS if any(name in cell.metrics or name in cell.before for cell in results.cells)]
    header = ["model", "result", *map(title_of, used)]
    worst_first = sorted(results.cells, key=lambda cell: -STATUSES.index(cell.status))
    parts = [f"## {headline(results)}\n", ""]
    room = LIMIT - _bytes("\n".join(parts)) - 1000
    rows, room = _fitting(worst_first, lambda cell: table([], [_row(cell, used)]), room)
    kept = set(map(id, worst_first[: len(rows)]))
    ordered = [_row(cell, used) for cell in results.cells if id(cell) in kept]
    if ordered:
        parts.append(table(header, ordered))
    if len(rows) < len(worst_first):
        parts.append(f"{len(worst_first) - len(rows)} more cells are left out: there is no room for them.\n")
    bad = [cell for cell in worst_first if cell.status not in ("passed", "skipped")]
    details, _ = _fitting(bad, _details, room)
    parts += details
    if len(details) < len(bad):
        parts.append(f"The details of {len(bad) - len(details)} more cells are left out: there is no room for them.\n")
    facts = [f"Minnow {text(results.version)}"] if results.version else []
    facts += [code(results.config)] if results.config else []
    facts += [shown(results.seconds, "s")] if results.seconds else []
    return "\n".join([*parts, f"<sub>{' · '.join(facts)}</sub>\n" if facts else ""]).rstrip("\n") + "\n"


def headline(results: Results) -> str:
    """How many cells have which status, in plain text."""
    counts = {status: count for status, count in results.counts.items() if count}
    if not counts:
        return "Minnow: no models"
    if list(counts) == ["passed"]:
        return f"Minnow: all {counts['passed']} passed" if counts["passed"] > 1 else "Minnow: passed"
    named = ", ".join(f"{counts[status]} {status}" for status in reversed(STATUSES) if status in counts)
    return f"Minnow: {named}"


def _row(cell: CellResult, used: list[str]) -> list[str]:
    return [code(cell.name), RESULTS[cell.status], *(_values(cell, name) for name in used)]


def _values(cell: CellResult, metric: str) -> str:
    """The value of a metric, with that of the source before it."""
    before, after = cell.before.get(metric), cell.metrics.get(metric)
    if metric == "latency" and cell.interval is not None and after is not None:
        return f"{after:.3f} ({cell.interval[0]:.3f} to {cell.interval[1]:.3f})"
    if before is None or before == after or after is None:
        return quantity(metric, after if after is not None else before)
    return f"{quantity(metric, before)} → {quantity(metric, after)} ({change(before, after)})"


def _details(cell: CellResult) -> str:
    parts = [_check(check) for check in cell.checks if check.status not in ("passed", "skipped")]
    if cell.log and cell.status == "error":
        parts.append(f"The end of the log:\n\n{block(last_part(cell.log, _DETAILS))}")
    if cell.reproduce:
        parts.append(f"To reproduce it:\n\n{block(cell.reproduce)}")
    return folded(f"{cell.name}: {cell.status}", "\n\n".join(parts))


def _check(check: Check) -> str:
    lines = f"**{code(check.name)}** {check.status}" + (f" ({code(check.rule)})" if check.rule else "")
    lines += f": {text(check.message)}" if check.message else ""
    if check.nodes:
        more = len(check.nodes) - 20
        lines += "\n\nNodes: " + ", ".join(map(code, check.nodes[:20])) + (f", and {more} more" if more > 0 else "")
    if check.details.strip():
        lines += "\n\n" + block(clipped(check.details, _DETAILS))
    return lines


def _fitting(cells: list[CellResult], made_of: Callable[[CellResult], str], room: int) -> tuple[list[str], int]:
    """The texts of the first cells that fit, and the room that is left."""
    texts: list[str] = []
    for cell in cells:
        made = made_of(cell)
        if _bytes(made) > room:
            break
        room -= _bytes(made) + 1
        texts.append(made)
    return texts, room


def _bytes(given: str) -> int:
    return len(given.encode())
