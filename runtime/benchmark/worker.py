"""A process that runs one runtime and times it on request: JSON lines in, JSON lines out.

Each runtime has its own process, so that load time and memory are measured separately, and so that its threads can be
stopped while another runtime is timed. The process that asks may be that of another version: see `process.py`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_HOST_RUNS = 21
PROTOCOL = 1
"""Version of the protocol. A worker that answers `{}` to "hello" has version 0: it has all requests but that one."""


def _peak_bytes() -> int:
    """Peak memory of this process in bytes. getrusage may report that of the parent process."""
    try:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _median(step: Callable[[], object]) -> float:
    """The median time of some runs."""
    times = []
    for _ in range(_HOST_RUNS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main() -> None:
    # Some runtimes print to stdout: the protocol gets a descriptor of its own.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from minnow.options.run import RunOptions
    from minnow.runtime.benchmark.contestant import CONTESTANTS

    contestant: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: dict[str, Any] = {}
            if request["do"] == "hello":
                answer = {"protocol": PROTOCOL, "folder": os.path.dirname(os.path.realpath(__file__))}
            elif request["do"] == "load":
                contestant = CONTESTANTS[request["name"]]()
                contestant._names = (request["inputs"], request["outputs"])
                with np.load(request["data"]) as data:
                    arrays = dict(zip(request["inputs"], (data[k] for k in data.files), strict=True))
                options = RunOptions(**request["session"])
                answer["idle_bytes"] = _peak_bytes()
                begin = time.perf_counter()
                answer["version"] = contestant.load(request["path"], options)
                answer["load_s"] = time.perf_counter() - begin
                contestant.prepare(arrays)
                begin = time.perf_counter()
                contestant.step()
                answer["first_s"] = time.perf_counter() - begin
            elif request["do"] == "time":
                samples = []
                for _ in range(request["runs"]):
                    begin = time.perf_counter()
                    contestant.step()
                    samples.append(time.perf_counter() - begin)
                answer["samples"] = samples
            elif request["do"] == "finish":
                answer["peak_bytes"] = _peak_bytes()
                answer["memory"] = contestant.memory()
                answer["place"] = contestant.place()
                if answer["place"] != "host":
                    answer["host_s"] = _median(contestant.host_step)
                answer["profile"] = contestant.profile(request["runs"]) if request["runs"] else []
        except Exception as e:  # noqa: BLE001  (whatever a runtime raises is the answer)
            answer = {"error": f"{type(e).__name__}: {e}"}
        out.write(json.dumps(answer) + "\n")
        if request["do"] == "finish":
            return


if __name__ == "__main__":
    main()
