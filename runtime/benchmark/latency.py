"""Compares the latency of a model with that of a baseline, so that a limit can be put on the ratio."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minnow.options.run import RunOptions
from minnow.runtime.benchmark.contestant import CONTESTANTS
from minnow.runtime.benchmark.interval import LEAST_STARTS, Ratio, Verdict, in_nanoseconds, ratio_of
from minnow.runtime.benchmark.process import ContestantProcess
from minnow.runtime.benchmark.turns import ONE_THREAD, ROUNDS, SECONDS, STARTS, Arrays, Baseline, Entry, turns
from minnow.schema.errors import UsageError


@dataclass(frozen=True)
class LatencyComparison:
    """The latency of a model divided by that of its baseline, compared with a limit.

    Attributes:
        baseline: what the model was compared with, in a few words.
        ratio: of the latencies, from all attempts: above 1, the model is slower than the baseline. See `ratio_of`.
        low, high: the ends of its interval of 95 % confidence.
        limit: the largest ratio allowed; infinity for none.
        breached: the whole interval is above the limit. After a breach there was another attempt, if one was allowed,
            and the interval is that of all attempts.
        attempts: how often it was measured.
        seconds, baseline_seconds: median latency of the model and of the baseline.
        version, baseline_version: of the runtimes.
        samples, baseline_samples: the seconds of each run, by start of the process and by round, over all attempts.
    """

    baseline: str
    ratio: float
    low: float
    high: float
    limit: float
    breached: bool
    attempts: int
    seconds: float
    baseline_seconds: float
    version: str = ""
    baseline_version: str = ""
    samples: list[list[list[float]]] = field(default_factory=list, repr=False)
    baseline_samples: list[list[list[float]]] = field(default_factory=list, repr=False)

    @property
    def inconclusive(self) -> bool:
        """Whether the limit is within the interval: the ratio may be above the limit, and may be below it."""
        return self.low <= self.limit < self.high

    @property
    def width(self) -> float:
        """Relative width of the interval: 0.04 for 1.00 to 1.04."""
        return self.high / self.low - 1

    @property
    def verdict(self) -> Verdict:
        """Whether the model is faster or slower than the baseline, whatever the limit."""
        return Ratio(self.ratio, self.low, self.high).verdict

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values; `limit` is None if there is none, the samples are rounded to nanoseconds."""
        values = asdict(self)
        for name in ("samples", "baseline_samples"):
            values[name] = in_nanoseconds(values[name])
        limit = None if math.isinf(self.limit) else self.limit
        return values | {
            "limit": limit,
            "inconclusive": self.inconclusive,
            "width": self.width,
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        text = f"{self.ratio:.3f} times the latency of {self.baseline} (95 %: {self.low:.3f} to {self.high:.3f})"
        if math.isinf(self.limit):
            return f"{text}: {self.verdict}"
        if self.breached:
            return f"{text}: above the limit of {self.limit:g}"
        if self.inconclusive:
            return f"{text}: inconclusive, the limit of {self.limit:g} is within the interval"
        return f"{text}: within the limit of {self.limit:g}"


def compare_latency(
    model: Path,
    baseline: Baseline,
    limit: float = math.inf,
    retries: int = 2,
    *,
    inputs: Arrays | None = None,
    session: RunOptions = ONE_THREAD,
    starts: int = STARTS,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Callable[[str], object] | None = None,
) -> LatencyComparison:
    """Times a model and a baseline in turns, and compares the ratio of their latencies with a limit.

    An attempt starts the processes of both several times, and its samples are added to those of the earlier attempts.
    There is another attempt as long as the interval is above the limit or contains it, up to `retries` times; a breach
    is final when it has been found after two attempts in a row.

    Args:
        model: the `.mnn` file.
        baseline: another `.mnn` file, another runtime with its file, or another build of Minnow.
        limit: the largest ratio of the model's latency to that of the baseline; 1.05 allows 5 % more.
        retries: attempts after the first one.
        inputs: arrays by name, for the model and the baseline; by default random ones, with 1 for dynamic dimensions.
        session: options of both sessions; other runtimes use the number of threads and the precision.
        starts: how often one attempt starts both processes, at least 6.
        rounds: rounds of each start.
        seconds: the time that each of the two runs in a round; a round has 3 to 200 runs.
        progress: called before each attempt with a short text.

    Returns:
        The comparison. A breach is not an error here: the caller reports it.

    Raises:
        UsageError: an argument is wrong; the runtime or interpreter is missing; or the inputs do not fit the baseline.
        ModelError: the model or the baseline does not run.
    """
    if not limit > 0:
        raise UsageError(f"the limit of the ratio is {limit!r}", hint="give a number above 0, such as 1.05")
    if starts < LEAST_STARTS or rounds < 1 or retries < 0:
        why = f"starts is {starts}, rounds is {rounds}, retries is {retries}"
        hint = f"at least {LEAST_STARTS} starts, 1 round, and 0 retries"
        raise UsageError("too few starts, rounds or retries", why=why, hint=hint)
    if inputs is None:
        from minnow.runtime.verify.samples import random_inputs

        inputs = random_inputs(model)
    measurement = _Measurement([Entry("minnow", model), baseline.entry(model)], inputs, session)
    breaches = 0
    for attempt in range(1, retries + 2):
        if progress is not None:
            progress(f"{baseline.name}: attempt {attempt}")
        measurement.add(starts, rounds, seconds)
        found = measurement.comparison(baseline.name, limit, attempt)
        breaches = breaches + 1 if found.breached else 0
        if breaches == 2 or not (found.breached or found.inconclusive):
            break
    return found


class _Measurement:
    """The samples of several attempts."""

    def __init__(self, entries: Sequence[Entry], inputs: Arrays, session: RunOptions) -> None:
        self.entries, self.inputs, self.session = entries, inputs, session
        self.samples: list[list[list[list[float]]]] = [[], []]
        self.versions = ["", ""]
        self.outputs: list[str] = []
        if any(CONTESTANTS[entry.runtime].needs_names for entry in entries):
            from minnow.runtime.session import load

            self.outputs = [o.name for o in load(entries[0].model, threads=1).outputs]

    def add(self, starts: int, rounds: int, seconds: float) -> None:
        """Another attempt."""
        for _ in range(starts):
            with turns(self.entries, self.inputs, self.outputs, self.session, len(self.samples[0])) as taken:
                self._check(taken.processes)
                self.versions = [str(answer.get("version", "")) for answer in taken.loaded]
                taken.time(taken.sizes(rounds, seconds))
                self._check(taken.processes)
            for samples, new in zip(self.samples, taken.rounds, strict=True):
                samples.append(new)

    def comparison(self, name: str, limit: float, attempts: int) -> LatencyComparison:
        value, low, high = ratio_of(*self.samples)
        assert low is not None
        assert high is not None
        own, other = (statistics.median(s for start in samples for r in start for s in r) for samples in self.samples)
        return LatencyComparison(
            name, value, low, high, limit, low > limit, attempts, own, other, self.versions[0], self.versions[1],
            self.samples[0], self.samples[1],
        )  # fmt: skip

    def _check(self, processes: Sequence[ContestantProcess]) -> None:
        for role, entry, process in zip(("model", "baseline"), self.entries, processes, strict=True):
            if process.error:
                raise entry.failure(role, process.error)
