"""OpenMetrics text, which GitLab compares between branches, and Prometheus reads."""

from __future__ import annotations

from itertools import count

from minnow.report.formats import report
from minnow.report.formats._text import exact, plain, title_of
from minnow.workflow.metric import METRICS
from minnow.workflow.result import STATUSES, Results


@report("openmetrics", "OpenMetrics text, for GitLab's metrics report and Prometheus", file="metrics.txt")
def openmetrics(results: Results) -> str:
    """A gauge for each metric, with the model and the variant as labels, and one for the status of each cell."""
    lines: list[str] = []
    labelled = list(zip(_labels(results), results.cells, strict=True))
    for metric in METRICS.values():
        samples = [(label, cell.metrics[metric.name]) for label, cell in labelled if metric.name in cell.metrics]
        if samples:
            unit = {"bytes": "_bytes", "s": "_seconds", "": ""}[metric.unit]
            name = f"minnow_{metric.name}"
            name += "" if name.endswith(unit) else unit
            lines += [f"# TYPE {name} gauge", f"# HELP {name} {_escaped(title_of(metric.name))}"]
            lines += [f"{name}{label} {_number(value)}" for label, value in samples]
    lines += [
        "# TYPE minnow_status gauge",
        f"# HELP minnow_status {', '.join(f'{i}: {s}' for i, s in enumerate(STATUSES))}",
    ]
    lines += [f"minnow_status{label} {STATUSES.index(cell.status)}" for label, cell in labelled]
    return "\n".join([*lines, "# EOF", ""])


def _labels(results: Results) -> list[str]:
    """The labels of each cell: two cells of equal names would be one series with two values, which no reader takes."""
    taken: set[tuple[str, str]] = set()
    labels = []
    for cell in results.cells:
        model, variant = _escaped(cell.model), _escaped(cell.variant)
        names = (f"{model} ({n})" if n > 1 else model for n in count(1))
        model = next(name for name in names if (name, variant) not in taken)
        taken.add((model, variant))
        labels.append(f'{{model="{model}",variant="{variant}"}}')
    return labels


def _escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := exact(value), text)
