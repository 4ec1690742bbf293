"""Writes files atomically: to a temporary file in the same folder, which replaces the target when all has succeeded.

An existing regular file is replaced; of a link, the file that it points to. Devices, pipes, sockets and folders are
refused, since the rename would replace them with a file.

A process that is killed (`kill -9`, no power) leaves its temporary file behind. Each process locks its own, so that the
next one that writes the same target recognizes and removes those of processes that have ended.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minnow.schema.errors import UsageError, WriteError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path refers to, with links resolved, after a check that it can be written.

    Raises:
        UsageError: the path is "-" or that of a folder, or its folder does not exist.
        WriteError: there is something else than a regular file, or the file or its folder is not writable.
    """
    if path == "-":
        raise UsageError(
            "the output is '-', but standard output is not supported",
            hint="give a file name; './-' is a file of that name",
        )
    if os.fspath(path).endswith(os.sep):
        raise UsageError("the output is a folder", where=os.fspath(path), hint="give the name of a file in it")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise UsageError("the folder of the output does not exist", where=str(target.parent))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a regular file")
        raise WriteError(
            "cannot write the output", where=os.fspath(path), why=f"it is {kind}", hint="give the name of a file"
        )
    if not _writable(target.parent):
        raise WriteError(
            "cannot write the output", where=os.fspath(path), why=f"the folder {target.parent} is not writable"
        )
    if mode is not None and not _writable(target):
        raise WriteError("cannot write the output", where=os.fspath(path), why="the file is not writable")
    return target


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The temporary file to write in the block; it replaces `path` after it. An OSError becomes a WriteError.

    Raises:
        UsageError, WriteError: as `target_of`. WriteError: it cannot be written.
    """
    with replaced(path) as part, writing(path):
        yield part


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns an OSError in the block into a WriteError."""
    try:
        yield
    except OSError as e:
        raise WriteError("cannot write the output", where=os.fspath(path), why=e.strerror or str(e)) from None


_NEW = 2.0
"""Seconds for which a temporary file may be without its lock: it has just been created."""


@contextmanager
def replaced(path: str | os.PathLike[str], beside: Sequence[str] = ()) -> Iterator[Path]:
    """The temporary file that replaces `path` after the block; if the block fails, it is removed.

    Args:
        path: the file.
        beside: suffixes of companion files. A file that the block writes under the temporary name plus suffix replaces
            `path` plus suffix, before the file itself, which therefore never exists without its companions.
    """
    target = target_of(path)
    _remove_leftovers(target)
    part = target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}.part")
    parts = {part.with_name(part.name + suffix): os.fspath(path) + suffix for suffix in beside}
    lock = -1
    try:
        with writing(path):
            lock = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            _lock(lock)
            if (mode := _mode(target)) is not None:
                os.chmod(part, stat.S_IMODE(mode) & 0o777)
        yield part
        targets = [(p, name, target_of(name)) for p, name in parts.items() if p.exists()]
        for p, name, other in [*targets, (part, os.fspath(path), target)]:
            with writing(name):
                _move(p, other)
    finally:
        for p in (*parts, part):
            p.unlink(missing_ok=True)
        if lock >= 0:
            os.close(lock)


def _lock(file: int) -> bool:
    """Whether no other process has locked it; this one has then. Not where files cannot be locked."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_leftovers(target: Path) -> None:
    """Removes temporary files for this target whose process has ended without removing them."""
    form = re.compile(rf"\.{re.escape(target.name[:40])}\.[0-9a-f]{{12}}\.part")
    try:
        names = [e.name for e in os.scandir(target.parent) if e.name.startswith(".") and form.match(e.name)]
    except OSError:
        return
    for name in names:
        match = form.match(name)
        assert match is not None
        part = target.with_name(match[0])  # a companion goes when the file does that it belongs to
        try:
            if time.time() - target.with_name(name).stat().st_mtime < _NEW:
                continue
            file = os.open(part, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW) if part.exists() else -1
            try:
                if file < 0 or _lock(file):
                    target.with_name(name).unlink(missing_ok=True)
            finally:
                if file >= 0:
                    os.close(file)
        except OSError:
            continue  # not ours to remove


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file. Pipes and devices are written directly: `--svg /dev/stdout`, `--dot >(dot -Tpng ...)`.

    Raises:
        UsageError, WriteError: as `written`.
    """
    if _is_stream(Path(path)):
        with writing(path), open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        with written(path) as part:
            part.write_text(text, encoding="utf-8")


def check_text_target(path: str | os.PathLike[str]) -> None:
    """Checks that `write_text` can write the file.

    Raises:
        UsageError, WriteError: as `target_of`.
    """
    if not _is_stream(Path(path)):
        target_of(path)


def append_text(path: str | os.PathLike[str], text: str) -> None:
    """Appends to a text file that other programs write, too; it is created if there is none.

    Raises:
        WriteError: it cannot be written.
    """
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(text)


def _is_stream(path: Path) -> bool:
    mode = _mode(path)
    return mode is not None and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))


def _mode(path: Path) -> int | None:
    """The file mode with links resolved; None if there is no file."""
    with writing(path):
        try:
            return path.stat().st_mode
        except FileNotFoundError:
            return None


def _writable(path: Path) -> bool:
    mode = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _move(part: Path, target: Path) -> None:
    if part.parent == target.parent:
        os.replace(part, target)
        return
    import shutil

    # A link can point to another folder, which may be on another file system, where a rename fails.
    with replaced(target) as near:
        shutil.copyfile(part, near)
