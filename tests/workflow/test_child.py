"""Functions in child processes: limits, ends of all kinds, and nothing that stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minnow.workflow.cell import Cell, Limits
from minnow.workflow.child import PRELOAD, Child, Children, Outcome, failed_result
from minnow.workflow.rule import RULES

HERE = str(Path(__file__).parent)


@pytest.fixture
def path_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", HERE)


@pytest.fixture
def child(path_of_functions: None) -> Iterator[Child]:
    child = Child(("numpy",))
    yield child
    child.close()


def call(child: Child, name: str, *args: object, **more: object) -> Outcome:
    return child.call(f"child_functions:{name}", *args, **more)  # type: ignore[arg-type]


def soon(test: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def pid_in(path: Path) -> int:
    assert soon(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def test_results_log_and_every_kind_of_end(child: Child) -> None:
    done = call(child, "add", 1, 2)
    assert (done.items, done.ended, done.log) == ((3,), "done", "adding\n")
    assert done.memory > 1 << 20
    refused = call(child, "refuse")
    assert (refused.ended, refused.message) == ("error", "ValueError: no")
    assert "Traceback" in refused.log
    crashed = call(child, "count", 3, "crash")
    assert (crashed.items, crashed.ended, crashed.signal) == ((0, 1, 2), "crashed", signal.SIGSEGV)
    assert call(child, "count", 3).items == (0, 1, 2)


def test_limit_of_memory(child: Child) -> None:
    limits = Limits(memory=300 << 20)
    assert call(child, "allocate", 100, limits=limits).ended == "done"
    assert call(child, "multiply", 1000, limits=limits).items == (1e9,)  # threads' stacks are no memory in use
    refused = call(child, "allocate", 2000, limits=limits)
    assert (refused.ended, refused.signal) == ("out-of-memory", 0)  # it has heard of it
    filled = call(child, "fill", 500, limits=limits)
    assert filled.ended == "out-of-memory"
    assert filled.memory < 450 << 20


def test_limit_of_time_lets_temporary_files_be_removed(child: Child, tmp_path: Path) -> None:
    file = tmp_path / "file"
    outcome = call(child, "sleep", str(file), 60, limits=Limits(seconds=0.3))
    assert (outcome.ended, file.exists()) == ("stopped", False)
    assert 0.3 <= outcome.seconds < 5


def test_processes_that_a_child_has_started_end_with_it(child: Child, tmp_path: Path) -> None:
    file = tmp_path / "file"
    outcome = call(child, "sleep_below", str(file), limits=Limits(seconds=0.7))
    assert outcome.ended == "stopped"
    assert not is_alive(pid_in(file))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_caller_is_killed(path_of_functions: None, tmp_path: Path, number: int) -> None:
    file = tmp_path / "scratch" / "file"
    file.parent.mkdir()
    caller = subprocess.Popen([sys.executable, "-c", f"import child_functions as f; f.serve_sleeping({str(file)!r})"])
    pid = pid_in(file)
    caller.send_signal(number)
    caller.wait()
    assert soon(lambda: not is_alive(pid))
    assert soon(lambda: not file.parent.exists())


def test_a_killed_supervisor_takes_its_child_along_and_is_replaced(child: Child, tmp_path: Path) -> None:
    import threading

    file, outcomes = tmp_path / "file", list[Outcome]()
    thread = threading.Thread(target=lambda: outcomes.append(call(child, "sleep", str(file), 60)))
    thread.start()
    pid = pid_in(file)
    supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    thread.join(10)
    assert [o.ended for o in outcomes] == ["crashed"]
    assert soon(lambda: not is_alive(pid))
    assert call(child, "add", 1, 2).items == (3,)


def test_closing_ends_a_running_call(path_of_functions: None, tmp_path: Path) -> None:
    import threading

    outcomes = list[Outcome]()
    with Children(()) as children:
        thread = threading.Thread(
            target=lambda: outcomes.append(children.call("child_functions:sleep", str(tmp_path / "file"), 60))
        )
        thread.start()
        pid = pid_in(tmp_path / "file")
    thread.join(10)
    assert [o.ended for o in outcomes] == ["stopped"]
    assert soon(lambda: not is_alive(pid))


def test_failures_become_results() -> None:
    cell = Cell(model="m", variant="", source="s", output="o", limits=Limits(1.5, 1 << 20))
    found = {
        ended: failed_result(cell, Outcome((), ended, "why", log="printed"))
        for ended in ("error", "out-of-memory", "stopped", "crashed")
    }
    assert [r.checks[0].rule for r in found.values()] == ["internal-error", "out-of-memory", "stopped", "crashed"]
    assert [r.exit_code for r in found.values()] == [RULES[r.checks[0].rule].exit_code for r in found.values()]
    assert "its limit is 1.5 s" in found["stopped"].checks[0].message
    assert "its limit is 1 MiB" in found["out-of-memory"].checks[0].message
    assert all(r.log == "printed" for r in found.values())


@pytest.mark.slow
def test_what_is_imported_in_advance_exists_and_starts_no_engine() -> None:
    """A thread that waits for work at the fork would be missing in the child."""
    program = (
        f"import importlib, os\nfor name in {PRELOAD!r}:\n"
        " module, _, function = name.partition(':')\n module = importlib.import_module(module)\n"
        " getattr(module, function)() if function else None\n"
        "names = [open(f'/proc/self/task/{t}/stat').read().rpartition(')')[2].split()[0] for t in"
        " os.listdir('/proc/self/task') if int(t) != os.getpid()]\nprint(len(names), set(names) <= {'S'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    threads, asleep = done.stdout.split()
    assert asleep == "True", threads
