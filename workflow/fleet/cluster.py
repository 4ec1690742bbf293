"""Tasks on a Dask cluster: one that runs at an address, or one of processes of this machine.

Resources of workers are honoured where they declare them: MEMORY in bytes, and BENCH, of which a task that measures
time takes one.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from minnow.schema.errors import InternalError, ModelError, UsageError
from minnow.workflow.schedule import Done, Task, available_cores, available_memory

MEMORY, BENCH = "MEMORY", "BENCH"
"""Names of the resources."""

_WINDOW = 4096
"""Tasks that are at the scheduler at once: enough for workers never to wait for the client."""
_CHUNK = 64
"""Tasks per thread of the cluster that are submitted together, in at least 8 calls per thread."""
_LEAST = 256
_LONGEST = 32
"""Tasks in one call: a call costs the scheduler a millisecond."""
_TRIES = 2
"""How often a task is tried again whose workers have ended, which Dask has tried four times by then."""
_REMEMBER = 5.0
"""Seconds after which the workers are asked for their resources again."""
_RETURN = 60.0
"""Seconds in which a worker that has ended may start again."""
_STEP = 1.25
"""Estimates are rounded up to powers of this, so that many tasks are submitted at once."""
_SHARE = 0.8
_WAIT = 30.0


class Cluster:
    """A scheduler of tasks on Dask. Close it, or use it in a with block.

    Args:
        address: of a scheduler, "tcp://HOST:PORT"; "" starts one in this process, with workers as processes.
        jobs: number of these workers; 0: as many as there are processors.
        prepare: a function that each worker of this machine's own cluster calls when it starts.

    Raises:
        UsageError: distributed is not installed, nothing answers at the address, or there are no workers.
    """

    def __init__(self, address: str = "", jobs: int = 0, wait: float = _WAIT) -> None:
        try:
            import distributed as package
        except ImportError:
            raise UsageError(
                "the scheduler 'dask' needs the package distributed", hint="pip install 'minnow[fleet]'"
            ) from None
        distributed: Any = package
        self._address = address
        self._client: Any = None
        self._cluster: Any = None
        self._seen: list[tuple[float, Mapping[str, float]]] = []
        if not address:
            count = jobs or available_cores()
            memory = int(_SHARE * available_memory() / count)
            self._cluster = distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", memory_limit=None, resources={MEMORY: memory, BENCH: 1},
            )  # fmt: skip
        try:
            self._client = distributed.Client(self._cluster or address, timeout=wait, set_as_default=False)
            self._client.wait_for_workers(1, timeout=wait)
        except (OSError, TimeoutError, ValueError) as e:
            self.close()
            raise UsageError(
                "the Dask scheduler does not answer, or has no workers", where=address, why=f"{type(e).__name__}: {e}",
                hint="start them with `dask scheduler` and `dask worker ADDRESS`",
            ) from None  # fmt: skip

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def dashboard(self) -> str:
        """The address of the dashboard."""
        return str(self._client.dashboard_link)

    @property
    def threads(self) -> int:
        """The number of tasks that run at once."""
        return int(sum(self._client.nthreads().values()))

    def close(self) -> None:
        """Leaves the cluster; ends one of this process."""
        for part in (self._client, self._cluster):
            if part is not None:
                with suppress(Exception):
                    part.close()

    def check_build(self, function: Callable[[], str], expected: str) -> None:
        """Compares what a function returns on each worker with what it should.

        Raises:
            UsageError: the packages of a worker are of other versions, or the function returns something else.
        """
        with_versions = self._client.get_versions(check=False)
        found = self._client.run(function, on_error="return")
        for worker, value in sorted(found.items()):
            if isinstance(value, BaseException):
                raise UsageError("a worker cannot import Minnow", where=worker, why=f"{type(value).__name__}: {value}")
            if value != expected:
                raise UsageError(
                    "a worker has another build of Minnow", where=worker, why=f"{value[:12]}, here {expected[:12]}",
                    hint="install the same version on all workers",
                )  # fmt: skip
        own = with_versions["client"]["packages"]
        for worker, about in sorted(with_versions["workers"].items()):
            for package in ("distributed", "dask", "msgpack"):
                if about["packages"].get(package) != own.get(package):
                    raise UsageError(
                        f"a worker has another version of {package}", where=worker,
                        why=f"{about['packages'].get(package)}, here {own.get(package)}",
                        hint="install the same version on all workers",
                    )  # fmt: skip

    def run(self, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Done]:
        """As `Scheduler.run`; the function must be importable on the workers.

        A task that no worker has the resources for ends with an error.
        """
        import distributed as package

        distributed: Any = package

        source, later = iter(tasks), deque[Task]()
        pending: dict[Any, tuple[Any, list[Task]]] = {}
        tried: Counter[str] = Counter()
        waiting = 0
        ended = distributed.as_completed([], loop=self._client.loop, with_results=True, raise_errors=False)
        more = True
        try:
            while True:
                threads = self.threads if more else 0
                if more and waiting <= max(_WINDOW, 2 * _CHUNK * threads) - _LEAST:
                    chunk = list(islice(source, max(_LEAST, _CHUNK * threads)))
                    more = bool(chunk)
                    later += [t for t in chunk if t.exclusive]
                    ready = [t for t in chunk if not t.exclusive]
                    longest = min(_LONGEST, max(1, len(ready) // max(1, 8 * threads)))
                    refused = self._submit(function, ready, longest, pending, ended)
                    waiting += len(ready) - len(refused)
                    yield from refused
                    continue
                if not pending:
                    if not later:
                        return
                    refused = self._submit(function, list(later), 1, pending, ended)  # what measures time comes last
                    waiting += len(later) - len(refused)
                    later.clear()
                    yield from refused
                    continue
                for future, value in next(ended.batches()):
                    _, call = pending.pop(future.key)
                    waiting -= len(call)
                    again = [] if future.status == "finished" else self._innocent(value, call, tried)
                    waiting += len(again) - len(self._submit(function, again, 1, pending, ended, len(tried)))
                    yield from self._done(future, [task for task in call if task not in again], value)
                    future.release()
        finally:
            if pending:
                self._client.cancel([future for future, _ in pending.values()], force=True)

    def _done(self, future: Any, tasks: list[Task], value: Any) -> Iterator[Done]:
        if future.status == "finished":
            for task, (result, failed) in zip(tasks, value, strict=True):
                yield Done(task, result, failed)
            return
        for task in tasks:
            yield Done(task, error=_error(value))

    def _innocent(self, value: Any, call: list[Task], tried: Counter[str]) -> list[Task]:
        """The tasks of a call to try again, each in a call of its own.

        Dask gives up whatever was waiting at workers that have ended, also what has not begun there.
        """
        if type(_error(value)).__name__ != "KilledWorker":
            return []
        again = [task for task in call if tried[task.name] < _TRIES]
        tried.update(task.name for task in again)
        return again

    def _submit(
        self,
        function: Callable[..., Any],
        tasks: list[Task],
        longest: int,
        pending: dict[Any, Any],
        ended: Any,
        attempt: int = 0,
    ) -> list[Done]:
        """Submits tasks, those with equal needs at once; gives those that no worker has the resources for."""
        most = self._most() if tasks else {}
        groups: dict[tuple[tuple[str, float], ...], list[Task]] = {}
        refused = []
        for task in tasks:
            needs = _needs(task, most)
            if lacking := [name for name, amount in needs.items() if amount > most[name]]:
                refused.append(Done(task, error=_too_large(lacking[0], needs, most)))
            else:
                groups.setdefault(tuple(sorted(needs.items())), []).append(task)
        for amounts, group in groups.items():
            calls = [group[i : i + longest] for i in range(0, len(group), longest)]
            futures = self._client.map(
                partial(_call_all, function), [[t.args for t in call] for call in calls], pure=False,
                key=[(call[0].group, call[0].name, len(call), attempt) for call in calls], resources=dict(amounts),
            )  # fmt: skip
            for future, call in zip(futures, calls, strict=True):
                pending[future.key] = future, call
            ended.update(futures)
        return refused

    def _most(self) -> Mapping[str, float]:
        """The largest amount of each resource that a worker has; resources that none declares are not limited.

        Workers that have just ended count, too: they may be starting again.
        """
        now = time.monotonic()
        if not self._seen or now > self._seen[-1][0] + _REMEMBER:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            most: dict[str, float] = {}
            for resources in [worker.get("resources") or {} for worker in workers]:
                most |= {name: max(most.get(name, 0), amount) for name, amount in resources.items()}
            if workers or not self._seen:
                self._seen = [(at, old) for at, old in self._seen if now < at + _RETURN]
                self._seen.append((now, most))
        names = {name for _, most in self._seen for name in most}
        return {name: max(most.get(name, 0) for _, most in self._seen) for name in names}


def _error(value: Any) -> BaseException:
    """The error of a task, of what Dask gives for it: the error, or a tuple with its type and traceback."""
    error = value[1] if isinstance(value, tuple) and len(value) == 3 else value
    return error if isinstance(error, BaseException) else InternalError("the task was cancelled")


def _call_all(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, Exception | None]]:
    """On a worker: the results of several calls, or their errors."""
    results: list[tuple[Any, Exception | None]] = []
    for args in calls:
        try:
            results.append((function(*args), None))
        except Exception as e:  # noqa: BLE001  (the client decides)
            results.append((None, e))
    return results


def _needs(task: Task, most: Mapping[str, float]) -> dict[str, float]:
    needs: dict[str, float] = {}
    if MEMORY in most and task.memory:
        needs[MEMORY] = min(_rounded(task.memory), max(task.memory, most[MEMORY]))
    if BENCH in most and task.exclusive:
        needs[BENCH] = 1
    return needs


def _rounded(memory: int) -> float:
    """The next power of `_STEP` of mebibytes."""
    return float(math.ceil(_STEP ** math.ceil(math.log(max(memory / (1 << 20), 1), _STEP)))) * (1 << 20)


def _too_large(name: str, needs: Mapping[str, float], most: Mapping[str, float]) -> ModelError:
    unit = 1 << 20
    return ModelError(
        "no worker has the memory that the model needs",
        why=f"about {needs[name] / unit:,.0f} MiB, the largest worker has {most[name] / unit:,.0f} MiB",
        hint="start a worker with more: dask worker ADDRESS --resources 'MEMORY=BYTES'",
    )
