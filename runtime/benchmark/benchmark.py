"""Times a model in one or several runtimes, interleaved, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.run import RunOptions
from minnow.runtime.benchmark.contestant import CONTESTANTS
from minnow.schema.errors import UsageError

_ROUNDS = 5

ONE_THREAD = RunOptions(threads=1)
"""What is timed by default: numbers that do not depend on how many processors there are."""


@dataclass
class Timing:
    """The measurements of one runtime. Times are seconds; of inferences after warm-up, from host arrays to host arrays.

    Attributes:
        load_s, first_s: time to load the model, and of the first inference after that.
        median_s, p90_s, p99_s: median and percentiles of the time of one inference.
        peak_bytes: peak memory of the process.
        ratio: this runtime's time divided by Minnow's: the median over the rounds of the ratio of medians.
        profile: one row per node: name, op, scheme, ms, macs, bytes.
        limits: operations and bytes per second that the processor can reach, if the profile is compared with them.
        memory: the memory that the runtime itself reports, in bytes by name.
        error: why there are no measurements.
    """

    name: str
    version: str = ""
    load_s: float = 0.0
    first_s: float = 0.0
    median_s: float = 0.0
    p90_s: float = 0.0
    p99_s: float = 0.0
    peak_bytes: int = 0
    ratio: float = 1.0
    profile: list[dict[str, Any]] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    error: str = ""


class _Worker:
    def __init__(self, name: str) -> None:
        self.timing = Timing(name)
        self.rounds: list[list[float]] = []
        # A separate Python process: the worker imports only what its runtime needs.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "minnow.runtime.benchmark.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.timing.error:
            return {}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "its process has ended"}
        self.timing.error = answer.get("error", "")
        return answer

    def pause(self) -> None:
        """Stops the process while others are timed: its idle threads may spin."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.resume()
        self._process.kill()
        self._process.wait()


def benchmark(
    model: Path,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    outputs: Sequence[str],
    *,
    against: Sequence[str] = (),
    source: Path | None = None,
    session: RunOptions = ONE_THREAD,
    runs: int = 50,
    profile_runs: int = 0,
) -> list[Timing]:
    """Times the model, and the same model in other runtimes.

    Args:
        model: the `.mnn` file.
        inputs: arrays by name.
        outputs: names of the outputs.
        against: names of other runtimes, of `CONTESTANTS`.
        source: model for the runtimes that do not read `.mnn`; by default the file beside `model` with their suffix.
        session: options of Minnow's session; number of threads and precision are those of the other runtimes, too.
        runs: timed inferences per runtime, in rounds.
        profile_runs: inferences to profile Minnow with; 0: no profile.

    Returns:
        The timings, Minnow's first.

    Raises:
        UsageError: a runtime is unknown or not installed, or has no file to run.
    """
    plan = [("minnow", model)]
    for name in against:
        if name not in CONTESTANTS:
            raise UsageError(f"unknown runtime '{name}'", hint=f"one of: {', '.join(CONTESTANTS)}")
        if not is_installed(name):
            raise UsageError(f"{name} is not installed", hint=f"install it, or omit {name} from --against")
        path = _file(CONTESTANTS[name].files, model, source)
        if path is None:
            ending = CONTESTANTS[name].files[0]
            raise UsageError(
                f"{name} needs a {ending} file, and there is none beside the model", hint="name it with --source"
            )
        plan.append((name, path))
    workers = [_Worker(name) for name, _ in plan]
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "inputs.npz")
        # By position: a name might be that of a parameter of savez.
        np.savez(data, *map(_plain, inputs.values()))
        try:
            for worker, (name, path) in zip(workers, plan, strict=True):
                answer = worker.ask(do="load", name=name, path=str(path), session=vars(session), data=data,
                                    inputs=list(inputs), outputs=list(outputs))  # fmt: skip
                worker.timing.version = answer.get("version", "")
                worker.timing.load_s, worker.timing.first_s = answer.get("load_s", 0.0), answer.get("first_s", 0.0)
                worker.pause()
            for _ in range(_ROUNDS):
                for worker in workers:
                    worker.resume()
                    worker.ask(do="time", runs=max(1, runs // (4 * _ROUNDS)))  # warm up after the pause
                    answer = worker.ask(do="time", runs=max(1, -(-runs // _ROUNDS)))
                    worker.rounds.append(answer.get("samples", []))
                    worker.pause()
            for worker in workers:
                worker.resume()
                own = worker.timing.name == "minnow"
                answer = worker.ask(do="finish", runs=profile_runs if own else 0)
                worker.timing.peak_bytes = answer.get("peak_bytes", 0)
                worker.timing.profile = answer.get("profile", [])
                worker.timing.memory = answer.get("memory", {})
        finally:
            for worker in workers:
                worker.close()
    for worker in workers:
        _summarize(worker, workers[0])
    return [w.timing for w in workers]


def is_installed(name: str) -> bool:
    """Whether the package of a runtime is installed."""
    return importlib.util.find_spec(CONTESTANTS[name].module) is not None


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Raw bytes if the type is not one of numpy's own, which np.load does not always read."""
    return array.view(np.dtype((np.void, array.dtype.itemsize))) if array.dtype.isbuiltin == 2 else array


def _file(endings: Sequence[str], model: Path, source: Path | None) -> Path | None:
    if source is not None and any(source.name.endswith(e) for e in endings):
        return source
    stem = model.name.removesuffix(".mnn")
    return next((p for e in endings if (p := model.with_name(stem + e)).exists()), None)


def _summarize(worker: _Worker, anchor: _Worker) -> None:
    timing = worker.timing
    samples = sorted(s for r in worker.rounds for s in r)
    if timing.error or not samples:
        return
    timing.median_s = statistics.median(samples)
    timing.p90_s, timing.p99_s = (float(np.quantile(samples, q)) for q in (0.9, 0.99))
    pairs = [(a, b) for a, b in zip(worker.rounds, anchor.rounds, strict=True) if a and b]
    if pairs:
        timing.ratio = statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)
