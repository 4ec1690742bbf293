"""The file beside a `.mnn` file that holds its big weights: `detach` moves them there, `attach` finds them again.

A table whose numbers lie outside has `external` = (offset, bytes of the first part, of the second, ...); its parts lie
one after the other from the offset on, without a header. A FlatBuffer ends at 2 GiB, the companion
weights file does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import DType, MappedBlob
from minnow.schema.mnn import wire
from minnow.schema.mnn.wire_write import CACHE_LINE, LONG_VECTOR

SUFFIX = ".weight"
"""What is appended to the model's name: runtimes look for the companion weights file under that name."""

_BLOB = ("float32s", "int32s", "int64s", "int8s", "uint8s")
_PARTS = {
    "Convolution2D": (("weight",), ("bias",)),
    "Convolution2D with quanParameter": (
        ("quanParameter", "buffer"),
        ("quanParameter", "alpha"),
        ("bias",),
        ("quanParameter", "index"),
    ),
    "Scale": (("scaleData",), ("biasData",)),
    "LayerNorm": (("gamma",), ("beta",)),
}
"""The parts of each table in the order of the companion weights file. Of a Blob it is the one vector that it has."""


_MOST_HALVES = 1 << 30
"""Bytes of constants in float16 that stay in the file: MNN's runtime does not load them from another one."""


def side_path(path: Path) -> Path:
    """Where the companion weights file of a model is."""
    return path.with_name(path.name + SUFFIX)


def _tables(net: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """The ops that may have numbers outside, with the kinds of their tables, and these."""
    for ops in (net.get("oplists") or [], *(s.get("nodes") or [] for s in net.get("subgraphs") or [])):
        for op in ops:
            kind, main = op.get("main_type", ""), op.get("main")
            if isinstance(main, dict) and (kind in _PARTS or kind == "Blob"):
                yield op, kind, main


def _parts(kind: str, main: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    if kind == "Blob":
        return tuple((field,) for field in _BLOB if field in main)
    if "quanParameter" not in main:
        return _PARTS[kind]
    half = main["quanParameter"].get("scaleStorage") == "FP16"
    parts = _PARTS[f"{kind} with quanParameter"]
    return tuple((*p[:-1], "alphaFp16") if half and p[-1] == "alpha" else p for p in parts)


def _table(main: dict[str, Any], part: tuple[str, ...]) -> dict[str, Any]:
    """The table that holds a part: `main` itself or one in it."""
    for field in part[:-1]:
        main = main[field]
    return main


def _bytes(vector: Any) -> int:
    """Bytes of a vector of numbers: an array, or something that becomes one when it is asked for."""
    if vector is None:
        return 0
    size = vector.dtype.size if isinstance(vector.dtype, DType) else vector.dtype.itemsize
    return int(size * np.prod(vector.shape, dtype=object))


class SideFile:
    """The companion weights file while it is written.

    Args:
        file: open for writing, at its start.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.digest = hashlib.sha256()
        self._places: dict[tuple[tuple[int, ...], bytes], list[int]] = {}

    def add(self, vectors: list[Any]) -> list[int]:
        """Writes the parts of a table, unless the same were written before; gives what `external` says of them."""
        sizes = [_bytes(vector) for vector in vectors]
        parts = []
        for vector in vectors:
            if vector is not None:
                array = vector.numpy() if callable(getattr(vector, "numpy", None)) else vector
                parts.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        content = hashlib.sha256()
        for part in parts:
            content.update(part.data)
        key = tuple(sizes), content.digest()
        if key not in self._places:
            # On a cache line of its own: so the mapped weights can be used where they lie.
            self._write(bytes(-self.size % CACHE_LINE))
            self._places[key] = [self.size, *sizes]
            for part in parts:
                self._write(part)
        return [*self._places[key]]

    def _write(self, data: Any) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.size += len(data)


def detach(net: Mapping[str, Any], file: SideFile) -> None:
    """Moves the big vectors of a file into its companion weights file, one after the other; `net` is changed."""
    halves = [main for _, kind, main in _tables(net) if kind == "Blob" and main.get("dataType") == "DT_HALF"]
    few = sum(_bytes(main.get("uint8s")) for main in halves) <= _MOST_HALVES
    for _, kind, main in _tables(net):
        if few and kind == "Blob" and main.get("dataType") == "DT_HALF":
            continue
        parts = _parts(kind, main)
        vectors = [_table(main, part).get(part[-1]) for part in parts]
        if sum(map(_bytes, vectors)) < LONG_VECTOR or (kind == "LayerNorm" and any(v is None for v in vectors)):
            continue
        main["external"] = file.add(vectors)
        for part in parts:
            _table(main, part).pop(part[-1], None)


_FIELD = {"DT_FLOAT": "float32s", "DT_INT32": "int32s", "DT_INT64": "int64s", "DT_INT8": "int8s"}


def attach(net: Mapping[str, Any], path: Path | None) -> None:
    """Puts the vectors of the companion weights file back into their tables, mapped, not read; `net` is changed.

    Args:
        net: as read from a file.
        path: the companion weights file; None when the model was not read from a file.

    Raises:
        FormatError: it is missing or too short, or a table says something impossible.
        UnsupportedError: a table names another file.
    """
    size = None
    for op, kind, main in _tables(net):
        where = f"op '{op.get('name', '')}'"
        if len(main.get("external", ())) < 2:
            continue
        if op.get("externalPath"):
            raise UnsupportedError("weights in a companion weights file of another name are not supported", where=where)
        if size is None:
            if path is None or not path.is_file():
                place = "the file was not read by its name" if path is None else f"{path} is missing"
                raise FormatError(
                    "the model keeps its weights in a companion weights file", why=place, hint="put it beside the model"
                )
            size = path.stat().st_size
        assert path is not None
        offset, *sizes = (int(n) for n in main["external"])
        parts = ((_FIELD.get(main.get("dataType", "DT_FLOAT"), "uint8s"),),) if kind == "Blob" else _parts(kind, main)
        for part, count in zip(parts, sizes, strict=False):
            if min(offset, count) < 0 or offset + count > size:
                raise FormatError(
                    "the companion weights file is too short",
                    where=where,
                    why=f"{count} bytes at {offset} of {size} are needed",
                )
            if count:
                table = wire.tables["IDSTQuan" if len(part) > 1 else kind]
                scalar = DType.of(np.dtype(table.fields[part[-1]].scalar.dtype))
                if count % scalar.size:
                    raise FormatError(f"{count} bytes are no vector of {scalar}", where=where)
                _table(main, part)[part[-1]] = MappedBlob(path, offset, scalar, (count // scalar.size,)).numpy()
            offset += count
        del main["external"]
