"""A process that has given up what it does not need: each thing that it tries fails, by the limits the system has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minnow.converter.file import sandbox

CHILD = """
import json, mmap, os, socket, subprocess, sys, threading
from pathlib import Path
from minnow.converter.file import sandbox

folder = Path(sys.argv[1])
kinds = set(sys.argv[2].split(","))
handed = open(folder / "handed", "wb")
if "landlock" in kinds:
    assert sandbox.restrict_files([folder / "model"])
if "limits" in kinds:
    sandbox.limit_resources(seconds=5, memory=4 << 30, file_bytes=1000)
if "seccomp" in kinds:
    assert sandbox.restrict_calls()


def fork():
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def write_much():
    handed.write(bytes(2000))
    handed.flush()


def thread():
    done = []
    started = threading.Thread(target=lambda: done.append(1))
    started.start()
    started.join()
    assert done


tried = {
    "read the model": lambda: (folder / "model").read_bytes(),
    "read another file": lambda: (folder / "secret").read_bytes(),
    "write a file": lambda: (folder / "new").write_bytes(b"x"),
    "change a file": lambda: open(folder / "model", "r+b").close(),
    "remove a file": lambda: (folder / "secret").unlink(),
    "rename a file": lambda: (folder / "spare").rename(folder / "other"),
    "make a folder": lambda: (folder / "folder").mkdir(),
    "make a link": lambda: (folder / "link").symlink_to("/"),
    "open a socket": lambda: socket.socket(),
    "run a program": lambda: subprocess.run(["/bin/true"], check=True),
    "become a program": lambda: os.execv("/bin/nothing", ["nothing"]),
    "fork": fork,
    "signal another": lambda: os.kill(os.getppid(), 0),
    "take memory": lambda: mmap.mmap(-1, 5 << 30).close(),
    "start a thread": thread,
    "import": lambda: __import__("wave"),
}
said = {}
for name, attempt in tried.items():
    try:
        attempt()
    except BaseException as e:
        said[name] = type(e).__name__
    else:
        said[name] = "done"
print(json.dumps(said), flush=True)
if "limits" in kinds:
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        write_much()
    except OSError as e:
        print(e.errno)
"""
FILES = {"write a file", "change a file", "remove a file", "rename a file", "make a folder", "make a link"}
OTHERS = {"open a socket", "run a program", "fork", "signal another"}
PREVENTS = {
    sandbox.LIMITS: {"take memory"},
    sandbox.LANDLOCK: FILES | {"read another file"},
    sandbox.SECCOMP: FILES | OTHERS,
}
"""What fails by each kind of limits alone."""
ALWAYS = {"become a program"}
ALLOWED = {"read the model", "start a thread", "import"}


def tried(folder: Path, kinds: frozenset[str]) -> tuple[dict[str, str], list[str]]:
    """What a process with these limits has said of each attempt, and what else."""
    (folder / "model").write_bytes(b"model")
    (folder / "secret").write_bytes(b"secret")
    (folder / "spare").write_bytes(b"spare")
    command = [sys.executable, "-c", CHILD, str(folder), ",".join(sorted(kinds))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd="/")
    said, *rest = done.stdout.splitlines()
    return json.loads(said), rest


@pytest.mark.parametrize("kind", [*sorted(PREVENTS), "all"])
def test_what_is_given_up_fails(kind: str, tmp_path: Path) -> None:
    """With the kinds of limits that the system has, and no more: where it lacks one, that kind prevents nothing."""
    kinds = sandbox.features() & (set(PREVENTS) if kind == "all" else {kind})
    said, rest = tried(tmp_path, kinds)
    prevented = ALWAYS.union(*(PREVENTS[k] for k in kinds))
    done = {name for name, how in said.items() if how == "done"}
    assert not done & prevented, f"{kinds}: {done & prevented}"
    assert done >= ALLOWED
    assert (tmp_path / "secret").exists() or not kinds & {sandbox.LANDLOCK, sandbox.SECCOMP}
    if sandbox.LIMITS in kinds:
        assert rest == ["27"], "a file has become larger than it may"
        assert (tmp_path / "handed").stat().st_size <= 1000


def test_without_limits_all_of_it_works(tmp_path: Path) -> None:
    """Else the test above would show nothing."""
    said, _ = tried(tmp_path, frozenset())
    assert {name for name, how in said.items() if how != "done"} == ALWAYS


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own word is Linux's")
def test_features_are_what_the_kernel_says() -> None:
    found = sandbox.features()
    assert sandbox.LIMITS in found
    assert (sandbox.SECCOMP in found) == ("Seccomp_filters" in Path("/proc/self/status").read_text())


ENDLESS = """
from minnow.converter.file import sandbox
sandbox.limit_resources(seconds=1, memory=1 << 32, file_bytes=0)
while True:
    pass
"""


def test_time_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDLESS], timeout=60, check=False)
    assert done.returncode < 0
