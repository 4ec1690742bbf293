"""GGUF files: what they say of a model, and where its tensors are. Nothing is read that is not asked for."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.converter.llm.gguf.block import OTHERS, TYPES, BlockType
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Blob, LazyBlob, MappedBlob, RoundedBlob
from minnow.schema.ir.compressed import UnreadBlob
from minnow.schema.ir.dtype import DType

Array = npt.NDArray[Any]

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_ALIGNMENT = 1 << 20
_MOST_DIMENSIONS = 8
_MOST_DEPTH = 4
"""Of arrays in arrays."""

_NUMBERS: dict[int, str] = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "|b1", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Entry:
    """A tensor in a file.

    Attributes:
        shape: outermost dimension first.
        offset: bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type: BlockType
    offset: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return prod(self.shape) // self.type.elements * self.type.size


class GgufFile:
    """A GGUF file.

    Args:
        path: the file.

    Attributes:
        metadata: what it says by key: numbers, strings, arrays of numbers, and lists of others.
        entries: its tensors by name.

    Raises:
        FormatError: it is no GGUF file, damaged, or of another version.
        UnsupportedError: tensors of types that are not read; all of them are listed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        cursor = _Cursor(path)
        try:
            if cursor.take(4) != MAGIC:
                raise FormatError("this is not a GGUF file", where=str(path))
            _check_version(cursor.number("<u4"), path)
            tensors, keys = cursor.number("<u8"), cursor.number("<u8")
            cursor.expect(keys, 13, "keys")
            self.metadata: dict[str, Any] = {}
            for _ in range(keys):
                key = cursor.string("a key")
                if key in self.metadata:
                    raise FormatError(f"the key '{key}' is there twice", where=str(path))
                self.metadata[key] = cursor.value(cursor.number("<u4"), key)
            cursor.expect(tensors, 24, "tensors")
            found = [cursor.tensor() for _ in range(tensors)]
            self.entries = self._placed(found, cursor.at, cursor.size)
        finally:
            cursor.close()

    def _placed(self, found: list[tuple[str, tuple[int, ...], int, int]], end: int, size: int) -> dict[str, Entry]:
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
            raise FormatError(f"the alignment of tensors is {alignment!r}, not a power of 2", where=str(self.path))
        start = -(-end // alignment) * alignment
        entries: dict[str, Entry] = {}
        refused: dict[str, list[str]] = {}
        for name, shape, number, offset in found:
            where = f"{self.path}, tensor '{name}'"
            if name in entries:
                raise FormatError("the tensor is there twice", where=where)
            block = TYPES.get(number)
            if block is None:
                if number not in OTHERS:
                    raise FormatError(f"it is of the unknown type {number}", where=where)
                refused.setdefault(OTHERS[number], []).append(name)
                continue
            if not shape or 0 in shape or shape[-1] % block.elements:
                raise FormatError(f"the shape {shape} does not fit its type {block.name}", where=where)
            entry = Entry(name, shape, block, start + offset)
            if offset % alignment or entry.offset + entry.size > size:
                why = f"{entry.size} bytes at {entry.offset} of {size}"
                raise FormatError("the tensor is not within the file", where=where, why=why, hint="download it again")
            entries[name] = entry
        if refused:
            raise UnsupportedError(
                "the file has tensors of types that are not supported",
                where=str(self.path),
                items=[f"{kind}: {len(names)} tensors, such as {names[0]}" for kind, names in refused.items()],
                hint=f"supported are {', '.join(t.name for t in TYPES.values())}",
            )
        return entries

    def data(self, entry: Entry) -> Array:
        """The bytes of a tensor, mapped."""
        return np.memmap(self.path, np.uint8, mode="r", offset=entry.offset, shape=(entry.size,))

    def blob(self, entry: Entry) -> Blob:
        """The numbers of a tensor as f32: packed if they are blocks, in 16 bits if they are halves."""
        block, shape = entry.type, entry.shape
        if block.plain is DType.F32:
            return MappedBlob(self.path, entry.offset, DType.F32, shape)
        if block.plain in (DType.F16, DType.BF16):
            return RoundedBlob(MappedBlob(self.path, entry.offset, block.plain, shape), block.plain)
        if block.plain is not None:
            return LazyBlob(lambda: block.floats(self.data(entry), shape), DType.F32, shape)
        groups = (prod(shape) // block.group, block.group)
        return UnreadBlob(
            lambda: block.parts(self.data(entry)), groups, block.bits, shape, half=True, low=block.has_low
        )

    def floats(self, entry: Entry) -> Array:
        """The numbers of a tensor as the file has them, f32."""
        return entry.type.floats(self.data(entry), entry.shape)


def _check_version(version: int, path: Path) -> None:
    if version in _VERSIONS:
        return
    if version.to_bytes(4, "little")[::-1] in [v.to_bytes(4, "little") for v in _VERSIONS]:
        why, hint = "its numbers are big-endian", "convert it to little-endian with the gguf package"
    else:
        why, hint = f"it is of version {version}", "files of the versions 2 and 3 are read: make it anew"
    raise FormatError("this GGUF file cannot be read", where=str(path), why=why, hint=hint)


class _Cursor:
    """Goes through a mapped file; whatever lies behind its end is an error, not a wait for memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0
        with path.open("rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as e:
                raise FormatError("cannot read the file", where=str(path), why=str(e)) from None
        self.size = len(self._map)

    def close(self) -> None:
        self._map.close()

    def take(self, count: int) -> bytes:
        if count > self.size - self.at:
            raise FormatError(
                "the file is cut off",
                where=str(self.path),
                why=f"{count} bytes are missing at {self.at} of {self.size}",
                hint="download it again",
            )
        self.at += count
        return self._map[self.at - count : self.at]

    def expect(self, count: int, least: int, what: str) -> None:
        """Refuses a number of things that cannot be in what is left of the file, each having `least` bytes."""
        if count * least > self.size - self.at:
            raise FormatError(f"the file cannot hold {count} {what}", where=str(self.path))

    def number(self, form: str) -> int:
        size = int(form[-1])
        return int.from_bytes(self.take(size), "little", signed=form[1] == "i")

    def string(self, what: str) -> str:
        try:
            return self.take(self.number("<u8")).decode()
        except UnicodeDecodeError as e:
            raise FormatError(f"{what} is no text", where=str(self.path), why=str(e)) from None

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self._numbers(kind, 1)[0].item()
        if kind == _STRING:
            return self.string(f"'{key}'")
        if kind != _ARRAY or depth == _MOST_DEPTH:
            raise FormatError(f"'{key}' is of the unknown type {kind}", where=str(self.path))
        inner, count = self.number("<u4"), self.number("<u8")
        if inner in _NUMBERS:
            return self._numbers(inner, count)
        self.expect(count, 8 if inner == _STRING else 12, f"elements of '{key}'")
        if inner == _STRING:
            return self._strings(count, key)
        return [self.value(inner, key, depth + 1) for _ in range(count)]

    def _numbers(self, kind: int, count: int) -> Array:
        dtype = np.dtype(_NUMBERS[kind])
        data = np.frombuffer(self.take(count * dtype.itemsize), np.uint8 if kind == 7 else dtype)
        return data != 0 if kind == 7 else data

    def _strings(self, count: int, key: str) -> list[str]:
        """Many of them: the vocabulary."""
        length, view, at = struct.Struct("<Q").unpack_from, self._map, self.at
        made = []
        try:
            for _ in range(count):
                end = at + 8 + length(view, at)[0]
                if end > self.size:
                    raise struct.error
                made.append(view[at + 8 : end].decode())
                at = end
        except struct.error:
            raise FormatError("the file is cut off", where=str(self.path), why=f"within '{key}'") from None
        except UnicodeDecodeError as e:
            raise FormatError(f"an element of '{key}' is no text", where=str(self.path), why=str(e)) from None
        self.at = at
        return made

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, type and offset."""
        name, rank = self.string("the name of a tensor"), self.number("<u4")
        if rank > _MOST_DIMENSIONS:
            raise FormatError(f"a tensor has {rank} dimensions", where=f"{self.path}, tensor '{name}'")
        shape = tuple(self.number("<u8") for _ in range(rank))[::-1]
        return name, shape, self.number("<u4"), self.number("<u8")
