"""The process of one contestant: it is asked for times, and stopped while others are timed.

The protocol is one JSON object per line in each direction; `worker.py` is the other side, which may be that of another
version of Minnow. Requests and their fields are therefore only ever added, never changed: a worker ignores fields that
it does not know, and answers `{}` to a request that it does not know.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minnow.options.run import RunOptions
from minnow.schema.errors import UsageError

_OWN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__")
"""Variables that would give another interpreter the packages of this one."""

_PATIENCE = 60.0
"""Seconds that the process of another interpreter has for its start."""


class ContestantProcess:
    """A Python process that runs a model in one runtime.

    Args:
        name: the runtime, of `CONTESTANTS`.
        folder: an empty folder, where it runs and writes its errors.
        python: the interpreter; None for this one.
        variables: of its environment, besides those of this process.

    Attributes:
        error: why it has no more answers; "" if it has.

    Raises:
        UsageError: the interpreter cannot be started.
    """

    def __init__(self, name: str, folder: str, python: Path | None, variables: Mapping[str, str]) -> None:
        self.name = name
        self.error = ""
        self._loading: dict[str, Any] = {}
        self._log = os.path.join(folder, f"{name}-{os.urandom(4).hex()}.log")
        command = [sys.executable if python is None else interpreter(python), "-m", "minnow.runtime.benchmark.worker"]
        environment = {**os.environ, **variables}
        if python is not None:
            for variable in _OWN:
                environment.pop(variable, None)
        with open(self._log, "w") as log:
            # A separate process: the worker imports only what its runtime needs. It runs in a folder of its own,
            # since `-m` finds packages in the current one first, which may be a checkout of another version.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
                env=environment,
            )  # fmt: skip

    def load(
        self, path: Path, options: RunOptions, data: str, inputs: Sequence[str], outputs: Sequence[str]
    ) -> dict[str, Any]:
        """Loads a model, and runs it once.

        Args:
            path: the model file.
            options: only those that differ from their defaults are sent, since an older build may not know all.
            data: an .npz file with the inputs in their order.
            inputs, outputs: their names.

        Returns:
            `version`, the seconds `load_s` and `first_s`, and the peak memory before, `idle_bytes`, which older builds
            do not report; {} after an error.
        """
        self._loading = {
            "do": "load", "name": self.name, "path": str(path.absolute()), "session": options.changed(), "data": data,
            "inputs": list(inputs), "outputs": list(outputs),
        }  # fmt: skip
        return self.load_again()

    def load_again(self) -> dict[str, Any]:
        """Loads the same model again, after the session before it is closed; the answer is that of `load`."""
        self.resume()
        return self.ask(**self._loading)

    def time(self, runs: int, warm_up: int) -> list[float]:
        """Runs the model while all other processes are stopped; the seconds of each of `runs` runs after warm-up."""
        self.resume()
        if warm_up:
            self.ask(do="time", runs=warm_up)
        samples: list[float] = self.ask(do="time", runs=runs).get("samples", [])
        self.pause()
        return samples

    def finish(self, profile_runs: int = 0) -> dict[str, Any]:
        """Ends the process, and returns `peak_bytes`, `memory` and `profile`: see `Timing`; {} after an error."""
        self.resume()
        return self.ask(do="finish", runs=profile_runs)

    def greet(self) -> dict[str, Any]:
        """Asks for the version of the protocol; another program than a worker may never answer."""
        return self.ask(_PATIENCE, do="hello")

    def ask(self, patience: float | None = None, **request: Any) -> dict[str, Any]:
        """Sends a request and waits for the answer, or for so many seconds.

        Returns:
            The answer; {} after an error, which is kept in `error`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.error:
            return {}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and may have said something before
        if patience is not None and not select.select([self._process.stdout], [], [], patience)[0]:
            self.error = f"it has not answered within {patience:g} s"
            return {}
        line = self._process.stdout.readline()
        try:
            answer = json.loads(line) if line else {"error": self._end()}
        except ValueError:
            answer = {"error": f"its answer is not one of a worker: {line[:80]!r}"}
        if not isinstance(answer, dict):
            answer = {"error": f"its answer is not one of a worker: {line[:80]!r}"}
        self.error = str(answer.get("error", ""))
        return {} if self.error else answer

    def pause(self) -> None:
        """Stops the process while others are timed: its idle threads may spin."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the process."""
        self.resume()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # a request that was never read

    def _end(self) -> str:
        """Why the process has ended: its last line on standard error, or its exit status."""
        try:
            status: int | None = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = None
        with open(self._log, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        if status is not None and status < 0:
            return f"its process was ended by signal {-status}" + (" (out of memory?)" if status == -9 else "")
        return f"its process has ended: {lines[-1][:300]}" if lines else f"its process has ended with status {status}"


def interpreter(python: Path) -> str:
    """The absolute path of an interpreter, links unresolved: that of a virtual environment is a link.

    Raises:
        UsageError: there is none.
    """
    found = shutil.which(python)
    if found is None:
        raise UsageError(
            "there is no such Python interpreter",
            where=str(python),
            hint="give the path of bin/python in an environment",
        )
    return os.path.abspath(found)
