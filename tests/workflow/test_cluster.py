"""Fleets on Dask and on an object store, with processes that are killed at any time. Addresses are on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import fleet_models
import fleet_worker
import pytest

from minnow.convert import convert
from minnow.schema.errors import ModelError, UsageError
from minnow.workflow.cell import Budget, Cell
from minnow.workflow.fleet.run import run_plan, scheduler
from minnow.workflow.fleet.work import MODEL, Settings, build_digest
from minnow.workflow.schedule import LocalPool, Task
from minnow.workflow.store import GRACE, Store

pytestmark = pytest.mark.slow
HERE = str(Path(__file__).parent)


# ---- tasks on a cluster


def no_op(value: int) -> int:
    return value


def fail_or_end(value: int) -> int:
    if value == 3:
        raise ValueError("three")
    if value == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("distributed")
    from minnow.workflow.fleet.cluster import Cluster

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", HERE)
        with Cluster(jobs=2) as cluster:
            yield cluster


def test_a_task_costs_less_than_five_milliseconds(cluster: Any) -> None:
    count = 10_000
    tasks = (Task(f"model{i % 50}-{i}", (i,), memory=200 << 20) for i in range(count))
    begin = time.perf_counter()
    done = sorted(d.value for d in cluster.run(no_op, tasks))
    seconds = time.perf_counter() - begin
    assert done == list(range(count))
    assert seconds / count < 5e-3, f"{1e3 * seconds / count:.2f} ms a task"


def test_a_task_that_ends_its_worker_ends_alone(cluster: Any) -> None:
    """A worker that is killed is started again; the task that does it each time is given up."""
    done = {d.task.args[0]: d for d in cluster.run(fail_or_end, [Task(str(i), (i,)) for i in range(8)])}
    assert sorted(done) == list(range(8))
    assert str(done[3].error) == "three"
    assert type(done[5].error).__name__ == "KilledWorker"
    assert [i for i in done if done[i].error is None] == [i for i in done if i not in (3, 5)]


def test_a_task_that_no_worker_can_hold_is_refused_at_once(cluster: Any) -> None:
    tasks = [Task("small", (1,), memory=1 << 20), Task("large", (2,), memory=1 << 50)]
    done = {d.task.name: d for d in cluster.run(no_op, tasks)}
    assert done["small"].value == 1
    assert isinstance(done["large"].error, ModelError)
    assert "no worker has the memory" in str(done["large"].error)


def test_tasks_that_measure_time_come_last_and_closing_ends_a_run(cluster: Any) -> None:
    values = [d.value for d in cluster.run(no_op, [Task(f"u{i}", (i,), exclusive=i < 3) for i in range(9)])]
    assert sorted(values[-3:]) == [0, 1, 2]
    run = cluster.run(no_op, (Task(f"v{i}", (i,)) for i in range(100_000)))
    next(run)
    run.close()
    assert [d.value for d in cluster.run(no_op, [Task("w", (1,))])] == [1]


def test_other_builds_are_refused(cluster: Any) -> None:
    cluster.check_build(build_digest, build_digest())
    with pytest.raises(UsageError, match="another build of Minnow"):
        cluster.check_build(build_digest, "0" * 64)


def test_an_address_without_a_scheduler_is_an_error() -> None:
    from minnow.workflow.fleet.cluster import Cluster

    with pytest.raises(UsageError, match="does not answer"):
        Cluster("tcp://127.0.0.1:1", wait=1)


# ---- kills


def models(folder: Path, count: int) -> list[Cell]:
    (folder / "models").mkdir()
    for number in range(count):
        fleet_models.save(folder / "models", number)
    return fleet_worker.cells_in(folder / "models")


def serial(cells: list[Cell], folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    for cell in cells:
        convert(cell.source, output=folder / Path(cell.output).name)
    return outputs(folder)


def outputs(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if not p.name.endswith(".json")}


class Client:
    """A run of the fleet in a process of its own."""

    def __init__(self, folder: Path, on: str, jobs: int) -> None:
        arguments = [str(folder / "models"), str(folder / "store"), on, str(jobs)]
        self.process = subprocess.Popen(
            [sys.executable, fleet_worker.__file__, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.last = ""

    def until(self, count: int) -> None:
        """Waits until so many cells are done."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = line.strip()
            if self.last.isdigit() and int(self.last) >= count:
                return

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ended(self) -> tuple[int, int]:
        """The numbers of cells that have passed, and that came from the store."""
        self.until(1 << 30)
        assert self.process.wait() == 0
        word, passed, cached, _ = self.last.split()
        assert word == "ended"
        return int(passed), int(cached)


def children_of(pids: set[int]) -> set[int]:
    """All processes below some, themselves included."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def are_gone(pids: set[int], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def check(folder: Path, cells: list[Cell]) -> None:
    """Every cell is in the store once, and has the bytes of a serial run."""
    expected = serial(cells, folder / "serial")
    assert outputs(folder / "out") == expected
    store = Store(folder / "store")
    entries = [store.get(key) for key in list(store.keys())]
    assert len(entries) == len(cells)
    for number, entry in enumerate(entries):
        assert entry is not None
        assert store.fetch(entry, MODEL, folder / f"copy{number}")
    copies = sorted((folder / f"copy{n}").read_bytes() for n in range(len(entries)))
    assert copies == sorted(expected.values())


@contextmanager
def dask(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and workers, as one starts them by hand."""
    pytest.importorskip("distributed")
    common = [sys.executable, "-m"]
    with open(folder / "dask.log", "w") as log:
        boss = subprocess.Popen(
            [*common, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--no-show"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert boss.stderr is not None
        address = next(
            m[1] for line in boss.stderr if (m := re.search(r"Scheduler at:\s+tcp://(127\.0\.0\.1:\d+)", line))
        )
        crew = subprocess.Popen(
            [*common, "distributed.cli.dask_worker", address, "--nworkers", str(workers), "--nthreads", "1",
             "--memory-limit", "0", "--no-dashboard", "--host", "127.0.0.1", "--resources", "MEMORY=2e9 BENCH=1",
             "--local-directory", str(folder / "dask")],
            stderr=log, stdout=log,
        )  # fmt: skip
        try:
            yield address
        finally:
            left = children_of({crew.pid})
            for process in (crew, boss):
                process.kill()
                process.wait()
            boss.stderr.close()
            assert are_gone(left)


def kill_workers(address: str, count: int) -> None:
    from distributed import Client as DaskClient

    with DaskClient(f"tcp://{address}", set_as_default=False) as client:
        client.wait_for_workers(count)
        pids = list(client.run(os.getpid).values())
    for pid in pids[:count]:
        os.kill(pid, signal.SIGKILL)


def test_a_fleet_on_four_workers_survives_kills_of_workers_and_client(tmp_path: Path) -> None:
    cells = models(tmp_path, 200)
    with dask(tmp_path, 4) as address:
        first = Client(tmp_path, f"dask://{address}", 0)
        first.until(20)
        kill_workers(address, 2)
        first.until(60)
        first.kill()
        kept = len(list(Store(tmp_path / "store").keys()))
        second = Client(tmp_path, f"dask://{address}", 0)
        second.until(120)
        kill_workers(address, 1)
        passed, cached = second.ended()
        assert passed == 200
        assert 60 <= kept <= cached < 200
        third = Client(tmp_path, f"dask://{address}", 0)
        assert third.ended() == (200, 200)
    check(tmp_path, cells)


def test_a_fleet_on_the_local_pool_survives_kills(tmp_path: Path) -> None:
    cells = models(tmp_path, 60)
    for count in (10, 30):
        client = Client(tmp_path, "local", 4)
        client.until(count)
        below = children_of({client.process.pid})
        assert len(below) >= 5
        client.kill()
        assert are_gone(below)
    client = Client(tmp_path, "local", 4)
    client.until(40)
    below = children_of({client.process.pid}) - {client.process.pid}
    for pid in sorted(below):  # the supervisors and their children, one after the other
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    client.ended()
    client = Client(tmp_path, "local", 2)
    passed, cached = client.ended()
    assert passed == 60
    assert cached >= 30
    check(tmp_path, cells)


def test_local_cluster_times_models_alone(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (cell,) = models(tmp_path, 1)
    budget = Budget("latency", 1e6, "onnxruntime")
    timed = Cell.of({**cell.as_dict(), "budgets": [vars(budget)]})
    with scheduler("dask", 2) as (on, jobs):
        assert jobs == 2
        results = run_plan([timed], "", Settings(store=str(tmp_path / "store"), jobs=jobs), on)
    (result,) = results.cells
    assert (result.status, result.checks[-1].name) == ("passed", "budget:latency")
    assert result.metrics["latency"] > 0
    assert result.worker != ""


# ---- an object store


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_DEFAULT_REGION", "us-east-1"), ("NO_PROXY", host), ("no_proxy", host),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    name = f"b{uuid4().hex}"
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_models_and_store_on_an_object_store(bucket: str, tmp_path: Path) -> None:
    import s3fs

    cells = models(tmp_path, 6)
    expected = serial(cells, tmp_path / "serial")
    files = s3fs.S3FileSystem()
    for cell in cells:
        files.put_file(cell.source, f"{bucket}/models/{Path(cell.source).name}")
    remote = [Cell.of({**c.as_dict(), "source": f"{bucket}/models/{Path(c.source).name}"}) for c in cells]
    settings = Settings(store=f"{bucket}/store")
    first = run_plan(remote, "", settings, LocalPool(2))
    assert [c.status for c in first.cells] == ["passed"] * 6
    assert outputs(tmp_path / "out") == expected
    again = run_plan(remote, "", settings, LocalPool(2))
    assert all(c.cached for c in again.cells)

    store = Store(f"{bucket}/store")
    assert sorted(store.keys()) == sorted(c.key for c in first.cells)
    assert store.gc(GRACE).removed == 0
    entry = store.get(first.cells[0].key)
    assert entry is not None
    digest = entry.files[MODEL][0]
    damaged = f"{bucket}/store/objects/{digest[:2]}/{digest[2:]}"
    files.pipe_file(damaged, bytes(entry.files[MODEL][1]))
    (tmp_path / "out" / Path(cells[0].output).name).unlink()
    assert [c.cached for c in run_plan(remote, "", settings, LocalPool(2)).cells] == [False] + [True] * 5
    assert outputs(tmp_path / "out") == expected
    store.remove(first.cells[1].key)
    assert store.gc(-1).removed == 1
    changed = files.cat_file(f"{bucket}/models/{Path(cells[1].source).name}")
    files.pipe_file(f"{bucket}/models/{Path(cells[0].source).name}", changed)
    assert run_plan(remote[:1], "", settings, LocalPool(2)).cells[0].sha256 == first.cells[1].sha256
