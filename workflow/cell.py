"""A cell: one model in one variant, with everything that its conversion needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where something is said: a file, relative to the configuration file's folder, and a line of it, from 1."""

    file: str = ""
    line: int = 1


@dataclass(frozen=True)
class Budget:
    """The largest value of a metric that passes.

    Attributes:
        metric: name of a metric, of `minnow.workflow.metric.METRICS`.
        limit: in the unit of the metric, or a fraction of the source's; for latency the largest ratio to the baseline.
        baseline: what a latency is compared with: a `.mnn` file, or the name of a runtime; "" for other metrics, or
            if it is the same file in another build of Minnow.
        python: the interpreter of an environment with that build; "" for this one.
        threads: of both sides of a latency.
        retries: how many times a breach is measured again before it counts.
        relative: the limit is a fraction of the metric of the source.
    """

    metric: str
    limit: float
    baseline: str = ""
    retries: int = 2
    python: str = ""
    threads: int = 1
    relative: bool = False


@dataclass(frozen=True)
class Limits:
    """Limits of the process that converts one cell: seconds of wall time, bytes of memory. None: no limit."""

    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model in one variant.

    Attributes:
        model, variant: their names in the configuration; together they are unique.
        source: path of the model, relative to the current folder, or a URL.
        output: path of the `.mnn` file to write.
        options: the options of the conversion that differ from their defaults, by the names of the fields of
            `ConvertOptions`, with values that JSON has.
        budgets: limits of metrics.
        limits: limits of the conversion.
        place: where the configuration says it.
        excluded: the reason why it is left out; "" if it is not.
    """

    model: str
    variant: str
    source: str
    output: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    limits: Limits = field(default_factory=Limits)
    place: Place = field(default_factory=Place)
    excluded: str = ""

    @property
    def name(self) -> str:
        """The name in reports: "model" or "model/variant"."""
        return f"{self.model}/{self.variant}" if self.variant else self.model

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Cell:
        """The cell of `as_dict`."""
        more = {
            "budgets": tuple(Budget(**b) for b in values.get("budgets", ())),
            "limits": Limits(**values.get("limits", {})),
            "place": Place(**values.get("place", {})),
        }
        return cls(**{**values, **more})
