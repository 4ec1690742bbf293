"""The metrics of a cell: what budgets limit, and reports show."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number that is better when it is smaller.

    Attributes:
        name: in configurations and reports.
        title: in tables.
        unit: "bytes", "" for counts and ratios, "s" for seconds.
        measured: "converted" if the conversion alone gives it, "timed" if the model is run and timed for it.
        help: what it is, one or two sentences.
        of_source: the source has it, too.
    """

    name: str
    title: str
    unit: Literal["bytes", "", "s"]
    measured: Literal["converted", "timed"] = "converted"
    help: str = ""
    of_source: bool = True


METRICS = {
    metric.name: metric
    for metric in (
        Metric("bytes", "file size", "bytes",
               help="Size of the `.mnn` file with its companion files."),
        Metric("nodes", "nodes", "",
               help="Number of nodes, those of subgraphs included."),
        Metric("macs", "multiply-accumulates", "",
               help="Multiply-accumulates of one run, with 1 for a dynamic batch and 64 for other dynamic dimensions."),
        Metric("peak_memory", "peak memory", "bytes",
               help="Bytes of inputs and results that are needed at the same time, from their types; without weights."),
        Metric("max_error", "largest error", "", of_source=False,
               help="The smallest tolerance with which all outputs pass the verification: of each output the largest "
               "error as a fraction of its largest magnitude, and of these the largest. Without a `tolerance`, "
               "absolute errors below 2.4e-7 do not count, as in the verification."),
        Metric("latency", "latency / baseline", "", measured="timed", of_source=False,
               help="Median latency as a ratio to that of a baseline, timed in turns."),
    )
}  # fmt: skip


def shown(value: float, unit: str) -> str:
    """The value of a metric for people: sizes in kB, MB and GB of 1000."""
    if not isfinite(value):
        return str(value)
    if unit == "s":
        return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.1f} s"
    if unit != "bytes":
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.3g}"
    for name in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.0f} B" if name == "B" else f"{value:.2f} {name}"
        value /= 1000
    return f"{value:.2f} GB"
