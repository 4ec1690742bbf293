"""Compares the results of two runs: which cells come and go, their statuses, and their metrics with limits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from minnow.schema.errors import BudgetError, FormatError, UsageError
from minnow.workflow.metric import METRICS, shown
from minnow.workflow.result import STATUSES, CellResult, Results, Status

FailOn = Literal["never", "limit", "worse", "removed"]
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)
"""What fails a comparison; each includes those before it."""

State = Literal["added", "removed", "worse", "better", "changed", "same"]

_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_INCREASE = re.compile(rf"([a-z_]+)=([0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?) ?(%|{'|'.join(filter(None, _UNITS))})?")


@dataclass(frozen=True)
class Increase:
    """The largest increase of a metric that passes.

    Attributes:
        metric: its name.
        amount: in the unit of the metric, or a fraction of the value of the base.
        relative: it is a fraction.
        text: as it was given, for example "1%".
    """

    metric: str
    amount: float
    relative: bool
    text: str


@dataclass(frozen=True)
class Change:
    """A metric of a cell in both results.

    Attributes:
        metric: its name.
        base, head: its values; None where it was not measured.
        increase: the limit of its increase; None without one.
        is_breach: it has increased by more.
    """

    metric: str
    base: float | None
    head: float | None
    increase: Increase | None = None
    is_breach: bool = False

    @property
    def is_change(self) -> bool:
        """Whether the values differ; two that are not finite are the same."""
        return self.base != self.head and not (_is_nan(self.base) and _is_nan(self.head))

    @property
    def absolute(self) -> float | None:
        """Head minus base."""
        return None if self.base is None or self.head is None else self.head - self.base

    @property
    def relative(self) -> float | None:
        """The change as a fraction of the base; None if that is 0."""
        return self.absolute / abs(self.base) if self.base and self.absolute is not None else None


@dataclass(frozen=True)
class CellChange:
    """A cell in both results.

    Attributes:
        name, model, variant: of the cell.
        base, head: its statuses; None where there is no such cell.
        metrics: those that both or one of them have.
        notes: what could not be compared.
    """

    name: str
    model: str
    variant: str
    base: Status | None
    head: Status | None
    metrics: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """What has become of it: "worse" and "better" are about its status, "changed" about the rest."""
        if self.base is None or self.head is None:
            return "added" if self.base is None else "removed"
        if self.base != self.head:
            step = STATUSES.index(self.head) - STATUSES.index(self.base)
            if step > 0 and self.head != "skipped":
                return "worse"
            return "better" if step < 0 and self.base != "skipped" else "changed"
        return "changed" if any(c.is_change for c in self.metrics) else "same"

    @property
    def breaches(self) -> tuple[Change, ...]:
        """The metrics that have increased by more than their limits."""
        return tuple(c for c in self.metrics if c.is_breach)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two results, cell by cell: those of the head in its order, then those that only the base has.

    Attributes:
        cells: the cells.
        base_version, head_version: of Minnow.
        fail_on: what fails it.
        note: a sentence about the whole, for example that there was no base.
    """

    cells: tuple[CellChange, ...]
    base_version: str = ""
    head_version: str = ""
    fail_on: FailOn = "worse"
    note: str = ""

    @property
    def reasons(self) -> list[str]:
        """Why it fails, one sentence each; empty if it passes."""
        level, found = FAIL_ON.index(self.fail_on), []
        for cell in self.cells:
            if level >= FAIL_ON.index("limit"):
                found += [f"{cell.name}: {breach_text(change)}" for change in cell.breaches]
            if level >= FAIL_ON.index("worse") and cell.state == "worse":
                found.append(f"{cell.name}: was {cell.base}, is {cell.head}")
            if level >= FAIL_ON.index("removed") and cell.state == "removed":
                found.append(f"{cell.name}: is no longer there")
        return found

    @property
    def exit_code(self) -> int:
        """0, or 5 if it fails."""
        return BudgetError.exit_code if self.reasons else 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        cells = [
            {
                "name": cell.name,
                "model": cell.model,
                "variant": cell.variant,
                "state": cell.state,
                "base": cell.base,
                "head": cell.head,
                "metrics": {
                    c.metric: {
                        "base": _finite(c.base),
                        "head": _finite(c.head),
                        "absolute": _finite(c.absolute),
                        "relative": _finite(c.relative),
                        "limit": c.increase.text if c.increase else None,
                        "breach": c.is_breach,
                    }
                    for c in cell.metrics
                },
                "notes": list(cell.notes),
            }
            for cell in self.cells
        ]
        own = {"base_version": self.base_version, "head_version": self.head_version, "fail_on": self.fail_on}
        rest = {"note": self.note, "reasons": self.reasons, "exit_code": self.exit_code, "cells": cells}
        return {"schema": 1, **own, **rest}


def increase_of(text: str) -> Increase:
    """The limit in "METRIC=N%" or "METRIC=N", with a unit for sizes: "bytes=1%", "nodes=2", "bytes=10 kB".

    Raises:
        UsageError: it has another form, or there is no such metric.
    """
    match = _INCREASE.fullmatch(text.strip())
    name = text.partition("=")[0].strip()
    if name not in METRICS:
        raise UsageError(f"unknown metric '{name}'", where=text, hint=f"use one of {', '.join(METRICS)}")
    if match is None:
        raise UsageError(f"'{text}' is not a limit", hint=f"give METRIC=N% or METRIC=N, for example {name}=1%")
    unit = match[3] or ""
    if unit not in ("", "%") and METRICS[name].unit != "bytes":
        raise UsageError(f"'{text}' is not a limit", why=f"{name} has no bytes", hint=f"for example {name}=1%")
    amount = float(match[2]) * (0.01 if unit == "%" else _UNITS[unit])
    return Increase(name, amount, unit == "%", text.partition("=")[2].strip())


def increases_of(texts: Sequence[str]) -> dict[str, Increase]:
    """The limits by metric. Raises UsageError as `increase_of`, and if a metric has two."""
    found: dict[str, Increase] = {}
    for text in texts:
        one = increase_of(text)
        if one.metric in found:
            raise UsageError(f"the metric '{one.metric}' has two limits", where=text, hint="give one of them")
        found[one.metric] = one
    return found


def read_results(path: Path) -> Results:
    """The results in a JSON report.

    Raises:
        FormatError: there is no such file, or it is no such report.
    """
    hint = "write one with `mnnconvert ci --report json=FILE`"
    try:
        return Results.of(json.loads(path.read_bytes()))
    except FormatError as e:
        raise FormatError(e.message, where=str(path), why=e.why, hint=hint) from None
    except OSError as e:
        raise FormatError("cannot read the report", where=str(path), why=e.strerror or str(e), hint=hint) from None
    except json.JSONDecodeError as e:
        why = f"it is not JSON: {e.msg} in line {e.lineno}, column {e.colno}"
        raise FormatError("not a report of `mnnconvert ci`", where=str(path), why=why, hint=hint) from None
    except (ValueError, RecursionError) as e:
        why = "it is nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise FormatError("not a report of `mnnconvert ci`", where=str(path), why=why, hint=hint) from None


def compare(
    base: Results | None, head: Results, increases: Mapping[str, Increase] | None = None, fail_on: FailOn = "worse"
) -> Comparison:
    """Compares results; without a base all cells are added, which passes with a note."""
    before = {(c.model, c.variant): c for c in base.cells} if base is not None else {}
    after = {(c.model, c.variant): c for c in head.cells}
    pairs = [(before.get(key), cell) for key, cell in after.items()]
    gone = [(cell, None) for key, cell in before.items() if key not in after]
    return Comparison(
        cells=tuple(_cell(a, b, increases or {}) for a, b in [*pairs, *gone]),
        base_version=base.version if base is not None else "",
        head_version=head.version,
        fail_on=fail_on,
        note="" if base is not None else "There is no base to compare with.",
    )


def breach_text(change: Change) -> str:
    """One line about a metric that has increased by more than its limit."""
    metric, limit = METRICS[change.metric], change.increase
    assert limit is not None
    assert change.base is not None
    assert change.head is not None
    by = "" if change.relative is None else f" ({100 * change.relative:+.3g}%)"
    values = f"{shown(change.base, metric.unit)} -> {shown(change.head, metric.unit)}"
    return f"{metric.title}: {values}{by}, at most +{limit.text}"


def _cell(base: CellResult | None, head: CellResult | None, increases: Mapping[str, Increase]) -> CellChange:
    one = head or base
    assert one is not None
    statuses = (base.status if base else None), (head.status if head else None)
    names = [n for n in METRICS if any(c is not None and n in c.metrics for c in (base, head))]
    changes, unknown = [], []
    for name in names:
        a, b = (c.metrics.get(name) if c is not None else None for c in (base, head))
        limit = increases.get(name)
        if limit is not None and head is not None and (a is None or _is_nan(a)):
            unknown.append(METRICS[name].title)
        changes.append(Change(name, a, b, limit, _is_breach(a, b, limit) and not _is_noise(name, base, head)))
    notes = (f"no baseline for {', '.join(unknown)}",) if unknown else ()
    return CellChange(one.name, one.model, one.variant, *statuses, tuple(changes), notes)


def _is_breach(base: float | None, head: float | None, limit: Increase | None) -> bool:
    if limit is None or base is None or head is None or not math.isfinite(base):
        return False
    return _is_nan(head) or head > base + (limit.amount * abs(base) if limit.relative else limit.amount)


def _is_noise(name: str, base: CellResult | None, head: CellResult | None) -> bool:
    """Whether two latencies may be the same, since their confidence intervals overlap."""
    if name != "latency" or base is None or head is None or base.interval is None or head.interval is None:
        return False
    return head.interval[0] <= base.interval[1]


def _is_nan(value: float | None) -> bool:
    return value is not None and math.isnan(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
