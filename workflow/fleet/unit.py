"""From cells to units: the work that is given to a worker as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath

from minnow.convert import prefix_options
from minnow.schema.errors import MinnowError
from minnow.schema.limit import file_bytes
from minnow.workflow.cell import Cell
from minnow.workflow.convert_cell import is_url, options_of
from minnow.workflow.key import digest_of
from minnow.workflow.schedule import estimated_memory

UNKNOWN_BYTES = 64 << 20
"""The size of a source that cannot be found out in advance."""


@dataclass(frozen=True)
class Unit:
    """Cells of one source, which is read and optimized once for all of them.

    Attributes:
        name: unique in the plan.
        memory: estimated bytes that it needs.
    """

    name: str
    cells: tuple[Cell, ...]
    memory: int


def units(cells: Iterable[Cell]) -> Iterator[Unit]:
    """The units of a plan, in its order; excluded cells are left out.

    Cells belong together if they follow each other, have the same source and limits, and differ only in options that
    come into play after optimizing.
    """
    for source, same in groupby((c for c in cells if not c.excluded), lambda c: c.source):
        memory = estimated_memory(source_bytes(source), PurePosixPath(source).suffix.lower())
        groups: dict[str, list[Cell]] = {}
        for cell in same:
            groups.setdefault(_prefix(cell), []).append(cell)
        for group in groups.values():
            limit = group[0].limits.memory
            yield Unit(group[0].name, tuple(group), memory if limit is None else min(memory, limit))


def _prefix(cell: Cell) -> str:
    try:
        options = prefix_options(options_of(cell))
        return digest_of([repr(sorted(options.items())), cell.limits.seconds, cell.limits.memory])
    except MinnowError:
        return cell.name  # its result says what is wrong


def source_bytes(source: str) -> int:
    """The size of a source with all files that lie in its folder, if it is one."""
    if not is_url(source):
        return file_bytes(Path(source))
    folder, _, name = source.rstrip("/").rpartition("/")
    return _remote_sizes(folder).get(name, UNKNOWN_BYTES)


@lru_cache(maxsize=16)
def _remote_sizes(folder: str) -> Mapping[str, int]:
    """The sizes of the files in a folder by their names: one request for all of them."""
    try:
        from fsspec.core import url_to_fs

        files, path = url_to_fs(folder)
        found = files.ls(path, detail=True)
        return {one["name"].rpartition("/")[2]: int(one["size"]) for one in found if one.get("size")}
    except Exception:  # noqa: BLE001  (of any file system; fetching the source says what is wrong)
        return {}


def absolute(cell: Cell) -> Cell:
    """The cell with absolute paths, which mean the same in processes with another current folder."""

    def path(name: str) -> str:
        return name if is_url(name) or not name else os.path.abspath(name)

    from minnow.options.convert import ConvertOptions
    from minnow.options.option import file_options

    options = dict(cell.options)
    for name in file_options(ConvertOptions):
        if value := options.get(name):
            options[name] = path(value) if isinstance(value, str) else [path(one) for one in value]
    return replace(cell, source=path(cell.source), output=path(cell.output), options=options)
