"""Functions in child processes with limits of time and memory; whatever happens in one, the caller goes on.

    with Children() as children:
        outcome = children.call("minnow.workflow.convert_cell:convert_cell", cell.as_dict(), limits=Limits(seconds=60))

A `Child` keeps one process, the supervisor (`supervisor.py`), which has imported what conversions need and forks for
each call. All of it ends when the process that made it ends, also by `kill -9`: the supervisor sees its pipe end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from minnow.schema.errors import InternalError
from minnow.workflow.cell import Cell, Limits
from minnow.workflow.result import CellResult, Check

PRELOAD = (
    "minnow.convert", "minnow.converter.onnx.reader", "minnow.converter.tflite.reader",
    "minnow.optimizer.pipeline", "minnow.optimizer.passes", "minnow.optimizer.layout.assign", "minnow.optimizer.effect",
    "minnow.schema.mnn.encoder", "minnow.runtime.session", "minnow.runtime.verify.verification",
    "minnow.runtime.verify.onnx_runtime", "minnow.runtime.verify.lite_rt", "numpy.random", "difflib",
    "minnow.converter.file.wire", "minnow.converter.formats.caffe", "minnow.converter.formats.tensorflow",
    "minnow.converter.formats.torch", "onnxruntime", "ai_edge_litert.interpreter", "minnow.workflow.warm:warm_up",
)  # fmt: skip
"""What is imported, or called, once for all children: what most conversions need. The rest comes where it is needed."""

Ended = Literal["done", "error", "out-of-memory", "stopped", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        items: the result of the function, JSON values: one, or for a generator as many as it gave before its end.
        ended: done; error, an exception; out-of-memory, stopped (by its time limit), crashed (a signal, an exit code).
        message: of the exception or the signal.
        log: the end of what it has printed.
        signal: number of the signal that ended it; 0 for none.
        seconds: wall time. cpu: processor time. memory: largest resident memory in bytes.
    """

    items: tuple[Any, ...]
    ended: Ended
    message: str = ""
    log: str = ""
    signal: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0


class Child:
    """Runs functions one after the other, each in a process of its own.

    Args:
        preload: modules that are imported once for all calls, and functions in them that are called.
    """

    def __init__(self, preload: Sequence[str] = PRELOAD) -> None:
        self._preload = preload
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self, function: str, *args: Any, limits: Limits | None = None, scratch: str = "", cores: Sequence[int] = ()
    ) -> Outcome:
        """Calls a function in a new process.

        Args:
            function: "module:name", importable. args: JSON values.
            limits: of time, for each item of a generator, and of memory.
            scratch: a folder for temporary files, which is removed if this process ends meanwhile.
            cores: the processors that it may use; by default all.
        """
        limits = limits or Limits()
        request = {
            "function": function, "args": args, "seconds": limits.seconds, "memory": limits.memory,
            "scratch": scratch, "cores": list(cores),
        }  # fmt: skip
        with self._lock:
            if self._closed:
                return Outcome((), "stopped", "the run was ended")
            line = self._exchange(json.dumps(request).encode() + b"\n")
            if line:
                answer = json.loads(line)
                known = {name: answer[name] for name in Outcome.__dataclass_fields__ if name in answer}
                return Outcome(**{**known, "items": tuple(answer["items"])})
            code = self._end()
            if self._closed:
                return Outcome((), "stopped", "the run was ended")
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome((), "crashed", f"the supervisor of the child process has ended: {why}", signal=max(-code, 0))

    def start(self) -> None:
        """Starts the imports, which the first call would wait for."""
        with self._lock:
            self._start()

    def close(self) -> None:
        """Ends a running call, and the supervisor."""
        self._closed = True
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is None or process.poll() is not None:
            answers, end = os.pipe()
            requests, start = os.pipe()
            # Python looks for modules in the current folder first, which may be the model's.
            program = (
                "import sys\nif sys.path[0] == '': del sys.path[0]\n"
                f"from minnow.workflow.supervisor import main\nmain({requests}, {end}, {','.join(self._preload)!r})"
            )
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=(requests, end)
                )
            except OSError as e:
                for descriptor in (answers, start):
                    os.close(descriptor)
                raise InternalError("cannot start a child process", why=e.strerror or str(e)) from None
            finally:
                os.close(requests)
                os.close(end)
            process.stdin = os.fdopen(start, "wb", 0)
            process.stdout = os.fdopen(answers, "rb")
            self._process = process
        return process

    def _exchange(self, request: bytes) -> bytes:
        """The answer to a request; b"" if the supervisor has ended."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            line = process.stdout.readline()
        except (OSError, ValueError):  # also closed by another thread
            return b""
        return line if line.endswith(b"\n") else b""

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


class Children:
    """Children for several threads: each call takes a free one, or makes one. Thread-safe."""

    def __init__(self, preload: Sequence[str] = PRELOAD) -> None:
        self._preload = preload
        self._free: list[Child] = []
        self._all: list[Child] = []
        self._lock = threading.Lock()

    def call(self, function: str, *args: Any, **more: Any) -> Outcome:
        """As `Child.call`."""
        with self._taken() as child:
            return child.call(function, *args, **more)

    def start(self, count: int) -> None:
        """Lets so many children import at the same time, before they are needed."""
        children = [Child(self._preload) for _ in range(count)]
        with self._lock:
            self._free += children
            self._all += children
        for child in children:
            child.start()

    def close(self) -> None:
        """Ends all calls and processes."""
        with self._lock:
            children, self._all, self._free = self._all, [], []
        for child in children:
            child.close()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _taken(self) -> Iterator[Child]:
        with self._lock:
            if self._free:
                child = self._free.pop()
            else:
                child = Child(self._preload)
                self._all.append(child)
        try:
            yield child
        finally:
            with self._lock:
                if child in self._all:
                    self._free.append(child)


_RULES: dict[Ended, str] = {
    "error": "internal-error",
    "out-of-memory": "out-of-memory",
    "stopped": "stopped",
    "crashed": "crashed",
}
_SAID: dict[Ended, str] = {
    "error": "the conversion has failed",
    "out-of-memory": "the conversion needs more memory than it may use",
    "stopped": "the conversion was stopped",
    "crashed": "the process of the conversion has ended without a result",
}


def failed_result(cell: Cell, outcome: Outcome) -> CellResult:
    """The result of a cell whose process gave none."""
    limits, limit = cell.limits, ""
    if outcome.ended == "stopped" and limits.seconds is not None:
        limit = f"its limit is {limits.seconds:g} s"
    if outcome.ended == "out-of-memory" and limits.memory is not None:
        limit = f"its limit is {limits.memory >> 20} MiB"
    why = "; ".join(filter(None, [limit, outcome.message]))
    message = _SAID[outcome.ended] + (f": {why}" if why else "")
    check = Check(
        "convert", "error", _RULES[outcome.ended], message, details=outcome.log[-4000:], seconds=outcome.seconds
    )
    return CellResult(
        model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, place=cell.place,
        checks=(check,), seconds={"process": outcome.seconds}, log=outcome.log,
    )  # fmt: skip
