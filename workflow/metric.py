"""The metrics of a cell: what budgets limit, and reports show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number that is better when it is smaller.

    Attributes:
        name: in configurations and reports.
        title: in tables.
        unit: "bytes", "" for counts and ratios, "s" for seconds.
        measured: "converted" if the conversion alone gives it, "timed" if the model is run and timed for it.
    """

    name: str
    title: str
    unit: Literal["bytes", "", "s"]
    measured: Literal["converted", "timed"] = "converted"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("bytes", "file size", "bytes"),
        Metric("nodes", "nodes", ""),
        Metric("macs", "multiply-accumulates", ""),
        Metric("peak_memory", "peak memory", "bytes"),
        Metric("max_error", "largest error", ""),
        Metric("latency", "latency / baseline", "", measured="timed"),
    )
}
