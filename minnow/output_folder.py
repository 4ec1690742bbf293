"""Folders that conversions write: which one, and that either all of its files are there or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minnow.output import writing
from minnow.schema.errors import UsageError, WriteError

if TYPE_CHECKING:
    from minnow.options.convert import ConvertOptions


def folder_of(source: Path, output: object, parts: str) -> Path:
    """The folder that a conversion writes: the one asked for, or the source's name without a suffix.

    Args:
        source: a file or a folder.
        output: what was asked for; None for nothing.
        parts: what is in the folder, in words.

    Raises:
        UsageError: it is the source itself, or the name is that of a file.
        WriteError: there is something else of that name.
    """
    folder = Path(str(output)) if output is not None else source.with_suffix("") if source.is_file() else None
    if folder is None or folder.resolve() == source.resolve():
        raise UsageError("the output folder is the source", where=str(source), hint="give another one: -o FOLDER")
    if folder.suffix == ".mnn":
        hint = f"-o {folder.with_suffix('')}"
        raise UsageError("the output is a file", where=str(folder), why=parts, hint=hint)
    if folder.exists() and not folder.is_dir():
        raise WriteError("cannot write the output", where=str(folder), why="there is a file of that name")
    if not folder.parent.is_dir():
        raise UsageError("the folder of the output does not exist", where=str(folder.parent))
    return folder


def check_options(source: Path, options: ConvertOptions, taken: frozenset[str], models: str) -> None:
    """Raises UsageError for an option that does not apply.

    Args:
        taken: those that do. models: what they apply to, in words.
    """
    useless = sorted(set(options.changed()) - taken)
    if not useless:
        return
    hint = ""
    if useless[0] == "weights":
        hint = "`mnnconvert quantize MODEL -o FOLDER --weights int4 --block 64` makes the weights smaller"
    raise UsageError(f"'{useless[0]}' does not apply to {models}", where=str(source), hint=hint)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Makes a folder, whose files the block writes. If it fails, a folder that is new and empty is removed."""
    new = not folder.exists()
    with writing(folder):
        folder.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if new and not any(folder.iterdir()):
            folder.rmdir()
        raise
