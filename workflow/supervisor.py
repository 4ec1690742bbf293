"""The program that runs functions in child processes, for `minnow.workflow.child`: one child at a time, by `fork`.

It has imported what conversions need, so that a child starts in milliseconds. It has no threads of its own, and forks
only while those that libraries have started are asleep. It reads requests from a pipe, a line of JSON each, and answers
each by a line. When that pipe ends, its parent has ended: it stops the child with all its processes, removes the
scratch folder, and ends. If it is killed itself, the kernel kills the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

LOG_BYTES = 64 << 10
"""The end of what a child prints that is kept."""
_WATCH = 0.02
"""Seconds between two looks at the memory of a child."""
_GRACE = 2.0
"""Seconds that a stopped child has for removing its temporary files."""
_STACKS = 256 << 20
"""Address space for the stacks of threads, which counts as data although hardly any of it is used."""
_SET_DEATH_SIGNAL = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def main(requests: int, answers: int, modules: str) -> None:
    """Serves requests until the pipe ends.

    Args:
        requests, answers: descriptors of the two pipes.
        modules: names of modules to import, or of functions in them to call, with commas.
    """
    for signal_ in (signal.SIGINT, signal.SIGHUP):  # of the terminal: the parent decides
        signal.signal(signal_, signal.SIG_IGN)
    for name in filter(None, modules.split(",")):
        module, _, function = name.partition(":")
        with contextlib.suppress(Exception):  # a package that is not installed: its user says so
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    gc.collect()
    gc.freeze()  # pages that the collector does not touch stay shared with the children
    pending = b""
    while True:
        while b"\n" not in pending:
            more = os.read(requests, 1 << 16)
            if not more:
                return
            pending += more
        line, _, pending = pending.partition(b"\n")
        with _Child(json.loads(line), requests, answers) as child:
            answer = child.watched()
        if answer is None:
            return
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(answers, data) :]


class _Child:
    """One request, and the process for it."""

    def __init__(self, request: dict[str, Any], requests: int, answers: int) -> None:
        self._request = request
        self._requests = requests
        self._log, self._items = bytearray(), bytearray()
        self._ended = ""
        self._term: float | None = None
        self._kills = _kernel_kills()
        self._begin = self._last = time.monotonic()
        log, self._log_end = os.pipe()
        items, self._items_end = os.pipe()
        self._pipes = {log: self._log, items: self._items}
        _let_threads_sleep()
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (requests, answers, log, items):
                os.close(descriptor)
            self._run()
        os.close(self._log_end)
        os.close(self._items_end)
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)
        self._handle = os.pidfd_open(self.pid)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *exc: object) -> None:
        for descriptor in (*self._pipes, self._handle):
            os.close(descriptor)

    def _run(self) -> NoReturn:
        """What the child does."""
        code = 70
        try:
            _die_with_parent()
            os.setpgid(0, 0)
            for signal_ in (signal.SIGINT, signal.SIGHUP):
                signal.signal(signal_, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self._log_end, 1)
            os.dup2(self._log_end, 2)
            if scratch := self._request.get("scratch"):
                os.environ["TMPDIR"] = scratch
            if cores := self._request.get("cores"):
                os.sched_setaffinity(0, cores)
            _limit(self._request.get("memory"))
            for item in _items(self._request):
                _write(self._items_end, {"item": item})
            code = 0
        except MemoryError as e:
            _write(self._items_end, {"memory": str(e) or "MemoryError"})
            code = 71
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
        except BaseException as e:  # noqa: BLE001  # the parent says what it was
            traceback.print_exc()
            _write(self._items_end, {"error": f"{type(e).__name__}: {e}"})
            code = 70
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code & 0xFF)

    def watched(self) -> dict[str, Any] | None:
        """What became of the child; None if the parent has ended."""
        poll = select.poll()
        for descriptor in (*self._pipes, self._handle):
            poll.register(descriptor, select.POLLIN)
        poll.register(self._requests, 0)  # only its end
        most, rounds = self._request.get("memory"), 0
        while True:
            events = dict(poll.poll(1000 * (_WATCH if most or self._term else min(0.5, self._left()))))
            if events.get(self._requests, 0) & (select.POLLHUP | select.POLLERR):
                self._abandon()
                return None
            for descriptor in self._pipes.keys() & events.keys():
                self._receive(descriptor, poll)
            if self._handle in events:
                break
            self._check_time()
            rounds += 1
            if most and not self._ended and _memory(self.pid, deep=rounds % 10 == 0) > most:
                self._ended = "out-of-memory"
                _kill(self.pid, signal.SIGKILL)
        _kill(self.pid, signal.SIGKILL)  # what it has started, and left
        _, status, usage = os.wait4(self.pid, 0)
        for descriptor in self._pipes:
            os.set_blocking(descriptor, False)
            while self._receive(descriptor, None):
                pass
        return self._answer(status, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)

    def _left(self) -> float:
        seconds = self._request.get("seconds")
        return 0.5 if seconds is None else max(0.001, self._last + seconds - time.monotonic())

    def _check_time(self) -> None:
        now, seconds = time.monotonic(), self._request.get("seconds")
        if self._term is not None:
            if now > self._term + _GRACE:
                _kill(self.pid, signal.SIGKILL)
        elif seconds is not None and now > self._last + seconds:
            self._ended, self._term = self._ended or "stopped", now
            _kill(self.pid, signal.SIGTERM)

    def _receive(self, descriptor: int, poll: Any) -> bool:
        """Takes what a pipe has; whether there may be more."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        if not data and poll is not None:
            poll.unregister(descriptor)
        kept = self._pipes[descriptor]
        kept += data
        if kept is self._items and b"\n" in data:
            self._last = time.monotonic()  # the limit of time is one of each item
        if kept is self._log and len(kept) > 2 * LOG_BYTES:
            del kept[:-LOG_BYTES]
        return bool(data)

    def _abandon(self) -> None:
        _kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)
        if scratch := self._request.get("scratch"):
            shutil.rmtree(scratch, ignore_errors=True)

    def _answer(self, status: int, peak: int, cpu: float) -> dict[str, Any]:
        signal_ = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
        said = [json.loads(line) for line in bytes(self._items).split(b"\n")[:-1]]
        items = [one["item"] for one in said if "item" in one]
        last: dict[str, Any] = next((one for one in said if "item" not in one), {})
        log = bytes(self._log[-LOG_BYTES:]).decode("utf-8", "replace")
        ended, message = self._ended, ""
        if not ended:
            ended, message = self._cause(signal_, code, last, log)
        return {
            "items": items, "ended": ended, "message": message, "log": log, "signal": signal_, "code": code,
            "seconds": time.monotonic() - self._begin, "memory": peak, "cpu": cpu,
        }  # fmt: skip

    def _cause(self, signal_: int, code: int, last: dict[str, Any], log: str) -> tuple[str, str]:
        if "memory" in last:
            return "out-of-memory", last["memory"]
        if "error" in last:
            return "error", last["error"]
        if signal_ == signal.SIGKILL and _kernel_kills() > self._kills:
            return "out-of-memory", "the system has killed the process, since its memory was used up"
        if signal_ == signal.SIGABRT and ("bad_alloc" in log or "MemoryError" in log):
            return "out-of-memory", "std::bad_alloc"
        if signal_:
            return "crashed", f"signal {signal_} ({signal.Signals(signal_).name})"
        return ("crashed", f"exit code {code}") if code else ("done", "")


def _items(request: dict[str, Any]) -> Iterator[Any]:
    """What the function gives: one value, or those of a generator."""
    module, _, name = request["function"].partition(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    result = function(*request["args"])
    if isinstance(result, Iterator):
        yield from result
    else:
        yield result


def _write(descriptor: int, value: Any) -> None:
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _die_with_parent() -> None:
    parent = os.getppid()
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        os._exit(1)


def _limit(memory: int | None) -> None:
    """Lets allocations beyond the limit fail, which libraries report better than a killed process does.

    Only data counts, not the address space: mapped files and what allocators reserve for threads are no memory in use.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        most = memory + _STACKS + _data_bytes()
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    """Bytes of data that this process has mapped, after the imports."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/self/status", encoding="utf-8") as file:
            line = next(row for row in file if row.startswith("VmData:"))
        return int(line.split()[1]) * 1024
    return 0


def _memory(pid: int, deep: bool) -> int:
    """Bytes of memory of a process that are no part of a file; with `deep`, of those that it has started, too."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        size = Path(f"/proc/{pid}/statm").read_text().split()
        total = (int(size[1]) - int(size[2])) * _PAGE
        if deep:
            for thread in os.listdir(f"/proc/{pid}/task"):
                for below in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                    total += _memory(int(below), deep)
    return total


def _kernel_kills() -> int:
    """How many processes the kernel has killed for want of memory, since the start of the system."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/vmstat", encoding="utf-8") as file:
        return int(next(row for row in file if row.startswith("oom_kill ")).split()[1])
    return 0


def _let_threads_sleep() -> None:
    """Waits until no thread but this one runs: one that holds a lock at a fork would never release it in the child."""
    own = os.getpid()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            others = [
                Path(f"/proc/self/task/{t}/stat").read_text() for t in os.listdir("/proc/self/task") if int(t) != own
            ]
        except OSError:  # one has just ended
            continue
        if all(row.rpartition(")")[2].split()[0] != "R" for row in others):
            return
        time.sleep(0.001)


def _kill(pid: int, number: int) -> None:
    """Sends a signal to a child and to what it has started."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            send(pid, number)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    os._exit(0)
