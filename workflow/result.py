"""Results of cells, and of a whole run; as JSON they are the machine-readable report.

The JSON document has a version, `SCHEMA`. Within a version fields are only added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from minnow.schema.errors import FormatError
from minnow.workflow.cell import Place
from minnow.workflow.record import record, schema
from minnow.workflow.rule import RULES

SCHEMA = 1

Status = Literal["passed", "warning", "failed", "error", "skipped"]
"""failed: something is wrong with the result (outputs, budget); error: there is no result (unreadable, crash)."""

STATUSES: tuple[Status, ...] = ("passed", "skipped", "warning", "failed", "error")
"""From good to bad: the status of several checks together is the last of theirs."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: "convert", "verify:<output>", "budget:<metric>", "fresh" (the output belongs to its sources).
        rule: why it did not pass, of `RULES`; "" if it passed or was skipped.
        message: one line.
        details: more lines, for example the whole text of an error.
        nodes: names of the model's nodes that it is about.
        seconds: how long it took.
        value, limit: of a budget.
    """

    name: str
    status: Status
    rule: str = ""
    message: str = ""
    details: str = ""
    nodes: tuple[str, ...] = ()
    seconds: float = 0.0
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What became of one cell.

    Attributes:
        model, variant, source, output, place: those of the cell.
        checks: in the order in which they were done.
        key: hash of everything that the output depends on; "" if it could not be computed.
        sha256: hash of the output file; "" without one.
        cached: the output comes from a cache, or was fresh.
        metrics: by name, of `METRICS`.
        before: metrics of the source that have a meaning there (bytes, nodes, macs, peak_memory).
        interval: 95 % confidence interval of the latency's ratio.
        seconds: time of each step by name.
        attempts: how many times it was tried.
        worker: where it ran; "" for this process's own pool.
        log: the end of what the conversion has printed.
        reproduce: a command line that does the same.
        reference: what computed the expected outputs, such as "onnxruntime 1.20.0"; "" without verification.
    """

    model: str
    variant: str
    source: str
    output: str
    checks: tuple[Check, ...]
    place: Place = field(default_factory=Place)
    key: str = ""
    sha256: str = ""
    cached: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    worker: str = ""
    log: str = ""
    reproduce: str = ""
    reference: str = ""

    @property
    def name(self) -> str:
        """The name in reports: "model" or "model/variant"."""
        return f"{self.model}/{self.variant}" if self.variant else self.model

    @property
    def status(self) -> Status:
        """The worst status of its checks; "skipped" without any."""
        return max((c.status for c in self.checks), key=STATUSES.index, default="skipped")

    @property
    def exit_code(self) -> int:
        """The exit code of the first check that is worst."""
        worst = [c for c in self.checks if c.status in ("failed", "error")]
        first = max(worst, key=lambda c: STATUSES.index(c.status), default=None)
        if first is None:
            return 0
        return RULES[first.rule].exit_code if first.rule in RULES else 1  # a rule of a newer version

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CellResult:
        """The result of its JSON-ready values. Raises TypeError if they are others."""
        return record(cls, values)


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a run, in the order of the configuration.

    Attributes:
        version: of Minnow.
        config: path of the configuration file.
        started: time in ISO 8601 with a time zone; "" in reports that must not differ between runs.
        seconds: wall time of the whole run.
        host: name of the machine; "" as `started`.
    """

    cells: tuple[CellResult, ...]
    version: str
    config: str = ""
    started: str = ""
    seconds: float = 0.0
    host: str = ""

    @property
    def counts(self) -> dict[Status, int]:
        """The number of cells by status, with all statuses."""
        counts = Counter(cell.status for cell in self.cells)
        return {status: counts[status] for status in STATUSES}

    @property
    def exit_code(self) -> int:
        """0, or the exit code that all cells without success share, or that of the first of the worst of them."""
        bad = [c for c in self.cells if c.exit_code]
        return max(bad, key=lambda c: STATUSES.index(c.status)).exit_code if bad else 0

    def as_dict(self) -> dict[str, Any]:
        """The JSON document."""
        cells = [{**asdict(c), "name": c.name, "status": c.status, "exit_code": c.exit_code} for c in self.cells]
        own = {name: value for name, value in vars(self).items() if name != "cells"}
        return {"schema": SCHEMA, **own, "counts": self.counts, "exit_code": self.exit_code, "cells": cells}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Results:
        """The results of a JSON document; fields that this version does not know are left out.

        Raises:
            FormatError: it is no such document, or of another version.
        """
        version = document.get("schema") if isinstance(document, Mapping) else None
        if version != SCHEMA or isinstance(version, bool):
            why = f"it has schema {version!r}" if version is not None else "it has no field 'schema'"
            raise FormatError("not a report of `mnnconvert ci`", why=f"{why}; this version of Minnow reads {SCHEMA}")
        try:
            return record(cls, document)
        except TypeError as e:
            raise FormatError("a damaged report of `mnnconvert ci`", why=str(e)) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of the document of `Results.as_dict`, draft 2020-12."""
    document, cell = schema(Results), schema(CellResult)
    code = {"type": "integer", "minimum": 0, "maximum": 255}
    cell["properties"] |= {"name": {"type": "string"}, "status": {"enum": list(STATUSES)}, "exit_code": code}
    document["properties"] |= {
        "schema": {"const": SCHEMA, "description": "The version of this form. Within a version fields are only added."},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "exit_code": code,
        "cells": {"type": "array", "items": cell},
    }
    document["required"] = ["schema", *document["required"]]
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Report of mnnconvert ci"}
    return {**about, **document}
