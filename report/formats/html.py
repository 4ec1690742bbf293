"""HTML: one page of all cells in one file: the matrix of models and variants, and everything that is known of each."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from urllib.parse import quote

from minnow.report.formats import report
from minnow.report.formats._finding import rule_named
from minnow.report.formats._text import change, clipped, last_part, plain, quantity, title_of
from minnow.report.formats.md import headline
from minnow.report.page.skeleton import Section, badge, document, table, text
from minnow.workflow.metric import METRICS, shown
from minnow.workflow.result import STATUSES, CellResult, Check, Results, Status

_KIND: dict[Status, str] = {"passed": "good", "skipped": "none", "warning": "warn", "failed": "bad", "error": "bad"}
_SIGN: dict[Status, str] = {"passed": "✓", "skipped": "–", "warning": "!", "failed": "✗", "error": "⊘"}
_SHOWN = ("bytes", "nodes", "max_error", "latency")
"""The metrics in the line of a cell."""

_LOG, _DETAILS = 4_000, 6_000


@report("html", "HTML, one page of all models with filters and details", file="report.html", beside=True)
def html(results: Results, folder: Path = Path()) -> str:
    """The page. It needs no other file; it links the page of a model if that stands beside it.

    Args:
        results: of a run.
        folder: where the page will be.
    """
    sections = [
        Section("models", "Models", _cells(results, folder), note="A click on a line shows everything about it.")
    ]
    if len({cell.variant for cell in results.cells}) > 1:
        sections.insert(0, Section("matrix", "Matrix", _matrix(results)))
    facts = [f"Minnow {results.version}" if results.version else "", results.config, results.started, results.host]
    facts += [shown(results.seconds, "s")] if results.seconds else []
    return document(
        headline(results),
        sections,
        subtitle=" · ".join(filter(None, facts)),
        summary=_counts(results),
        styles=["cells.css"],
        scripts=["cells.js"],
    )


def _counts(results: Results) -> str:
    counts = {status: count for status, count in results.counts.items() if count}
    buttons = (
        f'<button type="button" data-status="{status}" aria-pressed="false">{badge(_KIND[status], _SIGN[status])} '
        f"{counts[status]} {status}</button>"
        for status in reversed(STATUSES)
        if status in counts
    )
    return f'<div class="counts" role="group" aria-label="Show only">{"".join(buttons)}</div>'


def _matrix(results: Results) -> str:
    """Models by variants; a cell that is not there is empty."""
    variants = list(dict.fromkeys(cell.variant for cell in results.cells))
    rows: dict[str, dict[str, str]] = {}
    for number, cell in enumerate(results.cells):
        sign = badge(_KIND[cell.status], _SIGN[cell.status])
        label = text(f"{cell.name}: {cell.status}")
        rows.setdefault(cell.model, {})[cell.variant] = (
            f'<a href="#c{number}" title="{label}" aria-label="{label}">{sign}</a>'
        )
    head = "".join(f'<th scope="col">{text(variant or "default")}</th>' for variant in ("", *variants)[1:])
    body = "".join(
        f'<tr><th scope="row" title="{text(model)}">{text(model)}</th>'
        + "".join(f"<td>{row.get(variant, '')}</td>" for variant in variants)
        + "</tr>"
        for model, row in rows.items()
    )
    return (
        '<div class="card matrix-box"><div class="wide" tabindex="0" role="region" aria-label="Matrix">'
        '<table class="matrix"><thead>'
        f'<tr><th scope="col">model</th>{head}</tr></thead><tbody>{body}</tbody></table></div></div>'
    )


def _cells(results: Results, folder: Path) -> str:
    used = [name for name in METRICS if any(name in cell.metrics for cell in results.cells)]
    keys = {"order": "as configured", "name": "name", "status": "status, worst first", "increase": "size / source"}
    keys |= {name: title_of(name) for name in used}
    choices = "".join(f'<option value="{key}">{text(label)}</option>' for key, label in keys.items())
    filters = (
        '<div class="filters" hidden><input type="search" id="search" placeholder="Search names, rules, nodes ( / )" '
        'aria-label="Search" autocomplete="off" spellcheck="false">'
        f'<label class="muted">Sort <select id="sort">{choices}</select></label>'
        '<span class="muted" id="found" role="status"></span></div>'
    )
    rows = "\n".join(_cell(cell, number, used, folder) for number, cell in enumerate(results.cells))
    return f'{filters}<div class="cells">{rows}</div>'


def _cell(cell: CellResult, number: int, used: list[str], folder: Path) -> str:
    worst = [check for check in cell.checks if check.status == cell.status and check.status != "passed"]
    why = next((check.message or rule_named(check.rule).title for check in worst if check.message or check.rule), "")
    words = [cell.name, cell.status, *(w for c in cell.checks for w in (c.name, c.rule, c.message, *c.nodes[:50]))]
    ratio = _ratio(cell.before.get("bytes"), cell.metrics.get("bytes"))
    order = {"name": cell.name.lower(), "status": -STATUSES.index(cell.status), "increase": ratio}
    order |= {name: _finite(cell.metrics.get(name)) for name in used}
    numbers = "".join(
        f'<span class="num" title="{text(title_of(name))}">{_brief(cell, name)}</span>' for name in _SHOWN
    )
    parts = [
        _checks(cell),
        _metrics(cell),
        _pre("Log", last_part(cell.log, _LOG)) if cell.log.strip() else "",
        _command(cell.reproduce),
        _facts(cell, folder),
    ]
    return (
        f'<details class="card cell" id="c{number}" data-status="{cell.status}" '
        f'data-search="{text(" ".join(words))}" data-sort="{text(json.dumps(order))}">'
        f"<summary>{badge(_KIND[cell.status], cell.status)}<span class=name>{text(cell.name)}</span>{numbers}"
        f"{f'<span class=why>{text(why)}</span>' if why else ''}</summary>"
        f'<div class="inside">{"".join(parts)}</div></details>'
    )


def _brief(cell: CellResult, name: str) -> str:
    """A metric in the line of a cell: its value, and the change from the source."""
    before, after = cell.before.get(name), cell.metrics.get(name)
    if after is None:
        return ""
    changed = change(before, after) if before is not None and before != after else ""
    unit = {"nodes": " nodes", "latency": "× latency"}.get(name, "")
    value = f"{quantity(name, after)}{unit}" if name != "max_error" else f"error {quantity(name, after)}"
    return f"{text(value)}{f' <span class=muted>{text(changed)}</span>' if changed else ''}"


def _checks(cell: CellResult) -> str:
    rows = []
    for check in cell.checks:
        state = badge(_KIND[check.status], "note" if check.status == "passed" and check.rule else check.status)
        time = shown(check.seconds, "s") if check.seconds else ""
        name = f"<code>{text(check.name)}</code>" + (f"<div class=muted>{text(check.rule)}</div>" if check.rule else "")
        rows.append([state, name, _said(check), text(time)])
    if not rows:
        return '<p class="muted">Nothing was checked.</p>'
    return table(["status", "check", "what", "time"], rows, caption="Checks", right=3)


def _said(check: Check) -> str:
    rule = rule_named(check.rule) if check.rule else None
    said = text(check.message or (rule.title if rule else ""))
    if check.nodes:
        names = [f"<code>{text(node)}</code>" for node in check.nodes]
        many = f"<details><summary>{len(names)} nodes</summary>{', '.join(names[:500])}</details>"
        said += f"<div>{', '.join(names) if len(names) <= 8 else many}</div>"
    if check.details.strip() and check.details.strip() != check.message:
        inner = f"<pre>{text(clipped(plain(check.details), _DETAILS))}</pre>"
        said += f"<details><summary>Details</summary>{inner}</details>"
    if rule is not None and rule.help and check.status != "passed":
        said += f'<div class="muted">{_with_code(rule.help)}</div>'
    return said


def _with_code(sentence: str) -> str:
    """A text of a rule with what stands in backquotes as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text(sentence))


def _metrics(cell: CellResult) -> str:
    rows = []
    for name in dict.fromkeys((*(m for m in METRICS if m in cell.metrics or m in cell.before), *cell.metrics)):
        before, after = cell.before.get(name), cell.metrics.get(name)
        limit = next((c.limit for c in cell.checks if c.name == f"budget:{name}"), None)
        value = quantity(name, after)
        if name == "latency" and cell.interval is not None:
            value += f" ({cell.interval[0]:.3g} to {cell.interval[1]:.3g})"
        rows.append([
            text(title_of(name)), text(quantity(name, before)), text(value), text(change(before, after)),
            text(quantity(name, limit)), _bars(before, after),
        ])  # fmt: skip
    if not rows:
        return ""
    bars = '<p class="muted"><span class="key before"></span> source <span class="key after"></span> output</p>'
    header = ["metric", "source", "output", "change", "limit", ""]
    return table(header, rows, caption="Metrics") + (bars if any(row[-1] for row in rows) else "")


def _bars(before: float | None, after: float | None) -> str:
    """Two bars whose lengths are in proportion; nothing without both numbers."""
    most = max(filter(None, map(_finite, (before, after))), default=0)
    if most <= 0 or _finite(before) is None or _finite(after) is None:
        return ""
    widths = [100 * max(value, 0) / most for value in (before or 0, after or 0)]
    rects = "".join(
        f'<rect class="{name}" y="{y}" width="{width:.2f}" height="6"/>'
        for name, y, width in zip(("before", "after"), (0, 8), widths, strict=True)
    )
    label = f"{change(before, after)} from the source"
    return (
        f'<svg class="bars" viewBox="0 0 100 14" preserveAspectRatio="none" role="img" aria-label="{text(label)}">'
        f"{rects}</svg>"
    )


def _facts(cell: CellResult, folder: Path) -> str:
    times = ", ".join(f"{name} {shown(seconds, 's')}" for name, seconds in cell.seconds.items())
    place = f"{cell.place.file}:{cell.place.line}" if cell.place.file else ""
    facts = {
        "Source": cell.source,
        "Output": cell.output,
        "Configured in": place,
        "SHA-256": cell.sha256,
        "Key": cell.key,
    }
    facts |= {"Times": times, "Ran on": cell.worker, "Attempts": str(cell.attempts) if cell.attempts > 1 else ""}
    facts["From a cache"] = "yes" if cell.cached else ""
    rows = [f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts.items() if value]
    if page := _page_of(cell, folder):
        rows.append(f'<dt>Page</dt><dd><a href="{text(quote(page))}">everything about this model</a></dd>')
    return f'<dl class="facts">{"".join(rows)}</dl>'


def _page_of(cell: CellResult, folder: Path) -> str:
    """The page of one model beside this one, or beside the output, relative to this one; "" if there is none."""
    output = Path(cell.output)
    names = (f"{output.stem}.html", f"{output.name}.html") if output.name else ()
    for place in (folder, output.parent):
        for name in names:
            try:
                if (place / name).is_file():
                    return os.path.relpath(place / name, folder).replace(os.sep, "/")
            except (OSError, ValueError):  # a name that no file can have
                continue
    return ""


def _pre(title: str, inner: str) -> str:
    return f"<div><h3>{title}</h3><pre tabindex=0>{text(plain(inner))}</pre></div>"


def _command(command: str) -> str:
    if not command:
        return ""
    button = '<button type="button" class="copy" hidden>Copy</button>'
    return f'<div><h3>Reproduce</h3><div class="command"><pre>{text(plain(command))}</pre>{button}</div></div>'


def _ratio(before: float | None, after: float | None) -> float | None:
    a, b = _finite(before), _finite(after)
    return b / a if a and b is not None else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
