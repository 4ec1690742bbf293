"""OpenMetrics text, which GitLab compares between branches, and Prometheus reads."""

from __future__ import annotations

from minnow.report.formats import report
from minnow.report.formats._text import exact, plain, title_of
from minnow.workflow.metric import METRICS
from minnow.workflow.result import STATUSES, Results


@report("openmetrics", "OpenMetrics text, for GitLab's metrics report and Prometheus", file="metrics.txt")
def openmetrics(results: Results) -> str:
    """A gauge for each metric, with the model and the variant as labels, and one for the status of each cell."""
    lines: list[str] = []
    for metric in METRICS.values():
        samples = [(cell, cell.metrics[metric.name]) for cell in results.cells if metric.name in cell.metrics]
        if samples:
            unit = {"bytes": "_bytes", "s": "_seconds", "": ""}[metric.unit]
            name = f"minnow_{metric.name}"
            name += "" if name.endswith(unit) else unit
            lines += [f"# TYPE {name} gauge", f"# HELP {name} {_escaped(title_of(metric.name))}"]
            lines += [f"{name}{_labels(cell.model, cell.variant)} {_number(value)}" for cell, value in samples]
    lines += [
        "# TYPE minnow_status gauge",
        f"# HELP minnow_status {', '.join(f'{i}: {s}' for i, s in enumerate(STATUSES))}",
    ]
    lines += [f"minnow_status{_labels(c.model, c.variant)} {STATUSES.index(c.status)}" for c in results.cells]
    return "\n".join([*lines, "# EOF", ""])


def _labels(model: str, variant: str) -> str:
    named = (("model", model), ("variant", variant))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in named) + "}"


def _escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := exact(value), text)
