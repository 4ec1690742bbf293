"""safetensors files: a table of names, types and places, then the numbers. Nothing in them is run."""

from __future__ import annotations

import json
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Blob, DType, LazyBlob, MappedBlob, RoundedBlob

_MOST_HEADER = 100_000_000
"""Bytes of the table; other readers have the same limit."""
_LENGTH = 8

_DTYPES = {"F64": DType.F64, "F32": DType.F32, "F16": DType.F16, "BF16": DType.BF16}
_OTHERS = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4,
    "I64": 8, "U64": 8, "C64": 8,
}  # fmt: skip
"""Bytes of an element of the types that weights are not in."""


def read_tensors(path: Path) -> dict[str, Blob]:
    """The tensors of a file by name, as f32 that are read when they are asked for.

    Integers are left out: buffers of places and the like.

    Raises:
        FormatError: the file is damaged. UnsupportedError: weights of 8 bits.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_LENGTH)
        count = int.from_bytes(start, "little")
        if len(start) < _LENGTH or count > min(size - _LENGTH, _MOST_HEADER):
            raise FormatError("this is no safetensors file, or it is cut off", where=str(path))
        text = file.read(count)
    table = parsed(text, path)
    begin = _LENGTH + count
    tensors: dict[str, Blob] = {}
    eights: list[str] = []
    places: list[tuple[int, int, str]] = []
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        kind, shape, first, end = _entry(entry, f"{path}, tensor '{name}'")
        places.append((first, end, name))
        if end > size - begin:
            raise FormatError(
                "the tensor is not within the file", where=f"{path}, tensor '{name}'", hint="download it again"
            )
        if kind in _DTYPES:
            tensors[name] = _blob(path, begin + first, _DTYPES[kind], shape)
        elif kind.startswith("F8"):
            eights.append(name)
    places.sort()
    for (_, end, a), (first, _, b) in pairwise(places):
        if first < end:
            raise FormatError(f"the tensors '{a}' and '{b}' overlap", where=str(path))
    if eights:
        raise UnsupportedError(
            "weights in floats of 8 bits are not supported",
            where=str(path),
            why=f"{len(eights)} tensors, such as '{eights[0]}'",
            hint="use a checkpoint in bfloat16 or float16",
        )
    return tensors


def _entry(entry: Any, where: str) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape, first byte and end."""
    if not isinstance(entry, dict):
        raise FormatError("the table of tensors is invalid", where=where)
    kind, shape, offsets = entry.get("dtype"), _whole(entry.get("shape")), _whole(entry.get("data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2 or len(shape) > 8:
        raise FormatError("shape or place of the tensor is invalid", where=where)
    if not isinstance(kind, str) or (kind not in _DTYPES and kind not in _OTHERS):
        raise FormatError(f"the tensor is of the unknown type {str(kind)[:40]!r}", where=where)
    width = _DTYPES[kind].size if kind in _DTYPES else _OTHERS[kind]
    if offsets[1] - offsets[0] != prod(shape) * width:
        raise FormatError(f"the tensor has {offsets[1] - offsets[0]} bytes, but the shape {shape}", where=where)
    return kind, tuple(shape), offsets[0], offsets[1]


def _whole(value: Any) -> list[int] | None:
    """A list of numbers that are no sizes too large to compute with; None for anything else."""
    fits = isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 56 for n in value)
    return value if fits else None


def _blob(path: Path, offset: int, dtype: DType, shape: tuple[int, ...]) -> Blob:
    stored = MappedBlob(path, offset, dtype, shape)
    if dtype is DType.F64:
        return LazyBlob(lambda: stored.numpy().astype("f4"), DType.F32, shape)
    return stored if dtype is DType.F32 else RoundedBlob(stored, dtype)


def parsed(text: bytes, path: Path) -> dict[str, Any]:
    """A table in JSON. Raises FormatError; a name that is there twice is one, too."""
    try:
        table = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as e:
        raise FormatError("the table in JSON is invalid", where=str(path), why=str(e)[:200]) from None
    if not isinstance(table, dict):
        raise FormatError("the JSON is no table", where=str(path))
    return table


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(n for n in names if names.count(n) > 1)[:80]}' is there twice")
    return table
