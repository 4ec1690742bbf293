"""Times a model in one or several runtimes, interleaved, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.run import RunOptions
from minnow.runtime.benchmark.interval import Ratio, in_nanoseconds, ratio_of
from minnow.runtime.benchmark.turns import ONE_THREAD, ROUNDS, SECONDS, Arrays, Baseline, Entry, is_installed, turns

__all__ = ["ONE_THREAD", "Baseline", "Timing", "benchmark", "is_installed"]

_ROUNDS = 20
"""Rounds of a process that is started only once."""


@dataclass
class Timing:
    """The measurements of one runtime. Times are seconds; of inferences after warm-up, with arrays at `place`.

    Attributes:
        name: the runtime, or "baseline".
        version: its version; of another build of Minnow, that build's.
        model: the file that it runs.
        python: the interpreter, if it is not this one.
        load_s, first_s: time to load the model, and of the first inference after that; medians over the starts.
        starts: how often the process was started; each start has its own load and rounds.
        min_s, median_s, p90_s, p99_s: minimum, median and percentiles of the time of one inference.
        place: where the arrays lie: "host", or a device such as "cuda:0".
        host_s: the median time from host arrays to host arrays, if `place` is a device.
        peak_bytes: peak memory of the process, the largest of all starts.
        ratio: this runtime's time divided by that of the first timing, from the rounds: see `ratio_of`.
        ratio_low, ratio_high: the ends of its interval of 95 % confidence; None for the first timing, and with fewer
            than 6 starts.
        samples: the times of all inferences, by start and round; a round of all timings was measured at about the same
            time.
        profile: one row per node: name, op, scheme, ms, macs, bytes.
        comparison: of the first timing with the baseline, if there is one: `baseline` (what it is), `ratio` (the
            model's time divided by that of the baseline), `low`, `high` and `verdict`.
        limits: operations and bytes per second that the processor can reach, if the profile is compared with them.
        memory: the memory that the runtime itself reports, in bytes by name.
        error: why there are no measurements.
    """

    name: str
    version: str = ""
    model: str = ""
    python: str = ""
    load_s: float = 0.0
    first_s: float = 0.0
    starts: int = 1
    min_s: float = 0.0
    median_s: float = 0.0
    p90_s: float = 0.0
    p99_s: float = 0.0
    place: str = "host"
    host_s: float = 0.0
    peak_bytes: int = 0
    ratio: float = 1.0
    ratio_low: float | None = None
    ratio_high: float | None = None
    samples: list[list[list[float]]] = field(default_factory=list)
    comparison: dict[str, Any] = field(default_factory=dict)
    profile: list[dict[str, Any]] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values; the samples rounded to nanoseconds."""
        return {**asdict(self), "samples": in_nanoseconds(self.samples)}


def benchmark(
    model: Path,
    inputs: Arrays,
    outputs: Sequence[str],
    *,
    baseline: Baseline | None = None,
    against: Sequence[str] = (),
    source: Path | None = None,
    session: RunOptions = ONE_THREAD,
    runs: int | None = 50,
    starts: int = 1,
    profile_runs: int = 0,
) -> list[Timing]:
    """Times the model, a baseline, and the same model in other runtimes.

    Args:
        model: the `.mnn` file.
        inputs: arrays by name, for all of them.
        outputs: names of the outputs.
        baseline: another file, or another build of Minnow.
        against: names of other runtimes, of `CONTESTANTS`.
        source: model for the runtimes that do not read `.mnn`; by default the file beside `model` with their suffix.
        session: options of Minnow's session; number of threads and precision are those of the other runtimes, too.
        runs: timed inferences per runtime; None for as many as take 0.2 s per start of a process, but from 18 to 1200.
        starts: how often the processes are started; at most `runs`. From 6 on, ratios have an interval.
        profile_runs: inferences to profile Minnow with; 0: no profile.

    Returns:
        The timings: Minnow's, that of the baseline if there is one, and those of other runtimes.

    Raises:
        UsageError: a runtime or interpreter is unknown or not installed, or has no file to run; or the inputs do not
            fit the baseline.
        ModelError: the baseline does not run.
    """
    others = [Baseline(source, name).entry(model) for name in against]
    entries = [Entry("minnow", model), *([baseline.entry(model)] if baseline else []), *others]
    timings = [Timing(e.runtime, model=str(e.model), python=str(e.python or "")) for e in entries]
    starts = starts if runs is None else min(starts, runs)
    answers: list[list[dict[str, Any]]] = [[] for _ in timings]
    for start in range(starts):
        own = None if runs is None else runs // starts + (start < runs % starts)
        with turns(entries, inputs, outputs, session, start) as taken:
            if baseline and taken.processes[1].error and not taken.processes[0].error:
                raise entries[1].failure("baseline", taken.processes[1].error)
            taken.time(taken.sizes(ROUNDS, SECONDS) if own is None else _split(own, ROUNDS if starts > 1 else _ROUNDS))
            for i, (timing, process) in enumerate(zip(timings, taken.processes, strict=True)):
                last = process.finish(profile_runs if i == 0 and start == starts - 1 else 0)
                answers[i].append({**taken.loaded[i], **last})
                timing.samples.append(taken.rounds[i])
                timing.error = timing.error or process.error
        if timings[0].error or (len(timings) == 2 and timings[1].error):
            break
    for timing, found in zip(timings, answers, strict=True):
        _summarize(timing, found, timings[0])
    if baseline:
        timings[1].name = "baseline"
        ratio = Ratio(timings[1].ratio, timings[1].ratio_low, timings[1].ratio_high).inverse()
        timings[0].comparison = {"baseline": baseline.name, **ratio.as_dict()}
    return timings


def _split(runs: int, rounds: int) -> list[int]:
    """The runs of each round, all about the same."""
    rounds = min(runs, rounds)
    return [runs // rounds + (i < runs % rounds) for i in range(rounds)]


def _summarize(timing: Timing, answers: Sequence[dict[str, Any]], anchor: Timing) -> None:
    """Sets the figures from the samples, and from what the process has answered in each start."""
    timing.starts = len(answers)
    timing.version, timing.profile = answers[0].get("version", ""), answers[-1].get("profile", [])
    timing.memory = answers[-1].get("memory", {})
    timing.place, timing.host_s = answers[-1].get("place", "host"), answers[-1].get("host_s", 0.0)
    timing.peak_bytes = max(answer.get("peak_bytes", 0) for answer in answers)
    timing.load_s, timing.first_s = (
        statistics.median(answer.get(name, 0.0) for answer in answers) for name in ("load_s", "first_s")
    )
    samples = sorted(s for start in timing.samples for r in start for s in r)
    if timing.error or not samples:
        return
    timing.min_s, timing.median_s = samples[0], statistics.median(samples)
    timing.p90_s, timing.p99_s = (float(np.quantile(samples, q)) for q in (0.9, 0.99))
    if timing is not anchor and not anchor.error:
        timing.ratio, timing.ratio_low, timing.ratio_high = ratio_of(timing.samples, anchor.samples)
