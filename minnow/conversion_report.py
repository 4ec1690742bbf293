"""The report of a conversion, and the clock of its steps."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.options.convert import Progress

if TYPE_CHECKING:
    from minnow.optimizer.effect import Effect
    from minnow.report.quantization import Quantization
    from minnow.runtime.verify import Verification

_log = logging.getLogger("minnow.convert")


@dataclass
class Report:
    """The result of a conversion.

    Attributes:
        source, output: paths of the two files.
        framework: format of the source.
        source_bytes, output_bytes: their sizes in bytes.
        nodes_before, nodes_after: number of nodes by op, as read and as written.
        before, after: cost of the graph (operations, memory traffic, peak memory), as read and as written.
        seconds: time of each step by name: read, optimize, write, verify.
        notices: notes for the user, one sentence each.
        statistics: per rule and pass: tries, hits (applications), nodes removed, and milliseconds.
        explained: (rule, node, reason) for each node that the rule named by `explain` did not apply to.
        applied: (rule, node) for each node that it applied to.
        unused: by name the reason why a rule or pass did not run at all.
        verification: the comparison with the source; None if it was switched off.
        checked: the comparison with the folder `testdir`, if there is one.
        limits: what MNN's own runtime may do otherwise, depending on the numbers of a run, and the nodes that do it.
        quantization: what became of the weights, if they were to become smaller.
    """

    source: str
    output: str
    framework: str
    source_bytes: int
    output_bytes: int
    nodes_before: dict[str, int]
    nodes_after: dict[str, int]
    before: Effect
    after: Effect
    seconds: dict[str, float]
    notices: list[str] = field(default_factory=list)
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)
    explained: list[tuple[str, str, str]] = field(default_factory=list)
    applied: list[tuple[str, str]] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    verification: Verification | None = None
    checked: Verification | None = None
    limits: dict[str, list[str]] = field(default_factory=dict)
    quantization: Quantization | None = None

    def log(self) -> None:
        """Logs the notes, and what was written."""
        for notice in self.notices:
            _log.info("note: %s", notice)
        _log.info("written: %s, %s", self.output, readable_size(self.output_bytes))

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        table = asdict(self)
        table["verification"] = None if self.verification is None else self.verification.as_dict()
        table["checked"] = None if self.checked is None else self.checked.as_dict()
        table["quantization"] = None if self.quantization is None else self.quantization.as_dict()
        return table

    def __str__(self) -> str:
        before, after = sum(self.nodes_before.values()), sum(self.nodes_after.values())
        rows = [
            f"{self.source} ({self.framework}, {readable_size(self.source_bytes)}, {before} nodes)"
            f" -> {self.output} ({readable_size(self.output_bytes)}, {after} nodes)"
        ]
        rows += [f"note: {text}" for text in self.notices]
        if self.limits:
            rows.append(f"MNN's own runtime may differ in some nodes: {_counts(self.limits)}")
        if self.verification is not None:
            rows.append(str(self.verification))
        if self.quantization is not None:
            rows += ["", str(self.quantization), ""]
        if self.checked is not None:
            rows.append(str(self.checked))
        times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
        return "\n".join([*rows, f"time: {times}"])


def _counts(limits: dict[str, list[str]]) -> str:
    return "; ".join(f"{reason} ({len(nodes)})" for reason, nodes in limits.items())


class Clock:
    """Measures the time of the steps, and reports their names as progress."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._name = ""
        self._begin = 0.0

    def __call__(self, name: str) -> Clock:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._progress(self._name)
        _log.info("%s", self._name)
        self._begin = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.seconds[self._name] = time.perf_counter() - self._begin
        _log.info("%s: %.2f s", self._name, self.seconds[self._name])


def path_bytes(path: Path) -> int:
    """Size of a file, or of all files in a folder."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def readable_size(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.2f} GB"
