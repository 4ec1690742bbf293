"""The formats that Minnow reads, and detection of a file's format: each module beside this one is one, as `FORMAT`.

Nothing here imports more than the standard library, so that a file is recognized, or refused, before the frontend that
reads it is imported: one that reads ONNX files does not pay for the other formats.
"""

from __future__ import annotations

import importlib
import pkgutil
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from minnow.converter.file.door import guarded
from minnow.converter.file.foreign import refuse_foreign, refuse_zip
from minnow.schema.errors import FormatError, UsageError

if TYPE_CHECKING:
    from minnow.converter.base import Frontend

_SNIFF_BYTES = 4096


@dataclass(frozen=True)
class Format:
    """A source format.

    Attributes:
        name: as in `--framework`; its frontend is the package of that name beside this one.
        sniff: (path, first bytes) -> the file looks like this format; a folder has no bytes.
        suffixes: usual file name endings, which decide where the content does not.
        makes_folders: a folder is made of it instead of a file, by the package of that name in `minnow`.
    """

    name: str
    sniff: Callable[[Path, bytes], bool]
    suffixes: tuple[str, ...]
    makes_folders: bool = False

    def frontend(self) -> Frontend:
        """What reads it, with all its mappings."""
        with _signals_held():
            frontend: Frontend = importlib.import_module(f"minnow.converter.{self.name}").frontend
        return frontend


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delivers signals later: where a handler raises an exception while protobuf is imported, its C code crashes."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    found = (importlib.import_module(f"{__name__}.{info.name}").FORMAT for info in pkgutil.iter_modules(__path__))
    return {format.name: format for format in found}


def frontends() -> dict[str, Frontend]:
    """All frontends by name; each is imported."""
    return {name: format.frontend() for name, format in formats().items()}


def find_format(path: Path, framework: str | None = None) -> Format:
    """The format of that name, or by the content of the file; the file exists then.

    Raises:
        FormatError: the file cannot be read, or is of no known format. UsageError: there is no format of that name.
    """
    if framework is not None and framework.lower() not in formats():
        raise UsageError(f"unknown framework '{framework}'", hint=f"one of: {', '.join(sorted(formats()))}")
    if framework is None:
        return detect(path)
    check_readable(path)
    return formats()[framework.lower()]


def detect(path: Path) -> Format:
    """The format of a file, by its content.

    Raises:
        FormatError: no such file, an empty one, or no known format.
    """
    head = check_readable(path)
    with guarded(path):
        candidates = [f for f in formats().values() if f.sniff(path, head)]
    by_suffix = [f for f in candidates if path.suffix.lower() in f.suffixes]
    if by_suffix or candidates:
        return (by_suffix or candidates)[0]
    refuse_zip(path, head)
    raise FormatError(
        f"the {'folder' if path.is_dir() else 'file'} is not in a format that Minnow reads",
        where=str(path),
        why=f"its first bytes are {head[:8]!r}" if head else "",
        hint=f"known formats: {', '.join(sorted(formats()))}; `--framework` chooses one by name",
    )


def is_mnn(path: str | Path, framework: str | None = None) -> bool:
    """The file is of the format that conversions give: only its suffix says so, or the given name of the format.

    The graph in a folder of MNN-LLM is a part of a language model instead, unless it is named.
    """
    if framework is not None:
        return framework.lower() == "mnn"
    if Path(path).suffix.lower() != ".mnn":
        return False
    from minnow.converter.formats.llm import is_mnn_llm

    return not is_mnn_llm(Path(path))


def _similar(path: Path) -> str:
    """A question with the files beside it whose names are nearly that of a missing one; "" without any."""
    from difflib import get_close_matches

    try:
        beside = sorted(other.name for other in path.parent.iterdir())
    except OSError:
        return ""
    near = get_close_matches(path.name, beside, 3, 0.8)
    return f"{' or '.join(str(path.with_name(name)) for name in near)}?" if near else ""


def check_readable(path: Path, any_kind: bool = False) -> bytes:
    """The first bytes of a file, none of a folder, which may be a model, too.

    Args:
        path: the file.
        any_kind: it may also be of a kind that is not a model.

    Raises:
        FormatError: it does not exist, cannot be read, is empty, or evidently of a kind that Minnow does not read.
    """
    try:
        if path.is_dir():
            if not any(path.iterdir()):
                raise FormatError("the folder is empty", where=str(path))
            return b""
        if not stat.S_ISREG(path.stat().st_mode):
            raise FormatError(
                "this is not a regular file", where=str(path), hint="save its content to a regular file first"
            )
        with path.open("rb") as file:
            head = file.read(_SNIFF_BYTES)
    except OSError as e:
        hint = _similar(path) if isinstance(e, FileNotFoundError) else ""
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e), hint=hint) from None
    if not head:
        raise FormatError("the file is empty", where=str(path), hint="download or export it again")
    if not any_kind:
        refuse_foreign(path, head)
    return head
