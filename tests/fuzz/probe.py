"""One file under watch: what may happen while it is read, and what must not.

Allowed is a result, or an error of Minnow's whose exit code says that the file is not supported (3) or not readable
(6). Everything else is a `Finding`: another exception, more processor time or memory than a file may take, a file that
is opened outside of its folder, another process, the network.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.members import FOLDER, NoCaseError

from minnow.schema.errors import MinnowError

SECONDS = 10.0
"""Processor time of one file."""
BYTES = 2 << 30
"""Memory that one file may take."""
_REFUSED = (3, 6)
_DAMAGED = "the file is damaged, or holds what"
_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.",
              "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown",
              "os.truncate", "os.kill", "pickle.find_class", "shutil.", "urllib.")  # fmt: skip
_CODE = ("<unknown>", "<template>")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class TooSlowError(BaseException):
    """Comes out of the code at work; nothing there may take it for an error of the file."""


@dataclass
class Finding(Exception):  # noqa: N818  (what it is called everywhere)
    """What must not happen.

    Attributes:
        what: "KeyError", "slow", "memory", "opens /etc/passwd".
        place: the innermost lines of ours, by which findings are told apart.
        text: the whole error.
    """

    what: str
    place: str
    text: str = field(repr=False, default="")

    @property
    def key(self) -> str:
        return f"{self.what} @ {self.place}"


@dataclass
class Target:
    """Something that reads files.

    Attributes:
        name: as `./dev fuzz` has it.
        file: what the file is called.
        run: reads one; given what depends on its content only, to do more with some.
        damage: another file of a seed: (the seed, another seed, dice).
        seeds: small files that can be read.
        more: further ones, which take longer to make.
        forks: it reads files in other processes, which it starts.
    """

    name: str
    file: str
    run: Callable[[Path, random.Random], object]
    damage: Callable[[bytes, bytes, random.Random], bytes]
    seeds: Callable[[], list[bytes]]
    more: Callable[[], list[bytes]] = list
    forks: bool = False


class Watch:
    """Sees which files are opened, and what else Python tells of while a file is read."""

    def __init__(self) -> None:
        self.active = self.forks = False
        self.folder = ""
        self.seen: list[str] = []
        here = Path(__file__).resolve().parents[2]
        roots = [sys.prefix, sys.base_prefix, str(here), "/usr", "/lib", "/proc", "/sys", "/dev/null", *sys.path]
        roots += [str(Path(p).resolve()) for p in roots if p]
        self.readable = tuple({p for p in roots if p})
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            self._opened(*arguments)
        elif event.startswith(_FORBIDDEN) and not self.forks:
            # What TemporaryDirectory and `minnow.output` do in the folder of the file is what they are for.
            inside = all(not isinstance(a, str) or a.startswith(self.folder) for a in arguments)
            compiled = "__pycache__" in str(arguments[0]) if arguments else False
            if not compiled and not (inside and event.startswith(("os.", "shutil."))):
                self.seen.append(f"{event} {arguments!r}"[:200])

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        place = os.path.abspath(path)
        writes = isinstance(flags, int) and bool(flags & _WRITING)
        writes = writes or (isinstance(mode, str) and bool(set(mode) & set("wax+")))
        # What `subprocess.DEVNULL` opens, for writing too; and names of code, whose lines Python looks for.
        harmless = place == os.devnull or (not writes and os.path.basename(place) in _CODE)
        if harmless or place.startswith(self.folder) or (not writes and place.startswith(self.readable)):
            return
        if place.endswith(".pyc") or "__pycache__" in place:
            return
        self.seen.append(f"{'writes' if writes else 'opens'} {place}"[:200])


_watch: Watch | None = None


def place_of(error: BaseException) -> str:
    """The two innermost lines of ours at which an error came up."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tests/" not in f.filename]
    ours = [f for f in frames if "site-packages" not in f.filename and "/lib/python" not in f.filename]
    return " < ".join(f"{'/'.join(Path(f.filename).parts[-2:])}:{f.name}" for f in (ours or frames)[:-3:-1])


def _stop(*_: Any) -> None:
    raise TooSlowError


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Code in the block is stopped after so much processor time. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def little_memory(most: int = BYTES) -> Iterator[None]:
    """This process gets no more than so many bytes beyond what it has."""
    used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) << 10
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def probe(target: Target, data: bytes, folder: Path, seconds: float = SECONDS) -> str:
    """Has a file read: "read", "no case", or the name of the error; with what is underneath, where that is unexpected.

    Args:
        folder: empty, for the file. seconds: of processor time.

    Raises:
        Finding: what must not happen has.
    """
    global _watch
    if _watch is None:
        _watch = Watch()
    path = folder / target.file
    path.write_bytes(data)
    _watch.folder, _watch.seen, _watch.forks, _watch.active = str(folder), [], target.forks, True
    begin, before, tempfile.tempdir = time.process_time(), tempfile.tempdir, str(folder)
    try:
        with bounded(seconds):
            target.run(path, random.Random(len(data)))
        result = "read"
    except MinnowError as e:
        result = _refused(e)
    except NoCaseError:
        result = "no case"
    except TooSlowError as e:
        raise Finding("slow", place_of(e), f"{time.process_time() - begin:.1f} s") from None
    except RecursionError as e:
        raise Finding("RecursionError", "", "".join(traceback.format_exception(e))[-3000:]) from None
    except Exception as e:  # noqa: BLE001  (this is what is looked for)
        raise Finding(type(e).__name__, place_of(e), "".join(traceback.format_exception(e))[-6000:]) from None
    finally:
        _watch.active, tempfile.tempdir = False, before
        made = [p.name for p in folder.iterdir() if p != path]
        for name in made:
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            else:
                (folder / name).unlink()
    if _watch.seen:
        raise Finding(_watch.seen[0].partition(" ")[0], _watch.seen[0], "\n".join(_watch.seen))
    left = [name for name in made if name != FOLDER]
    if left and result != "read":
        raise Finding("leaves a file", ", ".join(left))
    return result


def _refused(error: MinnowError) -> str:
    cause, seen = error.__cause__, {id(error)}
    while cause is not None:
        if id(cause) in seen:
            raise Finding("an error is its own cause", place_of(error), str(error))
        seen.add(id(cause))
        if isinstance(cause, MemoryError):
            raise Finding("memory", place_of(cause), "".join(traceback.format_exception(error))[-6000:])
        cause = cause.__cause__
    if error.exit_code not in _REFUSED:
        text = "".join(traceback.format_exception(error))[-6000:]
        raise Finding(f"exit code {error.exit_code}", place_of(error), text)
    if error.message.startswith(_DAMAGED) and error.__cause__ is not None:
        return f"{type(error).__name__} of {type(error.__cause__).__name__} @ {place_of(error.__cause__)}"
    return type(error).__name__
