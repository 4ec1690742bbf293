"""How files are written: under a temporary name beside the target, whose place it takes when everything has succeeded.

What stands at the target may be a regular file, which is replaced, or a link to one: the link stays, and the file that
it leads to is replaced. Devices, pipes, sockets and folders are refused: a rename would put a file in their place.
"""

from __future__ import annotations

import os
import stat
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
    """The file that a path stands for, links followed, after a look at whether it can be written.

    Raises:
        UsageError: the path is "-" or ends as a folder's, or its folder does not exist.
        WriteError: what stands there is no regular file, or neither it nor its folder may be written.
    """
    if path == "-":
        raise UsageError("the output is '-', but only files are written", hint="name a file; './-' is one of that name")
    if os.fspath(path).endswith(os.sep):
        raise UsageError("the output is a folder", where=os.fspath(path), hint="name a file in it")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise UsageError("the folder of the output does not exist", where=str(target.parent))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise WriteError("cannot write the output", where=os.fspath(path), why=f"it is {kind}", hint="name a file")
    if not _writable(target.parent):
        raise WriteError(
            "cannot write the output", where=os.fspath(path), why=f"no file can be made in {target.parent}"
        )
    if mode is not None and not _writable(target):
        raise WriteError("cannot write the output", where=os.fspath(path), why="the file is write-protected")
    return target


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The temporary file to be written in the block; errors of the operating system in it are those of writing.

    Raises:
        UsageError, WriteError: as `target_of`. WriteError: it cannot be written.
    """
    with replaced(path) as part, writing(path):
        yield part


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes a WriteError of what the operating system says in the block."""
    try:
        yield
    except OSError as e:
        raise WriteError("cannot write the output", where=os.fspath(path), why=e.strerror or str(e)) from None


@contextmanager
def replaced(path: str | os.PathLike[str], beside: Sequence[str] = ()) -> Iterator[Path]:
    """The temporary file that takes the place of `path` after the block, and is removed where the block fails.

    Args:
        path: the file.
        beside: suffixes of other files that belong to it. What the block writes under the temporary name with one of
            them behind it goes to `path` with that suffix, before the file itself: it never stands there without them.
    """
    target = target_of(path)
    part = target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}.part")
    parts = {part.with_name(part.name + suffix): os.fspath(path) + suffix for suffix in beside}
    try:
        with writing(path):
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            if (mode := _mode(target)) is not None:
                os.chmod(part, stat.S_IMODE(mode) & 0o777)
        yield part
        targets = [(p, name, target_of(name)) for p, name in parts.items() if p.exists()]
        for p, name, other in [*targets, (part, os.fspath(path), target)]:
            with writing(name):
                _move(p, other)
    finally:
        for p in (part, *parts):
            p.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file. A pipe or a device gets the text itself: `--svg /dev/stdout`, `--dot >(dot -Tpng ...)`.

    Raises:
        UsageError, WriteError: as `written`.
    """
    mode = _mode(Path(path))
    if mode is not None and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        with writing(path), open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        with written(path) as part:
            part.write_text(text, encoding="utf-8")


def _mode(path: Path) -> int | None:
    """What stands there, links followed; None for nothing."""
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

    # A link beside the model leads to another folder, which may be another file system.
    with replaced(target) as near:
        shutil.copyfile(part, near)
