"""Times several contestants in turns, each in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.run import RunOptions
from minnow.runtime.benchmark.contestant import CONTESTANTS
from minnow.runtime.benchmark.process import ContestantProcess
from minnow.schema.errors import MinnowError, ModelError, UsageError
from minnow.schema.extra import install

ONE_THREAD = RunOptions(threads=1)
"""What is timed by default: numbers that do not depend on how many processors there are."""

STARTS = 10
"""How often the processes are started anew for a ratio with an interval."""
ROUNDS = 6
"""Rounds of each start."""
SECONDS = 0.03
"""How long a contestant runs in a round by default, if 3 to 200 runs take as long."""
_FEWEST, _MOST = 3, 200

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Entry:
    """What is timed.

    Attributes:
        runtime: of `CONTESTANTS`.
        model: the file that the runtime reads.
        python: the interpreter of an environment that has the runtime and a build of Minnow; None for this one.
    """

    runtime: str
    model: Path
    python: Path | None = None

    def failure(self, role: str, why: str) -> MinnowError:
        """The error to raise if it does not run: `role` is "model" or "baseline"."""
        kind, _, text = why.partition(": ")
        if kind == "UsageError":
            hint = "the model and the baseline are timed on the same inputs: give some that fit both"
            why = text.partition("\n")[0]
            return UsageError(f"the {role} does not accept the inputs", where=str(self.model), why=why, hint=hint)
        return ModelError(f"the {role} does not run", where=str(self.model), why=why)


@dataclass(frozen=True)
class Baseline:
    """What a model is compared with: another file, another runtime, or another build of Minnow.

    Attributes:
        model: the file of the baseline. By default the model itself, or, for another runtime, the file beside it that
            the runtime reads.
        runtime: of `CONTESTANTS`.
        python: the interpreter of another environment, such as `base/bin/python`, with the build of Minnow to compare
            with; None for this one.
    """

    model: Path | None = None
    runtime: str = "minnow"
    python: Path | None = None

    def entry(self, model: Path) -> Entry:
        """What to time beside `model`.

        Raises:
            UsageError: the runtime is unknown or not installed, or there is no file for it.
        """
        if self.runtime not in CONTESTANTS:
            raise UsageError(f"unknown runtime '{self.runtime}'", hint=f"one of: {', '.join(CONTESTANTS)}")
        if self.python is None and not is_installed(self.runtime):
            hint = f"{install(CONTESTANTS[self.runtime].module)}, or omit {self.runtime}"
            raise UsageError(f"{self.runtime} is not installed", hint=hint)
        endings = CONTESTANTS[self.runtime].files
        if self.runtime == "minnow":
            path = self.model or model
        elif (found := _file(endings, model, self.model)) is not None:
            path = found
        else:
            raise UsageError(
                f"{self.runtime} needs a {endings[0]} file, and there is none beside the model",
                hint="name it with --source",
            )
        return Entry(self.runtime, path, self.python)

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        parts = ["" if self.runtime == "minnow" else self.runtime, str(self.model or ""), str(self.python or "")]
        return ", ".join(filter(None, parts)) or "itself"


def is_installed(name: str) -> bool:
    """Whether the package of a runtime is installed."""
    return importlib.util.find_spec(CONTESTANTS[name].module) is not None


class Turns:
    """Contestants that have loaded their models; see `turns`.

    Attributes:
        processes: of the entries, in their order. One with an error gives no more times.
        loaded: the answers to `ContestantProcess.load`.
        rounds: seconds of each run, by entry and round.
    """

    def __init__(
        self, processes: Sequence[ContestantProcess], loaded: Sequence[dict[str, Any]], order: Sequence[int]
    ) -> None:
        self.processes, self.loaded, self._order = processes, loaded, order
        self.rounds: list[list[list[float]]] = [[] for _ in processes]

    def sizes(self, rounds: int, seconds: float) -> list[int]:
        """Runs per round so that the slowest contestant takes so many seconds for a round: 3 to 200."""
        slowest = max(min(process.time(2, 1), default=seconds) for process in self.processes)
        return [max(_FEWEST, min(_MOST, round(seconds / max(slowest, 1e-9))))] * rounds

    def time(self, sizes: Sequence[int]) -> None:
        """Times rounds: in each, every contestant does so many runs, while the others are stopped.

        Every other round is in the reverse order, so that for two contestants (A B, B A) a machine that becomes slower
        does so for both. After a pause, runs that are not counted bring the model back to the caches.
        """
        several = len(self.processes) > 1
        for size in sizes:
            for i in self._order if len(self.rounds[0]) % 2 == 0 else reversed(self._order):
                warm_up = max(1, size // 4) if several or not self.rounds[i] else 0
                self.rounds[i].append(self.processes[i].time(size, warm_up))


@contextmanager
def turns(
    entries: Sequence[Entry],
    inputs: Arrays,
    outputs: Sequence[str],
    session: RunOptions,
    start: int = 0,
) -> Iterator[Turns]:
    """Starts a process for each entry, and ends them after the block.

    Args:
        entries: what to time.
        inputs: arrays by name, for all of them.
        outputs: names of the outputs.
        session: options of Minnow's sessions; number of threads and precision are those of other runtimes, too.
        start: how often they were started before. Every other time they begin in the reverse order.

    Raises:
        UsageError: an interpreter cannot be started, or has no build of Minnow that can time a model.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        data = os.path.join(folder, "inputs.npz")
        # By position: a name might be that of a parameter of savez.
        np.savez(data, *map(_plain, inputs.values()))
        environment = {}
        if any(entry.python is not None for entry in entries):
            # The measurements of this machine that `mnnconvert benchmark` keeps hold for one version only: a build that
            # has some and one that has none would choose different algorithms.
            environment["MINNOW_CALIBRATION"] = os.environ.get("MINNOW_CALIBRATION", "off")
        processes = []
        for entry in entries:
            process = ContestantProcess(entry.runtime, folder, entry.python, environment)
            stack.callback(process.close)
            processes.append(process)
        order = range(len(entries)) if start % 2 == 0 else range(len(entries))[::-1]
        loaded: dict[int, dict[str, Any]] = {}
        for i in order:
            entry, process = entries[i], processes[i]
            if entry.python is not None:
                _greet(process, entry.python)
            loaded[i] = process.load(entry.model, session, data, list(inputs), outputs)
            process.pause()
        yield Turns(processes, [loaded[i] for i in range(len(entries))], order)


def _greet(process: ContestantProcess, python: Path) -> None:
    """Raises UsageError unless the process of another interpreter answers as a worker of another build does."""
    answer = process.greet()
    if answer.get("folder") == os.path.dirname(os.path.realpath(__file__)):
        raise UsageError(
            "this Python interpreter has the same build of Minnow",
            where=str(python),
            why=f"both are in {answer['folder']}",
            hint="install the build to compare with in an environment of its own, not as editable",
        )
    if process.error:
        raise UsageError(
            "this Python interpreter cannot time a model",
            where=str(python),
            why=process.error,
            hint="install a build of Minnow in its environment",
        )


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Raw bytes if the type is not one of numpy's own, which np.load does not always read."""
    return array.view(np.dtype((np.void, array.dtype.itemsize))) if array.dtype.isbuiltin == 2 else array


def _file(endings: Sequence[str], model: Path, source: Path | None) -> Path | None:
    if source is not None and any(source.name.endswith(e) for e in endings):
        return source
    stem = model.name.removesuffix(".mnn")
    return next((p for e in endings if (p := model.with_name(stem + e)).exists()), None)
